"""
Has work that an agent's function returned, such as generators and coroutines, go on and end as that agent's.

Such work runs on after the function has returned, where others hold it. So the function's outcome is wrapped: each
type of work has a driver (`_DRIVERS`), a generator or coroutine of this module that takes each step of the work in a
frame of the agent, and wraps what the step gives in turn. Objects of other classes with such methods are wrapped in a
`_WrappedObject`, containers are copied with wrapped items, and all else stays as it is.

What a step gave is held by an `AgentWork`, not by its wrapper: whoever drops the wrapper drops that, too, and it ends
the work in a frame of the agent, whether anybody ever began it or not. A driver that is begun takes the work over by
`begin`, and gives it back by `end`.

What ends work does so by `run_finalizer`, since the garbage collector may run it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import ExitStack, _AsyncGeneratorContextManager, _GeneratorContextManager, suppress
from functools import lru_cache, partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from praval_tools.errors import InvalidNameError, NotOwnerError
from praval_tools.execution.context import Frame, FrameScope, activate_frame, make_frame, resolve_caller
from praval_tools.names import get_plain_type, has_type, to_plain_text
from praval_tools.tools.async_generators import await_step, send_first
from praval_tools.tools.finalizers import is_collecting, run_finalizer
from praval_tools.tools.frames import Settings, await_in_frame, keep_frame
from praval_tools.tools.return_values import COMPLETE_TYPES

if TYPE_CHECKING:
    from asyncio import Future

_CONTAINER_TYPES: Final = frozenset({list, tuple, dict, set, frozenset})
_MANAGERS: Final = (_GeneratorContextManager, _AsyncGeneratorContextManager)


def resolve_scope(scope: FrameScope) -> FrameScope:
    """
    Return the scope of an agent's code that continues here: *scope*, with those on whose behalf it is called.

    Raises:
        InvalidNameError: The agent acts for others there, and may not act for these, too.
        NotOwnerError: A plugin is its caller.
    """
    principal = resolve_caller(scope.principal)
    return scope if principal is scope.principal else FrameScope(scope.registry, principal, principal.agent)


def _activate_scope(scope: FrameScope, kept_settings: Settings | None = None) -> activate_frame:
    """Run the `with` block as the agent's code that continues here; raises what `resolve_scope` does."""
    return activate_frame(make_frame(resolve_scope(scope)), kept_settings)


def _make_cleanup_frame(scope: FrameScope) -> Frame:
    """Return a frame of the agent's code that ends here; without any rights where it may not continue here."""
    try:
        return make_frame(resolve_scope(scope))
    except (InvalidNameError, NotOwnerError):
        return make_frame(FrameScope(None, None, f"tool:{scope.actor}"))


def _activate_cleanup(scope: FrameScope, kept_settings: Settings | None = None) -> activate_frame:
    """Run the `with` block as the agent's code that ends here."""
    return activate_frame(_make_cleanup_frame(scope), kept_settings)


FIRST_PLACE: Final = 0
"""The place of what is held first."""


class AgentWork:
    """
    The work that a step of an agent's code gave and that waits; what is left of it at the end ends as the agent's.

    It is made before the step: what is collected together ends in the order of its age.
    """

    __slots__ = ("_begun", "_count", "_waiting", "scope")

    def __init__(self, scope: FrameScope) -> None:
        self.scope, self._count = scope, FIRST_PLACE
        self._waiting: dict[int, object] = {}
        self._begun: dict[int, object] = {}

    def hold(self, work: object) -> int:
        """Return the place of work that is held from now on; places are counted from `FIRST_PLACE` on."""
        self._waiting[self._count] = work
        self._count += 1
        return self._count - 1

    def read(self, place: int) -> object:
        """Return work that waits."""
        return self._waiting[place]

    def begin(self, place: int) -> Any:
        """Return work for its driver, which ends it."""
        work = self._begun[place] = self._waiting.pop(place)
        return work

    def end(self, place: int) -> None:
        """Forget work that has ended."""
        self._begun.pop(place, None)

    def close(self, place: int) -> None:
        """End work that its driver has begun, where it has not ended: a coroutine that may not go on."""
        if isinstance(work := self._begun[place], CoroutineType):
            work.close()
        del work
        self.end(place)

    def __del__(self) -> None:
        if self._waiting or self._begun:
            run_finalizer(self._end_all)

    @keep_frame
    def _end_all(self) -> None:
        with _activate_cleanup(self.scope), ExitStack() as ends:
            for work in self._begun.values():
                if isinstance(work, GeneratorType | CoroutineType):  # its driver may end later than it, collected both
                    ends.callback(work.close)
            self._waiting.clear()


