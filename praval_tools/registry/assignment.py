"""How an agent gets its tools: by grants, and by what its list and `add_tool` bring."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from praval_tools.access import commands, grants
from praval_tools.access import events as facts
from praval_tools.access.permissions import Grant, GrantTerms
from praval_tools.access.records import AgentProfile, Principal
from praval_tools.access.rules import get_end_reason, resolve_access
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore
from praval_tools.errors import (
    AccessWarning,
    GrantError,
    NotOwnerError,
    UnknownToolError,
    UnknownToolWarning,
    get_user_stacklevel,
)
from praval_tools.execution.context import resolve_actor
from praval_tools.names import OPERATOR, check_agent_name, check_tool_name, find_similar_names
from praval_tools.tools.source import Source
from praval_tools.tools.tool import Tool


def assign_tool(registry: Any, tool: str, to: str, by: Any, terms: GrantTerms) -> bool:
    """Grant a tool; False, with a warning, where there is no such tool or the agent is blocked."""
    state = registry._access_store.get_current_state()
    if tool not in state.tools:
        _warn_unknown_tool(tool, find_similar_names(tool, state.tools), "nothing was assigned.")
        return False
    try:
        made = _commit_grant(registry, tool, to, by, terms)
    except grants.AssignmentDeclined as declined:
        warnings.warn(str(declined), AccessWarning, stacklevel=get_user_stacklevel())
        return False
    state = registry._access_store.get_current_state()
    if state.get_profile(to).retired:
        warnings.warn(f"Agent {to!r} is retired and can call nothing; declare it again.", AccessWarning,
                      stacklevel=get_user_stacklevel())  # fmt: skip
        return False
    record = state.find_grant(made.id)
    return record is not None and not get_end_reason(record, registry._clock.now())


def grant_tool(registry: Any, tool: str, to: str, by: Any, terms: GrantTerms) -> Grant:
    """Grant a tool, or raise the error that says why not."""
    try:
        return _commit_grant(registry, tool, to, by, terms)
    except grants.AssignmentDeclined as declined:
        raise GrantError(tool, [str(declined)]) from None


def _commit_grant(registry: Any, tool: str, to: str, by: Any, terms: GrantTerms) -> Grant:
    who, now = resolve_actor(by, verb="lend", tool=tool), registry._clock.now()
    wanted = grants.GrantRequest(tool=tool, agent=check_agent_name(to), **terms)
    new_id = registry._clock.new_id()
    made: list[Any] = []

    def plan_grant(state: AccessState) -> list[facts.AnyStateEvent]:
        events, grant, warning = grants.plan_grant(state, wanted, who, now, new_id)
        made[:] = [grant, warning]
        return events

    registry._access_store.commit(plan_grant)
    grant, warning = made
    if warning:
        warnings.warn(warning, AccessWarning, stacklevel=get_user_stacklevel())
    return grant  # type: ignore[no-any-return]


def remove_tool(registry: Any, tool: str, agent: str, by: Any, reason: str) -> bool:
    """Take a tool from an agent; False: the agent could not call it before."""
    who, now = resolve_actor(by, verb="remove", tool=tool), registry._clock.now()
    could: list[bool] = []

    def plan_removal(state: AccessState) -> list[facts.AnyStateEvent]:
        could[:] = [resolve_access(state, Principal(agent), tool, now).decision.allowed]
        return grants.plan_removal(state, tool, agent, who, reason)

    registry._access_store.commit(plan_removal)
    state = registry._access_store.get_current_state()
    if could[0] and (still := resolve_access(state, Principal(agent), tool, now).decision).allowed:
        text = f"{agent!r} can still call {tool!r}: {still.reason} Only the operator ends that; its owner may block it."
        warnings.warn(text, AccessWarning, stacklevel=get_user_stacklevel())
        return False
    if tool not in state.tools and tool not in state.get_profile(agent).tools:
        _warn_unknown_tool(tool, find_similar_names(tool, state.tools), "it is taken from the agent once there is one.")
    return could[0]


def declare_agent(
    registry: Any, profile: AgentProfile, given: Iterable[Any], same_place: Callable[[AgentProfile], bool]
) -> None:
    """Declare an agent and register what its list brings, all or nothing."""
    staging = registry._runtime.is_staging  # what a plugin declares there is a wish
    who = OPERATOR if staging else resolve_actor(None, verb=f"declare the agent {profile.name!r}")
    with registry.change():
        names = [ensure_registered(registry, profile.name, one) for one in given]
        full = replace(profile, tools=tuple(dict.fromkeys(names)))
        registry._access_store.commit(
            lambda state: commands.plan_agent_declaration(state, full, who, same_place(state.get_profile(profile.name)))
        )


def ensure_registered(registry: Any, agent: str | None, one: Any) -> str:
    """
    Return the name of a tool that is given by name or as object; an object that is in no registry is registered.

    Raises:
        DuplicateToolError: The object's name is taken by another tool.
        TypeError: It is neither a name nor a tool nor a function.
    """
    if isinstance(one, str):
        return check_tool_name(one)
    if not isinstance(one, Tool):
        if not callable(one) or isinstance(one, type):
            raise TypeError(f"Expected Tool object, a function or a name, got {type(one).__name__}.")
        one = _find_registered(registry, one) or Tool.from_function(one, owned_by=agent)
    held = registry._access_store.get_current_state().find_tool_record(one.name)
    if held is None or held.tool.implementation is not one.implementation:
        registry.register_tool(one)
    return str(one.name)


def _find_registered(registry: Any, function: Any) -> Tool[..., Any] | None:
    record = registry._access_store.get_current_state().find_tool_record(getattr(function, "__name__", ""))
    return record.tool if record is not None and record.tool.implementation.function == function else None


def add_tool_to_agent(registry: Any, agent: str, tool: Any) -> None:
    """
    Give *agent* a tool: a function of its own is listed, all else is assigned where nothing else allows it.

    Raises:
        UnknownToolError: No tool of this name.
    """
    if isinstance(tool, str) and tool not in registry._access_store.get_current_state().tools:
        raise UnknownToolError(tool, find_similar_names(tool, registry._access_store.get_current_state().tools))
    with registry.change():
        fresh = not isinstance(tool, str | Tool) and _find_registered(registry, tool) is None
        name = ensure_registered(registry, agent, tool)
        state = registry._access_store.get_current_state()
        if fresh and not state.get_access(agent, name).removed:
            _list_tool(registry, agent, name)
            return
        verdict = resolve_access(state, Principal(agent), name, registry._clock.now())
        if not verdict.paths or not verdict.paths[0].is_unconditional:
            registry.assign_tool_to_agent(name, agent)


def register_own_tool(registry: Any, agent: str, tool: Tool[..., Any]) -> None:
    """Register a tool that *agent* declares, and list it."""
    with registry.change():
        registry.register_tool(tool)
        _list_tool(registry, agent, tool.name)


def resolve_tool_names(registry: Any, tools: Iterable[Any]) -> frozenset[str]:
    """Return the names of *tools*; one that does not exist, yet, warns: nothing else would tell of a misspelling."""
    names = frozenset(str(getattr(one, "name", one)) for one in tools)
    known = registry._access_store.get_current_state().tools
    for name in sorted(name for name in names if name not in known):
        _warn_unknown_tool(name, find_similar_names(name, known), "the delegate cannot call it before there is one.")
    return names


def _warn_unknown_tool(tool: str, match: Iterable[str], effect: str) -> None:
    hint = f" Did you mean {' or '.join(map(repr, match))}?" if match else ""
    warnings.warn(f"Tool {tool!r} not found; {effect}{hint}", UnknownToolWarning, stacklevel=get_user_stacklevel())


def replace_source_tools(registry: Any, source: str, given: Mapping[str, Tool[..., Any]], by: Any) -> None:
    """
    Put *given* in the place of all tools of *source*; no call sees a mixture.

    A tool that does not say that it comes from *source* is marked so, else the next swap would leave it behind.

    Raises:
        DuplicateToolError: A name is taken by a tool that comes from elsewhere.
    """
    fresh = {
        name: tool if _is_from_source(source, tool) else _with_source(source, tool) for name, tool in given.items()
    }
    with registry.change():
        held = [tool.name for tool in registry.list_all_tools() if _is_from_source(source, tool)]
        for name in held:
            if name not in fresh:
                registry.unregister_tool(name, by=by, reason=f"source {source!r} was replaced")
        for name, tool in fresh.items():
            registry.register_tool(tool, replace=name in held, by=by)


def _is_from_source(source: str, tool: Tool[..., Any]) -> bool:
    origin = tool.metadata.source
    return origin is not None and source in (origin.distribution, origin.file)


def _with_source(source: str, tool: Tool[..., Any]) -> Tool[..., Any]:
    return tool.with_metadata(source=replace(tool.metadata.source or Source(), distribution=source))


def _list_tool(registry: Any, agent: str, tool: str) -> None:
    who = resolve_actor(None, verb="list", tool=tool)
    if who not in (OPERATOR, agent):
        raise NotOwnerError(who, f"list for {agent!r} the", tool, None)
    registry._access_store.commit(lambda state: [facts.ToolListed(tool=tool, agent=agent, by=who)])


def add_policy(ledger: StateStore, policy: Callable[..., Any], name: str | None, by: Any) -> Callable[[], object]:
    """Have *policy* asked at every call, under a name of its own; return what ends that."""
    who = resolve_actor(by, "add a policy")
    commands.require_operator(who, "add a policy")
    label = str(name or getattr(policy, "__name__", type(policy).__name__))
    (added,) = ledger.commit(lambda state: [
        facts.PolicyAdded(name=commands.make_policy_name(state, label), policy=policy, by=who)])  # fmt: skip
    full: str = added.name  # type: ignore[union-attr]
    return lambda: ledger.commit(lambda _: commands.plan_policy_removal(full, resolve_actor(None, "remove a policy")))
