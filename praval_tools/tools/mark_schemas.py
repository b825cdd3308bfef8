"""Says what the hints of a function mark as secret where the schema of its tool does not say it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from praval_tools.schema.decode_hooks import DecodeHooks
from praval_tools.schema.encode import Encoder
from praval_tools.schema.json_schema import JsonSchemaBuilder, build_parameters_schema
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.secret_marks import contains_secret_mark, has_secret_schema
from praval_tools.schema.type_hints import Hint, unwrap_return_hint
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import ToolImplementation

_SECRET: Final[JsonSchema] = {"writeOnly": True}


def build_mark_schemas(implementation: ToolImplementation) -> list[JsonSchema]:
    """
    Return a schema of the arguments for each parameter that a hint marks as secret, besides the tool's own schema.

    The schema of a tool says it already where it was derived from the hints, but for what tools do not take: fields
    that constructors do not take, and keys for which a TypedDict has `extra_items`. Of a parameter whose hint cannot be
    resolved, nobody knows, so it counts as marked.
    """
    if implementation.supplied_schema is None and implementation.is_compilable:
        return _describe_other_members(implementation) if implementation.runs_user_code else []
    signature, schemas = implementation.signature, list[JsonSchema]()
    if signature.unresolved and not signature.parameters:
        return [{"type": "object", "additionalProperties": _SECRET}]
    known: JsonSchema = {item.name: {} for item in signature.parameters if item.kind != "extra"}
    takes_others = len(known) < len(signature.parameters)
    with activate_tool_frame(implementation.name):  # classes may write their schemas by code of their own
        marked = [item for item in signature.parameters if item.kind != "context" and contains_secret_mark(item.hint)]
    for parameter in marked:
        schema = _build_schema(implementation.name, parameter.hint)
        definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
        is_extra = parameter.kind == "extra"
        properties = known if is_extra else {**known, parameter.name: schema}
        others: JsonSchema = schema if is_extra else {} if takes_others else _SECRET  # nobody takes a misspelled one
        schemas.append({"type": "object", "properties": properties, "additionalProperties": others, **definitions})
    return schemas


def build_result_schema(implementation: ToolImplementation) -> JsonSchema | None:
    """
    Return the schema of the result; where its classes mark anything as secret, also with the keys that they take.

    A function, or who resolves a call in doubt, may give a dict with these in place of an instance.
    """
    described, returns = implementation.compiled.result_schema, implementation.signature.returns
    if described is None or implementation.supplied_result_schema is not None:
        return described
    builder = JsonSchemaBuilder(Encoder(), DecodeHooks(), describes_results=True, describes_all_members=True)
    with suppress(Exception), activate_tool_frame(implementation.name):  # the seam to classes that take no JSON
        hint = unwrap_return_hint(returns)
        return builder.finish(builder.build(hint)) if contains_secret_mark(hint) else described
    return described


def _describe_other_members(implementation: ToolImplementation) -> list[JsonSchema]:
    """Return the schema of the arguments with the members that tools do not take, if it marks anything else."""
    builder = JsonSchemaBuilder(Encoder(), DecodeHooks(), describes_all_members=True)
    with suppress(Exception), activate_tool_frame(implementation.name):  # the seam to hints that no tool could take
        schema = build_parameters_schema(builder, implementation.signature, {})
        if has_secret_schema(schema) and schema != build_parameters_schema(
            JsonSchemaBuilder(Encoder(), DecodeHooks()), implementation.signature, {}
        ):
            return [schema]
    return []


def _build_schema(tool: str, hint: Hint) -> JsonSchema:
    """Return the schema of a marked hint; that of a secret where it has no JSON form, or is unresolved."""
    builder = JsonSchemaBuilder(Encoder(), DecodeHooks(), describes_all_members=True)
    try:
        with activate_tool_frame(tool):
            schema = dict(builder.finish(builder.build(hint)))
    except Exception:  # the seam to hints that no tool could take; a supplied schema needs none of them
        return dict(_SECRET)
    return schema if has_secret_schema(schema) else dict(_SECRET)
