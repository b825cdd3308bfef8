"""What is wrong with a registry as it stands: dangling names, orphans, changed definitions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import msgspec

from praval_tools.access import events
from praval_tools.access.records import Principal
from praval_tools.access.restore import explain_pending
from praval_tools.access.rules import ToolRecord, resolve_access
from praval_tools.access.state import AccessState, sort_by_registration
from praval_tools.errors import ToolDefinitionError
from praval_tools.names import shorten_repr, suggest_names
from praval_tools.schema.type_handler import JsonSchema
from praval_tools.tools.compatibility import compare
from praval_tools.tools.metadata import ToolMetadata


class RegistryProblem(msgspec.Struct, frozen=True):
    """
    Something that is most likely a mistake.

    Args:
        kind: Stable: `unknown-tool`, `unknown-category`, `no-owner`, `unreachable`, `breaking-change`, `definition`,
            `renamed`, `act-beats-declaration`, `act-waits`.
        subject: The agent or tool that it is about.
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
    """Return every problem: agents by name first, tools in registration order, and acts that the journal keeps."""
    return [*_iter_agent_problems(state), *_iter_tool_problems(state, now), *_iter_stored_change_problems(state)]


def _iter_agent_problems(state: AccessState) -> Iterator[RegistryProblem]:
    categories = sorted(value for kind, value in state.tools_by_label if kind == "category" and value)
    for name in sorted(state.profiles):
        profile = state.profiles[name]
        for tool in profile.tools:
            if tool not in state.tools:
                yield _make_unknown_tool_problem(state, name, tool, "lists")
        for category in profile.tool_categories:
            if category not in categories:
                yield RegistryProblem(
                    "unknown-category", name, f"Agent {name!r} requests category {category!r}, which no tool has.",
                    suggest_names(category, categories, "Did you mean ") or "Declare a tool of that category, or check the spelling.",
                )  # fmt: skip
    for tool in sorted(state.agents_by_tool):
        if tool not in state.tools:
            for agent in sorted(state.agents_by_tool[tool]):
                access = state.get_access(agent, tool)
                if access.blocks or access.removed:
                    yield _make_unknown_tool_problem(
                        state, agent, tool, "is blocked from" if access.blocks else "has lost"
                    )


def _make_unknown_tool_problem(state: AccessState, agent: str, tool: str, verb: str) -> RegistryProblem:
    return RegistryProblem(
        "unknown-tool", agent, f"Agent {agent!r} {verb} tool {tool!r}, which is not registered.",
        suggest_names(tool, state.tools, "Did you mean ") or "Register the tool, or check the spelling.",
    )  # fmt: skip


def _iter_tool_problems(state: AccessState, now: datetime) -> Iterator[RegistryProblem]:
    declared = [name for name, profile in state.profiles.items() if profile.declared and not profile.retired]
    asking = _group_agents_by_request(state)
    for name in sort_by_registration(state, state.tools):
        record = state.tools[name]
        owner = record.tool.metadata.owned_by
        installed = owner is not None and owner.startswith("plugin:")  # not granted yet, which is no mistake
        if owner is not None and owner not in declared and not installed:
            retired = owner in state.profiles and state.profiles[owner].retired
            said = "is retired: the tool is without an owner" if retired else "is no declared agent"
            yield RegistryProblem(
                "no-owner", name, f"Tool {name!r} is owned by {owner!r}, which {said}.",
                suggest_names(owner, sorted(declared), "Did you mean ") or f"Declare {owner!r}, or transfer_ownership({name!r}, …).",
            )  # fmt: skip
        if (declared_as := record.tool.metadata.extra.get("declared_as")) is not None:
            yield _make_renamed_problem(name, declared_as)
        enabled = state.find_disabling(record.tool) is None and record.tool.implementation.is_compilable
        if enabled and not installed and not _is_reachable(state, name, asking, now):
            yield RegistryProblem(
                "unreachable", name, f"No agent can call tool {name!r}: {_explain_unreachable(record.tool.metadata)}.",
                f"{'Give it an owner' if owner is None else 'Share it'}, or assign_tool_to_agent({name!r}, …).",
            )  # fmt: skip
        try:
            new = record.tool.implementation.compiled
        except ToolDefinitionError as error:
            yield RegistryProblem("definition", name, str(error), "Mend the definition.")
            continue
        before = record.previous_implementation
        if before is not None and before.is_compilable and compare(before.compiled, new) == "breaking":
            said = _describe_changes(before.compiled.parameters_schema, new.parameters_schema)
            yield RegistryProblem(
                "breaking-change", name, f"Tool {name!r} was replaced by an incompatible one: {said}.",
                "Check those who call it.",
            )  # fmt: skip


