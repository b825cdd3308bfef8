"""The registry: who owns each tool, which agent may call it and why."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from functools import wraps
from typing import Any, Self, TypeVar

from attrs import evolve

from praval_tools import authority, facts
from praval_tools.access import choose, dead, judge, tried
from praval_tools.agents import AgentBase, running_principal
from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import (
    AccessWarning,
    GrantError,
    ToolUsageError,
    UnknownToolError,
    UnknownToolWarning,
)
from praval_tools.execution.batch import batch, batch_async
from praval_tools.execution.executor import Executor, Options
from praval_tools.execution.frames import Frame, Site, actor, running
from praval_tools.formats import exporter
from praval_tools.ledger import Ledger, Subscriber
from praval_tools.model.calls import Outcome, ToolCall, ToolResult
from praval_tools.model.decision import Decision
from praval_tools.model.permissions import AgentProfile, Block, Grant, Principal
from praval_tools.model.tool import Tool, ToolDefinition
from praval_tools.naming import OPERATOR, check_agent_name, check_tool_name, near
from praval_tools.problems import RegistryProblem, problems
from praval_tools.state import State, in_order
from praval_tools.toolset import Toolset

F = TypeVar("F", bound=Callable[..., Any])


def _name(one: Any) -> str:
    return one if isinstance(one, str) else str(getattr(one, "name", one))


class ToolRegistry:
    """
    The catalogue of tools, and who may call them.

    Thread-safe; a change counts from the next call on. Every changing verb takes `by=` and `reason=`:
    left out, `by` is who is running, and outside of any agent the operator. Wherever an agent or a tool
    is asked for, its name or the object will do.

    Args:
        name: For messages.
        strict_arguments: True: arguments are never repaired.
        timeout: Seconds that an async tool may take; None: any.
        retries: Kept for tools that say nothing of their own.
        errors: `masked` hides the messages of unexpected exceptions from models.
        max_result_size: Characters of a result that a model sees.
        engine: Where tools run: `inline`, `thread`; None: chosen by the call.
        refusals: `hide` answers *unknown* for every refusal.
        clock: Time and ids; the machine's by default.
    """

    def __init__(
        self, *, name: str = "default", strict_arguments: bool = False, timeout: float | None = 30, retries: int = 0,
        errors: str = "message", max_result_size: int | None = None, engine: str | None = None,
        refusals: str = "tell", clock: Clock | None = None, _state: State | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self._clock = clock if clock is not None else SystemClock()
        self._options = Options(strict_arguments, timeout, retries, errors, max_result_size, engine, refusals)
        self._ledger = Ledger(name, _state)
        self._executor = Executor(self._ledger, self._clock, self._options, self)
        self._toolsets: dict[Principal, Toolset] = {}

    def __repr__(self) -> str:
        return f"<ToolRegistry {self.name!r}: {len(self)} tools>"

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._ledger.present().tools)

    def __iter__(self) -> Iterator[Tool[..., Any]]:
        return iter(self.list_all_tools())

    def __contains__(self, tool: object) -> bool:
        return isinstance(tool, str | Tool) and _name(tool) in self._ledger.present().tools

    @property
    def state(self) -> State:
        """The present state: immutable, equal to the replay of all events."""
        return self._ledger.state

    # ── tools ────────────────────────────────────────────────────────────────────────────────────

    def register_tool(
        self, tool: Tool[..., Any], *, replace: bool = False, by: Any = None, reason: str = ""
    ) -> None:
        """
        Register *tool*; all or nothing.

        Raises:
            DuplicateToolError: The name, or one whose wire name would clash, is taken; `replace=True` replaces
                in place, another owner's tool only by the operator.
            TypeError: Not a Tool.
        """
        if not isinstance(tool, Tool):
            raise TypeError(f"Expected Tool object, got {type(tool).__name__}; make one with @tool or Tool(…).")
        who = actor(by, "register", tool.name)
        self._ledger.commit(lambda state: authority.register(state, tool, who, replace=replace, reason=reason))

    def register(
        self, tool: Tool[..., Any] | str, function: Callable[..., Any] | None = None,
        definition: ToolDefinition | None = None,
    ) -> None:  # fmt: skip
        """Register a tool, or a function under a name and definition (the PyWorkflow form)."""
        if isinstance(tool, str):
            given: dict[str, Any] = {}
            if definition is not None:
                given = {"description": definition.description, "parameters": definition.parameters}
            tool = Tool(tool, callable=function, **given)
        self.register_tool(tool)

    def tool(self, *args: Any, **metadata: Any) -> Any:
        """Declare a tool in this registry; takes what `praval_tools.tool` takes."""
        return _declare_tool(self, args, metadata)

    def unregister_tool(self, name: str | Tool[..., Any], *, by: Any = None, reason: str = "") -> bool:
        """Take a tool out and end its grants; False: there was none."""
        text = _name(name)
        who = actor(by, "unregister", text)

        def plan(state: State) -> list[facts.Event]:
            if authority.own(state, who, "unregister", text) is None:
                return []
            return [facts.ToolUnregistered(tool=text, by=who, reason=reason)]

        return bool(self._ledger.commit(plan))

    def get_tool(self, name: str) -> Tool[..., Any] | None:
        """Return the tool of this name as it is now; None: there is none."""
        record = self._ledger.present().record(_name(name))
        return None if record is None else record.tool

    def _tools_of(self, names: Iterable[str]) -> list[Tool[..., Any]]:
        state = self._ledger.present()
        return [state.tools[name].tool for name in in_order(state, names)]

    def list_all_tools(self) -> list[Tool[..., Any]]:
        """Return every tool, in registration order."""
        return self._tools_of(self._ledger.present().tools)

    def get_tools_by_category(self, category: str) -> list[Tool[..., Any]]:
        """Return the tools of a category, in registration order."""
        return self._tools_of(self._ledger.present().labelled("category", category))

    def get_shared_tools(self) -> list[Tool[..., Any]]:
        """Return the shared tools, in registration order."""
        return self._tools_of(self._ledger.present().labelled("shared", ""))

    def get_tools_for_agent(self, agent_name: str | AgentBase) -> list[Tool[..., Any]]:
        """Return the tools that the agent may call now, in registration order."""
        return self._callable_tools(self._principal(agent_name))

    def search_tools(
        self, name_pattern: str | None = None, category: str | None = None, owned_by: str | None = None,
        shared_only: bool = False, tags: Iterable[str] | None = None,
    ) -> list[Tool[..., Any]]:  # fmt: skip
        """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
        state = self._ledger.present()
        wanted: list[Collection[str]] = []
        if category:
            wanted.append(state.labelled("category", category))
        if owned_by:
            wanted.append(state.labelled("owner", _name(owned_by)))
        if shared_only:
            wanted.append(state.labelled("shared", ""))
        if tags:
            wanted.append({name for tag in tags for name in state.labelled("tag", tag)})
        names: Iterable[str] = min(wanted, key=len, default=state.tools)
        found = [name for name in names if all(name in one for one in wanted)]
        if name_pattern:
            found = [name for name in found if name_pattern.lower() in name.lower()]
        return self._tools_of(found)

    def get_registry_stats(self) -> dict[str, Any]:
        """Return the counts that Praval's registry gives."""
        state = self._ledger.present()
        categories = {value: len(names) for (kind, value), names in state.labels.items() if kind == "category"}
        owners = {value for kind, value in state.labels if kind == "owner" and value is not None}
        return {
            "total_tools": len(state.tools),
            "shared_tools": len(state.labelled("shared", "")),
            "agents_with_tools": len(owners | set(state.accesses)),
            "categories": len(categories),
            "tools_by_category": dict(sorted(categories.items())),  # type: ignore[type-var]
        }

    def get_tool_definitions(self) -> list[ToolDefinition]:
        """Return name, description and schema of every tool."""
        return [tool.definition for tool in self.list_all_tools()]

    def get_tool_definitions_dict(self) -> list[dict[str, Any]]:
        """Return name, description and schema of every tool as dicts."""
        return [one.to_dict() for one in self.get_tool_definitions()]

    def clear_registry(self, *, by: Any = None, reason: str = "") -> None:
        """Forget every tool, agent, grant and block."""
        who = actor(by, "clear the registry")
        authority.operator_only(who, "clear the registry")
        self._ledger.commit(lambda state: [facts.RegistryCleared(by=who, reason=reason)])
        self._toolsets.clear()

    def replace_source(self, source: str, tools: Iterable[Tool[..., Any]], *, by: Any = None) -> None:
        """Swap all tools of a source (a distribution, a file) for *tools* at once; no call sees a mixture."""
        fresh = {tool.name: tool for tool in tools}
        with self.change():
            state = self._ledger.present()
            for name in in_order(state, state.tools):
                origin = state.tools[name].tool.metadata.source
                if origin is not None and source in (origin.distribution, origin.file) and name not in fresh:
                    self.unregister_tool(name, by=by, reason=f"source {source!r} was replaced")
            for tool in fresh.values():
                self.register_tool(tool, replace=True, by=by)

    # ── who may call ─────────────────────────────────────────────────────────────────────────────

    def assign_tool_to_agent(
        self, tool_name: str | Tool[..., Any], agent_name: str | AgentBase, *, key: str | None = None, by: Any = None,
        reason: str = "", expires: datetime | timedelta | None = None, max_calls: int | None = None,
        where: Mapping[str, Any] | None = None, delegable: bool = False,
    ) -> bool:  # fmt: skip
        """
        Let an agent call a tool; False, with a warning, where there is no such tool or the agent is blocked.

        Args:
            tool_name: The tool.
            agent_name: The agent; it need not be declared.
            key: The same key is the same grant, with what is left of it, revoked or not.
            by: In whose name; left out, who is running.
            reason: Why.
            expires: A time span, or an aware moment.
            max_calls: How many calls it admits.
            where: Bounds on the arguments: parameter to JSON Schema, or a whole JSON Schema.
            delegable: Whether the agent may lend it on, narrower.

        Raises:
            NotOwnerError: *by* is neither operator nor owner nor holder of a delegable grant.
            GrantError: Expiry, count or bounds make no sense.
        """
        text = _name(tool_name)
        if text not in self._ledger.present().tools:
            match = near(text, self._ledger.present().tools)
            hint = f" Did you mean {' or '.join(map(repr, match))}?" if match else ""
            warnings.warn(f"Tool {text!r} not found; nothing was assigned.{hint}", UnknownToolWarning, stacklevel=2)
            return False
        try:
            made = self._grant(
                text, agent_name, by, key=key, reason=reason, expires=expires, max_calls=max_calls, where=where,
                delegable=delegable,
            )  # fmt: skip
        except authority.Blocked as blocked:
            warnings.warn(blocked.message, AccessWarning, stacklevel=2)
            return False
        record = self._ledger.present().grant(made.id)
        return record is not None and not dead(record, self._clock.now())

    def grant(
        self, tool: str | Tool[..., Any], to: str | AgentBase, *, key: str | None = None, by: Any = None,
        reason: str = "", expires: datetime | timedelta | None = None, max_calls: int | None = None,
        where: Mapping[str, Any] | None = None, delegable: bool = False,
    ) -> Grant:  # fmt: skip
        """Like `assign_tool_to_agent`, but returns the grant, and an unknown tool is an `UnknownToolError`."""
        try:
            return self._grant(
                _name(tool), to, by, key=key, reason=reason, expires=expires, max_calls=max_calls, where=where,
                delegable=delegable,
            )  # fmt: skip
        except authority.Blocked as blocked:
            raise GrantError(_name(tool), [blocked.message]) from None

    def _grant(self, tool: str, to: Any, by: Any, **wish: Any) -> Grant:
        who, now = actor(by, "lend", tool), self._clock.now()
        wanted = authority.Wish(tool=tool, agent=check_agent_name(_name(to)), **wish)
        new_id = self._clock.new_id()
        made: list[Any] = []

        def plan(state: State) -> list[facts.Event]:
            events, grant, warning = authority.grant(state, wanted, who, now, new_id)
            made[:] = [grant, warning]
            return events

        self._ledger.commit(plan)
        grant, warning = made
        if warning:
            warnings.warn(warning, AccessWarning, stacklevel=4)
        return grant  # type: ignore[no-any-return]

    def remove_tool_from_agent(
        self, tool_name: str | Tool[..., Any], agent_name: str | AgentBase, *, by: Any = None, reason: str = ""
    ) -> bool:
        """
        Take a tool from an agent: its grants, and for the operator its other ways too, until given back.

        Returns:
            False where the agent could not call it before.
        """
        tool, agent = _name(tool_name), _name(agent_name)
        who, now = actor(by, "remove", tool), self._clock.now()
        could: list[bool] = []

        def plan(state: State) -> list[facts.Event]:
            could[:] = [judge(state, Principal(agent), tool, now).decision.allowed]
            return authority.remove(state, tool, agent, who, reason)

        self._ledger.commit(plan)
        return could[0]

    def revoke(self, grant: Grant | str, *, by: Any = None, reason: str = "") -> bool:
        """End a grant and all that came from it; False: it had ended."""
        grant_id = grant if isinstance(grant, str) else grant.id
        who = actor(by, "revoke")
        return bool(self._ledger.commit(lambda state: authority.revoke(state, grant_id, who, reason)))

    def grants(
        self, tool: Any = None, agent: Any = None, by: Any = None, ended: bool = False
    ) -> list[Grant]:
        """Return the live grants, or with *ended* those too that are over; the oldest first."""
        state, now = self._ledger.present(), self._clock.now()
        wanted = {"tool": tool, "agent": agent, "by": by}
        fits = {key: _name(one) for key, one in wanted.items() if one is not None}
        found = sorted(state.grants.values(), key=lambda one: one.seq)
        return [
            one.grant for one in found
            if (ended or not dead(one, now)) and all(getattr(one.grant, key) == value for key, value in fits.items())
        ]  # fmt: skip

    def uses_left(self, grant: Grant | str) -> int | None:
        """Return how many calls a grant still admits; None: any number."""
        record = self._ledger.present().grant(grant if isinstance(grant, str) else grant.id)
        return None if record is None else record.left

    def block(self, tool: Any, agent: Any, *, by: Any = None, reason: str = "") -> Block:
        """Refuse a tool to an agent, whatever permits it; may come before the tool."""
        text, name = check_tool_name(_name(tool)), check_agent_name(_name(agent))
        who = actor(by, "block an agent from", text)
        made: list[Block] = []

        def plan(state: State) -> list[facts.Event]:
            events, block = authority.block(state, text, name, who, reason)
            made[:] = [block]
            return events

        self._ledger.commit(plan)
        return made[0]

    def unblock(self, tool: Any, agent: Any, *, by: Any = None, reason: str = "") -> bool:
        """Lift a block; only who set it or the operator may. False: there was none."""
        text, name = _name(tool), _name(agent)
        who = actor(by, "unblock", text)
        return bool(self._ledger.commit(lambda state: authority.unblock(state, text, name, who, reason)))

    def transfer_ownership(self, tool: Any, to: Any, *, by: Any = None, reason: str = "") -> None:
        """Hand a tool over to another owner; the history is kept."""
        name = check_agent_name(_name(to))
        self._owned(tool, "transfer", by, lambda text, who: facts.OwnershipTransferred(
            tool=text, to=name, by=who, reason=reason))  # fmt: skip

    def share_tool(self, tool: Any, *, by: Any = None, reason: str = "") -> None:
        """Let every agent with `auto_discover_tools` call a tool."""
        self._owned(tool, "share", by, lambda text, who: facts.ToolShared(tool=text, by=who, reason=reason))

    def unshare_tool(self, tool: Any, *, by: Any = None, reason: str = "") -> None:
        """Share a tool no more."""
        self._owned(tool, "unshare", by, lambda text, who: facts.ToolUnshared(tool=text, by=who, reason=reason))

    def _owned(self, tool: Any, verb: str, by: Any, event: Callable[[str, str], facts.Event]) -> None:
        text = _name(tool)
        who = actor(by, verb, text)

        def plan(state: State) -> list[facts.Event]:
            authority.own(state, who, verb, text)
            authority.known(state, text)
            return [event(text, who)]

        self._ledger.commit(plan)

    def disable(
        self, name: Any = None, *, tool: Any = None, namespace: str | None = None, category: str | None = None,
        tag: str | None = None, reason: str = "", by: Any = None,
    ) -> None:  # fmt: skip
        """Switch off a tool, namespace, category or tag, for everybody."""
        self._switch(name, tool, namespace, category, tag, by, facts.ToolDisabled, reason)

    def enable(
        self, name: Any = None, *, tool: Any = None, namespace: str | None = None, category: str | None = None,
        tag: str | None = None, reason: str = "", by: Any = None,
    ) -> None:  # fmt: skip
        """Switch a tool, namespace, category or tag on again."""
        self._switch(name, tool, namespace, category, tag, by, facts.ToolEnabled, reason)

    def _switch(
        self, name: Any, tool: Any, namespace: Any, category: Any, tag: Any, by: Any, kind: Any, reason: str
    ) -> None:
        given = {"tool": tool if tool is None else _name(tool), "namespace": namespace, "category": category,
                 "tag": tag}  # fmt: skip
        off = kind is facts.ToolEnabled
        who = actor(by, "enable" if off else "disable", name if name is None else _name(name))
        authority.operator_only(who, "enable" if off else "disable", name if name is None else _name(name))

        def plan(state: State) -> list[facts.Event]:
            what, text = authority.target(state, name if name is None else _name(name), given, off)
            return [kind(kind=what, name=text, by=who, reason=reason)]

        self._ledger.commit(plan)

    def configure(self, tool: Any, *, by: Any = None, reason: str = "", **changes: Any) -> None:
        """Override fields of a tool's metadata, for tools that others wrote; an unknown field is an error."""
        text = _name(tool)
        who = actor(by, "configure", text)
        authority.operator_only(who, "configure", text)
        fixed = {"tool_name", "owned_by", "shared", "parameters", "return_type", "source"} & set(changes)
        if fixed:
            raise ToolUsageError(f"configure cannot set {', '.join(sorted(fixed))}; there are verbs for that.")

        def plan(state: State) -> list[facts.Event]:
            record = authority.known(state, text)
            _checked_fields(changes)
            record.tool.metadata.replace(**changes)
            return [facts.ToolConfigured(tool=text, changes=dict(changes), by=who, reason=reason)]

        self._ledger.commit(plan)

    def add_policy(
        self, policy: Callable[..., Any], *, name: str | None = None, by: Any = None
    ) -> Callable[[], None]:
        """
        Ask *policy* at every call; it may refuse or ask for an approval, never allow more.

        It is called with agent, tool and the JSON arguments, and answers None, a text or `Deny` (refused), or `Ask`.
        One that raises refuses. It acts in its own name, `policy:…`.

        Returns:
            What removes it.
        """
        who = actor(by, "add a policy")
        authority.operator_only(who, "add a policy")
        import_name = name or getattr(policy, "__name__", type(policy).__name__)
        label = f"policy:{import_name}"

        def plan(state: State) -> list[facts.Event]:
            taken = {one.name for one in state.policies}
            full = label if label not in taken else f"{label}#{self._clock.new_id()[:8]}"
            added[:] = [full]
            return [facts.PolicyAdded(name=full, policy=policy, by=who)]

        added: list[str] = []
        self._ledger.commit(plan)
        return lambda: self._drop_policy(added[0])

    def _drop_policy(self, name: str) -> None:
        who = actor(None, "remove a policy")
        authority.operator_only(who, "remove a policy")
        self._ledger.commit(lambda state: [facts.PolicyRemoved(name=name, by=who)])

    # ── agents ───────────────────────────────────────────────────────────────────────────────────

    def agent(self, name: str | AgentBase) -> AgentBase:
        """Return a handle on an agent, declared or not."""
        if isinstance(name, AgentBase):
            return name
        return AgentBase(self, Principal(check_agent_name(name)))

    @property
    def agents(self) -> list[str]:
        """The names of the declared agents, sorted."""
        return sorted(name for name, one in self._ledger.present().agents.items() if one.declared and not one.retired)

    def retire_agent(self, agent: str | AgentBase, *, by: Any = None, reason: str = "") -> None:
        """End an agent: its grants end, its tools stay, and it can call nothing until declared again."""
        name = check_agent_name(_name(agent))
        who = actor(by, f"retire the agent {name!r}")
        authority.operator_only(who, f"retire the agent {name!r}")
        self._ledger.commit(lambda state: [facts.AgentRetired(agent=name, by=who, reason=reason)])

    def toolset(self, agent: str | AgentBase) -> Toolset:
        """Return the agent's tools: an ordered, live, read-only mapping."""
        return self._toolset(self._principal(agent))

    def schemas(self, agent: str | AgentBase, api_format: str = "openai-chat") -> list[dict[str, Any]]:
        """Return the agent's tools in a provider's format."""
        return self.toolset(agent).schemas(api_format)

    def explain(
        self, agent: str | AgentBase, tool: str | Tool[..., Any], arguments: Mapping[str, Any] | None = None
    ) -> Decision:
        """Say whether an agent may call a tool, by which rule, and what every rule says; spends and records nothing."""
        return self._explain(self._principal(agent), _name(tool), arguments)

    def problems(self) -> list[RegistryProblem]:
        """Return what is most likely a mistake: dangling names, orphans, changed definitions."""
        return problems(self._ledger.present())

    def _principal(self, agent: Any) -> Principal:
        return agent._who if isinstance(agent, AgentBase) else Principal(_name(agent))

    def _toolset(self, who: Principal) -> Toolset:
        found = self._toolsets.get(who)
        if found is None:
            if len(self._toolsets) > 16_384:
                self._toolsets.clear()
            found = self._toolsets[who] = Toolset(self, self._executor, who)
        return found

    def _callable_tools(self, who: Principal) -> list[Tool[..., Any]]:
        state, now = self._ledger.present(), self._clock.now()
        names: set[str] = set()
        member: Principal | None = who
        while member is not None:
            names.update(state.candidates(member.agent))
            member = member.delegation.parent if member.delegation is not None else None
        verdicts = (judge(state, who, name, now) for name in in_order(state, names))
        return [one.record.tool for one in verdicts if one.refusal is None and one.record is not None]

    def _callable_names(self, who: Principal) -> list[str]:
        return [tool.name for tool in self._callable_tools(who)]

    def _callable_tool(self, who: Principal, name: str) -> Tool[..., Any] | None:
        verdict = judge(self._ledger.present(), who, name, self._clock.now())
        return None if verdict.refusal is not None or verdict.record is None else verdict.record.tool

    def _explain(self, who: Principal, tool: str, arguments: Mapping[str, Any] | None) -> Decision:
        state, now = self._ledger.present(), self._clock.now()
        verdict = judge(state, who, tool, now)
        decision = verdict.decision
        if verdict.record is not None and verdict.refusal is None and arguments is not None:
            definition = verdict.record.tool.definition_
            bound = definition.bind(dict(arguments))
            _, decision = choose(verdict, bound.arguments, lambda: definition.filled(bound))
        if verdict.record is None and who.agent in state.tools and tool in state.agents:
            remedy = f"{who.agent!r} is a tool and {tool!r} an agent: swap the two, explain(agent, tool)."
            decision = evolve(decision, remedy=remedy)
        return evolve(decision, tried=tried(state, who, tool, now, decision))

    def _export(self, who: Principal, api_format: str) -> tuple[list[dict[str, Any]], bool]:
        """Return the tools in a format, sorted by name, and whether only a change of state can alter them."""
        export, state, now = exporter(api_format), self._ledger.present(), self._clock.now()
        made, lasting = [], True
        for tool in sorted(self._callable_tools(who), key=lambda one: one.name):
            verdict = judge(state, who, tool.name, now)
            parameters = tool.parameters
            if len(verdict.paths) == 1:
                for bounds in verdict.paths[0].bounds:
                    parameters = bounds.merged(parameters)
            lasting = lasting and any(path.lasting for path in verdict.paths)
            made.append(export(tool.name, tool.description, parameters, tool.metadata))
        return made, lasting

    # ── what agents' methods ask for ─────────────────────────────────────────────────────────────

    def _declare(self, profile: AgentProfile, given: Iterable[Any], same_place: Callable[[AgentProfile], bool]) -> None:
        """Declare an agent and register what its list brings, all or nothing."""
        who = actor(None, f"declare the agent {profile.name!r}")
        with self.change():
            names = [self._brought(profile.name, one) for one in given]
            full = evolve(profile, tools=tuple(dict.fromkeys(names)))
            self._ledger.commit(
                lambda state: authority.declare(state, full, who, same_place(state.profile(profile.name)))
            )

    def _brought(self, agent: str, one: Any) -> str:
        """Return the name of what an agent lists, registering an object that is in no registry."""
        if isinstance(one, str):
            return check_tool_name(one)
        if not isinstance(one, Tool):
            if not callable(one) or isinstance(one, type):
                raise TypeError(f"Expected Tool object, a function or a name, got {type(one).__name__}.")
            one = self._known_function(one) or Tool.from_function(one, owned_by=agent)
        held = self._ledger.present().record(one.name)
        if held is None or held.tool.definition_ is not one.definition_:
            self.register_tool(one)
        return str(one.name)

    def _known_function(self, function: Any) -> Tool[..., Any] | None:
        record = self._ledger.present().record(getattr(function, "__name__", ""))
        return record.tool if record is not None and record.tool.definition_.function is function else None

    def _add_tool(self, agent: str, tool: Any) -> None:
        if isinstance(tool, str) and tool not in self._ledger.present().tools:
            raise UnknownToolError(tool, near(tool, self._ledger.present().tools))
        with self.change():
            fresh = not isinstance(tool, str | Tool) and self._known_function(tool) is None
            name = self._brought(agent, tool)
            state = self._ledger.present()
            if fresh and not state.access(agent, name).removed:
                self._list(agent, name)
                return
            verdict = judge(state, Principal(agent), name, self._clock.now())
            if not verdict.paths or not verdict.paths[0].lasting:
                self.assign_tool_to_agent(name, agent)

    def _add_own(self, agent: str, tool: Tool[..., Any]) -> None:
        with self.change():
            self.register_tool(tool)
            self._list(agent, tool.name)

    def _list(self, agent: str, tool: str) -> None:
        who = actor(None, "list", tool)
        self._ledger.commit(lambda state: [facts.ToolListed(tool=tool, agent=agent, by=who)])

    # ── calls ────────────────────────────────────────────────────────────────────────────────────

    def execute(self, call: ToolCall | str, tool_name: str = "", arguments: Any = None) -> ToolResult:
        """
        Run a call; never raises for the tool's sake, every failure is a result.

        `execute(tool_call_id, tool_name, arguments)` speaks for the operator, and inside of an agent for that agent.
        """
        if isinstance(call, ToolCall):
            return self._of_call(call)
        who = running_principal(self)
        return self._executor.execute(self._call(call, tool_name, arguments, who), who)

    async def aexecute(self, call: ToolCall | str, tool_name: str = "", arguments: Any = None) -> ToolResult:
        """Run a call from async code; every failure is a result."""
        if isinstance(call, ToolCall):
            if call.agent is None:
                return self._nobody(call)
            return await self._executor.aexecute(call, self._caller(call.agent))
        who = running_principal(self)
        return await self._executor.aexecute(self._call(call, tool_name, arguments, who), who)

    def _call(self, call_id: str, name: str, arguments: Any, who: Principal | None) -> ToolCall:
        return ToolCall(call_id, name, arguments, who.agent if who else None, None, who.chain if who else ())

    def _of_call(self, call: ToolCall) -> ToolResult:
        if call.agent is None:
            return self._nobody(call)
        who = self._caller(call.agent)
        return self._executor.execute(call, who, self._toolset(who)._lanes)

    def _caller(self, agent: str) -> Principal:
        running_ = running_principal(self)
        return running_ if running_ is not None and running_.agent == agent else Principal(agent)

    def _nobody(self, call: ToolCall) -> ToolResult:
        decision = Decision(False, "forbidden", "no-agent", None, str(call.name), "The call names no agent.",
                            "Pass agent=…, or call through an agent's toolset.")  # fmt: skip
        return ToolResult(call.tool_call_id, str(call.name), None, Outcome.FORBIDDEN, None,
                          "A call without an agent is forbidden.", "forbidden", decision=decision)  # fmt: skip

    def execute_tool(self, name: str, /, **arguments: Any) -> Any:
        """Call a tool as the operator, or inside of an agent as that agent; returns its value or raises."""
        who = running_principal(self)
        if who is not None:
            return self._toolset(who).call(name, **arguments)
        result = self._executor.run(ToolCall(None, name, arguments), None)
        if not result.success:
            from praval_tools.execution.failures import raised

            raise raised(result)
        return result.result

    def execute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side; results in call order, one failure never touches its neighbours."""
        return batch(self._executor, [(one, self._of_call) for one in calls], max_parallel)

    async def aexecute_batch(self, calls: Iterable[ToolCall], max_parallel: int | None = None) -> list[ToolResult]:
        """Run calls side by side from async code."""
        return await batch_async(self._executor, [(one, self.aexecute) for one in calls], max_parallel)

    # ── the registry as a whole ──────────────────────────────────────────────────────────────────

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call *callback* with every event after it counts; returns what ends that."""
        return self._ledger.subscribe(callback)

    def change(self) -> AbstractContextManager[None]:
        """Make several changes one: published together at the end, none of them if an exception leaves."""
        return self._ledger.change()

    @contextmanager
    def as_operator(self) -> Iterator[None]:
        """Act as the operator inside, whoever is running."""
        with running(Frame(Site(self, None, OPERATOR))):
            yield

    def fork(self) -> ToolRegistry:
        """Return a registry of its own with the same state, for tests and what-if; costs nothing."""
        made = ToolRegistry(name=f"{self.name} (fork)", clock=self._clock, _state=self._ledger.present())
        made._options = made._executor.options = self._options
        return made

    def drain(self, tool: Any = None, agent: Any = None, timeout: float | None = None) -> int:
        """Wait until no admitted call is inside, at most *timeout* seconds; returns how many still are."""
        name, who = (None if one is None else _name(one) for one in (tool, agent))
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = threading.Event()
        while (left := self._executor.gauges.inside(who, name)) and (deadline is None or time.monotonic() < deadline):
            pause.wait(0.001)
        return left

    def close(self) -> None:
        """Refuse new calls and changes, wait for those inside, end threads and loop; safe twice."""
        if self._ledger.closed:
            return
        self._ledger.closed = True
        self._ledger.renew()
        self.drain(timeout=self._options.timeout)
        self._executor.close()

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


