"""Finds in the JSON of a value what stands where classes mark a secret, since serializers may write another value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Set
from contextlib import suppress
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias, cast

from praval_tools.names import has_type
from praval_tools.schema.class_fields import get_all_fields, is_pydantic_model
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.marked_values import has_marked_values, has_members, iter_class_members, iter_marked_values
from praval_tools.schema.model_marks import read_computed_fields, read_model_marks
from praval_tools.schema.tables import take_apart
from praval_tools.schema.type_hints import Hint

JsonPlace: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a part of a JSON value."""

_MAX_SET_PAIRS: Final = 20_000
"""How often an item of a set is read beside something written of that set, in a whole value; sets nest."""


def read_written_secrets(value: object, written: object) -> list[object]:
    """
    Return what stands in *written*, the JSON of *value*, where the classes of instances in *value* mark secrets.

    A serializer may write anything: where it is not known what of a value stands in a place, that is returned as a
    whole, if a secret is in the value. Not returned is what a serializer adds to an object under a key of its own, such
    as the name of a class.
    """
    return [json for _, json in find_written_secrets(value, written)]


def find_written_secrets(value: object, written: object) -> list[tuple[JsonPlace, object]]:
    """Return the same, each with its place in *written*."""
    if not has_marked_values(value):
        return []
    secrets: list[tuple[JsonPlace, object]] = []
    stack: list[tuple[object, object, JsonPlace]] = [(value, written, ())]
    pairs_left = _MAX_SET_PAIRS
    while stack:
        part, json, place = stack.pop()
        if type(part) in SCALAR_TYPES or json is None:
            continue
        if has_members(type(part)):
            pairs = list(_pair_members(part, json))
        elif has_type(part, Set) and type(json) is list:
            pairs = list(_pair_set_items(part, json, pairs_left))
            pairs_left -= len(pairs)
        else:
            pairs = list(_pair_parts(part, json))
        for steps, inner, inner_json, is_secret in pairs:
            if not is_secret:
                stack.append((inner, inner_json, place + steps))
            elif not _is_hidden(inner_json):
                secrets.append((place + steps, inner_json))
    return secrets


def has_at(json: object, place: JsonPlace, part: object) -> bool:
    """Tell whether *part* is in *json* at a place."""
    for step in place:
        is_there = step in json if isinstance(json, dict) else isinstance(json, list) and step in range(len(json))
        if not is_there:
            return False
        json = cast("dict[object, object]", json)[step]
    return type(json) is type(part) and json == part


def replace_places(json: object, replacements: Mapping[JsonPlace, object]) -> object:
    """Return *json* with other values in some places; none of these is inside another."""
    if not replacements:
        return json
    if () in replacements:
        return replacements[()]
    inner: dict[str | int, dict[JsonPlace, object]] = {}
    for place, value in replacements.items():
        inner.setdefault(place[0], {})[place[1:]] = value
    if isinstance(json, list):
        return [replace_places(item, inner.get(index, {})) for index, item in enumerate(json)]
    assert isinstance(json, dict)
    return {key: replace_places(item, inner.get(key, {})) for key, item in json.items()}


_Pair: TypeAlias = tuple[JsonPlace, object, object, bool]
"""Steps to a part of JSON, the part of the value of which it was written, that JSON, and whether it is secret."""


def _pair_members(instance: object, json: object) -> Iterator[_Pair]:
    """Yield the members of an instance with their JSON, and whether that is secret."""
    kind: Hint = type(instance)
    if is_pydantic_model(kind) and read_model_marks(kind).is_whole:
        yield (), instance, json, True
        return
    members = {member.name: member for member in iter_class_members(instance, with_computed=True)}
    if getattr(kind, "__pydantic_root_model__", False):
        yield from (((), member.value, json, member.is_marked) for name, member in members.items() if name == "root")
    elif type(json) is list and has_type(instance, tuple):
        for index, (member, item) in enumerate(zip(members.values(), json, strict=False)):
            yield (index,), member.value, item, member.is_marked
    elif type(json) is dict:
        names = _read_written_names(kind)
        named = [(key, members[name]) for key in json if (name := names.get(key, key)) in members]
        yield from (((key,), member.value, json[key], member.is_marked) for key, member in named)
    else:
        yield from _hide_whole(instance, json)


