"""The parameters of a function that stands for a tool of which only a JSON Schema is known."""

from __future__ import annotations

from inspect import Parameter
from keyword import iskeyword
from typing import Final, Literal, Optional

from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_hints import Hint

_HINTS: Final = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict[str, object]}


def list_schema_parameters(schema: JsonSchema) -> list[Parameter]:
    """Return the properties of *schema* whose names can be parameters; None stands for what is left out."""
    required, parameters = schema.get("required", ()), []
    for name, one in schema.get("properties", {}).items():
        if not name.isidentifier() or iskeyword(name):
            continue
        hint, default = _read_hint(one), one.get("default") if isinstance(one, dict) else None
        if name in required:
            default = Parameter.empty
        elif default is None:
            hint = Optional[hint]  # noqa: UP045  # made of data
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return parameters


def omit_none(arguments: dict[str, Hint], omitted: frozenset[str]) -> dict[str, Hint]:
    """Return *arguments* without what is None among those that are then left out."""
    return {name: value for name, value in arguments.items() if value is not None or name not in omitted}


def _read_hint(schema: object) -> Hint:
    """Return the type of the values that fit a schema, as far as a framework needs it to pass them on."""
    if not isinstance(schema, dict):
        return object
    choices, kind = schema.get("enum"), schema.get("type")
    if isinstance(choices, list) and choices and all(type(choice) in (str, int, bool) for choice in choices):
        return Literal[tuple(choices)]
    if kind == "array":
        return list[_read_hint(schema.get("items"))]  # type: ignore[misc]  # made of data
    return _HINTS.get(kind, object) if isinstance(kind, str) else object
