"""Assertions on who may call what, whose failures show every rule that was tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from praval_tools.registry.agents import Agent
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.decision import Decision
from praval_tools.tools.tool import Tool


def assert_can_call(
    agent: str | Agent,
    tool: str | Tool[..., Any],
    arguments: Mapping[str, Any] | None = None,
    *,
    registry: ToolRegistry | None = None,
) -> Decision:
    """
    Assert that *agent* may call *tool*, with *arguments* where they are given; nothing is called or spent.

    Args:
        agent: An agent, or its name.
        tool: A tool, or its name.
        arguments: Checked against the bounds of grants, and against policies.
        registry: Where a name is looked up; by default the agent's own registry, else the default one.

    Returns:
        The decision.
    """
    __tracebackhide__ = True
    decision = _explain(agent, tool, arguments, registry)
    if not decision.allowed:
        raise AssertionError(
            f"{decision.agent!r} cannot call {decision.tool!r}{_format_arguments(arguments)}.\n"
            f"{_format_decision(decision)}"
        )
    return decision


def assert_cannot_call(
    agent: str | Agent,
    tool: str | Tool[..., Any],
    *,
    rule: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    registry: ToolRegistry | None = None,
) -> Decision:
    """
    Assert that *agent* may not call *tool*, and by which rule; a tool that does not exist fails, unless it is meant.

    Args:
        agent: An agent, or its name.
        tool: A tool, or its name.
        rule: The rule that must have decided: "blocked", "no-way", "disabled", "unknown" …; by default any
            but "unknown" and "invalid-arguments", which may be a slip of the test.
        arguments: Checked against the bounds of grants, and against policies.
        registry: Where a name is looked up; by default the agent's own registry, else the default one.

    Returns:
        The decision.
    """
    __tracebackhide__ = True
    decision = _explain(agent, tool, arguments, registry)
    if decision.allowed:
        raise AssertionError(
            f"{decision.agent!r} can call {decision.tool!r}{_format_arguments(arguments)}.\n"
            f"{_format_decision(decision)}"
        )
    if rule is None and decision.rule in _LIKELY_MISTAKES:
        text = f"{_LIKELY_MISTAKES[decision.rule]}; where that is meant, pass rule={decision.rule!r}."
        raise AssertionError(f"{decision.tool!r}: {text}\n{_format_decision(decision)}")
    if rule is not None and decision.rule != rule:
        raise AssertionError(
            f"{decision.agent!r} cannot call {decision.tool!r}, but by rule {decision.rule!r}, not {rule!r}.\n"
            f"{_format_decision(decision)}"
        )
    return decision


_LIKELY_MISTAKES = {"unknown": "there is no tool of this name", "invalid-arguments": "the arguments do not fit"}
"""Rules whose refusal is probably a mistake in the test."""


def _explain(
    agent: str | Agent, tool: str | Tool[..., Any], arguments: Mapping[str, Any] | None, registry: ToolRegistry | None
) -> Decision:
    call_arguments = None if arguments is None else dict(arguments)
    if registry is None and not isinstance(agent, str):
        return agent.explain(tool, call_arguments)
    return (registry or get_tool_registry()).explain(agent, tool, call_arguments)


def _format_arguments(arguments: Mapping[str, Any] | None) -> str:
    return "" if arguments is None else f" with {dict(arguments)!r}"


def _format_decision(decision: Decision) -> str:
    lines = [f"  {decision.outcome} by rule {decision.rule!r}: {decision.reason}"]
    if decision.remedy:
        lines.append(f"  To change it: {decision.remedy}")
    lines.append("  Rules, in order:")
    for tried in decision.tried:
        change = f" (would change with {tried.change})" if tried.change and not tried.holds else ""
        lines.append(f"    {'yes' if tried.holds else 'no ':<3} {tried.rule:<9} {tried.why}{change}")
    return "\n".join(lines)
