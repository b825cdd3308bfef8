"""Compiles a grant's bounds for one tool; refuses bounds on fields that are lost when a value is written as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from praval_tools.access.bounds.bound_spellings import iter_spelling_problems
from praval_tools.access.bounds.bounds import Bounds
from praval_tools.access.bounds.given_bounds import read_bounds
from praval_tools.errors import GrantError
from praval_tools.names import get_class_name, has_type
from praval_tools.schema.class_fields import get_fields, is_attrs_or_dataclass, is_pydantic_model
from praval_tools.schema.json_input import MalformedArgumentsError
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_hints import Hint, is_union, unwrap_hint
from praval_tools.schema.type_lookup import find_type_handler
from praval_tools.schema.value_reader import find_covered_field, is_stored_field
from praval_tools.tools.implementation import ToolImplementation


def compile_tool_bounds(definition: ToolImplementation, where: Mapping[str, Any], tool: str) -> Bounds:
    """
    Return what *where* bounds for the tool of this name and definition.

    Bounds are checked on what the tool gets, as JSON again: what a class takes and does not give back has no bounds.

    Raises:
        GrantError: With every reason why it cannot be enforced, or nothing could meet it.
        ToolDefinitionError: A type hint of the tool is unresolved.
    """
    parameters_schema = definition.compiled.parameters_schema
    parameters = definition.signature.parameters if definition.supplied_schema is None else ()
    spellings = [f"where: {problem}" for problem in iter_spelling_problems(_read_schema(where), parameters)]
    try:
        bounds = Bounds.compile(where, parameters_schema, tool)
    except GrantError as error:
        raise GrantError(tool, [*dict.fromkeys([*error.problems, *spellings])]) from None
    problems = [
        f"where: {lost} cannot be read back from what the tool gets, so no bounds on {parameter.name!r} hold"
        for parameter in parameters
        if bounds.parameter_names is None or parameter.name in bounds.parameter_names
        for lost in dict.fromkeys(_iter_write_only_fields(parameter.hint, []))
    ]
    if problems := [*spellings, *problems]:
        raise GrantError(tool, problems)
    return bounds


def _read_schema(where: Mapping[str, object]) -> JsonSchema | None:
    """Return *where* as a schema of all arguments; None where it is no JSON."""
    try:
        plain = read_bounds(where) if has_type(where, Mapping) else None
    except MalformedArgumentsError:
        plain = None
    if plain is None:
        return None
    return plain if plain.get("type") == "object" else {"properties": plain}


def _iter_write_only_fields(hint: Hint, enclosing: list[Hint]) -> Iterator[str]:
    """Yield each field in *hint* that is lost when a value is written as JSON again, as `Order.amount`."""
    inner = unwrap_hint(hint)
    if any(outer is inner for outer in enclosing):
        return
    enclosing = [*enclosing, inner]
    if is_attrs_or_dataclass(inner):
        computed = (item for item in get_fields(inner) if not is_stored_field(inner, item))
        yield from (f"{get_class_name(inner)}.{item.key}" for item in computed)
    elif is_pydantic_model(inner) and (covered := find_covered_field(inner)):
        yield f"{get_class_name(inner)}.{covered}"
    handler = find_type_handler(inner)
    parts = get_args(inner) if is_union(inner) else handler.get_inner_hints(inner) if handler is not None else ()
    for part in parts:
        yield from _iter_write_only_fields(part, enclosing)