def _checked_fields(changes: Mapping[str, Any]) -> None:
    from praval_tools.model.metadata import unknown_fields

    wrong = unknown_fields(changes)
    if wrong:
        raise ToolUsageError("; ".join(wrong))


def _declare_tool(registry: ToolRegistry | None, args: tuple[Any, ...], metadata: dict[str, Any]) -> Any:
    """Serve every spelling of `@tool`."""
    if len(args) > 1:
        raise ToolUsageError("@tool takes one positional argument: the tool's name, or the function.")
    first = args[0] if args else None
    spelled = [metadata.pop(key) for key in ("tool_name", "name") if key in metadata]
    if first is not None and not isinstance(first, str):
        return _make_tool(registry, first, spelled[0] if spelled else None, metadata)
    names = {one for one in (first, *spelled) if one is not None}
    if len(names) > 1:
        raise ToolUsageError(f"@tool was given {len(names)} names: {', '.join(sorted(map(repr, names)))}.")
    name = names.pop() if names else None
    return lambda function: _make_tool(registry, function, name, dict(metadata))


def _make_tool(registry: ToolRegistry | None, function: Any, name: str | None, given: dict[str, Any]) -> Tool[..., Any]:
    register = given.pop("register", True)
    chosen = given.pop("registry", None) or registry
    if isinstance(function, Tool):
        function = function.function
    replace = given.pop("replace", False)
    made: Tool[..., Any] = Tool.from_function(function, name=name, **given)
    if register:
        (chosen if chosen is not None else get_tool_registry()).register_tool(made, replace=replace)
    return made


