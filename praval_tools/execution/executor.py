"""The executor: lanes where nothing waits, the pipeline otherwise, with a sync and an async driver."""

from __future__ import annotations

import uuid
from typing import Any, Final
from weakref import WeakValueDictionary

from attrs import frozen

from praval_tools.access import judge
from praval_tools.clock import Clock
from praval_tools.errors import RegistryClosedError, ToolUsageError
from praval_tools.execution.drivers import drive, drive_async
from praval_tools.execution.failures import failed, raised
from praval_tools.execution.frames import Site
from praval_tools.execution.gauges import Gauges
from praval_tools.execution.lanes import (
    ExpiredError,
    Lane,
    async_lane,
    plain,
    sync_lane,
)
from praval_tools.execution.loops import BackgroundLoop
from praval_tools.execution.pipeline import pipeline
from praval_tools.execution.threads import ThreadEngine
from praval_tools.execution.turnstile import Turnstile
from praval_tools.ledger import Ledger
from praval_tools.model.calls import Outcome, ToolCall, ToolResult
from praval_tools.model.decision import Decision
from praval_tools.model.definition import MISS
from praval_tools.model.permissions import Principal
from praval_tools.model.tool import Tool

_MOST_LANES: Final = 16_384
_A_DAY: Final = 86_400.0


@frozen
class Options:
    """What a registry sets for all its calls; `timeout` in seconds."""

    strict_arguments: bool = False
    timeout: float | None = 30
    retries: int = 0
    errors: str = "message"
    max_result_size: int | None = None
    engine: str | None = None
    refusals: str = "tell"


class Lanes:
    """The lanes of one agent by tool name, sync and awaited ones, with the decisions that they stand for."""

    __slots__ = ("__weakref__", "awaited", "decisions", "sync")

    def __init__(self) -> None:
        self.sync: dict[str, Lane] = {}
        self.awaited: dict[str, Lane] = {}
        self.decisions: dict[str, Decision] = {}

    def clear(self) -> None:
        """Forget all lanes."""
        for one in (self.sync, self.awaited, self.decisions):
            one.clear()

    def drop(self, name: str) -> None:
        """Forget the lane of *name*."""
        for one in (self.sync, self.awaited, self.decisions):
            one.pop(name, None)


