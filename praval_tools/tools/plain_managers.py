"""
Makes context managers of generators, as `contextlib` does, that run no code of an exception which leaves the block.

Those of `contextlib` write to the exception, which runs `__setattr__` of its class as whoever has the block.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import wraps
from types import TracebackType
from typing import Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_set_traceback: Final[Callable[[BaseException, TracebackType | None], None]] = BaseException.__dict__[
    "__traceback__"
].__set__


def plain_manager(function: Callable[P, Iterator[T]]) -> Callable[P, AbstractContextManager[T]]:
    """Return a function that makes context managers, from one of generators that yield once."""

    @wraps(function)
    def make(*args: P.args, **keywords: P.kwargs) -> AbstractContextManager[T]:
        return _PlainManager(cast("Generator[T, None, object]", function(*args, **keywords)))

    return make


def plain_async_manager(function: Callable[P, AsyncIterator[T]]) -> Callable[P, AbstractAsyncContextManager[T]]:
    """Return a function that makes async context managers, from one of async generators that yield once."""

    @wraps(function)
    def make(*args: P.args, **keywords: P.kwargs) -> AbstractAsyncContextManager[T]:
        return _PlainAsyncManager(cast("AsyncGenerator[T, None]", function(*args, **keywords)))

    return make


class _PlainManager(AbstractContextManager[T]):
    def __init__(self, steps: Generator[T, None, object]) -> None:
        self._steps = steps

    def __enter__(self) -> T:
        return next(self._steps)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            if error is None:
                next(self._steps)
            else:
                self._steps.throw(error)
        except StopIteration:  # the generator has ended well; one of the block comes as a RuntimeError
            return error is not None
        except BaseException as raised:
            if _restore_error(raised, error, traceback):
                return None
            raise
        raise RuntimeError("the generator of a context manager yielded twice")


class _PlainAsyncManager(AbstractAsyncContextManager[T]):
    def __init__(self, steps: AsyncGenerator[T, None]) -> None:
        self._steps = steps

    async def __aenter__(self) -> T:
        return await anext(self._steps)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            if error is None:
                await anext(self._steps)
            else:
                await self._steps.athrow(error)
        except StopAsyncIteration:
            return error is not None
        except BaseException as raised:
            if _restore_error(raised, error, traceback):
                return None
            raise
        raise RuntimeError("the generator of a context manager yielded twice")


def _restore_error(raised: BaseException, error: BaseException | None, traceback: TracebackType | None) -> bool:
    """Tell whether a generator passed on what it was thrown, and if so, show no line of the generator in it."""
    if error is None or not (raised is error or _is_made_of(raised, error)):
        return False
    _set_traceback(error, traceback)
    return True


def _is_made_of(raised: BaseException, error: BaseException) -> bool:
    """Tell whether *raised* is what Python makes of a StopIteration that leaves a generator."""
    return (
        type(raised) is RuntimeError
        and raised.__cause__ is error
        and issubclass(type(error), StopIteration | StopAsyncIteration)
    )
