"""Finds out who makes each call of a registry and has it run as theirs; keeps the toolsets of agents."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final, cast

from msgspec.structs import replace

from praval_tools.access.records import Principal, resolve_principal
from praval_tools.errors import InvalidNameError
from praval_tools.execution.batch import run_batch, run_batch_async
from praval_tools.execution.context import SCOPE, Frame, current_frame, get_current_principal, resolve_agent
from praval_tools.execution.deps import take_deps, use_deps
from praval_tools.execution.executor import Executor, get_value
from praval_tools.execution.fast_function_cache import FastFunctionCache
from praval_tools.execution.plain_calls import to_plain_call
from praval_tools.execution.results import build_no_agent_result
from praval_tools.execution.scoped_calls import Scope, ScopedDispatcher, ScopedExecutor
from praval_tools.lazy_import import load
from praval_tools.names import has_type
from praval_tools.registry.export_cache import ToolExportCache
from praval_tools.registry.toolset import Toolset, get_fast_cache
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.frames import activate_tool_frame

_MAX_TOOLSETS: Final = 16_384
_NO_CHAIN: Final = ()
"""The chain of an agent that calls for itself; the empty tuple is one object."""


class CallDispatcher:
    """
    The toolsets of one registry, made when they are asked for, and the calls that name no toolset.

    Args:
        executor: Runs the calls of the registry.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor, self._registry = executor, executor.runtime.registry
        self._exports = ToolExportCache()
        self._toolsets: dict[Principal, Toolset] = {}
        self._callers_by_name: dict[str, FastFunctionCache] = {}

    def clear(self) -> None:
        """Forget all toolsets."""
        self._toolsets.clear()
        self._callers_by_name.clear()

    def get_toolset(self, principal: Principal) -> Toolset:
        """Return the toolset of *principal*."""
        toolset = self._toolsets.get(principal)
        if toolset is None:
            if len(self._toolsets) > _MAX_TOOLSETS:
                self.clear()
            toolset = self._toolsets[principal] = Toolset(self, self._executor, principal, self._exports)
        return toolset

    def get_agent_toolset(self, agent: object, deps: object = None) -> Toolset:
        """Return the toolset of an agent, given as object or by its name."""
        if deps is not None:
            return self.get_scoped_toolset(agent, lambda: use_deps(self._registry, deps))
        return self.get_toolset(resolve_agent(agent))

    def get_scoped_toolset(self, agent: object, scope: Scope) -> Toolset:
        """Return the toolset of an agent each of whose calls is made inside what *scope* returns."""
        principal, executor = self.get_agent_toolset(agent).principal, ScopedExecutor(self._executor, scope)
        return Toolset(ScopedDispatcher(self, scope), executor, principal, self._exports)

    def execute(self, request: ToolCall | str, name: str = "", arguments: object = None) -> ToolResult:
        """Run a call of the agent that it names; one by id, name and arguments is made by who is running."""
        if has_type(request, ToolCall):
            if type(request) is not ToolCall:
                request = to_plain_call(request)
            agent, frame = request.agent, current_frame.get()
            if type(agent) is str and request.on_behalf_of is _NO_CHAIN and (frame is None or not _is_delegated(frame)):
                caller = self._callers_by_name.get(agent)
                if caller is not None:
                    return self._executor.execute(request, caller)
            resolved = self._resolve_caller(request)
            if isinstance(resolved, ToolResult):
                return self._executor.run_pipeline(request, None, resolved)
            return self._executor.execute(*resolved)
        principal = get_current_principal()
        call = _make_call(principal, cast("str", request), name, arguments)
        return self._executor.execute(call, self._find_fast_cache(principal))

    def aexecute(
        self, request: ToolCall | str, name: str = "", arguments: object = None
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run a call from async code."""
        if has_type(request, ToolCall):
            if type(request) is not ToolCall:
                request = to_plain_call(request)
            agent, frame = request.agent, current_frame.get()
            if type(agent) is str and request.on_behalf_of is _NO_CHAIN and (frame is None or not _is_delegated(frame)):
                caller = self._callers_by_name.get(agent)
                if caller is not None:
                    return self._executor.aexecute(request, caller)
            resolved = self._resolve_caller(request)
            if isinstance(resolved, ToolResult):
                return self._executor.run_pipeline_async(request, None, resolved)
            return self._executor.aexecute(*resolved)
        principal = get_current_principal()
        call = _make_call(principal, cast("str", request), name, arguments)
        return self._executor.aexecute(call, self._find_fast_cache(principal))

    async def record_result_async(self, call: ToolCall, principal: Principal | None, result: ToolResult) -> ToolResult:
        """Record a call of *principal* that is not made, with the *result* that says why, from async code."""
        return await self._executor.run_pipeline_async(to_plain_call(call), principal, result)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None, deps: object) -> list[ToolResult]:
        """Run calls side by side, each by the agent that it names."""
        with use_deps(self._registry, deps):
            return run_batch(self._executor.runtime, [(call, self.execute) for call in calls], max_parallel)

    async def aexecute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None, deps: object
    ) -> list[ToolResult]:
        """Run calls side by side from async code."""
        with use_deps(self._registry, deps):
            return await run_batch_async(
                self._executor.runtime, [(call, self.aexecute) for call in calls], max_parallel
            )

    def execute_tool_calls(self, tool_calls: Sequence[object], agent: object, deps: object) -> dict[str, str]:
        """Run the calls in a list of a provider's; returns what a model reads of each, by its id."""
        calls = _read_calls(tool_calls)
        execute = self._execute_as_current_principal if agent is None else self.get_agent_toolset(agent).execute
        with use_deps(self._registry, deps):
            results = run_batch(self._executor.runtime, [(call, execute) for call in calls], None)
        return _collect_texts(calls, results)

    async def aexecute_tool_calls(self, tool_calls: Sequence[object], agent: object, deps: object) -> dict[str, str]:
        """Run the calls in a list of a provider's from async code."""
        calls = _read_calls(tool_calls)
        execute = self._aexecute_as_current_principal if agent is None else self.get_agent_toolset(agent).aexecute
        with use_deps(self._registry, deps):
            results = await run_batch_async(self._executor.runtime, [(call, execute) for call in calls], None)
        return _collect_texts(calls, results)

    def _execute_as_current_principal(self, call: ToolCall) -> ToolResult:
        if call.agent is not None:
            return self.execute(call)
        call, principal = _make_call_of_current_principal(call)
        return self._executor.execute(call, self._find_fast_cache(principal))

    async def _aexecute_as_current_principal(self, call: ToolCall) -> ToolResult:
        if call.agent is not None:
            return await self.aexecute(call)
        call, principal = _make_call_of_current_principal(call)
        return await self._executor.aexecute(call, self._find_fast_cache(principal))

    def call_tool(self, name: str, arguments: dict[str, object]) -> object:
        """Call a tool as who is running and return its value, or raise the typed error."""
        principal = get_current_principal()
        if principal is not None:
            return self.get_toolset(principal).call(name, **arguments)
        with use_deps(self._registry, take_deps(self._executor.runtime, name, arguments)):
            return get_value(self._executor.run_pipeline(ToolCall(None, name, arguments), None))

    def _find_fast_cache(self, principal: Principal | None) -> FastFunctionCache | None:
        return None if principal is None else self._executor.get_fast_cache(principal)

    def _resolve_caller(self, call: ToolCall) -> tuple[ToolCall, FastFunctionCache] | ToolResult:
        """Return a call as its principal makes it, whoever it names, and the fast functions of that; else why not."""
        call = to_plain_call(call)
        if call.agent is None:
            return build_no_agent_result(call)
        try:
            running = get_current_principal()
            principal = resolve_principal(resolve_agent(call.agent), call.on_behalf_of, running)
        except InvalidNameError as error:
            return build_no_agent_result(call, str(error))
        caller = get_fast_cache(self.get_toolset(principal))
        if type(call.agent) is str and call.agent == caller.agent and call.on_behalf_of == caller.chain:
            if principal.delegation is None:
                self._callers_by_name[caller.agent] = caller
            return call, caller
        return replace(call, agent=caller.agent, on_behalf_of=caller.chain), caller


def _is_delegated(frame: Frame) -> bool:
    principal: Principal | None = frame[SCOPE].principal
    return principal is not None and principal.delegation is not None


def _make_call(principal: Principal | None, call_id: str, name: str, arguments: object) -> ToolCall:
    if principal is None:
        return ToolCall(call_id, name, arguments)
    return ToolCall(call_id, name, arguments, principal.agent, None, principal.chain)


def _make_call_of_current_principal(call: ToolCall) -> tuple[ToolCall, Principal | None]:
    """Return a call that names no agent as one of who is running, and who that is."""
    principal = get_current_principal()
    if principal is not None:
        call = replace(call, agent=principal.agent, on_behalf_of=principal.chain)
    return call, principal


def _read_calls(tool_calls: Sequence[object]) -> list[ToolCall]:
    with activate_tool_frame("(calls)"):  # objects of them may have code of their own
        calls: list[ToolCall] = load("praval_tools.formats.conversion").read_call_list(tool_calls)
    return list(map(to_plain_call, calls))


def _collect_texts(calls: list[ToolCall], results: list[ToolResult]) -> dict[str, str]:
    """Return what a model reads of each result, by the id of its call."""
    return {str(call.tool_call_id): result.for_model() for call, result in zip(calls, results, strict=True)}
