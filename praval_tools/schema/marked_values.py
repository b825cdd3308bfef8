"""Finds the values that classes mark as secret in anything, whatever hint it has."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache
from types import WrapperDescriptorType
from typing import NamedTuple

from praval_tools.schema.class_fields import (
    get_all_fields,
    is_attrs_or_dataclass,
    is_named_tuple,
    is_pydantic_model,
    is_pydantic_secret,
)
from praval_tools.schema.hidden_values import is_named_secret
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.marked_members import (
    MAX_FREE_DEPTH,
    has_plain_parts,
    iter_keys,
    iter_parts,
    makes_parts,
    may_make_parts,
)
from praval_tools.schema.model_marks import Member, iter_members, may_hold_instances, read_computed_hints
from praval_tools.schema.secret_marks import list_field_names, read_marked_names
from praval_tools.schema.type_hints import Hint, HintError
from praval_tools.schema.value_reader import is_stored_field


class _ClassMarks(NamedTuple):
    """
    What a class with fields marks as secret.

    Args:
        attributes: All its fields, and those that pydantic computes, which are marked, or may hold what is.
        names: Those that are marked, or whose values may hold instances that mark something.
        outer_names: Those of *names* that are marked where they are.
        computed: Those that are read by code, which may make another value each time.
    """

    attributes: tuple[str, ...]
    names: Set[str]
    outer_names: Set[str]
    computed: Set[str]


def iter_marked_values(value: object) -> Iterator[object]:
    """
    Yield the values of the fields that classes mark as secret, of all instances in *value*.

    The keys of dicts in these are yielded, too, but for names of fields: where no hint names the class, nothing else
    says that they are secret.
    """
    seen = dict[tuple[int, Set[str] | None], object]()
    stack: list[tuple[object, Set[str] | None, int]] = [(value, None, 0)]  # the depth: how many made values are around
    made_count = 0
    while stack:
        part, known_names, depth = stack.pop()  # no names: nothing marks this part
        kind: Hint = type(part)
        if kind in SCALAR_TYPES or (id(part), known_names) in seen:
            continue
        seen[id(part), known_names] = part
        if has_members(kind):
            for member in iter_class_members(part, with_computed=may_make_parts(depth, made_count)):
                member_depth = depth + member.is_computed
                made_count += depth >= MAX_FREE_DEPTH and member.is_computed
                stack.append((member.value, known_names, member_depth))
                if member.is_marked:
                    yield member.value
                    stack.append((member.value, _list_field_names(kind), member_depth))
        elif is_pydantic_secret(kind):
            yield part
        else:
            if known_names is not None:
                yield from (key for key in iter_keys(part) if type(key) is not str or key not in known_names)
            is_made = makes_parts(kind)
            if not is_made or may_make_parts(depth, made_count):
                parts = [(inner, known_names, depth + is_made) for inner in iter_parts(part)]
                made_count += len(parts) if is_made and depth >= MAX_FREE_DEPTH else 0
                stack += parts


def has_members(kind: Hint) -> bool:
    """Tell whether instances of a class have members, which it may mark."""
    return is_attrs_or_dataclass(kind) or is_named_tuple(kind) or is_pydantic_model(kind)


def iter_class_members(instance: object, *, with_computed: bool) -> Iterator[Member]:
    """
    Yield what an instance of a class that has members holds and, if asked for, computes.

    A member of a NamedTuple that is named like a secret counts as marked: in pydantic's JSON it has no name.
    """
    kind: Hint = type(instance)
    if is_pydantic_model(kind):
        yield from iter_members(instance, with_computed=with_computed)
        return
    try:
        marks = _read_class_marks(kind)
    except HintError:  # not remembered: a name that it misses may be defined later
        marks = _find_class_marks(kind, keeps_unresolved=True)
    for name in marks.attributes:
        if (is_computed := name in marks.computed) and not with_computed:
            continue
        value = _get_field(instance, name)
        is_marked = name in marks.outer_names or (name in marks.names and has_plain_parts(value))
        is_marked = is_marked or (is_named_tuple(kind) and is_named_secret(name, value))
        yield Member(name, value, is_marked, is_computed)


def has_marked_values(value: object) -> bool:
    """Tell whether any instance in *value* has a field that its class marks as secret."""
    return any(True for _ in iter_marked_values(value))


def _get_field(instance: object, name: str) -> object:
    """Return a field of an instance; None where it is not set, or cannot be read: `__getattr__` is not asked."""
    try:
        return type(instance).__getattribute__(instance, name)
    except (Exception, SystemExit):  # the seam to code of the class; what raises has no JSON form either
        return None


@lru_cache(maxsize=1024)
def _read_class_marks(kind: Hint) -> _ClassMarks:
    return _find_class_marks(kind)


def _find_class_marks(kind: Hint, *, keeps_unresolved: bool = False) -> _ClassMarks:
    fields = get_all_fields(kind, keeps_unresolved=keeps_unresolved)
    hints: dict[str, Hint] = {item.attribute: item.hint for item in fields}
    computed, reads_all = read_computed_hints(kind), type(kind.__getattribute__) is not WrapperDescriptorType
    names, outer_names = read_marked_names({**hints, **computed})
    shown = [name for name, hint in computed.items() if name in names or may_hold_instances(hint)]
    read_by_code = {item.attribute for item in fields if reads_all or not is_stored_field(kind, item)}
    return _ClassMarks((*hints, *shown), names, outer_names, read_by_code | set(shown))


@lru_cache(maxsize=1024)
def _list_field_names(kind: Hint) -> Set[str]:
    return list_field_names(kind)