# ── the default registry ─────────────────────────────────────────────────────────────────────────

_default: list[ToolRegistry] = []
_default_lock = threading.Lock()
_used: ContextVar[ToolRegistry | None] = ContextVar("praval_tools_registry", default=None)


def get_tool_registry() -> ToolRegistry:
    """Return the default registry: the one of `use_registry`, else one for the process."""
    used = _used.get()
    if used is not None:
        return used
    with _default_lock:
        if not _default:
            _default.append(ToolRegistry())
        return _default[0]


get_global_registry = get_tool_registry


def reset_tool_registry() -> None:
    """Let a new default registry follow; whoever holds the old one keeps it."""
    with _default_lock:
        _default.clear()


class use_registry:  # noqa: N801 - a verb, used as context manager and decorator
    """Make *registry* the default one inside a `with` block or a decorated function."""

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry, self._tokens = registry, list[Any]()

    def __enter__(self) -> ToolRegistry:
        self._tokens.append(_used.set(self._registry))
        return self._registry

    def __exit__(self, *_: object) -> None:
        _used.reset(self._tokens.pop())

    def __call__(self, function: F) -> F:
        import inspect

        if inspect.iscoroutinefunction(function):

            @wraps(function)
            async def inside(*args: Any, **kwargs: Any) -> Any:
                with use_registry(self._registry):
                    return await function(*args, **kwargs)

        else:

            @wraps(function)
            def inside(*args: Any, **kwargs: Any) -> Any:
                with use_registry(self._registry):
                    return function(*args, **kwargs)

        return inside  # type: ignore[return-value]