def wrap_outcome(work: AgentWork, outcome: object) -> object:
    """Return what a step gave, wrapped where it runs on later, so that it does so in the agent's context."""
    kind = get_plain_type(outcome)
    if (drive := _DRIVERS.get(kind)) is not None:
        return drive(work, work.hold(outcome))
    if kind in COMPLETE_TYPES and not (kind in _CONTAINER_TYPES and _holds_objects(cast("Iterable[object]", outcome))):
        return outcome
    return _wrap_in_frame(work, outcome)


@keep_frame
def _wrap_in_frame(work: AgentWork, outcome: object) -> object:
    """Wrap an outcome in the agent's frame: its class, its items and their metaclasses may be the agent's."""
    with activate_frame(make_frame(work.scope)):
        if type(outcome) in _CONTAINER_TYPES:
            return _ItemWrapper(work).wrap_all(outcome)
        return _wrap_object(work, outcome)


def _wrap_object(work: AgentWork, outcome: object) -> object:
    if type(outcome) in _MANAGERS:
        return _wrap_context_manager(work, outcome)
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and type(outcome) in (asyncio.Task, asyncio.Future):  # run in the context they were made in
        return _wrap_future(work, cast("Future[object]", outcome))
    if has_type(outcome, _MANAGERS):  # of a class of its own, with methods that may be the agent's
        return _WrappedObject(work, outcome)
    parts = tuple(part for name, part in _WRAPPER_PARTS.items() if hasattr(type(outcome), name))
    return _make_wrapper_class(parts)(work, outcome) if parts else outcome


class _ItemWrapper:
    """Wraps what is in a container; a closure that calls itself would keep it until the next garbage collection."""

    def __init__(self, work: AgentWork) -> None:
        self._work = work
        self._wrapped_by_id: dict[int, object] = {}
        self._has_work = False

    def wrap_all(self, container: object) -> object:
        """Return a copy with wrapped items, where any is wrapped at any depth, else the container itself."""
        outcome = self._wrap(container)
        return outcome if self._has_work else container

    def _wrap(self, value: object) -> object:
        wrapped_by_id, wrap = self._wrapped_by_id, self._wrap
        if (known := wrapped_by_id.get(id(value))) is not None:
            return known
        if type(value) is list:
            items: list[object] = []
            wrapped_by_id[id(value)] = items  # before its items, which may hold it
            items.extend(map(wrap, value))
            return items
        if type(value) is dict:
            members: dict[object, object] = {}
            wrapped_by_id[id(value)] = members
            members.update({wrap(key): wrap(item) for key, item in value.items()})
            return members
        wrapped: object
        if type(value) is tuple or type(value) is set or type(value) is frozenset:
            wrapped = type(value)(map(wrap, value))
        else:
            wrapped = wrap_outcome(self._work, value)
            self._has_work = self._has_work or wrapped is not value
        wrapped_by_id[id(value)] = wrapped
        return wrapped


def _holds_objects(container: Iterable[object]) -> bool:
    """Tell whether anything in a container, at any depth, is neither a scalar nor a container."""
    seen, left = {id(container)}, [container]
    while left:
        part = left.pop()
        for item in [*part, *part.values()] if type(part) is dict else part:
            kind = type(item)
            if kind not in COMPLETE_TYPES:
                return True
            if kind in _CONTAINER_TYPES and id(item) not in seen:
                seen.add(id(item))
                left.append(cast("Iterable[object]", item))
    return False


