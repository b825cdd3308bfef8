"""Runs the functions and objects that a plugin contributes in the plugin's name, whoever calls them, and whenever."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any, TypeVar

from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.tools.frames import Settings, await_in_frame

T = TypeVar("T")


def run_as(actor: str, registry: object = None) -> AbstractContextManager[object]:
    """Run the `with` block in the name of *actor*: it may change what that name owns, and nothing else."""
    return activate_frame(make_frame(FrameScope(registry, None, actor)))


def bind_function(function: Callable[..., T], actor: str) -> Callable[..., T]:
    """Return *function* so that it runs in the name of *actor*, and so does what it returns to be run later."""

    def call(*args: object, **keywords: object) -> T:
        with run_as(actor):
            result: T = _bind_result(function(*args, **keywords), actor)
            return result

    return call


def _bind_result(value: Any, actor: str) -> Any:
    if inspect.iscoroutine(value):
        return _run_coroutine(value, actor)
    return _iterate(value, actor) if isinstance(value, Iterator) else value


async def _run_coroutine(coroutine: Awaitable[object], actor: str) -> object:
    return await await_in_frame(make_frame(FrameScope(None, None, actor)), coroutine)


def _iterate(iterator: Iterator[T], actor: str) -> Iterator[T]:
    kept_settings = Settings()
    while True:
        frame = make_frame(FrameScope(None, None, actor))
        with activate_frame(frame, kept_settings):  # not around the yield: whoever iterates runs in between
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


class PluginObject:
    """
    An object that a plugin contributes: its attributes are read, and its methods called, in the plugin's name.

    Args:
        value: The object.
        actor: The name of its plugin.
    """

    __slots__ = ("_actor", "_value")

    def __init__(self, value: object, actor: str) -> None:
        self._value, self._actor = value, actor

    def __getattr__(self, name: str) -> Any:
        with run_as(self._actor):
            attribute = getattr(self._value, name)
            return bind_function(attribute, self._actor) if callable(attribute) else attribute

    def __repr__(self) -> str:
        with run_as(self._actor):
            return repr(self._value)

    def __enter__(self) -> PluginObject:
        self.__getattr__("__enter__")()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> object:
        return self.__getattr__("__exit__")(kind, error, traceback)


def bind_opener(opener: Callable[..., object], actor: str) -> Callable[..., PluginObject]:
    """Return *opener* so that it runs in the name of *actor*, and so do the methods of what it opens."""
    open_as_actor = bind_function(opener, actor)
    return lambda *args: PluginObject(open_as_actor(*args), actor)


def run_as_owner(value: object) -> AbstractContextManager[object]:
    """Run the `with` block in the name of the plugin that contributes *value*; as before, where none does."""
    return run_as(value._actor) if isinstance(value, PluginObject) else nullcontext()