def _make_renamed_problem(name: str, declared_as: str) -> RegistryProblem:
    return RegistryProblem(
        "renamed", name,
        f"Tool {declared_as!r} is registered as {name!r}: its own name is not legal here, or differs from another's "
        f"only by case, '-', '_' or '.', which are one on the wire.",
        "Declare it under a name of its own.",
    )  # fmt: skip


def _describe_changes(old: JsonSchema, new: JsonSchema) -> str:
    """Return in a few words what a caller of the old definition meets."""
    mine, theirs = old.get("properties", {}), new.get("properties", {})
    found = (
        ("without", [name for name in mine if name not in theirs]),
        ("now requires", [name for name in new.get("required", ()) if name not in old.get("required", ())]),
        ("other type for", [name for name, one in mine.items() if name in theirs and one != theirs[name]]),
    )
    return "; ".join(f"{what} {', '.join(names)}" for what, names in found if names) or "it gives other results"


def _group_agents_by_request(state: AccessState) -> dict[tuple[str, str], list[str]]:
    """Return which agents list a tool, and which request a category."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, profile in state.profiles.items():
        for kind, labels in (("tool", profile.tools), ("category", profile.tool_categories)):
            for label in labels:
                found.setdefault((kind, label), []).append(name)
    return found


def _is_reachable(state: AccessState, name: str, asking: dict[tuple[str, str], list[str]], now: datetime) -> bool:
    """Tell whether a rule gives the tool to an agent that it names, or, shared, to any agent at all."""
    meta = state.tools[name].tool.metadata
    if meta.shared and not meta.private:
        return True
    listers, requesters = asking.get(("tool", name), []), asking.get(("category", meta.category), [])
    named = [*listers, *requesters, *(state.agents_by_tool.get(name) or ())]
    if meta.owned_by is not None:
        named.append(meta.owned_by)
    return any(resolve_access(state, Principal(one), name, now).refusal is None for one in dict.fromkeys(named))


def _explain_unreachable(meta: ToolMetadata) -> str:
    if meta.private:
        return "it is private, and nobody has a grant"
    owner = "no owner" if meta.owned_by is None else f"its owner {meta.owned_by!r} has no way to it"
    return f"{owner}, not shared, nobody lists or asks"


# ── what was done at run time, and the journal keeps ─────────────────────────────────────────────


def _iter_stored_change_problems(state: AccessState) -> Iterator[RegistryProblem]:
    if not state.revision:  # no journal, or nothing in it
        return
    for name in sorted(state.profiles):
        for tool in state.profiles[name].tools:
            access = state.get_access(name, tool)
            if tool in state.tools and (access.blocks or (access.removed and not access.grants)):
                done, remedy = ("is blocked from it", "unblock") if access.blocks else ("lost it", "assign it again")
                yield RegistryProblem(
                    "act-beats-declaration", name, f"Agent {name!r} lists tool {tool!r}, and {done} at run time.",
                    f"Take it from the list, or {remedy}.",
                )  # fmt: skip
    for name in sort_by_registration(state, state.tools):
        yield from _iter_overridden_declarations(name, state.tools[name])
    for name in sorted(state.stored_changes):
        for act in (state.stored_changes.get(name) or {}).values():
            if (why := explain_pending(state, act)) and not isinstance(act.act, events.GrantRevoked):
                remedy = "Do it again if it is to count here, too." if name in state.tools else "Register the tool."
                if act.kind == "grant":
                    remedy = f"{remedy[:-1]}, or revoke it."
                yield RegistryProblem("act-waits", name, f"{_describe_stored_change(act.act)} waits: {why}.", remedy)


def _iter_overridden_declarations(name: str, record: ToolRecord) -> Iterator[RegistryProblem]:
    for field in ("owned_by", "shared", *dict(record.overrides)):
        declared, now = getattr(record.declared_metadata, field), getattr(record.tool.metadata, field)
        if declared != now:
            yield RegistryProblem(
                "act-beats-declaration", name,
                f"Tool {name!r} is declared with {field}={shorten_repr(declared)}; at run time that became {shorten_repr(now)}.",
                "Declare what is wanted now, or change it back.",
            )  # fmt: skip


def _describe_stored_change(act: Any) -> str:
    if isinstance(act, events.ToolAssigned):
        return f"Grant {act.grant.id!r} of {act.grant.tool!r} to {act.grant.agent!r}"
    return f"{_STORED_CHANGE_TITLES.get(type(act), 'An act')} on tool {act.tool!r}"


_STORED_CHANGE_TITLES: Final[dict[type, str]] = {
    events.OwnershipTransferred: "The transfer", events.ToolShared: "The sharing", events.ToolUnshared: "The unsharing",
    events.ToolConfigured: "The configuration",
}  # fmt: skip