class Executor:
    """Runs the calls of one registry; `home` is that registry, which frames and contexts hand on."""

    def __init__(self, ledger: Ledger, clock: Clock, options: Options, home: Any) -> None:
        self.ledger, self.clock, self.options, self.home = ledger, clock, options, home
        self.gauges = Gauges()
        self.threads = ThreadEngine()
        self.background = BackgroundLoop()
        self._lanes: WeakValueDictionary[Principal, Lanes] = WeakValueDictionary()
        self.turnstile = Turnstile(self.gauges, self._new_pointer)

    # ── lanes ────────────────────────────────────────────────────────────────────────────────────

    def lanes(self, who: Principal) -> Lanes:
        """Return the agent's lanes, which fill as it calls."""
        mine = self._lanes.get(who)
        return mine if mine is not None else self._lanes.setdefault(who, Lanes())

    def lane(self, who: Principal, name: str, lanes: Lanes) -> bool:
        """Make the lane of *name* for the present state; False where only the pipeline will do."""
        state = self.ledger.state
        if self.ledger.closed or self.turnstile.closed or state.policies or type(name) is not str:
            return False
        verdict = judge(state, who, name, self.clock.now())
        tool = verdict.record.tool if verdict.record is not None else None
        if tool is None or verdict.refusal is not None or not verdict.paths[0].lasting or not self._short(tool):
            lanes.drop(name)
            return False
        gauge, site = self.gauges.of(who.agent, name), Site(self.home, who, who.agent, name)
        if len(lanes.decisions) > _MOST_LANES:
            lanes.clear()
        lanes.decisions[name] = verdict.paths[0].decision
        if tool.is_async:
            seconds = self.timeout(tool) or _A_DAY
            lanes.awaited[name] = async_lane(tool.definition_, self.ledger, state, gauge, site, seconds)
        else:
            lanes.sync[name] = sync_lane(tool.definition_, self.ledger, state, gauge, site)
        return True

    def _short(self, tool: Tool[..., Any]) -> bool:
        meta = tool.metadata
        if meta.requires_approval or not meta.concurrency_safe or not plain(tool.definition_):
            return False
        engine = meta.engine or self.options.engine
        return engine in (None, "inline") and (tool.is_async or meta.timeout is None)

    # ── values or errors ─────────────────────────────────────────────────────────────────────────

    def call(self, who: Principal, name: str, arguments: dict[str, Any], lanes: Lanes) -> Any:
        """Call a tool and return its value, or raise the typed error; the long way of `Toolset.call`."""
        if self.lane(who, name, lanes) and (lane := lanes.sync.get(name)) is not None:
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                raise self.failed(name, error) from error
            if value is not MISS:
                return value
        result = self.run(ToolCall(None, name, arguments, who.agent, None, who.chain), who)
        if result.outcome is not Outcome.OK:
            raise raised(result)
        return result.result

    async def acall(self, who: Principal, name: str, arguments: dict[str, Any], lanes: Lanes) -> Any:
        """Call a tool from async code and return its value, or raise the typed error."""
        for known in (True, False):
            lane = lanes.awaited.get(name) if known or self.lane(who, name, lanes) else None
            if lane is None:
                continue
            try:
                value = await lane(arguments)
            except ExpiredError:
                raise raised(self._expired(name, who, lanes)) from None
            except (Exception, SystemExit) as error:
                raise self.failed(name, error) from error
            if value is not MISS:
                return value
        result = await self.arun(ToolCall(None, name, arguments, who.agent, None, who.chain), who)
        if result.outcome is not Outcome.OK:
            raise raised(result)
        return result.result

    def failed(self, name: str, error: BaseException) -> BaseException:
        record = self.ledger.state.record(name)
        text = f"the tool tried to end the program (exit code {error.code!r})" if isinstance(error, SystemExit) else None
        shown = self.shown(record.tool, text or str(error)) if record is not None else text
        return failed(name, error, shown)

    def _expired(self, name: str, who: Principal, lanes: Lanes) -> ToolResult:
        return ToolResult(
            None, name, who.agent, Outcome.TIMEOUT, None,
            f"Tool {name!r} did not finish within {self.timeout_of(name):g} s.", "tool-timeout", attempts=1,
            decision=lanes.decisions.get(name),
        )  # fmt: skip

    # ── results ──────────────────────────────────────────────────────────────────────────────────

    def execute(self, call: ToolCall, who: Principal | None, lanes: Lanes | None = None) -> ToolResult:
        """Run one call; every failure of the tool, the arguments or the access is a result."""
        name, arguments = call.name, call.arguments
        if lanes is None or who is None or type(arguments) is not dict or type(name) is not str:
            return self.run(call, who)
        for known in (True, False):
            lane = lanes.sync.get(name) if known or self.lane(who, name, lanes) else None
            if lane is None:
                continue
            started = self.clock.monotonic()
            try:
                value = lane(arguments)
            except (Exception, SystemExit) as error:
                return self._broke(call, who, lanes, error, started)
            if value is not MISS:
                return ToolResult(
                    call.tool_call_id, name, who.agent, Outcome.OK, value, None, None,
                    (self.clock.monotonic() - started) * 1000, 1, (), False, lanes.decisions[name],
                )  # fmt: skip
        return self.run(call, who)

    async def aexecute(self, call: ToolCall, who: Principal | None) -> ToolResult:
        """Run one call from async code; every failure of the tool, the arguments or the access is a result."""
        return await self.arun(call, who)

    def _broke(
        self, call: ToolCall, who: Principal, lanes: Lanes, error: BaseException, started: float
    ) -> ToolResult:
        made = self.failed(call.name, error)
        return ToolResult(
            call.tool_call_id, call.name, who.agent, Outcome.TOOL_ERROR, None, str(made), type(error).__name__,
            (self.clock.monotonic() - started) * 1000, 1, (), False, lanes.decisions.get(call.name), error,
        )  # fmt: skip

    def run(self, call: ToolCall, who: Principal | None) -> ToolResult:
        """Drive the pipeline from sync code."""
        if self.ledger.closed:
            raise RegistryClosedError(self.ledger.name)
        return drive(self, pipeline(self, call, who))

    async def arun(self, call: ToolCall, who: Principal | None) -> ToolResult:
        """Drive the pipeline from async code."""
        if self.ledger.closed:
            raise RegistryClosedError(self.ledger.name)
        return await drive_async(self, pipeline(self, call, who))

    # ── what drivers and pipeline ask ────────────────────────────────────────────────────────────

    def timeout(self, tool: Tool[..., Any]) -> float | None:
        """Return the seconds that a call of *tool* may take; the registry's default counts for async tools alone."""
        own = tool.metadata.timeout
        return own if own is not None or not tool.is_async else self.options.timeout

    def timeout_of(self, name: str) -> float:
        """Return the seconds of the tool of this name."""
        record = self.ledger.state.record(name)
        return (self.timeout(record.tool) if record is not None else None) or self.options.timeout or 0.0

    def shown(self, tool: Tool[..., Any], text: str) -> str:
        """Return the text of a tool's exception as a model may see it: an error id instead, where masked."""
        style = tool.metadata.errors or self.options.errors
        return f"The tool failed (error id {uuid.uuid4().hex[:12]})." if style == "masked" else text

    def _new_pointer(self) -> None:
        """Make every lane ask the pipeline, which waits at the turnstile."""
        self.ledger.renew()

    def visible(self, who: Principal) -> list[str]:
        """Return the names that the agent may call now."""
        return self.home._callable_names(who)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the threads and the background loop."""
        self.threads.close()
        if self.background.here:
            raise ToolUsageError("A registry cannot be closed from a tool on its own background loop.")
        self.background.close()
        self._lanes.clear()
