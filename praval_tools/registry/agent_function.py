"""Makes the function of `@agent` run as its agent, with the agent's toolset where it has a parameter for one."""

from __future__ import annotations

from collections.abc import Callable
from types import AsyncGeneratorType
from typing import Any

from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.names import has_type
from praval_tools.registry.agent_work import (
    FIRST_PLACE,
    AgentWork,
    drive_async_generator,
    resolve_scope,
    wrap_outcome,
)
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.signature import read_signature
from praval_tools.tools.frames import keep_frame


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

    @keep_frame
    def __call__(self, *args: object, **kwargs: object) -> object:
        args = self._add_toolset(args, kwargs)
        scope = resolve_scope(self._scope)
        work = AgentWork(scope)
        # made before what it drives: objects that are collected together end in the order of their age
        async_driver = drive_async_generator(work, FIRST_PLACE)
        with activate_frame(make_frame(scope)):
            outcome = self._function(*args, **kwargs)
        if type(outcome) is AsyncGeneratorType:
            work.hold(outcome)
            return async_driver
        return wrap_outcome(work, outcome)

    def _add_toolset(self, args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[object, ...]:
        """Return the positional arguments, with the toolset among them or in *kwargs*."""
        if self._toolset_parameters is None:
            with activate_frame(make_frame(self._scope)):
                self._toolset_parameters = _find_toolset_parameters(self._function)
        for name, position in self._toolset_parameters:
            if name in kwargs or (position is not None and has_type(_get_item(args, position), Toolset)):
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
