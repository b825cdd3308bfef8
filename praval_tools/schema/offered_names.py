"""Tells which arguments a supplied schema lets a caller give, whether it names them or not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Final

from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.schema_tree import JsonSchema, iter_schemas
from praval_tools.schema.validator import compile_schema

_BRANCH_KEYWORDS: Final = ("allOf", "anyOf", "oneOf")
_CONDITION_KEYWORDS: Final = ("if", "then", "else")
_DEPENDENT_KEYWORDS: Final = ("dependentSchemas", "dependencies")
_REFERENCE_KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_OTHER_KEYWORDS: Final = ("additionalProperties", "unevaluatedProperties")


class OfferedNames:
    """
    The names of arguments that a schema names under `properties`, or lets in by what it says of other names.

    A schema that says nothing of other names lets them in as well; it does not offer them.

    Args:
        schema: The schema of the arguments.
        get_taken_names: Returns names that no argument beside the properties of the schema can have.
    """

    def __init__(self, schema: JsonSchema, get_taken_names: Callable[[], Collection[str]]) -> None:
        self._schema, self._get_taken_names = schema, get_taken_names

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str):
            return False
        if name in self._schema.get("properties", {}):
            return True
        return name not in self._get_taken_names() and any(_offers(part, name) for part in _iter_layers(self._schema))


def _offers(part: JsonSchema, name: str) -> bool:
    if name in part.get("properties", {}) or any(part.get(keyword, False) is not False for keyword in _OTHER_KEYWORDS):
        return True
    return any(compile_schema({"pattern": pattern}).is_valid(name) for pattern in part.get("patternProperties", {}))


def _iter_layers(root: JsonSchema) -> Iterator[JsonSchema]:
    """Yield the schemas that may all speak of the very value that *root* describes."""
    layers, seen = list[object]([root]), set[int]()
    while layers:
        layer = layers.pop()
        if not isinstance(layer, dict) or id(layer) in seen:
            continue
        seen.add(id(layer))
        yield layer
        layers += chain.from_iterable(layer.get(keyword, ()) for keyword in _BRANCH_KEYWORDS)
        layers += chain.from_iterable(layer.get(keyword, {}).values() for keyword in _DEPENDENT_KEYWORDS)
        layers += [layer[keyword] for keyword in _CONDITION_KEYWORDS if keyword in layer]
        for keyword in _REFERENCE_KEYWORDS:
            if keyword in layer:
                layers += _find_targets(root, layer[keyword])


def _find_targets(root: JsonSchema, reference: object) -> list[object]:
    """Return what a reference leads to: the schema at its place, else each that may have its name."""
    target = resolve_pointer(root, reference)
    return [target] if isinstance(target, Mapping | bool) else list(iter_schemas(root))
