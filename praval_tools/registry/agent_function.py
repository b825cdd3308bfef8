"""Makes the function of `@agent` run as its agent, with the agent's toolset where it has a parameter for one."""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import _AsyncGeneratorContextManager, _GeneratorContextManager
from functools import lru_cache, partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, cast

from praval_tools.errors import InvalidNameError, NotOwnerError
from praval_tools.execution.context import Frame, FrameScope, activate_frame, make_frame, resolve_caller
from praval_tools.names import get_plain_type, has_type
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.signature import read_signature
from praval_tools.tools.frames import Settings, await_in_frame, keep_frame
from praval_tools.tools.return_values import COMPLETE_TYPES

if TYPE_CHECKING:
    from asyncio import Future

_CONTAINER_TYPES: Final = frozenset({list, tuple, dict, set, frozenset})
_MANAGERS: Final = (_GeneratorContextManager, _AsyncGeneratorContextManager)


class AgentFunction:
    """
    A function that runs as an agent.

    Args:
        function: What is called.
        scope: In which call context.
        toolset: Passed for each parameter that is annotated as `Toolset`, where the caller passes none.
    """

    def __init__(self, function: Callable[..., Any], scope: FrameScope, toolset: Toolset) -> None:
        self._function, self._scope, self._toolset = function, scope, toolset
        self._toolset_parameters: tuple[tuple[str, int | None], ...] | None = None
        with activate_frame(make_frame(scope)):  # it may be an object whose attributes are computed
            drive = _find_driver(function)
        self._drivers = tuple(_DRIVERS.values()) if drive is None else (drive,)

    @keep_frame
    def __call__(self, *args: object, **kwargs: object) -> object:
        args = self._add_toolset(args, kwargs)
        scope = _resolve_scope(self._scope)
        work: list[Any] = []
        # older than their work: what is collected with it ends in the order of its age
        drivers, used = [drive(scope, work) for drive in self._drivers], None
        try:
            with activate_frame(make_frame(scope)):
                outcome = self._function(*args, **kwargs)
            if get_plain_type(outcome) in _DRIVERS:
                for driver in drivers:
                    if type(driver) is type(outcome):
                        work.append(outcome)
                        used = driver
                        return driver
        finally:
            if isinstance(first := drivers[0], CoroutineType) and first is not used:
                first.close()
        return _wrap_outcome(scope, outcome)

    def _add_toolset(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """Return the positional arguments, with the toolset among them or in *kwargs*."""
        if self._toolset_parameters is None:
            with activate_frame(make_frame(self._scope)):
                self._toolset_parameters = _find_toolset_parameters(self._function)
        for name, position in self._toolset_parameters:
            if name in kwargs or (position is not None and isinstance(_get_item(args, position), Toolset)):
                continue
            if position is None or position > len(args):
                kwargs[name] = self._toolset
            else:
                args = (*args[:position], self._toolset, *args[position:])
        return args


def _resolve_scope(scope: FrameScope) -> FrameScope:
    """
    Return the scope of an agent's code that continues here: *scope*, with those on whose behalf it is called.

    Raises:
        InvalidNameError: The agent acts for others there, and may not act for these, too.
        NotOwnerError: A plugin is its caller.
    """
    principal = resolve_caller(scope.principal)
    return scope if principal is scope.principal else FrameScope(scope.registry, principal, principal.agent)


def _activate_scope(scope: FrameScope, kept_settings: Settings | None = None) -> activate_frame:
    """Run the `with` block as the agent's code that continues here; raises what `_resolve_scope` does."""
    return activate_frame(make_frame(_resolve_scope(scope)), kept_settings)


def _make_cleanup_frame(scope: FrameScope) -> Frame:
    """Return a frame of the agent's code that ends here; without any rights where it may not continue here."""
    try:
        return make_frame(_resolve_scope(scope))
    except (InvalidNameError, NotOwnerError):
        return make_frame(FrameScope(None, None, f"tool:{scope.actor}"))


def _activate_cleanup(scope: FrameScope, kept_settings: Settings | None = None) -> activate_frame:
    """Run the `with` block as the agent's code that ends here."""
    return activate_frame(_make_cleanup_frame(scope), kept_settings)


def _get_item(args: tuple[object, ...], position: int) -> object:
    return args[position] if position < len(args) else None


def _find_toolset_parameters(function: Callable[..., Any]) -> tuple[tuple[str, int | None], ...]:
    """Return the parameters that take a toolset, each with its position; keyword-only ones have None."""
    parameters = read_signature(function, strict=False, context_types=(Toolset,)).parameters
    positional = [parameter.name for parameter in parameters if not parameter.keyword_only]
    return tuple(
        (parameter.name, None if parameter.keyword_only else positional.index(parameter.name))
        for parameter in parameters
        if parameter.kind == "context"
    )


def _wrap_outcome(scope: FrameScope, outcome: object) -> object:
    """Return what the function returned, wrapped where it runs on later, so that it does so in the agent's context."""
    kind = get_plain_type(outcome)
    if (drive := _DRIVERS.get(kind)) is not None:
        return drive(scope, [outcome])
    if kind in COMPLETE_TYPES:
        return _wrap_items(scope, cast("Iterable[object]", outcome)) if kind in _CONTAINER_TYPES else outcome
    if has_type(outcome, _MANAGERS):
        return _wrap_context_manager(scope, outcome)
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and type(outcome) in (asyncio.Task, asyncio.Future):  # run in the context they were made in
        return _wrap_future(scope, cast("Future[object]", outcome))
    with activate_frame(make_frame(scope)):  # the class may be the agent's, and its metaclass too
        parts = tuple(part for name, part in _WRAPPER_PARTS.items() if hasattr(type(outcome), name))
    return _make_wrapper_class(parts)(scope, outcome) if parts else outcome


def _wrap_items(scope: FrameScope, container: Iterable[object]) -> object:
    """Return a list, tuple, dict or set: a copy with wrapped items, where any is wrapped at any depth, else itself."""
    if not _holds_objects(container):
        return container
    wrapped_by_id: dict[int, object] = {}
    has_work = False

    def wrap(value: object) -> object:
        nonlocal has_work
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
        if type(value) is tuple:
            return tuple(map(wrap, value))
        if type(value) is set or type(value) is frozenset:
            return type(value)(map(wrap, value))
        wrapped = wrapped_by_id[id(value)] = _wrap_outcome(scope, value)
        has_work = has_work or wrapped is not value
        return wrapped

    outcome = wrap(container)
    return outcome if has_work else container


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


def _wrap_future(scope: FrameScope, future: Future[object]) -> object:
    """Return a task or future with the value of *future*, wrapped; *future* itself where that need not be."""
    if not future.done():
        return future.get_loop().create_task(_await_in_context(scope, [future]))
    if future.cancelled() or future.exception() is not None:
        return future
    wrapped = _wrap_outcome(scope, value := future.result())
    if wrapped is value:
        return future
    taken = future.get_loop().create_future()
    taken.set_result(wrapped)
    return taken


def _wrap_context_manager(scope: FrameScope, manager: object) -> object:
    """Return what a `contextmanager` function gave, so that its generator runs in the agent's context."""
    fields = vars(manager)
    function = fields["func"]

    @keep_frame
    def make_generator(*args: object, **keywords: object) -> object:  # for each call, where it is used as a decorator
        with _activate_scope(scope):
            generator = function(*args, **keywords)
        return _wrap_outcome(scope, generator)

    fields.update(gen=_wrap_outcome(scope, fields["gen"]), func=make_generator)
    return manager


class _WrappedObject:
    """An object whose code runs on later: its attributes are read, and its methods called, in the agent's context."""

    def __init__(self, scope: FrameScope, value: Any) -> None:
        self._scope, self._value = scope, value
        self._kept_settings = Settings()

    @keep_frame
    def __getattr__(self, name: str) -> object:
        scope = _resolve_scope(self._scope)
        with activate_frame(make_frame(scope)):
            attribute = getattr(self._value, name)
            is_function = callable(attribute)
        wrapped = _wrap_outcome(scope, attribute)
        is_work = wrapped is not attribute or has_type(attribute, _MANAGERS)  # these are wrapped in place
        return partial(self._call, attribute) if is_function and not is_work else wrapped

    def __repr__(self) -> str:
        return str(self._call(repr, self._value))

    def __enter__(self) -> object:
        return self._call(self._value.__enter__)

    def __exit__(self, *error: object) -> object:
        return self._call(self._value.__exit__, *error)

    @keep_frame
    def _call(self, function: Callable[..., object], *args: object, **keywords: object) -> object:
        scope = _resolve_scope(self._scope)
        with activate_frame(make_frame(scope), self._kept_settings):
            result = function(*args, **keywords)
        return self if result is self._value else _wrap_outcome(scope, result)


class _WrappedIterator(_WrappedObject):
    def __iter__(self) -> object:
        return self._call(iter, self._value)

    @keep_frame
    def __next__(self) -> object:
        with _activate_scope(self._scope, self._kept_settings):
            item = next(self._value)
        return _wrap_outcome(self._scope, item)


class _WrappedAwaitable(_WrappedObject):
    def __await__(self) -> Generator[object, object, object]:
        return _await_in_context(self._scope, [self._value]).__await__()


class _WrappedAsyncIterator(_WrappedObject):
    def __aiter__(self) -> object:
        return self._call(aiter, self._value)

    def __anext__(self) -> Coroutine[object, object, object]:
        async def take_item() -> object:
            frame = make_frame(_resolve_scope(self._scope))
            return _wrap_outcome(self._scope, await await_in_frame(frame, anext(self._value), self._kept_settings))

        return take_item()


_WRAPPER_PARTS: Final[dict[str, type[_WrappedObject]]] = {
    "__next__": _WrappedIterator, "__await__": _WrappedAwaitable, "__anext__": _WrappedAsyncIterator
}  # fmt: skip


@lru_cache
def _make_wrapper_class(parts: tuple[type[_WrappedObject], ...]) -> type[_WrappedObject]:
    return parts[0] if len(parts) == 1 else type("_Wrapped", parts, {})


async def _await_in_context(scope: FrameScope, work: list[Awaitable[object]]) -> object:
    awaitable = work.pop()
    try:
        return _wrap_outcome(scope, await await_in_frame(make_frame(_resolve_scope(scope)), awaitable))
    finally:
        if isinstance(awaitable, CoroutineType):  # where it may not go on here
            with _activate_cleanup(scope):
                awaitable.close()


def _drive_generator(
    scope: FrameScope, work: list[Generator[object, object, object]]
) -> Generator[object, object, object]:
    """Drive a generator, each step of it in the agent's context."""
    generator, kept_settings = work.pop(), Settings()
    step: Callable[[Any], object] = generator.send
    value: object = None
    try:
        while True:
            try:
                item = _take_step(scope, kept_settings, step, value)
            except StopIteration as end:
                return _wrap_outcome(scope, end.value)
            try:
                step, value = generator.send, (yield _wrap_outcome(scope, item))
            except GeneratorExit:
                raise
            except BaseException as error:  # thrown in from outside: the function's to handle
                step, value = generator.throw, error
    finally:
        _close_generator(scope, kept_settings, generator)


@keep_frame
def _take_step(scope: FrameScope, kept_settings: Settings, step: Callable[..., object], value: object) -> object:
    with _activate_scope(scope, kept_settings):
        return step(value)


@keep_frame
def _close_generator(
    scope: FrameScope, kept_settings: Settings, generator: Generator[object, object, object]
) -> None:
    with _activate_cleanup(scope, kept_settings):
        generator.close()


async def _drive_async_generator(
    scope: FrameScope, work: list[AsyncGenerator[object, object]]
) -> AsyncGenerator[object, object]:
    """Drive an async generator, each step of it in the agent's context."""
    generator, kept_settings = work.pop(), Settings()
    step: Callable[[Any], Awaitable[object]] = generator.asend
    value: object = None
    try:
        while True:
            try:
                item = await await_in_frame(make_frame(_resolve_scope(scope)), step(value), kept_settings)
            except StopAsyncIteration:
                return
            try:
                step, value = generator.asend, (yield _wrap_outcome(scope, item))
            except GeneratorExit:
                raise
            except BaseException as error:  # thrown in from outside: the function's to handle
                step, value = generator.athrow, error
    finally:
        await await_in_frame(_make_cleanup_frame(scope), generator.aclose(), kept_settings)


_Driver = Callable[[FrameScope, list[Any]], object]

_DRIVERS: Final[dict[type, _Driver]] = {
    CoroutineType: _await_in_context,
    GeneratorType: _drive_generator,
    AsyncGeneratorType: _drive_async_generator,
}
"""What drives the work of an agent that runs on later, by its type; takes it from a list, in which it may come late."""


def _find_driver(function: Callable[..., object]) -> _Driver | None:
    """Return what drives the work of a function that is itself one of a coroutine or a generator; else None."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    flags = 0 if code is None else code.co_flags
    return next((_DRIVERS[kind] for flag, kind in _FLAGS.items() if flags & flag), None)


_FLAGS: Final = {
    inspect.CO_COROUTINE: CoroutineType,
    inspect.CO_GENERATOR: GeneratorType,
    inspect.CO_ASYNC_GENERATOR: AsyncGeneratorType,
}
