"""Finds likely mistakes in an access state: unknown names, tools that nobody can call, stored changes that wait."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from praval_tools.access import events
from praval_tools.access.queries import has_live_grant, list_undeclared_agents
from praval_tools.access.records import Principal, ToolRecord
from praval_tools.access.redeclaration import describe_redeclaration
from praval_tools.access.restore import explain_pending
from praval_tools.access.rules import list_live_lineage, resolve_access
from praval_tools.access.state import AccessState, sort_by_registration
from praval_tools.errors import ToolDefinitionError
from praval_tools.names import shorten_repr, suggest_names
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.compatibility import compare
from praval_tools.tools.metadata import ToolMetadata


class RegistryProblem(msgspec.Struct, frozen=True):
    """
    Something that is most likely a mistake.

    Args:
        kind: Stable: `unknown-tool`, `unknown-category`, `undeclared-agent`, `no-owner`, `unreachable`,
            `breaking-change`, `definition`, `renamed`, `grant-differs`, `act-beats-declaration`, `act-waits`, `plugin`,
            `mcp-server`, `mcp-tool`, `definition-changed`, `openapi-operation`, `openapi-auth`.
        subject: The agent, tool or plugin that it is about.
        message: One sentence.
        remedy: What to do.
    """

    kind: str
    subject: str
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


def find_problems(state: AccessState, now: datetime) -> list[RegistryProblem]:
    """Return every problem: of agents by name, of tools in registration order, of changes that the journal holds."""
    return [
        *_iter_agent_problems(state),
        *_iter_undeclared_agents(state, now),
        *_iter_tool_problems(state, now),
        *_iter_redeclared_grants(state),
        *_iter_stored_change_problems(state),
    ]


def _iter_agent_problems(state: AccessState) -> Iterator[RegistryProblem]:
    categories = sorted(value for kind, value in state.tools_by_label if kind == "category" and value)
    for name in sorted(state.profiles):
        profile = state.profiles[name]
        for tool in profile.tools:
            if tool not in state.tools:
                yield _make_unknown_tool_problem(state, name, tool, "lists")
        for category in profile.tool_categories:
            if category not in categories:
                message = f"Agent {name!r} requests category {category!r}, which no tool has."
                suggestion = suggest_names(category, categories, "Did you mean ")
                remedy = suggestion or "Declare a tool of that category, or check the spelling."
                yield RegistryProblem("unknown-category", name, message, remedy)
    for tool in sorted(state.agents_by_tool):
        for agent in sorted(state.agents_by_tool[tool]) if tool not in state.tools else ():
            access = state.get_access(agent, tool)
            if access.blocks or access.removed:
                verb = "is blocked from" if access.blocks else "has lost"
                yield _make_unknown_tool_problem(state, agent, tool, verb)


def _iter_undeclared_agents(state: AccessState, now: datetime) -> Iterator[RegistryProblem]:
    """Yield agents that only grants name, and misspelt ones of blocks; an undeclared owner is a problem of its tool."""
    declared = sorted(name for name, profile in state.profiles.items() if profile.declared and not profile.retired)
    for name in list_undeclared_agents(state, now):
        accesses = (state.access_by_agent.get(name) or {}).items()
        held = {tool: access for tool, access in accesses if has_live_grant(state, access, now) and tool in state.tools}
        if tools := sorted(held):
            grants = [grant for tool in tools for grant in held[tool].grants if list_live_lineage(state, grant, now)]
            remedy = suggest_names(name, declared, "Did you mean ") or _write_undeclared_remedy(state, name, grants)
            yield _make_undeclared_agent_problem("A grant of", tools, name, remedy)
    for name in sorted(name for name in state.access_by_agent if name not in state.profiles):
        tools = sorted(tool for tool, access in state.access_by_agent[name].items() if access.blocks)
        if tools and (remedy := suggest_names(name, declared, "Did you mean ")):  # else it may be one to come
            yield _make_undeclared_agent_problem("A block from", tools, name, remedy)


def _write_undeclared_remedy(state: AccessState, name: str, grants: list[str]) -> str:
    if len(grants) == 1:
        record = state.grants[grants[0]]
        if record.stored:
            return f"Declare {name!r}, or revoke the grant: revoke({record.grant.id!r})."
        # the program makes it at each start, with another id
        return f"Declare {name!r}, or take the tool away: remove_tool_from_agent({record.grant.tool!r}, {name!r})."
    return f"Declare {name!r}, or revoke the grants: registry.grants(agent={name!r}) lists them."


def _make_undeclared_agent_problem(what: str, tools: list[str], name: str, remedy: str) -> RegistryProblem:
    message = f"{what} {', '.join(map(repr, tools[:3]))} names agent {name!r}, which is not declared."
    return RegistryProblem("undeclared-agent", name, message, remedy)


def _make_unknown_tool_problem(state: AccessState, agent: str, tool: str, verb: str) -> RegistryProblem:
    message = f"Agent {agent!r} {verb} tool {tool!r}, which is not registered."
    remedy = suggest_names(tool, state.tools, "Did you mean ") or "Register the tool, or check the spelling."
    return RegistryProblem("unknown-tool", agent, message, remedy)


def _iter_tool_problems(state: AccessState, now: datetime) -> Iterator[RegistryProblem]:
    declared = sorted(name for name, profile in state.profiles.items() if profile.declared and not profile.retired)
    agents_by_request = _group_agents_by_request(state)
    for name in sort_by_registration(state, state.tools):
        record = state.tools[name]
        meta = record.tool.metadata
        owner = meta.owned_by
        of_plugin = owner is not None and owner.startswith("plugin:")  # not granted yet, which is not a mistake
        if owner is not None and owner not in declared and not of_plugin:
            yield _make_owner_problem(state, name, owner, declared)
        if (declared_as := meta.extra.get("declared_as")) is not None:
            yield _make_renamed_problem(name, declared_as)
        enabled = state.find_disabled_record(record.tool) is None and record.tool.implementation.is_compilable
        if enabled and not of_plugin and not _is_reachable(state, name, agents_by_request, now):
            remedy = f"{'Give it an owner' if owner is None else 'Share it'}, or assign_tool_to_agent({name!r}, …)."
            message = f"No agent can call tool {name!r}: {_explain_unreachable(meta)}."
            yield RegistryProblem("unreachable", name, message, remedy)
        yield from _iter_definition_problems(name, record)


def _make_owner_problem(state: AccessState, name: str, owner: str, declared: list[str]) -> RegistryProblem:
    is_retired = owner in state.profiles and state.profiles[owner].retired
    state_of_owner = "is retired: the tool is without an owner" if is_retired else "is not a declared agent"
    suggestion = suggest_names(owner, declared, "Did you mean ")
    remedy = suggestion or f"Declare {owner!r}, or transfer_ownership({name!r}, …)."
    return RegistryProblem("no-owner", name, f"Tool {name!r} is owned by {owner!r}, which {state_of_owner}.", remedy)


def _make_renamed_problem(name: str, declared_as: str) -> RegistryProblem:
    message = (
        f"Tool {declared_as!r} is registered as {name!r}: its own name is not legal here, or differs from another's "
        f"only by case, '-', '_' or '.', which are one on the wire."
    )
    return RegistryProblem("renamed", name, message, "Declare it under a name of its own.")


def _iter_definition_problems(name: str, record: ToolRecord) -> Iterator[RegistryProblem]:
    try:
        new = record.tool.implementation.compiled
    except ToolDefinitionError as error:
        yield RegistryProblem("definition", name, str(error), "Correct the definition.")
        return
    before = record.previous_implementation
    if before is not None and before.is_compilable and compare(before.compiled, new) == "breaking":
        changes = _describe_changes(before.compiled.parameters_schema, new.parameters_schema)
        message = f"Tool {name!r} was replaced by an incompatible one: {changes}."
        yield RegistryProblem("breaking-change", name, message, "Check those who call it.")


def _describe_changes(old: JsonSchema, new: JsonSchema) -> str:
    """Return in a few words what a caller of the old definition runs into."""
    before, after = old.get("properties", {}), new.get("properties", {})
    changes = (
        ("without", [name for name in before if name not in after]),
        ("now requires", [name for name in new.get("required", ()) if name not in old.get("required", ())]),
        ("other type for", [name for name, schema in before.items() if name in after and schema != after[name]]),
    )
    return "; ".join(f"{text} {', '.join(names)}" for text, names in changes if names) or "it gives other results"


def _group_agents_by_request(state: AccessState) -> dict[tuple[str, str], list[str]]:
    """Return which agents list a tool, and which request a category."""
    agents: dict[tuple[str, str], list[str]] = {}
    for name, profile in state.profiles.items():
        for kind, labels in (("tool", profile.tools), ("category", profile.tool_categories)):
            for label in labels:
                agents.setdefault((kind, label), []).append(name)
    return agents


def _is_reachable(
    state: AccessState, name: str, agents_by_request: dict[tuple[str, str], list[str]], now: datetime
) -> bool:
    """Tell whether a rule gives the tool to an agent that it names, or, shared, to any agent at all."""
    meta = state.tools[name].tool.metadata
    if meta.shared and not meta.private:
        return True
    requests = (("tool", name), ("category", meta.category))
    agents = [agent for request in requests for agent in agents_by_request.get(request, ())]
    agents += state.agents_by_tool.get(name) or ()
    if meta.owned_by is not None:
        agents.append(meta.owned_by)
    return any(resolve_access(state, Principal(agent), name, now).refusal is None for agent in dict.fromkeys(agents))


def _explain_unreachable(meta: ToolMetadata) -> str:
    if meta.private:
        return "it is private, and nobody has a grant"
    owner = "no owner" if meta.owned_by is None else f"its owner {meta.owned_by!r} may not call it"
    return f"{owner}, not shared, nobody lists or asks"


def _iter_redeclared_grants(state: AccessState) -> Iterator[RegistryProblem]:
    for key in sorted(state.redeclared_keys):
        record, noted = state.find_grant(state.grant_ids_by_key.get(key) or ""), state.redeclared_keys[key]
        if record is None or record.end_reason:
            continue
        message = describe_redeclaration(record.grant, noted)
        remedy = "Declare it as it was made, or with a new key."
        if noted.counts:
            remedy = "Nothing is left to do, unless it was a mistake."
        elif record.stored:
            remedy = f"Declare it as it was made; or with a new key, and revoke this one: revoke({record.grant.id!r})."
        yield RegistryProblem("grant-differs", record.grant.tool, message, remedy)


# ── what was changed at run time, and the journal holds ──────────────────────────────────────────


def _iter_stored_change_problems(state: AccessState) -> Iterator[RegistryProblem]:
    if not state.revision:  # no journal, or nothing in it
        return
    for name in sorted(state.profiles):
        for tool in state.profiles[name].tools:
            access = state.get_access(name, tool)
            if tool in state.tools and (access.blocks or (access.removed and not access.grants)):
                change, method = (
                    ("is blocked from it", "unblock") if access.blocks else ("lost it", "assign_tool_to_agent")
                )
                message = f"Agent {name!r} lists tool {tool!r}, and {change} at run time."
                remedy = f"Take it from the list, or give it back: {method}({tool!r}, {name!r})."
                yield RegistryProblem("act-beats-declaration", name, message, remedy)
    for name in sort_by_registration(state, state.tools):
        yield from _iter_overridden_declarations(name, state.tools[name])
    for name in sorted(state.stored_changes):
        for stored in state.list_stored_changes(name):
            why = explain_pending(state, stored)
            if why and not isinstance(stored.change, events.GrantRevoked):
                remedy = "Do it again if it is to count here, too" if name in state.tools else "Register the tool"
                remedy += f", or revoke it: revoke({stored.key!r})." if stored.kind == "grant" else "."
                message = f"{_describe_stored_change(stored)} waits: {why}."
                yield RegistryProblem("act-waits", name, message, remedy)


def _iter_overridden_declarations(name: str, record: ToolRecord) -> Iterator[RegistryProblem]:
    for field in ("owned_by", "shared", *dict(record.overrides)):
        declared, now = getattr(record.declared_metadata, field), getattr(record.tool.metadata, field)
        if declared != now:
            declaration = f"Tool {name!r} is declared with {field}={shorten_repr(declared)}"
            message = f"{declaration}; at run time that became {shorten_repr(now)}."
            remedy = f"Declare what is wanted now, or change it back{_write_way_back(name, field, declared)}."
            yield RegistryProblem("act-beats-declaration", name, message, remedy)


def _write_way_back(name: str, field: str, declared: object) -> str:
    """Return the call that makes a tool what it is declared to be; empty where no single one does."""
    if field == "shared":
        return f": {'share_tool' if declared else 'unshare_tool'}({name!r})"
    if field == "owned_by" and declared is not None:
        return f": transfer_ownership({name!r}, {declared!r})"
    return ""


_STORED_CHANGE_TITLES: Final = {
    "owner": "The transfer", "shared": "The sharing", "configured": "The configuration",
}  # fmt: skip


def _describe_stored_change(stored: events.StoredChange) -> str:
    change = stored.change
    if isinstance(change, events.ToolAssigned):
        return f"Grant {change.grant.id!r} of {change.grant.tool!r} to {change.grant.agent!r}"
    is_unsharing = isinstance(change, events.ToolUnshared)
    return f"{'The unsharing' if is_unsharing else _STORED_CHANGE_TITLES[stored.kind]} on tool {stored.tool!r}"
