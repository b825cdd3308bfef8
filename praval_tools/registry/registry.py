"""`ToolRegistry`: registers tools and agents, says who may call what, and runs the calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Never, Self, Unpack, overload
from weakref import WeakValueDictionary

from praval_tools.access import commands
from praval_tools.access.grants import get_grant_id, get_grant_record, list_grants, plan_revocation
from praval_tools.access.permissions import Grant, GrantTerms
from praval_tools.access.problems import RegistryProblem, find_problems
from praval_tools.access.queries import describe_tool, list_callable_tools, list_enabled_tools
from praval_tools.access.records import Block
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore
from praval_tools.access.subscriptions import Subscriber
from praval_tools.clock import Clock, SystemClock
from praval_tools.execution.approvals import ApprovalHandler
from praval_tools.execution.context import resolve_actor, resolve_agent
from praval_tools.execution.deps import use_deps
from praval_tools.execution.executor import Executor
from praval_tools.execution.runtime import RegistryOptions, Runtime, list_foreign_problems
from praval_tools.lazy_import import load
from praval_tools.misuse import MISSING, checks_own_calls, explain_misuse_and_take_plain_arguments, refuse_wrong_call
from praval_tools.names import check_agent_name, get_agent_name, get_name
from praval_tools.registry.agents import Agent
from praval_tools.registry.call_controls import RegistryApprovals, RegistryLimits
from praval_tools.registry.catalogue import ToolCatalogue
from praval_tools.registry.dispatch import CallDispatcher
from praval_tools.registry.export_cache import ExportOptions
from praval_tools.registry.from_files import ConfiguredByFiles
from praval_tools.registry.journal_attachment import JournalAttachment
from praval_tools.registry.sources import ConnectedToSources
from praval_tools.registry.telemetry import ObservedByTelemetry, TracerFactory
from praval_tools.registry.toolset import ToolDeps, Toolset
from praval_tools.schema.json_input import MAX_BYTES
from praval_tools.schema.json_values import MAX_DEPTH
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.metadata import Engine, ErrorStyle
from praval_tools.tools.tool import AnyTool

if TYPE_CHECKING:
    from praval_tools.formats import Format
    from praval_tools.journal.journal import Journal
    from praval_tools.journal.replay import MatchMode
    from praval_tools.journal.stats import UsageStats
    from praval_tools.runs.run import Run


@explain_misuse_and_take_plain_arguments
class ToolRegistry(ToolCatalogue, ConfiguredByFiles, ConnectedToSources, ObservedByTelemetry):
    """
    The catalogue of tools, and who may call them.

    Thread-safe; a change counts from the next call on. Every changing verb takes `by=` (left out: who is running,
    outside any agent the operator) and `reason=`. Agents and tools are given by name or as objects.

    Args:
        name: For messages; an empty one is none.
        strict_arguments: True: arguments are never repaired.
        timeout: Seconds that an async tool may take; None: any.
        retries: How often a call that may succeed later is tried again, where the tool says nothing of its own.
        retry_wait: Seconds before the first of them; doubled each time, give or take a quarter.
        errors: `masked` hides the messages of unexpected exceptions from models.
        max_result_size: Characters of a result that a model sees.
        engine: Where tools run: `inline`, `thread`, `process`, `celery`; None: chosen by the call.
        broker: Of the engine `celery`: the URL of the RabbitMQ or Redis that its workers listen to.
        processes: How many functions the processes of this registry run at once; None: one for each processor.
        refusals: `hide` answers *unknown* for every refusal.
        max_argument_bytes: How long the arguments may be as JSON text.
        max_argument_depth: How deep they may be nested; at most 64.
        clock: Time and ids; the machine's by default.
        journal: Where what happens is written down, and what is done stays: `runs.db`, `memory`, or a store.
        durability: `full`: results are durable before they are returned; `intent`: they are not waited for.
        journal_errors: `continue` goes on, with a warning, where the journal fails.
        secrets: Names of keys whose values are secret, besides the usual ones.
        warn_run_events: After how many events of one run a warning is given: it most likely goes round in circles.
        max_run_events: After how many events of one run its new calls are refused.
        telemetry: True, or a `Telemetry`: each call is a span and a measured duration.
    """

    def __init__(
        self,
        *,
        name: str = "",
        strict_arguments: bool = False,
        timeout: float | None = 30,
        retries: int = 0,
        errors: ErrorStyle = "message",
        max_result_size: int | None = None,
        engine: Engine | None = None,
        processes: int | None = None, broker: str | None = None,
        refusals: Literal["tell", "hide"] = "tell",
        max_argument_bytes: int = MAX_BYTES,
        max_argument_depth: int = MAX_DEPTH,
        retry_wait: float = 2.0,
        clock: Clock | None = None,
        journal: object = None,
        durability: Literal["full", "intent"] = "full",
        journal_errors: Literal["raise", "continue"] = "raise",
        secrets: Iterable[str] = (),
        warn_run_events: int = 10_000,
        max_run_events: int = 50_000,
        telemetry: TracerFactory | bool | None = None,
    ) -> None:
        options = RegistryOptions(
            strict_arguments, timeout, retries, errors, max_result_size, engine, refusals, max_argument_bytes,
            max_argument_depth, retry_wait, warn_run_events, max_run_events, processes, broker, tuple(secrets),
        )  # fmt: skip
        self._initialize(name, clock if clock is not None else SystemClock(), options)
        self._journal = JournalAttachment(self._runtime, durability=durability, errors=journal_errors)
        for name, value in (("journal", journal), ("telemetry", telemetry)):
            if value is not None:
                setattr(self, name, value)

    def _initialize(self, name: str, clock: Clock, options: RegistryOptions, state: AccessState | None = None) -> None:
        super().__init__(StateStore(name, state), clock)
        self._runtime = Runtime(self._access_store, clock, options, self)
        self._runtime.dispatcher = self._dispatcher = CallDispatcher(Executor(self._runtime))
        self._runtime.declared_agents = self._declared_agents = WeakValueDictionary[str, Agent]()
        self._journal = JournalAttachment(self._runtime)
        self._limits, self._approvals = RegistryLimits(self._runtime.limits), RegistryApprovals(self._runtime.approvals)

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def get_tools_for_agent(self, agent_name: str | Agent) -> list[AnyTool]:
        """Return the tools that the agent may call now, in registration order."""
        return list_callable_tools(self._current_state, self.toolset(agent_name).principal, self._clock.now())

    def get_tool_info(self, name: str | AnyTool) -> dict[str, Any] | None:
        """Return definition, metadata and usage statistics of a tool, as JSON values, or None for an unknown tool."""
        return describe_tool(self._current_state, get_name(name), self.stats)

    def clear_registry(self, *, by: object = None, reason: str = "") -> None:
        """Forget every tool, agent, grant and block; what the journal keeps is there again in the next process."""
        self._changes.commit("clear the registry", by, lambda _, actor: commands.plan_clear(actor, reason))
        self._dispatcher.clear()

    # ── who may call ─────────────────────────────────────────────────────────────────────────────

    def assign_tool_to_agent(
        self, tool_name: str | AnyTool, agent_name: str | Agent, *, by: object = None, **terms: Unpack[GrantTerms]
    ) -> bool:
        """
        Let an agent call a tool.

        Args:
            agent_name: It need not be declared.
            terms: `key` (of the same *by*, the same grant, with what is left of it, or revoked), `reason`,
                `expires` (a time span, or an aware moment), `max_calls`, `where` (bounds on the arguments:
                parameter to JSON Schema, or a whole JSON Schema), `delegable` (the agent may lend it on, narrower).

        Returns:
            Whether the assignment stands. If not, a warning says why: there is no such tool, the agent is blocked or
            retired, or *by* owns the tool no more, since it was transferred before this process started. Only where
            the same grant was made before and has ended, which start-up code does not bring back, there is none.

        Raises:
            NotOwnerError: *by* is neither operator nor owner nor holder of a delegable grant.
            GrantError: Expiry, count or bounds make no sense.
        """
        return self._changes.assign(tool_name, agent_name, by, terms)

    def grant(self, tool: str | AnyTool, to: str | Agent, *, by: object = None, **terms: Unpack[GrantTerms]) -> Grant:
        """Like `assign_tool_to_agent`, which says the *terms*; returns the grant; `UnknownToolError`: no such tool."""
        return self._changes.grant(tool, to, by, terms)

    def remove_tool_from_agent(
        self, tool_name: str | AnyTool, agent_name: str | Agent, *, by: object = None, reason: str = ""
    ) -> bool:
        """
        Take a tool from an agent: its grants, and for the operator every other permission too.

        Of a name that no tool has and the agent does not list, nothing is recorded, with a warning; see `block`.

        Returns:
            Whether the agent could call it before, and cannot any more.
        """
        return self._changes.remove(get_name(tool_name), get_agent_name(agent_name), by, reason)

    def revoke(self, grant: Grant | str, *, by: object = None, reason: str = "") -> bool:
        """End a grant and all grants that came from it; tell whether it had not ended before."""
        grant_id = get_grant_id(grant)
        return self._changes.commit("revoke", by, lambda state, actor: plan_revocation(state, grant_id, actor, reason))

    def grants(
        self, *, tool: object = None, agent: object = None, by: object = None, ended: bool = False
    ) -> list[Grant]:
        """Return the live grants, or with *ended* those too that are over; the oldest first."""
        filters = {"tool": tool, "agent": agent, "by": by}
        names = {key: get_name(value) for key, value in filters.items() if value is not None}
        return list_grants(self._current_state, names, None if ended else self._clock.now())

    def uses_left(self, grant: Grant | str) -> int | None:
        """Return how many calls a grant still admits, or None if it does not count them."""
        return get_grant_record(self._current_state, get_grant_id(grant)).calls_left

    def block(self, tool: object, agent: object, *, by: object = None, reason: str = "") -> Block:
        """Refuse a tool to an agent, whatever permits it; may come before the tool."""
        return self._changes.block(tool, agent, by, reason)

    def unblock(self, tool: object, agent: object, *, by: object = None, reason: str = "") -> bool:
        """Lift a block and tell whether there was one; only the operator and whoever set it may."""
        return self._changes.change_tool("unblock", tool, by, reason, commands.plan_unblock, get_agent_name(agent))

    def transfer_ownership(self, tool: object, to: object, *, by: object = None, reason: str = "") -> None:
        """Hand a tool over to another owner; the history is kept."""
        self._changes.transfer(tool, to, by, reason)

    def share_tool(self, tool: object, *, by: object = None, reason: str = "") -> None:
        """Let every agent with `auto_discover_tools` call a tool."""
        self._changes.change_tool("share", tool, by, reason, commands.plan_share)

    def unshare_tool(self, tool: object, *, by: object = None, reason: str = "") -> None:
        """Stop sharing a tool."""
        self._changes.change_tool("unshare", tool, by, reason, commands.plan_unshare)

    @property
    def limits(self) -> RegistryLimits:
        """How often and how many at once: limits per agent, tool, or both."""
        return self._limits

    @property
    def approvals(self) -> RegistryApprovals:
        """The calls that wait for a person, and the answers."""
        return self._approvals

    def set_approval_handler(self, handler: ApprovalHandler | None) -> None:
        """
        Ask *handler* whenever a call needs an approval; without one such calls wait in `approvals`.

        It gets an `ApprovalRequest`, sync or async, and answers `Allow` or `Deny`; everything else is a no.
        """
        self._runtime.approvals.change_setting("handler", handler)

    def add_policy(
        self, policy: Callable[..., object], *, name: str | None = None, by: object = None
    ) -> Callable[[], object]:
        """
        Ask *policy* at every call; it may refuse or ask for an approval, never allow more.

        It gets agent, tool and the JSON arguments, in which a `Decimal` stays an exact `Decimal`. It answers None, a
        text or `Deny` (refused), or `Ask`; raising refuses. It acts as `policy:…`. Returns what removes it.
        """
        return self._changes.add_policy(policy, name, by)

    # ── agents ───────────────────────────────────────────────────────────────────────────────────

    def agent(self, name: str | Agent) -> Agent:
        """Return a handle on an agent, declared or not; in work that the agent does for others, for them too."""
        if isinstance(name, Agent) and name.registry is self:
            return name
        principal = resolve_agent(name)
        declared = self._declared_agents.get(principal.agent) if principal.delegation is None else None
        return declared or Agent.handle(self, principal)

    @property
    def agents(self) -> list[str]:
        """The names of the declared agents, sorted."""
        return sorted(name for name, one in self._current_state.profiles.items() if one.declared and not one.retired)

    def retire_agent(self, agent: str | Agent, *, by: object = None, reason: str = "") -> None:
        """End an agent: its grants end, its tools stay, and it can call nothing until declared again."""
        self._changes.retire(agent, by, reason)

    @overload
    def toolset(self, agent: str | Agent) -> Toolset: ...
    @overload
    def toolset(self, agent: str | Agent, *, deps: ToolDeps) -> Toolset[ToolDeps]: ...
    def toolset(self, agent: str | Agent, *, deps: object = None) -> Toolset[Any]:
        """
        Return the agent's tools: an ordered, live, read-only mapping.

        Each of its calls passes *deps* to tools that declare `ToolContext[Deps]`: a database, a tenant, a user.
        """
        return self._dispatcher.get_agent_toolset(agent, deps)

    def explain(self, agent: str | Agent, tool: str | AnyTool, arguments: object = None) -> Decision:
        """
        Say whether an agent may call a tool, by which rule, and what every rule says; spends and records nothing.

        With *arguments*, given as to a call, whether it may call it with those.
        """
        return self._dispatcher.get_agent_toolset(agent).explain(tool, arguments)

    def problems(self) -> list[RegistryProblem]:
        """Return what is most likely a mistake: dangling names, orphans, changed definitions, plugins that failed."""
        return [*find_problems(self._current_state, self._clock.now()), *list_foreign_problems(self._runtime)]

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    @checks_own_calls
    def execute(
        self, tool_call_id: ToolCall | str, tool_name: str = "", arguments: object = None, *more: Never,
        deps: object = None, **unknown: Never,
    ) -> ToolResult:  # fmt: skip
        """
        Run a call; never raises for the tool's sake, every failure is a result.

        `execute(tool_call_id, tool_name, arguments)` speaks for the operator, and inside an agent for that agent.
        """
        if tool_call_id is MISSING or more or unknown:
            refuse_wrong_call(ToolRegistry.execute, (tool_call_id, tool_name, arguments, *more), unknown)
        if deps is None:
            return self._dispatcher.execute(tool_call_id, tool_name, arguments)
        with use_deps(self, deps):
            return self._dispatcher.execute(tool_call_id, tool_name, arguments)

    @checks_own_calls
    async def aexecute(
        self, tool_call_id: ToolCall | str, tool_name: str = "", arguments: object = None, *more: Never,
        deps: object = None, **unknown: Never,
    ) -> ToolResult:  # fmt: skip
        """Run a call from async code; every failure is a result."""
        if tool_call_id is MISSING or more or unknown:
            refuse_wrong_call(ToolRegistry.aexecute, (tool_call_id, tool_name, arguments, *more), unknown)
        if deps is None:
            return await self._dispatcher.aexecute(tool_call_id, tool_name, arguments)
        with use_deps(self, deps):
            return await self._dispatcher.aexecute(tool_call_id, tool_name, arguments)

    def execute_tool(self, name: str | AnyTool, /, **arguments: Any) -> Any:
        """Call a tool as the operator, or inside an agent as that agent; takes and raises what `Toolset.call` does."""
        return self._dispatcher.call_tool(get_name(name), arguments)

    def execute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None = None, *, deps: object = None
    ) -> list[ToolResult]:
        """Run calls side by side; results in call order; errors of the journal are raised once all have ended."""
        return self._dispatcher.execute_batch(calls, max_parallel, deps)

    async def aexecute_batch(
        self, calls: Iterable[ToolCall], max_parallel: int | None = None, *, deps: object = None
    ) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await self._dispatcher.aexecute_batch(calls, max_parallel, deps)

    def execute_tool_calls(
        self, tool_calls: Sequence[object], agent: str | Agent | None = None, *, deps: object = None
    ) -> dict[str, str]:
        """Run a provider's calls, such as `message.tool_calls`; returns what a model reads of each, by call id."""
        return self._dispatcher.execute_tool_calls(tool_calls, agent, deps)

    async def aexecute_tool_calls(
        self, tool_calls: Sequence[object], agent: str | Agent | None = None, *, deps: object = None
    ) -> dict[str, str]:
        """Run a provider's calls from async code; returns what a model reads of each, by call id."""
        return await self._dispatcher.aexecute_tool_calls(tool_calls, agent, deps)

    def get_schemas(self, tool_name: str | None = None, api_format: str = "openai-chat") -> list[dict[str, Any]]:
        """Return every tool that is not disabled, or one, in a provider's format; for an agent's own see `schemas`."""
        return [tool.get_schema(api_format) for tool in list_enabled_tools(self._current_state, tool_name)]

    def schemas(
        self, agent: str | Agent, api_format: str | Format = "openai-chat", **options: Unpack[ExportOptions]
    ) -> list[dict[str, Any]]:
        """Return an agent's tools in a provider's format; see `Toolset.schemas`, which has the same options."""
        return self._dispatcher.get_agent_toolset(agent).schemas(api_format, **options)

    def schemas_for_model(
        self, agent: str | Agent, model: str, **options: Unpack[ExportOptions]
    ) -> list[dict[str, Any]]:
        """Return an agent's tools in the format of a model's provider, by the model's name: `gpt-4o`, `claude-…`."""
        return self.schemas(agent, load("praval_tools.formats.model_names").find_format_of_model(model), **options)

    def schemas_json(
        self, agent: str | Agent, api_format: str | Format = "openai-chat", **options: Unpack[ExportOptions]
    ) -> bytes:
        """Return what `schemas` returns as JSON text, the same bytes until one of the agent's tools changes."""
        return self._dispatcher.get_agent_toolset(agent).schemas_json(api_format, **options)

    # ── the journal ──────────────────────────────────────────────────────────────────────────────

    @property
    def journal(self) -> Journal | None:
        """The record of all events, or None; set it to a path, `memory` or a store before anything is declared."""
        return self._journal.journal

    @journal.setter
    def journal(self, location: object) -> None:
        self._journal.set_journal(location)

    def run(
        self, run_id: str, match: MatchMode = "content", *, strict: bool = False, strict_fingerprint: bool = False
    ) -> Run:
        """
        Return a run of the journal: `with registry.run("nightly"):` records the calls inside; opened again, it replays.

        Args:
            run_id: Stands for the run.
            match: What repeats a recorded call: `content` (agent, tool, arguments, and how often), `id`, `position`.
            strict: Recorded calls that are not asked for again are an error.
            strict_fingerprint: So are recorded calls of tools that have changed since.

        Raises:
            RunBusyError: On entering: it is open elsewhere.
            ToolUsageError: The registry has no journal.
        """
        return self._journal.create_run(run_id, match, strict=strict, strict_fingerprint=strict_fingerprint)

    @property
    def stats(self) -> UsageStats:
        """How often each tool is used and how it goes; for journaled calls, or once `track_usage` is set there."""
        return self._journal.stats

    # ── the registry as a whole ──────────────────────────────────────────────────────────────────

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call *callback*, as the operator, with every event, `ToolProgress` and `ToolLog`; returns what ends that."""
        commands.require_operator(resolve_actor(None, "subscribe"), "subscribe")
        return self._access_store.subscriptions.subscribe(callback, self._runtime.as_operator)

    def change(self) -> AbstractContextManager[None]:
        """Make several changes one: all count at the end, limits and approval handler too; none if one raises."""
        return self._access_store.change()

    def freeze(self, *, by: object = None, reason: str = "") -> None:
        """End declarations: tools and agents that come later are errors; who may call what still changes."""
        self._changes.commit("freeze", by, lambda state, actor: commands.plan_freeze(state, actor, reason))

    def as_operator(self, *, person: str = "") -> AbstractContextManager[None]:
        """Act as the operator inside, whoever is running; changes of access are recorded with the name of *person*."""
        return self._runtime.as_operator_unless_plugin(check_agent_name(person) if person else "")

    def _create_sibling(self, name: str, state: AccessState | None = None) -> Self:
        sibling = object.__new__(type(self))
        sibling._initialize(name, self._clock, self._runtime.options, state)
        return sibling

    def drain(self, *, tool: object = None, agent: object = None, timeout: float | None = None) -> int:
        """Wait at most *timeout* seconds for the calls inside, but not for its callers; return how many remain."""
        tool_name, agent_name = (None if value is None else get_name(value) for value in (tool, agent))
        return self._runtime.drain(agent_name, tool_name, timeout)

    def close(self) -> None:
        """
        Refuse new calls and changes, wait for those inside or another close, end threads and journal; safe twice.

        Raises:
            ToolUsageError: A loop of this thread runs calls inside: `await aclose()`; or a `change()` is open here.
        """
        commands.require_operator(resolve_actor(None, "close the registry"), "close the registry")
        self._runtime.close(self._journal.close)

    async def aclose(self) -> None:
        """Close from async code, without blocking the loop."""
        import asyncio

        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def get_runtime(registry: ToolRegistry) -> Runtime:
    """Return what the calls of *registry* share: its state, clock, hooks, recorder, dispatcher and declared agents."""
    return registry._runtime


def initialize_staging(registry: ToolRegistry, state: AccessState) -> None:
    """Make *registry*, which has a name and nothing else, a whole one with the tools of *state* from the start."""
    registry._initialize(registry.name, SystemClock(), RegistryOptions(), state)
