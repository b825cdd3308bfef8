"""Where the values of a schema hold what is secret, and where they can hold no text at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

_TEXTLESS: Final = frozenset({"number", "integer", "boolean", "null"})
_FIXED_FORMATS: Final = frozenset({"date-time", "date", "time", "duration", "uuid"})
_BRANCHES: Final = ("anyOf", "oneOf", "allOf")
_SINGLE: Final = ("then", "else", "if")


class Place:
    """
    One place in values: whether it is secret, and the places inside.

    Args:
        secret: The value is secret, whatever it is.
        quiet: The value holds no text that anybody could choose, so there is nothing to look at.
        marked: The keys of what is secret anywhere inside; for text that is meant to be JSON and is not.
        shape: The kind of container that holds secrets here; a value of another kind may be one, gone astray.
    """

    __slots__ = ("also", "every", "inside", "items", "keys", "marked", "names", "quiet", "rest", "secret", "shape")

    def __init__(self) -> None:
        self.secret = self.quiet = self.names = self.inside = False
        self.keys: dict[str | int, Place] = {}
        self.items: Place | None = None
        self.rest: Place | None = None
        self.also: list[Place] = []
        self.every: tuple[Place, ...] = (self,)
        self.marked: frozenset[str] = frozenset()
        self.shape: type | None = None


ANYWHERE: Final = (Place(),)
"""Nothing is known: only names of keys tell what is secret."""


def at(places: Iterable[Place], step: str | int) -> tuple[Place, ...]:
    """Return the places of the member *step* of a value that may be any of *places*."""
    found: list[Place] = []
    for place in places:
        for one in place.every:
            inner = one.keys.get(step) or (one.items if type(step) is int else one.rest)
            if inner is not None:
                found += inner.every
    return tuple(found)


def is_secret(places: Iterable[Place]) -> bool:
    """Tell whether a value that may be any of *places* is secret."""
    return any(one.secret for place in places for one in place.every)


def is_astray(kind: type, places: Iterable[Place]) -> bool:
    """Tell whether a value of *kind* stands where other containers hold secrets."""
    wanted = {one.shape for place in places for one in place.every} - {None}
    return bool(wanted) and (list if kind in (tuple, set, frozenset) else kind) not in wanted


def has_secret_names(places: Iterable[Place]) -> bool:
    """Tell whether the keys of a value that may be any of *places* are secret."""
    return any(one.names for place in places for one in place.every)


def read_places(schema: Any, names_secret: Callable[[str], bool], *, fits: bool = True) -> Place:
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
        return Place()
    reader = _Reader(schema, names_secret)
    root = reader.read(schema)
    for place in reader.made:
        place.every = tuple(_closure(place))
    for place in reader.made:
        place.inside = any(one.secret or one.names for one in _reachable(place))
    for place in reader.made if not fits else ():
        _guard(place)
    root.marked = frozenset(
        key for place in reader.made for key, one in place.keys.items() if type(key) is str and is_secret((one,))
    )
    root.quiet = not root.inside and reader.is_quiet(schema, ())
    for name, one in (schema.get("properties") or {}).items():
        root.keys[name].quiet = not root.keys[name].inside and reader.is_quiet(one, ()) and not names_secret(name)
    return root


def _guard(place: Place) -> None:
    """Make what *place* does not know secret, where it has secrets."""
    if place.inside and not place.secret and (place.keys or place.items is not None):
        place.shape = list if place.items is not None or 0 in place.keys else dict
        if place.shape is dict and place.rest is None:
            place.rest = Place()
            place.rest.secret = True


class _Reader:
    """Reads one schema; a part that is referred to from several sides becomes one place."""

    def __init__(self, root: Mapping[str, Any], names_secret: Callable[[str], bool]) -> None:
        self._root, self._names_secret = root, names_secret
        self._known: dict[int, Place] = {}
        self.made: list[Place] = []

    def read(self, schema: Any) -> Place:
        """Return the place of the values of *schema*."""
        known = self._known.get(id(schema))
        if known is not None and isinstance(schema, Mapping):
            return known
        place = Place()
        self.made.append(place)
        if isinstance(schema, Mapping):
            self._known[id(schema)] = place
            self._fill(place, schema)
        return place

    def _fill(self, place: Place, schema: Mapping[str, Any]) -> None:
        place.secret = schema.get("writeOnly") is True or schema.get("format") == "password"
        for name, one in (schema.get("properties") or {}).items():
            place.keys[name] = self.read(one)
        for index, one in enumerate(schema.get("prefixItems") or ()):
            place.keys[index] = self.read(one)
        place.items = self.read(schema["items"]) if "items" in schema else None
        more = [*(schema.get("patternProperties") or {}).values(), schema.get("additionalProperties")]
        rests = [self.read(one) for one in more if isinstance(one, Mapping)]
        if rests:
            place.rest = Place() if len(rests) > 1 else rests[0]
            if len(rests) > 1:
                place.rest.also = rests
                self.made.append(place.rest)
        names = schema.get("propertyNames")
        place.names = isinstance(names, Mapping) and is_secret(_closure(self.read(names)))
        place.also += [self.read(one) for one in self._alternatives(schema)]

    def _alternatives(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        for name in _BRANCHES:
            yield from schema.get(name) or ()
        yield from (schema[name] for name in _SINGLE if name in schema)
        if "$ref" in schema:
            yield self._target(schema["$ref"])

    def _target(self, reference: Any) -> Any:
        """Return what a `$ref` points at; None, which means anything, where it leads out of the schema."""
        here: Any = self._root
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        for step in reference.removeprefix("#").split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            here = here.get(step) if isinstance(here, Mapping) else None
        return here

    def is_quiet(self, schema: Any, around: tuple[int, ...]) -> bool:
        """Tell whether the values of *schema* hold no free text; what contains itself may."""
        if schema is False:
            return True
        if not isinstance(schema, Mapping) or id(schema) in around or len(around) > 32:
            return False
        if "enum" in schema or "const" in schema:
            return True
        around = (*around, id(schema))
        if "$ref" in schema:
            return self.is_quiet(self._target(schema["$ref"]), around)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return all(self.is_quiet(one, around) for one in schema[name])
        return self._is_quiet_type(schema, around)

    def _is_quiet_type(self, schema: Mapping[str, Any], around: tuple[int, ...]) -> bool:
        kind = schema.get("type")
        kinds = {kind} if isinstance(kind, str) else set(kind or ())
        if kinds and kinds <= _TEXTLESS:
            return True
        if kinds == {"string"}:
            return schema.get("format") in _FIXED_FORMATS
        if kinds == {"array"}:
            parts = [*(schema.get("prefixItems") or ()), schema.get("items")]
            return all(self.is_quiet(one, around) for one in parts)
        if kinds == {"object"} and schema.get("additionalProperties") is False and "patternProperties" not in schema:
            inner = (schema.get("properties") or {}).items()
            return all(self.is_quiet(one, around) and not self._names_secret(name) for name, one in inner)
        return False


def _closure(place: Place) -> Iterator[Place]:
    """Yield *place* and what else the same value may be."""
    seen, stack = {id(place)}, [place]
    while stack:
        here = stack.pop()
        yield here
        for one in here.also:
            if id(one) not in seen:
                seen.add(id(one))
                stack.append(one)


def _reachable(place: Place) -> Iterator[Place]:
    """Yield *place* and everything inside of it."""
    seen, stack = {id(place)}, [place]
    while stack:
        here = stack.pop()
        yield here
        for one in (*here.also, *here.keys.values(), here.items, here.rest):
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                stack.append(one)