def _pair_parts(value: object, json: object) -> Iterator[_Pair]:
    """Yield the parts of any other value with their JSON, and whether that is secret."""
    with suppress(Exception, SystemExit):  # the seam to code of other classes; what raises has no JSON form either
        if has_type(value, Enum):
            yield (), value.value, json, False
        elif (parts := take_apart(value)) is not value:
            yield (), parts, json, False
        elif has_type(value, Mapping):
            yield from _pair_items(value, json)
        elif has_type(value, Collection) and type(json) is list and len(value) == len(json):
            pairs = zip(value, json, strict=True)
            yield from (((index,), item, written, False) for index, (item, written) in enumerate(pairs))
        else:
            yield from _hide_whole(value, json)


def _pair_set_items(value: Set[object], json: list[object], limit: int) -> Iterator[_Pair]:
    """Yield the items of a set that may hold a secret, each with all that is written, which is in another order."""
    with suppress(Exception, SystemExit):  # the seam to code of other classes; what raises has no JSON form either
        items = [item for item in value if type(item) not in SCALAR_TYPES]
        if len(items) * len(json) <= limit:
            yield from (((index,), item, written, False) for item in items for index, written in enumerate(json))
        else:
            yield from _hide_whole(value, json)


def _pair_items(value: Mapping[object, object], json: object) -> Iterator[_Pair]:
    """Yield the items of a mapping with their JSON: by their keys, and what has keys that are no texts in its order."""
    keys = list(value)
    written: dict[str, object] = json if type(json) is dict else {}
    named = {key for key in keys if type(key) is str and key in written}
    others = [key for key in keys if type(key) is not str or key not in named]
    rest = [key for key in written if key not in named]
    if type(json) is not dict or len(others) != len(rest) or any(type(key) is str for key in others):
        yield from _hide_whole(value, json)
        return
    pairs = [*zip(named, named, strict=True), *zip(others, rest, strict=True)]
    yield from (((text,), value[key], written[text], False) for key, text in pairs)


def _hide_whole(value: object, json: object) -> Iterator[_Pair]:
    """Yield all that is written of a value, if a secret is in it."""
    if any(not (marked is None or (type(marked) is str and not marked)) for marked in iter_marked_values(value)):
        yield (), value, json, True


def _is_hidden(json: object) -> bool:
    """Tell whether JSON is a row of asterisks, as which pydantic writes its secrets."""
    return type(json) is str and not json.strip("*")


@lru_cache(maxsize=1024)
def _read_written_names(kind: Hint) -> dict[str, str]:
    """Return the keys under which members of a class are written, with their names."""
    if is_pydantic_model(kind):
        fields, names = {**kind.model_fields, **kind.model_computed_fields}, dict[str, str]()
    else:
        fields, names = {**getattr(kind, "__pydantic_fields__", {}), **read_computed_fields(kind)}, dict[str, str]()
        members = get_all_fields(kind, keeps_unresolved=True)
        names = {key: item.attribute for item in members for key in (item.attribute, item.key)}
    aliases = {key: name for name, item in fields.items() for key in _iter_aliases(item)}
    return names | {name: name for name in fields} | aliases


def _iter_aliases(field: Hint) -> Iterator[str]:
    """Yield the names under which pydantic reads and writes a field."""
    given = getattr(field, "validation_alias", None)
    aliases = (given, *getattr(given, "choices", ()), field.alias, getattr(field, "serialization_alias", None))
    yield from (alias for alias in aliases if isinstance(alias, str))
