"""Finds the values that classes mark as secret in anything, whatever hint it has."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache
from typing import NamedTuple

from praval_tools.schema.class_fields import (
    get_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_pydantic_model,
    is_pydantic_secret,
)
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.marked_members import has_plain_parts, iter_parts
from praval_tools.schema.model_marks import iter_marked_members
from praval_tools.schema.secret_marks import read_marked_names
from praval_tools.schema.type_hints import Hint, UnresolvedHintError


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
    """Yield the values of the fields that classes mark as secret, of all instances in *value*, each instance once."""
    seen, stack = dict[int, object](), [value]
    while stack:
        part = stack.pop()
        kind: Hint = type(part)
        if kind in SCALAR_TYPES or id(part) in seen:
            continue
        seen[id(part)] = part
        if is_attrs_or_dataclass(kind) or is_named_tuple(kind):
            try:
                marks = _read_class_marks(kind)
            except UnresolvedHintError:  # it has no JSON form either
                continue
            for name in marks.attributes:
                member = getattr(part, name, None)
                if name in marks.outer_names or (name in marks.names and has_plain_parts(member)):
                    yield member
                stack.append(member)
        elif is_pydantic_model(kind):
            yield from iter_marked_members(part)
            stack += [*vars(part).values(), *(getattr(part, "__pydantic_extra__", None) or {}).values()]
        elif is_pydantic_secret(kind):
            yield part
        else:
            stack += iter_parts(part)


@lru_cache(maxsize=1024)
def _read_class_marks(kind: Hint) -> _ClassMarks:
    hints: dict[str, Hint] = {item.attribute: item.hint for item in get_fields(kind)}
    return _ClassMarks(tuple(hints), *read_marked_names(hints))
