"""JSON values that are read-only, for what decides and is handed out all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Self

from praval_tools.schema.json_input import copy_json
from praval_tools.schema.type_hints import Hint


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError("This is read-only: copy.deepcopy(…) makes one that can be changed.")


class _Frozen:
    """What copies of read-only values are: the value itself, and a plain one where the copy is deep."""

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Hint:
        return copy_json(self)

    def __reduce__(self) -> tuple[Callable[[Hint], Hint], tuple[Hint]]:
        return freeze_json, (copy_json(self),)


class FrozenDict(_Frozen, dict[str, Hint]):
    """A JSON object that is read-only; a deep copy is a plain one."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse


class FrozenList(_Frozen, list[Hint]):
    """A JSON list that is read-only; a deep copy is a plain one."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse


def freeze_json(value: Hint) -> Hint:
    """Return a read-only copy of a JSON value."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze_json(item) for key, item in value.items()})
    return FrozenList(map(freeze_json, value)) if isinstance(value, list) else value
