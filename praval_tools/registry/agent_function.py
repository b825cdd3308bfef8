"""An agent's function: it runs as the agent, with the agent's toolset where it asks for one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, cast

from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.signature import read_signature


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

    def __call__(self, *args: object, **kwargs: object) -> object:
        args = self._add_toolset(args, kwargs)
        with activate_frame(make_frame(self._scope)):
            outcome = self._function(*args, **kwargs)
        return _keep_in_context(self._scope, outcome)

    def _add_toolset(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """Return the positional arguments, with the toolset among them or in *kwargs*."""
        if self._toolset_parameters is None:
            self._toolset_parameters = _find_toolset_parameters(self._function)
        for name, position in self._toolset_parameters:
            if name in kwargs or (position is not None and isinstance(_get_item(args, position), Toolset)):
                continue
            if position is None or position > len(args):
                kwargs[name] = self._toolset
            else:
                args = (*args[:position], self._toolset, *args[position:])
        return args


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


def _keep_in_context(scope: FrameScope, outcome: object) -> object:
    """Return what the function returned, wrapped where it runs on later, so that it does so in the agent's context."""
    kind = type(outcome).__name__
    if kind == "coroutine":
        return _await_in_context(scope, cast("Awaitable[object]", outcome))
    if kind == "generator":
        return _drive_generator(scope, cast("Generator[object, object, object]", outcome))
    if kind == "async_generator":
        return _drive_async_generator(scope, cast("AsyncGenerator[object, object]", outcome))
    return outcome


async def _await_in_context(scope: FrameScope, awaitable: Awaitable[object]) -> object:
    with activate_frame(make_frame(scope)):
        return await awaitable


def _drive_generator(
    scope: FrameScope, generator: Generator[object, object, object]
) -> Generator[object, object, object]:
    """Drive a generator, each step of it in the agent's context."""
    step: Callable[[Any], object] = generator.send
    value: object = None
    while True:
        with activate_frame(make_frame(scope)):
            try:
                item = step(value)
            except StopIteration as end:
                return end.value
        try:
            step, value = generator.send, (yield item)
        except GeneratorExit:
            with activate_frame(make_frame(scope)):
                generator.close()
            raise
        except BaseException as error:  # thrown in from outside: the function's to handle
            step, value = generator.throw, error


async def _drive_async_generator(
    scope: FrameScope, generator: AsyncGenerator[object, object]
) -> AsyncGenerator[object, object]:
    """Drive an async generator, each step of it in the agent's context."""
    step: Callable[[Any], Awaitable[object]] = generator.asend
    value: object = None
    while True:
        with activate_frame(make_frame(scope)):
            try:
                item = await step(value)
            except StopAsyncIteration:
                return
        try:
            step, value = generator.asend, (yield item)
        except GeneratorExit:
            with activate_frame(make_frame(scope)):
                await generator.aclose()
            raise
        except BaseException as error:  # thrown in from outside: the function's to handle
            step, value = generator.athrow, error
