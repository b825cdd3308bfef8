"""Where the values of a schema hold what is secret, and where they can hold no text at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

_TEXTLESS_TYPES: Final = frozenset({"number", "integer", "boolean", "null"})
_FIXED_FORMATS: Final = frozenset({"date-time", "date", "time", "duration", "uuid"})
_BRANCH_KEYWORDS: Final = ("anyOf", "oneOf", "allOf")
_CONDITION_KEYWORDS: Final = ("then", "else", "if")


class SecretNode:
    """
    One place in values: whether it is secret, and the places inside.

    Args:
        secret: The value is secret, whatever it is.
        quiet: The value holds no text that anybody could choose, so there is nothing to look at.
        marked: The keys of what is secret anywhere inside; for text that is meant to be JSON and is not.
        shape: The kind of container that holds secrets here; a value of another kind may be one, gone astray.
    """

    __slots__ = (
        "alternatives",
        "closure",
        "contains_secrets",
        "items",
        "members",
        "secret_member_names",
        "secret_keys",
        "textless",
        "additional",
        "secret",
        "container_type",
    )

    def __init__(self) -> None:
        self.secret = self.textless = self.secret_keys = self.contains_secrets = False
        self.members: dict[str | int, SecretNode] = {}
        self.items: SecretNode | None = None
        self.additional: SecretNode | None = None
        self.alternatives: list[SecretNode] = []
        self.closure: tuple[SecretNode, ...] = (self,)
        self.secret_member_names: frozenset[str] = frozenset()
        self.container_type: type | None = None


UNKNOWN_NODES: Final = (SecretNode(),)
"""Nothing is known: only names of keys tell what is secret."""


def get_member_nodes(places: Iterable[SecretNode], step: str | int) -> tuple[SecretNode, ...]:
    """Return the places of the member *step* of a value that may be any of *places*."""
    found: list[SecretNode] = []
    for place in places:
        for one in place.closure:
            inner = one.members.get(step) or (one.items if type(step) is int else one.additional)
            if inner is not None:
                found += inner.closure
    return tuple(found)


def is_secret(places: Iterable[SecretNode]) -> bool:
    """Tell whether a value that may be any of *places* is secret."""
    return any(one.secret for place in places for one in place.closure)


def is_wrong_container(kind: type, places: Iterable[SecretNode]) -> bool:
    """Tell whether a value of *kind* stands where other containers hold secrets."""
    wanted = {one.container_type for place in places for one in place.closure} - {None}
    return bool(wanted) and (list if kind in (tuple, set, frozenset) else kind) not in wanted


def has_secret_keys(places: Iterable[SecretNode]) -> bool:
    """Tell whether the keys of a value that may be any of *places* are secret."""
    return any(one.secret_keys for place in places for one in place.closure)


def build_secret_tree(schema: Any, is_secret_name: Callable[[str], bool], *, is_validated: bool = True) -> SecretNode:
    """
    Return the places of the values of a JSON Schema; `writeOnly` and the format `password` mark what is secret.

    Of values that need not fit, where secrets are expected, what the schema does not know is secret, too: a model
    misspells a name, or leaves a level out.

    Args:
        schema: The schema of the arguments, or of the result; None where anything may come.
        names_secret: Tells of a key whether its value is secret by name.
        fits: The values fit the schema.
    """
    if not isinstance(schema, Mapping):
        return SecretNode()
    reader = _SecretTreeBuilder(schema, is_secret_name)
    root = reader.build_node(schema)
    for place in reader.nodes:
        place.closure = tuple(_iter_closure(place))
    for place in reader.nodes:
        place.contains_secrets = any(one.secret or one.secret_keys for one in _iter_reachable(place))
    for place in reader.nodes if not is_validated else ():
        _mark_unknown_members_secret(place)
    root.secret_member_names = frozenset(
        key for place in reader.nodes for key, one in place.members.items() if type(key) is str and is_secret((one,))
    )
    root.textless = not root.contains_secrets and reader.is_textless(schema, ())
    for name, one in (schema.get("properties") or {}).items():
        root.members[name].textless = (
            not root.members[name].contains_secrets and reader.is_textless(one, ()) and not is_secret_name(name)
        )
    return root


def _mark_unknown_members_secret(place: SecretNode) -> None:
    """Make what *place* does not know secret, where it has secrets."""
    if place.contains_secrets and not place.secret and (place.members or place.items is not None):
        place.container_type = list if place.items is not None or 0 in place.members else dict
        if place.container_type is dict and place.additional is None:
            place.additional = SecretNode()
            place.additional.secret = True


class _SecretTreeBuilder:
    """Reads one schema; a part that is referred to from several sides becomes one place."""

    def __init__(self, root: Mapping[str, Any], names_secret: Callable[[str], bool]) -> None:
        self._root, self._is_secret_name = root, names_secret
        self._nodes_by_schema: dict[int, SecretNode] = {}
        self.nodes: list[SecretNode] = []

    def build_node(self, schema: Any) -> SecretNode:
        """Return the place of the values of *schema*."""
        known = self._nodes_by_schema.get(id(schema))
        if known is not None and isinstance(schema, Mapping):
            return known
        place = SecretNode()
        self.nodes.append(place)
        if isinstance(schema, Mapping):
            self._nodes_by_schema[id(schema)] = place
            self._fill_node(place, schema)
        return place

    def _fill_node(self, place: SecretNode, schema: Mapping[str, Any]) -> None:
        place.secret = schema.get("writeOnly") is True or schema.get("format") == "password"
        for name, one in (schema.get("properties") or {}).items():
            place.members[name] = self.build_node(one)
        for index, one in enumerate(schema.get("prefixItems") or ()):
            place.members[index] = self.build_node(one)
        place.items = self.build_node(schema["items"]) if "items" in schema else None
        more = [*(schema.get("patternProperties") or {}).values(), schema.get("additionalProperties")]
        rests = [self.build_node(one) for one in more if isinstance(one, Mapping)]
        if rests:
            place.additional = SecretNode() if len(rests) > 1 else rests[0]
            if len(rests) > 1:
                place.additional.alternatives = rests
                self.nodes.append(place.additional)
        names = schema.get("propertyNames")
        place.secret_keys = isinstance(names, Mapping) and is_secret(_iter_closure(self.build_node(names)))
        place.alternatives += [self.build_node(one) for one in self._iter_alternatives(schema)]

    def _iter_alternatives(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for name in _BRANCH_KEYWORDS:
            yield from schema.get(name) or ()
        yield from (schema[name] for name in _CONDITION_KEYWORDS if name in schema)
        if "$ref" in schema:
            yield self._resolve_reference(schema["$ref"])

    def _resolve_reference(self, reference: Any) -> Any:
        """Return what a `$ref` points at; None, which means anything, where it leads out of the schema."""
        here: Any = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        for step in reference.removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            here = here.get(step) if isinstance(here, Mapping) else None
        return here

    def is_textless(self, schema: Any, around: tuple[int, ...]) -> bool:
        """Tell whether the values of *schema* hold no free text; what contains itself may."""
        if schema is False:
            return True
        if not isinstance(schema, Mapping) or id(schema) in around or len(around) > 32:
            return False
        if "enum" in schema or "const" in schema:
            return True
        around = (*around, id(schema))
        if "$ref" in schema:
            return self.is_textless(self._resolve_reference(schema["$ref"]), around)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return all(self.is_textless(one, around) for one in schema[name])
        return self._is_textless_type(schema, around)

    def _is_textless_type(self, schema: Mapping[str, Any], around: tuple[int, ...]) -> bool:
        kind = schema.get("type")
        kinds = {kind} if isinstance(kind, str) else set(kind or ())
        if kinds and kinds <= _TEXTLESS_TYPES:
            return True
        if kinds == {"string"}:
            return schema.get("format") in _FIXED_FORMATS
        if kinds == {"array"}:
            parts = [*(schema.get("prefixItems") or ()), schema.get("items")]
            return all(self.is_textless(one, around) for one in parts)
        if kinds == {"object"} and schema.get("additionalProperties") is False and "patternProperties" not in schema:
            inner = (schema.get("properties") or {}).items()
            return all(self.is_textless(one, around) and not self._is_secret_name(name) for name, one in inner)
        return False


def _iter_closure(place: SecretNode) -> Iterator[SecretNode]:
    """Yield *place* and what else the same value may be."""
    seen, stack = {id(place)}, [place]
    while stack:
        here = stack.pop()
        yield here
        for one in here.alternatives:
            if id(one) not in seen:
                seen.add(id(one))
                stack.append(one)


def _iter_reachable(place: SecretNode) -> Iterator[SecretNode]:
    """Yield *place* and everything inside of it."""
    seen, stack = {id(place)}, [place]
    while stack:
        here = stack.pop()
        yield here
        for one in (*here.alternatives, *here.members.values(), here.items, here.additional):
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                stack.append(one)
