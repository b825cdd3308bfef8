"""Makes toolsets whose calls all happen inside a scope: as part of a run, or with certain deps."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from praval_tools.access.records import Principal
from praval_tools.execution.executor import Executor
from praval_tools.execution.fast_function_cache import FastFunctionCache
from praval_tools.execution.fast_path import FastFunction, FastPath
from praval_tools.execution.protocols import Dispatcher
from praval_tools.tools.call import ToolCall, ToolResult

Scope = Callable[[], AbstractContextManager[None]]
"""Makes what each call is made inside: a run, deps, or both."""


class ScopedDispatcher:
    """A dispatcher whose calls are made inside a scope."""

    def __init__(self, inner: Dispatcher, scope: Scope) -> None:
        self._inner, self._scope = inner, scope

    def get_toolset(self, principal: Principal) -> object:
        """Return the `Toolset` of a principal; its calls have no scope."""
        return self._inner.get_toolset(principal)

    def get_agent_toolset(self, agent: object) -> object:
        """Return the `Toolset` of an agent; its calls have no scope."""
        return self._inner.get_agent_toolset(agent)

    def get_scoped_toolset(self, agent: object, scope: Scope) -> object:
        """Return the toolset of an agent whose calls are made inside *scope* alone."""
        return self._inner.get_scoped_toolset(agent, scope)

    def execute(self, request: ToolCall) -> ToolResult:
        """Run a call by the agent that it names."""
        with self._scope():
            return self._inner.execute(request)

    async def aexecute(self, request: ToolCall) -> ToolResult:
        """Run a call by the agent that it names, from async code."""
        with self._scope():
            return await self._inner.aexecute(request)

    async def record_result_async(self, call: ToolCall, principal: Principal | None, result: ToolResult) -> ToolResult:
        """Record a call that is not made, with the result that says why, from async code."""
        with self._scope():
            return await self._inner.record_result_async(call, principal, result)


class ScopedExecutor(Executor):
    """An executor whose calls are made inside a scope; they take the fast path where they would without it."""

    def __init__(self, inner: Executor, scope: Scope) -> None:
        super().__init__(inner.runtime)
        self._inner, self._scope = inner, scope

    def build_fast_function(self, principal: Principal, name: str, *, is_async: bool) -> tuple[FastFunction, bool]:
        """Return a function that looks up that of the inner executor at each call, so that it may be kept for ever."""
        cache, scope = self._inner.get_fast_cache(principal), self._scope
        function: Any

        def call_sync(arguments: dict[str, Any], frame: None) -> object:
            with scope():
                return cache.find_function(name)(arguments, frame)

        async def call_async(arguments: dict[str, Any], frame: None) -> object:
            with scope():
                return await cache.find_function(name, is_async=True)(arguments, frame)

        function = call_async if is_async else call_sync
        function.path = FastPath(name, principal, self.access_store.state)
        return function, type(name) is str

    def handle_fast_path_error(self, path: FastPath, arguments: object, error: BaseException) -> object:
        """Return the value of a whole call, or raise the typed error."""
        with self._scope():
            return self._inner.handle_fast_path_error(path, arguments, error)

    async def handle_fast_path_error_async(self, path: FastPath, arguments: object, error: BaseException) -> object:
        """Return the value of a whole awaited call, or raise the typed error."""
        with self._scope():
            return await self._inner.handle_fast_path_error_async(path, arguments, error)

    def execute(self, call: ToolCall, cache: FastFunctionCache | None) -> ToolResult:
        """Run one call."""
        with self._scope():
            return self._inner.execute(call, self._find_inner_cache(cache))

    async def aexecute(self, call: ToolCall, cache: FastFunctionCache | None) -> ToolResult:
        """Run one call from async code."""
        with self._scope():
            return await self._inner.aexecute(call, self._find_inner_cache(cache))

    def _find_inner_cache(self, cache: FastFunctionCache | None) -> FastFunctionCache | None:
        return None if cache is None else self._inner.get_fast_cache(cache.principal)
