"""Finds the values that classes mark as secret in anything, whatever hint it has."""

from __future__ import annotations

from collections.abc import Iterator

from praval_tools.schema.class_fields import (
    get_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_pydantic_model,
    is_pydantic_secret,
)
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.marked_members import is_marked_member, iter_parts
from praval_tools.schema.model_marks import iter_marked_members
from praval_tools.schema.type_hints import Hint, UnresolvedHintError


def iter_marked_values(value: object) -> Iterator[object]:
    """Yield the values of the fields that classes mark as secret, of all instances in *value*, each instance once."""
    seen, stack = dict[int, object](), [value]
    while stack:
        part = stack.pop()
        if type(part) in SCALAR_TYPES or id(part) in seen:
            continue
        seen[id(part)] = part
        if is_attrs_or_dataclass(type(part)) or is_named_tuple(type(part)):
            for hint, member in _iter_members(part):
                if is_marked_member(hint, member):
                    yield member
                stack.append(member)
        elif is_pydantic_model(type(part)):
            yield from iter_marked_members(part)
            stack += [*vars(part).values(), *(getattr(part, "__pydantic_extra__", None) or {}).values()]
        elif is_pydantic_secret(type(part)):
            yield part
        else:
            stack += iter_parts(part)


def _iter_members(value: object) -> Iterator[tuple[Hint, object]]:
    """Yield the hint and the value of each field of an instance."""
    try:
        fields = get_fields(type(value))
    except UnresolvedHintError:  # it has no JSON form either
        return
    for item in fields:
        yield item.hint, getattr(value, item.attribute, None)
