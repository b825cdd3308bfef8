"""The parameters of the function that is handed out for a tool, without defaults that its schema hides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Annotated, Final, Optional

from praval_tools.registry.schema_parameters import list_schema_parameters
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart, inline_references
from praval_tools.schema.secret_marks import list_field_names
from praval_tools.schema.type_hints import NOTHING, Hint
from praval_tools.tools.compiled import CompiledSignature
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import ToolImplementation

_NO_SCHEMA: Final[JsonSchema] = {}


class ShownSchema:
    """
    Has pydantic, and frameworks that use it, describe a hint as the tool's own schema does: it hides values of secrets.

    Args:
        schema: The schema, without references.
    """

    __slots__ = ("_schema",)

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[object], object]) -> object:
        """Return a schema around that of the hint: pydantic would write into the class itself, where that is in it."""
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(lambda value: value, handler(source))  # type: ignore[arg-type]

    def __get_pydantic_json_schema__(self, core_schema: object, handler: object) -> JsonSchema:
        """Return the schema."""
        return copy.deepcopy(self._schema)

    def __repr__(self) -> str:
        return "ShownSchema()"


def build_signature(implementation: ToolImplementation) -> Signature:
    """
    Return what a caller may pass, hints resolved, without parameters that are injected.

    Frameworks show models what they find in it. So None stands for a default that the schema hides, and a class with
    hidden defaults has the tool's own schema with it.
    """
    if not implementation.is_compilable:
        return Signature([])
    compiled = implementation.compiled
    if not isinstance(compiled, CompiledSignature):
        return Signature(list_schema_parameters(compiled.parameters_schema))
    with activate_tool_frame(implementation.name):  # classes in its hints may have code of their own
        return _build_function_signature(compiled)


def list_hidden_defaults(implementation: ToolImplementation, signature: Signature) -> frozenset[str]:
    """Return the parameters in whose place None says that they are left out, as they have a default or need none."""
    shown = _read_properties(implementation) if implementation.supplied_schema is None else {}
    return frozenset(
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is None and "default" not in shown.get(name, ())
    )


def _read_properties(implementation: ToolImplementation) -> Mapping[str, JsonSchema]:
    schema = implementation.compiled.parameters_schema if implementation.is_compilable else _NO_SCHEMA
    properties: Mapping[str, JsonSchema] = schema.get("properties", {})
    return properties


def _build_function_signature(compiled: CompiledSignature) -> Signature:
    signature, schema, shown = compiled.signature, compiled.parameters_schema, list[Parameter]()
    for parameter in signature.parameters:
        hint, default = parameter.hint, parameter.default
        if parameter.kind == "extra":
            if compiled.has_hidden_fields:
                hint = _hide_fields(hint, schema["additionalProperties"], schema)
            shown.append(Parameter(parameter.name, Parameter.VAR_KEYWORD, annotation=hint))
        elif parameter.kind == "normal":
            part = schema["properties"][parameter.name]
            if compiled.has_hidden_fields:
                hint = _hide_fields(hint, part, schema)
            if default is not NOTHING and "default" not in part:
                hint, default = Optional[hint], None  # noqa: UP045  # made of data
            kind = Parameter.KEYWORD_ONLY if parameter.keyword_only else Parameter.POSITIONAL_OR_KEYWORD
            default = Parameter.empty if default is NOTHING else default
            shown.append(Parameter(parameter.name, kind, default=default, annotation=hint))
    returns = signature.returns
    if compiled.has_hidden_result_fields:
        returns = _hide_fields(returns, compiled.result_schema, compiled.result_schema)
    return Signature(shown, return_annotation=returns)


def _hide_fields(hint: Hint, part: SchemaPart | None, schema: SchemaPart | None) -> Hint:
    """Return *hint* with *part* of the tool's *schema* as its own, where it has classes, whose fields may be hidden."""
    if not isinstance(part, dict) or not isinstance(schema, dict) or not list_field_names(hint):
        return hint
    inlined = inline_references({key: value for key, value in part.items() if key != "default"}, schema)
    return Annotated[hint, ShownSchema(inlined if isinstance(inlined, dict) else {})]  # {}: it contains itself
