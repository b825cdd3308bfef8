"""The registry: who owns each tool, which agent may call it and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, Self, Unpack
from weakref import WeakValueDictionary

from praval_tools.access import commands
from praval_tools.access import grants as lending
from praval_tools.access.permissions import Block, Grant, GrantTerms, SwitchTarget
from praval_tools.access.problems import RegistryProblem, find_problems
from praval_tools.access.queries import compute_stats, describe_tool, find_tool, search_tools, select_tools
from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore, Subscriber
from praval_tools.clock import Clock, SystemClock
from praval_tools.execution.approvals import ApprovalHandler, Approvals
from praval_tools.execution.batch import run_batch, run_batch_async
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.executor import Executor
from praval_tools.execution.limits import Limits
from praval_tools.execution.runtime import RegistryOptions, Runtime
from praval_tools.names import check_agent_name, check_tool_name, get_name
from praval_tools.registry import assignment
from praval_tools.registry.agents import Agent
from praval_tools.registry.decorator_arguments import ToolDecoratorFactory, make_tool_or_decorator
from praval_tools.registry.default import set_registry_factory
from praval_tools.registry.dispatch import CallDispatcher
from praval_tools.registry.exports import SchemaExportMixin
from praval_tools.registry.journal_slot import JournalMixin, JournalSlot
from praval_tools.registry.toolset import Toolset
from praval_tools.schema.json_input import MAX_BYTES, MAX_DEPTH
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Decision
from praval_tools.tools.from_object import make_tool, make_tools_from_object
from praval_tools.tools.metadata import Engine, ErrorStyle, ToolFields
from praval_tools.tools.tool import Tool, ToolDefinition


class ToolRegistry(JournalMixin, SchemaExportMixin):
    """
    The catalogue of tools, and who may call them.

    Thread-safe; a change counts from the next call on. Every changing verb takes `by=` and `reason=`:
    left out, `by` is who is running, and outside of any agent the operator. Wherever an agent or a tool
    is asked for, its name or the object will do.

    Args:
        name: For messages.
        strict_arguments: True: arguments are never repaired.
        timeout: Seconds that an async tool may take; None: any.
        retries: How often a call that may succeed later is tried again, where the tool says nothing of its own.
        retry_wait: Seconds before the first of them; doubled each time, give or take a quarter.
        errors: `masked` hides the messages of unexpected exceptions from models.
        max_result_size: Characters of a result that a model sees.
        engine: Where tools run: `inline`, `thread`; None: chosen by the call.
        refusals: `hide` answers *unknown* for every refusal.
        max_argument_bytes: How long the arguments may be as JSON text.
        max_argument_depth: How deep they may be nested; at most 64.
        clock: Time and ids; the machine's by default.
        journal: Where what happens is written down, and what is done stays: `runs.db`, `memory`, or a store.
        durability: `full`: results are durable before they are returned; `intent`: they are not waited for.
        journal_errors: `continue` goes on, with a warning, where the journal fails.
        secrets: Names of keys whose values are secret, besides the usual ones.
    """

    def __init__(
        self, *, name: str = "default", strict_arguments: bool = False, timeout: float | None = 30, retries: int = 0,
        errors: ErrorStyle = "message", max_result_size: int | None = None, engine: Engine | None = None,
        refusals: Literal["tell", "hide"] = "tell", max_argument_bytes: int = MAX_BYTES,
        max_argument_depth: int = MAX_DEPTH, retry_wait: float = 2.0, clock: Clock | None = None,
        journal: Any = None, durability: Literal["full", "intent"] = "full",
        journal_errors: Literal["raise", "continue"] = "raise", secrets: Iterable[str] = (),
    ) -> None:  # fmt: skip
        self._initialize(name, clock if clock is not None else SystemClock(), RegistryOptions(
            strict_arguments, timeout, retries, errors, max_result_size, engine, refusals, max_argument_bytes,
            max_argument_depth, retry_wait,
        ))  # fmt: skip
        self._journal_slot = JournalSlot(self._runtime, durability, journal_errors, secrets)
        if journal is not None:
            self.journal = journal

    def _initialize(self, name: str, clock: Clock, options: RegistryOptions, state: AccessState | None = None) -> None:
        self.name, self._clock = name, clock
        self._access_store = StateStore(name, state)
        self._runtime = Runtime(self._access_store, clock, options, self)
        self._runtime.dispatcher = self._dispatcher = CallDispatcher(self, Executor(self._runtime))
        self._journal_slot = JournalSlot(self._runtime, "full", "raise", ())
        self._declared_agents: WeakValueDictionary[str, Agent] = WeakValueDictionary()
        self._runtime.declared_agents = self._declared_agents

    def __repr__(self) -> str:
        return f"<ToolRegistry {self.name!r}: {len(self)} tools>"

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._access_store.get_current_state().tools)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self.list_all_tools())

    def __contains__(self, tool: object) -> bool:
        record = (
            self._access_store.get_current_state().find_tool_record(get_name(tool))
            if isinstance(tool, str | Tool)
            else None
        )
        return record is not None and (isinstance(tool, str) or record.tool.implementation is tool.implementation)  # type: ignore[attr-defined]

    @property
    def state(self) -> AccessState:
        """The present state: immutable, equal to the replay of all events."""
        return self._access_store.state

    def _commit_change(
        self, verb: str, tool: str | None, by: Any, plan: Callable[[AccessState, str], commands.EventList]
    ) -> bool:
        """Change the state in the name of *by*; False: there was nothing to change."""
        who = resolve_actor(by, verb, tool)
        return bool(self._access_store.commit(lambda state: plan(state, who)))

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def register_tool(self, tool: Tool[..., Any], *, replace: bool = False, by: Any = None, reason: str = "") -> None:
        """
        Register *tool*; all or nothing.

        Raises:
            DuplicateToolError: The name, or one whose wire name would clash, is taken; `replace=True` replaces
                in place, another owner's tool only by the operator.
            TypeError: Not a Tool.
        """
        if not isinstance(tool, Tool):
            raise TypeError(f"Expected Tool object, got {type(tool).__name__}; make one with @tool or Tool(…).")
        self._commit_change("register", tool.name, by, lambda state, who: commands.plan_registration(
            state, tool, who, replace=replace, reason=reason))  # fmt: skip

    def register(
        self, tool: Tool[..., Any] | str, function: Callable[..., Any] | None = None,
        definition: ToolDefinition | None = None,
    ) -> None:  # fmt: skip
        """Register a tool, or a function under a name and definition (the PyWorkflow form)."""
        self.register_tool(make_tool(tool, function, definition) if isinstance(tool, str) else tool)

    @property
    def tool(self) -> ToolDecoratorFactory:
        """Declares a tool in this registry; takes what `praval_tools.tool` takes."""
        return lambda *args, **metadata: make_tool_or_decorator(args, metadata, self._register_declared)

    def _register_declared(self, tool: Tool[..., Any], registry: ToolRegistry | None, replace: bool) -> None:
        tool.implementation.discoverable = False  # it belongs here, wherever discovery finds it
        (self if registry is None else registry).register_tool(tool, replace=replace)

    def register_object(
        self, source: Any, /, namespace: bool | str = True, *, include: Iterable[str] = (), exclude: Iterable[str] = (),
        strict: bool = True, **metadata: Unpack[ToolFields],
    ) -> list[Tool[..., Any]]:  # fmt: skip
        """
        Register the public methods of an object or class as tools, all or nothing.

        A class is built without arguments, unless its methods need no object.

        Args:
            source: The object, or its class.
            namespace: Prefix of the names; True: made of the class's name; False: none.
            include: Only these methods; empty: all but those in *exclude*.
            strict: False: a missing hint means unconstrained, for classes that others wrote.
            metadata: Fields of `ToolMetadata` for all of them.

        Raises:
            ToolDefinitionError: With every problem of every method.
            ToolUsageError: The class cannot be built without arguments, or a name is no method.
        """
        made = make_tools_from_object(source, namespace, set(include), set(exclude), strict, metadata)
        with self.change():
            for tool in made:
                self.register_tool(tool)
        return made

    def unregister_tool(self, name: str | Tool[..., Any], *, by: Any = None, reason: str = "") -> bool:
        """Take a tool out and end its grants; False: there was none."""
        text = get_name(name)
        return self._commit_change(
            "unregister", text, by, lambda state, who: commands.plan_unregistration(state, text, who, reason)
        )

    def get_tool(self, name: str) -> Tool[..., Any] | None:
        """Return the tool of this name as it is now; None: there is none."""
        return find_tool(self._access_store.get_current_state(), get_name(name))

    def _get_tools(self, names: Iterable[str]) -> list[Tool[..., Any]]:
        return select_tools(self._access_store.get_current_state(), names)

    def list_all_tools(self) -> list[Tool[..., Any]]:
        """Return every tool, in registration order."""
        return self._get_tools(self._access_store.get_current_state().tools)

    def get_tools_by_category(self, category: str) -> list[Tool[..., Any]]:
        """Return the tools of a category, in registration order."""
        return self._get_tools(self._access_store.get_current_state().get_tools_by_label("category", category))

    def get_shared_tools(self) -> list[Tool[..., Any]]:
        """Return the shared tools, in registration order."""
        return self._get_tools(self._access_store.get_current_state().get_tools_by_label("shared", ""))

    def get_tools_for_agent(self, agent_name: str | Agent) -> list[Tool[..., Any]]:
        """Return the tools that the agent may call now, in registration order."""
        return self._dispatcher.list_tools(agent_name)

    def search_tools(
        self, name_pattern: str | None = None, category: str | None = None, owned_by: str | Agent | None = None,
        shared_only: bool = False, tags: Iterable[str] | None = None,
    ) -> list[Tool[..., Any]]:  # fmt: skip
        """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
        owner = get_name(owned_by) if owned_by else None
        return search_tools(self._access_store.get_current_state(), name_pattern, category, owner, shared_only, tags)

    def get_registry_stats(self) -> dict[str, Any]:
        """Return the counts that Praval's registry gives."""
        return compute_stats(self._access_store.get_current_state())

    def get_tool_definitions(self) -> list[ToolDefinition]:
        """Return name, description and schema of every tool."""
        return [tool.definition for tool in self.list_all_tools()]

    def get_tool_definitions_dict(self) -> list[dict[str, Any]]:
        """Return name, description and schema of every tool as dicts."""
        return [one.to_dict() for one in self.get_tool_definitions()]

    def get_tool_info(self, name: str | Tool[..., Any]) -> dict[str, Any] | None:
        """Return definition, metadata and usage statistics of a tool, as JSON values; None: there is none."""
        return describe_tool(self._access_store.get_current_state(), get_name(name), self.stats)

    def clear_registry(self, *, by: Any = None, reason: str = "") -> None:
        """Forget every tool, agent, grant and block."""
        self._commit_change("clear the registry", None, by, lambda state, who: commands.plan_clear(who, reason))
        self._dispatcher.clear()

    def replace_source(self, source: str, tools: Iterable[Tool[..., Any]], *, by: Any = None) -> None:
        """Swap all tools of a source (a distribution, a file) for *tools* at once; no call sees a mixture."""
        assignment.replace_source_tools(self, source, {tool.name: tool for tool in tools}, by)

    # ── who may call ─────────────────────────────────────────────────────────────────────────────

    def assign_tool_to_agent(
        self, tool_name: str | Tool[..., Any], agent_name: str | Agent, *, by: Any = None, **terms: Unpack[GrantTerms]
    ) -> bool:
        """
        Let an agent call a tool; False, with a warning, where there is no such tool or the agent is blocked or retired.

        False, too, where what is asked for was given before and is over: start-up code does not bring it back.

        Args:
            agent_name: It need not be declared.
            terms: `key` (the same key is the same grant, with what is left of it, revoked or not), `reason`,
                `expires` (a time span, or an aware moment), `max_calls`, `where` (bounds on the arguments:
                parameter to JSON Schema, or a whole JSON Schema), `delegable` (the agent may lend it on, narrower).

        Raises:
            NotOwnerError: *by* is neither operator nor owner nor holder of a delegable grant.
            GrantError: Expiry, count or bounds make no sense.
        """
        return assignment.assign_tool(self, get_name(tool_name), get_name(agent_name), by, terms)

    def grant(
        self, tool: str | Tool[..., Any], to: str | Agent, *, by: Any = None, **terms: Unpack[GrantTerms]
    ) -> Grant:
        """Like `assign_tool_to_agent`, but returns the grant, and an unknown tool is an `UnknownToolError`."""
        return assignment.grant_tool(self, get_name(tool), get_name(to), by, terms)

    def remove_tool_from_agent(
        self, tool_name: str | Tool[..., Any], agent_name: str | Agent, *, by: Any = None, reason: str = ""
    ) -> bool:
        """
        Take a tool from an agent: its grants, and for the operator its other ways too; False: it had none.

        A name that no tool has, and that the agent does not list either, is recorded and warned of.
        """
        return assignment.remove_tool(self, get_name(tool_name), get_name(agent_name), by, reason)

    def revoke(self, grant: Grant | str, *, by: Any = None, reason: str = "") -> bool:
        """End a grant and all that came from it; False: it had ended."""
        grant_id = grant if isinstance(grant, str) else grant.id
        return self._commit_change(
            "revoke", None, by, lambda state, who: lending.plan_revocation(state, grant_id, who, reason)
        )

    def grants(self, *, tool: Any = None, agent: Any = None, by: Any = None, ended: bool = False) -> list[Grant]:
        """Return the live grants, or with *ended* those too that are over; the oldest first."""
        wanted = {"tool": tool, "agent": agent, "by": by}
        fits = {key: get_name(one) for key, one in wanted.items() if one is not None}
        return lending.list_grants(self._access_store.get_current_state(), fits, None if ended else self._clock.now())

    def uses_left(self, grant: Grant | str) -> int | None:
        """Return how many calls a grant still admits; None: any number."""
        grant_id = grant if isinstance(grant, str) else grant.id
        return lending.get_grant_record(self._access_store.get_current_state(), grant_id).calls_left

    def block(self, tool: Any, agent: Any, *, by: Any = None, reason: str = "") -> Block:
        """Refuse a tool to an agent, whatever permits it; may come before the tool."""
        text, name = check_tool_name(get_name(tool)), check_agent_name(get_name(agent))
        made = Block(tool=text, agent=name, by=resolve_actor(by, "block an agent from", text), reason=reason)
        self._access_store.commit(lambda state: commands.plan_block(state, made))
        return made

    def unblock(self, tool: Any, agent: Any, *, by: Any = None, reason: str = "") -> bool:
        """Lift a block; only who set it or the operator may. False: there was none."""
        text, name = get_name(tool), get_name(agent)
        return self._commit_change(
            "unblock", text, by, lambda state, who: commands.plan_unblock(state, text, name, who, reason)
        )

    def transfer_ownership(self, tool: Any, to: Any, *, by: Any = None, reason: str = "") -> None:
        """Hand a tool over to another owner; the history is kept."""
        text, name = get_name(tool), check_agent_name(get_name(to))
        self._commit_change(
            "transfer", text, by, lambda state, who: commands.plan_transfer(state, text, name, who, reason)
        )

    def share_tool(self, tool: Any, *, by: Any = None, reason: str = "") -> None:
        """Let every agent with `auto_discover_tools` call a tool."""
        text = get_name(tool)
        self._commit_change("share", text, by, lambda state, who: commands.plan_share(state, text, who, reason))

    def unshare_tool(self, tool: Any, *, by: Any = None, reason: str = "") -> None:
        """Share a tool no more."""
        text = get_name(tool)
        self._commit_change("unshare", text, by, lambda state, who: commands.plan_unshare(state, text, who, reason))

    def disable(self, name: Any = None, *, by: Any = None, reason: str = "", **target: Unpack[SwitchTarget]) -> None:
        """Switch off a tool, namespace, category or tag, for everybody."""
        self._set_enabled(False, name, by, reason, target)

    def enable(self, name: Any = None, *, by: Any = None, reason: str = "", **target: Unpack[SwitchTarget]) -> None:
        """Switch a tool, namespace, category or tag on again."""
        self._set_enabled(True, name, by, reason, target)

    def _set_enabled(self, on: bool, name: Any, by: Any, reason: str, target: SwitchTarget) -> None:
        text = None if name is None else get_name(name)
        self._commit_change("enable" if on else "disable", text, by, lambda state, who: commands.plan_switch(
            state, on, text, target, who, reason))  # fmt: skip

    def configure(self, tool: Any, *, by: Any = None, reason: str = "", **changes: Unpack[ToolFields]) -> None:
        """Override fields of a tool's metadata, for tools that others wrote; an unknown field is an error."""
        text = get_name(tool)
        self._commit_change(
            "configure", text, by, lambda state, who: commands.plan_configuration(state, text, changes, who, reason)
        )

    @property
    def limits(self) -> Limits:
        """How often and how many at once: limits per agent, tool, or both."""
        return self._runtime.limits

    @property
    def approvals(self) -> Approvals:
        """The calls that wait for a person, and the answers."""
        return self._runtime.approvals

    def set_approval_handler(self, handler: ApprovalHandler | None) -> None:
        """
        Have *handler* asked whenever a call needs an approval; None: such calls wait in `approvals`.

        It gets an `ApprovalRequest`, sync or async, and answers `Allow` or `Deny`; everything else is a no.
        """
        commands.require_operator(resolve_actor(None, "set the approval handler"), "set the approval handler")
        self._runtime.approvals.handler = handler

    def add_policy(
        self, policy: Callable[..., Any], *, name: str | None = None, by: Any = None
    ) -> Callable[[], object]:
        """
        Ask *policy* at every call; it may refuse or ask for an approval, never allow more.

        It is called with agent, tool and the JSON arguments, and answers None, a text or `Deny` (refused), or `Ask`.
        One that raises refuses. It acts in its own name, `policy:…`. Returns what removes it.
        """
        return assignment.add_policy(self._access_store, policy, name, by)

    # ── agents ───────────────────────────────────────────────────────────────────────────────────

    def agent(self, name: str | Agent) -> Agent:
        """Return a handle on an agent, declared or not."""
        if isinstance(name, Agent):
            return name
        return self._declared_agents.get(name) or Agent.handle(self, Principal(check_agent_name(name)))

    @property
    def agents(self) -> list[str]:
        """The names of the declared agents, sorted."""
        return sorted(
            name
            for name, one in self._access_store.get_current_state().profiles.items()
            if one.declared and not one.retired
        )

    def retire_agent(self, agent: str | Agent, *, by: Any = None, reason: str = "") -> None:
        """End an agent: its grants end, its tools stay, and it can call nothing until declared again."""
        name = check_agent_name(get_name(agent))
        self._commit_change(
            f"retire the agent {name!r}",
            None,
            by,
            lambda state, who: commands.plan_retirement(state, name, who, reason),
        )

    def toolset(self, agent: str | Agent) -> Toolset:
        """Return the agent's tools: an ordered, live, read-only mapping."""
        return self._dispatcher.get_agent_toolset(agent)

    def explain(self, agent: str | Agent, tool: str | Tool[..., Any], arguments: Any = None) -> Decision:
        """
        Say whether an agent may call a tool, by which rule, and what every rule says; spends and records nothing.

        With *arguments*, given as to a call, whether it may call it with those.
        """
        return self._dispatcher.get_agent_toolset(agent).explain(get_name(tool), arguments)

    def problems(self) -> list[RegistryProblem]:
        """Return what is most likely a mistake: dangling names, orphans, changed definitions."""
        return find_problems(self._access_store.get_current_state(), self._clock.now())

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def execute(self, tool_call_id: ToolCall | str, tool_name: str = "", arguments: Any = None) -> ToolResult:
        """
        Run a call; never raises for the tool's sake, every failure is a result.

        `execute(tool_call_id, tool_name, arguments)` speaks for the operator, and inside of an agent for that agent.
        """
        return self._dispatcher.execute(tool_call_id, tool_name, arguments)

    async def aexecute(self, tool_call_id: ToolCall | str, tool_name: str = "", arguments: Any = None) -> ToolResult:
        """Run a call from async code; every failure is a result."""
        return await self._dispatcher.aexecute(tool_call_id, tool_name, arguments)

    def execute_tool(self, name: str | Tool[..., Any], /, **arguments: Any) -> Any:
        """Call a tool as the operator, or inside of an agent as that agent; returns its value or raises."""
        return self._dispatcher.call_tool(get_name(name), arguments)

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side; results in call order; errors of the journal are raised once all have ended."""
        return run_batch(self._runtime, [(one, self._dispatcher.execute) for one in calls], max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await run_batch_async(self._runtime, [(one, self._dispatcher.aexecute) for one in calls], max_parallel)

    # ── the registry as a whole ──────────────────────────────────────────────────────────────────

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call *callback*, as the operator, with every event once it counts; returns what ends it."""
        commands.require_operator(resolve_actor(None, "subscribe"), "subscribe")
        return self._access_store.subscribe(callback, self._runtime.as_operator)

    def change(self) -> AbstractContextManager[None]:
        """Make several changes one: published together at the end, none of them if an exception leaves."""
        return self._access_store.change()

    def as_operator(self) -> AbstractContextManager[None]:
        """Act as the operator inside, whoever is running."""
        return self._runtime.as_operator_unless_plugin()

    def fork(self) -> ToolRegistry:
        """Return a registry of its own with the same state, for tests and what-if; costs nothing; the operator's."""
        commands.require_operator(resolve_actor(None, "fork the registry"), "fork the registry")
        made = object.__new__(type(self))
        made._initialize(
            f"{self.name} (fork)", self._clock, self._runtime.options, self._access_store.get_current_state()
        )
        return made

    def drain(self, *, tool: Any = None, agent: Any = None, timeout: float | None = None) -> int:
        """
        Wait until no admitted call is inside, at most *timeout* seconds; returns how many still are.

        From inside of a tool its own call, and those that it was called from, do not count.
        """
        name, who = (None if one is None else get_name(one) for one in (tool, agent))
        return self._runtime.drain(who, name, timeout)

    def close(self) -> None:
        """
        Refuse new calls and changes, wait for those inside, end threads, loop and journal; safe twice.

        Raises:
            ToolUsageError: A loop of this thread runs calls inside: `await aclose()`; or a `change()` is open here.
        """
        commands.require_operator(resolve_actor(None, "close the registry"), "close the registry")
        self._runtime.close()
        self._journal_slot.close()

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


set_registry_factory(ToolRegistry)
