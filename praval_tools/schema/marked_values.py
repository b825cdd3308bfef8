"""Finds the values that classes mark as secret in anything, whatever hint it has."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache
from typing import NamedTuple

from praval_tools.schema.class_fields import (
    get_all_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_pydantic_model,
    is_pydantic_secret,
)
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.marked_members import has_plain_parts, iter_keys, iter_parts
from praval_tools.schema.model_marks import get_private_members, iter_marked_members
from praval_tools.schema.secret_marks import list_field_names, read_marked_names
from praval_tools.schema.type_hints import Hint, UnresolvedHintError
from praval_tools.schema.value_reader import get_extra_members


class _ClassMarks(NamedTuple):
    """
    What a class with fields marks as secret.

    Args:
        attributes: All its fields.
        names: Those that are marked, or whose values may hold instances that mark something.
        outer_names: Those of *names* that are marked where they are.
    """

    attributes: tuple[str, ...]
    names: Set[str]
    outer_names: Set[str]


def iter_marked_values(value: object) -> Iterator[object]:
    """
    Yield the values of the fields that classes mark as secret, of all instances in *value*.

    The keys of dicts in these are yielded, too, but for names of fields: where no hint names the class, nothing else
    says that they are secret.
    """
    seen = dict[tuple[int, Set[str] | None], object]()
    stack: list[tuple[object, Set[str] | None]] = [(value, None)]
    while stack:
        part, known_names = stack.pop()  # no names: nothing marks this part
        kind: Hint = type(part)
        if kind in SCALAR_TYPES or (id(part), known_names) in seen:
            continue
        seen[id(part), known_names] = part
        if is_attrs_or_dataclass(kind) or is_named_tuple(kind):
            try:
                marks = _read_class_marks(kind)
            except UnresolvedHintError:  # it has no JSON form either
                continue
            for name in marks.attributes:
                member = getattr(part, name, None)
                stack.append((member, known_names))
                if name in marks.outer_names or (name in marks.names and has_plain_parts(member)):
                    yield member
                    stack.append((member, _list_field_names(kind)))
        elif is_pydantic_model(kind):
            for member in iter_marked_members(part):
                yield member
                stack.append((member, _list_field_names(kind)))
            held = vars(part), get_extra_members(part), get_private_members(part)
            stack += [(member, known_names) for members in held for member in dict.values(members)]
        elif is_pydantic_secret(kind):
            yield part
        else:
            if known_names is not None:
                yield from (key for key in iter_keys(part) if type(key) is not str or key not in known_names)
            stack += [(inner, known_names) for inner in iter_parts(part)]


@lru_cache(maxsize=1024)
def _read_class_marks(kind: Hint) -> _ClassMarks:
    hints: dict[str, Hint] = {item.attribute: item.hint for item in get_all_fields(kind)}
    return _ClassMarks(tuple(hints), *read_marked_names(hints))


@lru_cache(maxsize=1024)
def _list_field_names(kind: Hint) -> Set[str]:
    return list_field_names(kind)