def _wrap_future(work: AgentWork, future: Future[object]) -> object:
    """
    Return a task or future with the value of *future*, wrapped; *future* itself where that need not be.

    One of another loop than the running one comes back as an object that can be awaited, and has its attributes.
    """
    loop = future.get_loop()
    if loop is not sys.modules["asyncio"]._get_running_loop():  # it may be of a class of the agent's
        return _WrappedAwaitable(work, future)
    if not future.done():
        return loop.create_task(_await_in_context(work, work.hold(future)))
    if future.cancelled() or future.exception() is not None:
        return future
    wrapped = wrap_outcome(work, value := future.result())
    if wrapped is value:
        return future
    taken = loop.create_future()
    taken.set_result(wrapped)
    return taken


def _wrap_context_manager(work: AgentWork, manager: Any) -> object:
    """Return a manager like what a `contextmanager` function gave, whose generator runs in the agent's context."""
    wrapped = object.__new__(type(manager))
    wrapped.gen, wrapped.__doc__ = wrap_outcome(work, manager.gen), manager.__doc__
    if hasattr(manager, "func"):  # where it is not entered yet
        function, scope = partial(manager.func, *manager.args, **manager.kwds), work.scope

        def make_generator() -> object:  # for each call, where it is a decorator
            return _take_step(scope, None, function)

        wrapped.func, wrapped.args, wrapped.kwds = make_generator, (), {}
    return wrapped


class _WrappedObject:
    """An object whose code runs on later: its attributes are read, and its methods called, in the agent's context."""

    def __init__(self, work: AgentWork, value: object) -> None:
        self._scope, self._agent_work, self._place = work.scope, work, work.hold(value)
        self._kept_settings = Settings()

    @property
    def _value(self) -> object:
        return self._agent_work.read(self._place)

    @keep_frame
    def __getattr__(self, name: str) -> object:
        work = AgentWork(resolve_scope(self._scope))
        with activate_frame(make_frame(work.scope)):
            attribute = getattr(self._value, name)
            is_function = callable(attribute)
        wrapped = wrap_outcome(work, attribute)
        is_work = wrapped is not attribute
        return partial(self._call, attribute) if is_function and not is_work else wrapped

    def __repr__(self) -> str:
        return cast("str", self._call(lambda: to_plain_text(repr(self._value))))

    def __enter__(self) -> object:
        return self._call(self._call_method, "__enter__")

    def __exit__(self, *error: object) -> object:
        return self._call(self._call_method, "__exit__", *error)

    def __aenter__(self) -> object:
        return self._call(self._call_method, "__aenter__")

    def __aexit__(self, *error: object) -> object:
        return self._call(self._call_method, "__aexit__", *error)

    def _call_method(self, name: str, *args: object) -> object:
        return getattr(self._value, name)(*args)

    @keep_frame
    def _call(self, function: Callable[..., object], *args: object, **keywords: object) -> object:
        work = AgentWork(resolve_scope(self._scope))
        with activate_frame(make_frame(work.scope), self._kept_settings):
            result = function(*args, **keywords)
        return self if result is self._value else wrap_outcome(work, result)


class _WrappedIterator(_WrappedObject):
    def __iter__(self) -> object:
        return self._call(iter, self._value)

    def __next__(self) -> object:
        return _take_step(self._scope, self._kept_settings, next, self._value)


class _WrappedAwaitable(_WrappedObject):
    def __await__(self) -> Generator[object, object, object]:
        work = AgentWork(self._scope)
        return _await_in_context(work, work.hold(self._value)).__await__()


class _WrappedAsyncIterator(_WrappedObject):
    def __aiter__(self) -> object:
        return self._call(aiter, self._value)

    def __anext__(self) -> Coroutine[object, object, object]:
        return _take_async_step(self._scope, self._kept_settings, _ask_next, self._value)


_WRAPPER_PARTS: Final[dict[str, type[_WrappedObject]]] = {
    "__next__": _WrappedIterator, "__await__": _WrappedAwaitable, "__anext__": _WrappedAsyncIterator
}  # fmt: skip


