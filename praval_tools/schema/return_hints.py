"""Return hints that stand for a list of results, or for a result that is waited for."""

from __future__ import annotations

import collections.abc as abc
from typing import Any, Final, Never, NoReturn, get_origin

_ITERATOR_TYPES: Final = (
    abc.Iterator,
    abc.Generator,
    abc.AsyncIterator,
    abc.AsyncIterable,
    abc.AsyncGenerator,
)
_AWAITABLE_TYPES: Final = (abc.Awaitable, abc.Coroutine)


def unwrap_return_hint(hint: Any) -> Any:
    """
    Return the hint of what a call gives in the end.

    The items of a generator form a list; what is awaited is given itself; what never returns gives nothing.
    """
    if hint is NoReturn or hint is Never:
        return None
    origin = get_origin(hint) or hint
    if origin in _ITERATOR_TYPES:
        args = getattr(hint, "__args__", ()) if origin is not hint else ()
        return list[args[0]] if args else list  # type: ignore[valid-type]
    if origin in _AWAITABLE_TYPES:
        args = getattr(hint, "__args__", ()) if origin is not hint else ()
        return unwrap_return_hint(args[-1]) if args else Any
    return hint
