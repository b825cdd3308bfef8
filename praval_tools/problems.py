"""What is wrong with a registry as it stands: dangling names, orphans, changed definitions."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from praval_tools.errors import ToolDefinitionError
from praval_tools.naming import near
from praval_tools.state import State, in_order


@frozen
class RegistryProblem:
    """
    Something that is most likely a mistake.

    Args:
        kind: Stable: `unknown-tool`, `unknown-category`, `no-owner`, `unreachable`, `breaking-change`, `definition`.
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


def problems(state: State) -> list[RegistryProblem]:
    """Return every problem, agents by name first, then tools in registration order."""
    return [*_of_agents(state), *_of_tools(state)]


def _of_agents(state: State) -> Iterator[RegistryProblem]:
    categories = sorted(value for kind, value in state.labels if kind == "category" and value)
    for name in sorted(state.agents):
        profile = state.agents[name]
        for tool in profile.tools:
            if tool not in state.tools:
                yield _dangling(state, name, tool, "lists")
        for category in profile.tool_categories:
            if category not in categories:
                yield RegistryProblem(
                    "unknown-category", name, f"Agent {name!r} requests category {category!r}, which no tool has.",
                    _mean(near(category, categories)) or "Declare a tool of that category, or check the spelling.",
                )  # fmt: skip
    for tool in sorted(state.holders):
        if tool not in state.tools:
            for agent in sorted(state.holders[tool]):
                if state.access(agent, tool).blocks:
                    yield _dangling(state, agent, tool, "is blocked from")


def _dangling(state: State, agent: str, tool: str, verb: str) -> RegistryProblem:
    return RegistryProblem(
        "unknown-tool", agent, f"Agent {agent!r} {verb} tool {tool!r}, which is not registered.",
        _mean(near(tool, state.tools)) or "Register the tool, or check the spelling.",
    )  # fmt: skip


def _mean(names: tuple[str, ...]) -> str:
    return f"Did you mean {' or '.join(map(repr, names))}?" if names else ""


def _of_tools(state: State) -> Iterator[RegistryProblem]:
    declared = [name for name, profile in state.agents.items() if profile.declared and not profile.retired]
    for name in in_order(state, state.tools):
        record = state.tools[name]
        owner = record.tool.metadata.owned_by
        if owner is not None and owner not in declared:
            retired = owner in state.agents and state.agents[owner].retired
            said = "is retired: the tool is without an owner" if retired else "is no declared agent"
            yield RegistryProblem(
                "no-owner", name, f"Tool {name!r} is owned by {owner!r}, which {said}.",
                _mean(near(owner, sorted(declared))) or f"Declare {owner!r}, or transfer_ownership({name!r}, …).",
            )  # fmt: skip
        if owner is None and not _reachable(state, name, declared):
            yield RegistryProblem(
                "unreachable", name, f"No agent can call tool {name!r}: no owner, not shared, nobody lists or asks.",
                f"Give it an owner, share it, or assign_tool_to_agent({name!r}, …).",
            )  # fmt: skip
        if record.breaking:
            yield RegistryProblem(
                "breaking-change", name, f"Tool {name!r} was replaced by an incompatible one: {record.breaking}.",
                "Check those who call it.",
            )  # fmt: skip
        try:
            _ = record.tool.definition_.compiled
        except ToolDefinitionError as error:
            yield RegistryProblem("definition", name, str(error), "Mend the definition.")


def _reachable(state: State, name: str, declared: list[str]) -> bool:
    meta = state.tools[name].tool.metadata
    if meta.shared or any(state.access(agent, name).grants for agent in state.holders.get(name) or ()):
        return True
    return any(
        name in state.agents[agent].tools or meta.category in state.agents[agent].tool_categories for agent in declared
    )