@lru_cache
def _make_wrapper_class(parts: tuple[type[_WrappedObject], ...]) -> type[_WrappedObject]:
    return parts[0] if len(parts) == 1 else type("_Wrapped", parts, {})


async def _await_in_context(work: AgentWork, place: int) -> object:
    awaitable = work.begin(place)
    try:
        frame = make_frame(resolve_scope(work.scope))
        return wrap_outcome(work, await await_in_frame(frame, awaitable))
    finally:
        del awaitable  # now only *work* holds it, and lets it go in the agent's context
        run_finalizer(_end_awaitable, work, place)


def _end_awaitable(work: AgentWork, place: int) -> None:
    with _activate_cleanup(work.scope):
        work.close(place)


def _drive_generator(work: AgentWork, place: int) -> Generator[object, object, object]:
    """Drive a generator, each step of it in the agent's context."""
    generator, scope, kept_settings = work.begin(place), work.scope, Settings()
    step: Callable[[Any], object] = generator.send
    value: object = None
    try:
        while True:
            try:
                items = [_take_step(scope, kept_settings, step, value)]
            except StopIteration as end:
                return wrap_outcome(work, end.value)
            try:
                step, value = generator.send, (yield items.pop())  # no local keeps the item after the host drops it
            except GeneratorExit:
                raise
            except BaseException as error:  # thrown in from outside: the function's to handle
                step, value = generator.throw, error
    finally:
        run_finalizer(_close_generator, scope, kept_settings, generator)
        work.end(place)


@keep_frame
def _take_step(
    scope: FrameScope, kept_settings: Settings | None, step: Callable[..., object], *args: object
) -> object:
    work = AgentWork(scope)
    with _activate_scope(scope, kept_settings):
        item = step(*args)
    return wrap_outcome(work, item)


@keep_frame
def _close_generator(
    scope: FrameScope, kept_settings: Settings, generator: Generator[object, object, object]
) -> None:
    with _activate_cleanup(scope, kept_settings):
        generator.close()


async def drive_async_generator(work: AgentWork, place: int) -> AsyncGenerator[object, object]:
    """Drive an async generator, each step of it in the agent's context."""
    generator, scope, kept_settings = work.begin(place), work.scope, Settings()
    step: Callable[[Any], Awaitable[object]] = partial(send_first, generator)
    value: object = None
    try:
        while True:
            try:
                items = [await _take_async_step(scope, kept_settings, step, value)]
            except StopAsyncIteration:
                return
            try:
                step, value = generator.asend, (yield items.pop())  # no local keeps the item after the host drops it
            except GeneratorExit:
                raise
            except BaseException as error:  # thrown in from outside: the function's to handle
                step, value = generator.athrow, error
    finally:
        if type(sys.exception()) is GeneratorExit and is_collecting():  # no loop knows of it: nothing can be awaited
            run_finalizer(_close_async_generator, scope, kept_settings, generator)
        else:
            await await_in_frame(_make_cleanup_frame(scope), generator.aclose(), kept_settings)
        work.end(place)


def _close_async_generator(
    scope: FrameScope, kept_settings: Settings, generator: AsyncGenerator[object, object]
) -> None:
    with _activate_cleanup(scope, kept_settings):
        closing = generator.aclose()
        with suppress(StopIteration, GeneratorExit):
            closing.send(None)
            closing.throw(GeneratorExit)  # it waits, and nothing can be waited for


async def _take_async_step(
    scope: FrameScope, kept_settings: Settings, step: Callable[[Any], Awaitable[object]], value: object
) -> object:
    work, frame = AgentWork(scope), make_frame(resolve_scope(scope))
    return wrap_outcome(work, await await_in_frame(frame, await_step(step(value)), kept_settings))


async def _ask_next(items: AsyncIterator[object]) -> object:
    return await anext(items)


_Driver = Callable[[AgentWork, int], object]

_DRIVERS: Final[dict[type, _Driver]] = {
    CoroutineType: _await_in_context,
    GeneratorType: _drive_generator,
    AsyncGeneratorType: drive_async_generator,
}
"""The type of work → the coroutine or generator function that drives it."""
