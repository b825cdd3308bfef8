"""The commands that change what one agent may do with one tool: `assign`, `unassign`, `block`, `unblock`."""

from __future__ import annotations

import json
import os
from datetime import datetime, timedelta
from typing import Final

import click

from praval_tools import Block, Grant, ToolRegistry
from praval_tools.access.grants import plan_removal
from praval_tools.access.permissions import GrantTerms
from praval_tools.cli.change_command import (
    ChangeResult,
    agent_argument,
    change_command,
    check_tool_exists,
    collect_agent_notes,
    make_refusal,
    tool_argument,
)
from praval_tools.cli.common import JsonObject, UsageError
from praval_tools.cli.times import FutureTimeParam, Param, format_time
from praval_tools.errors import GrantError
from praval_tools.names import OPERATOR, format_count
from praval_tools.schema.json_input import parse_typed_json

_WHERE_EXAMPLE: Final = """'{"amount": {"maximum": 100}}'"""


class _JsonObjectParam(Param):
    """A JSON object."""

    name = "json"

    def convert(self, value: str | JsonObject, param: click.Parameter | None, ctx: click.Context | None) -> JsonObject:
        try:
            parsed: object = parse_typed_json(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(f"it is not valid JSON: {error}; write for example {_WHERE_EXAMPLE}.", param, ctx)
        if not isinstance(parsed, dict):
            self.fail(f"it is not a JSON object; write for example {_WHERE_EXAMPLE}.", param, ctx)
        return parsed


# ── assign ───────────────────────────────────────────────────────────────────────────────────────


@change_command(
    "assign",
    tool_argument,
    agent_argument,
    click.option("--expires", metavar="WHEN", type=FutureTimeParam(),
                 help="Until then: 90s, 15m, 2h, 7d, or an ISO time (UTC)."),
    click.option("--max-calls", metavar="N", type=click.IntRange(min=1), help="For at most N calls."),
    click.option("--where", metavar="JSON", type=_JsonObjectParam(),
                 help=f"Bounds: parameter to JSON Schema, as an object, such as {_WHERE_EXAMPLE}."),
    click.option("--key", metavar="KEY", help="The same key is the same grant, with the calls that it has left."),
    click.option("--delegable", is_flag=True, help="The agent may grant it to others, within the same limits."),
)  # fmt: skip
def assign_command(
    registry: ToolRegistry,
    tool: str,
    agent: str,
    *,
    expires: datetime | timedelta | None,
    max_calls: int | None,
    where: JsonObject | None,
    key: str | None,
    delegable: bool,
    reason: str,
) -> ChangeResult:
    """
    Let AGENT call TOOL, permanently or within limits.

    Without --key it is a new grant, which is valid even if the tool was removed from the agent before.
    No grant overrides a block: exit code 3.
    """
    check_tool_exists(registry, tool)
    notes = collect_agent_notes(registry, agent)
    _check_may_be_assigned(registry, tool, agent)
    is_unlimited = expires is None and max_calls is None and where is None
    if key is None and is_unlimited and (grant := _find_unlimited_grant(registry, tool, agent, delegable)):
        return _build_grant_result(f"{agent} has {tool} already, without limits.", grant, changed=False)
    is_known_key = key is not None and (OPERATOR, key) in registry.state.grant_ids_by_key
    terms = GrantTerms(
        key=key if key is not None else f"cli:{os.urandom(8).hex()}",
        reason=reason,
        expires=expires,
        max_calls=max_calls,
        where=where,
        delegable=delegable,
    )
    grant = _create_grant(registry, tool, agent, terms)
    if key is not None and grant not in registry.grants(tool=tool, agent=agent):
        raise make_refusal(f"The grant with key {key!r} has ended. Use another key, or none for a new grant.")
    limits = _format_limits(registry, grant)
    if is_known_key:
        return _build_grant_result(f"The grant with key {key!r} exists already: {limits}.", grant, changed=False)
    decision = registry.explain(agent, tool)
    if not decision.allowed:
        notes += (f"{agent} still cannot call it: {decision.reason}",)
    return _build_grant_result(f"Assigned {tool} to {agent}: {limits}.", grant, notes=notes)


def _check_may_be_assigned(registry: ToolRegistry, tool: str, agent: str) -> None:
    if blocks := registry.state.get_access(agent, tool).blocks:
        fix = f"Unblock it first: unblock({tool!r}, {agent!r})."
        raise make_refusal(f"{agent} is blocked from {tool} {_format_block(blocks[0])}. {fix}")
    if registry.state.get_profile(agent).retired:
        raise make_refusal(f"Agent {agent!r} is retired and can call nothing; declare it again.")


def _find_unlimited_grant(registry: ToolRegistry, tool: str, agent: str, delegable: bool) -> Grant | None:
    for grant in registry.grants(tool=tool, agent=agent, by=OPERATOR):
        is_unlimited = grant.expires is None and grant.max_calls is None and grant.where is None
        if is_unlimited and grant.delegable == delegable:
            return grant
    return None


def _create_grant(registry: ToolRegistry, tool: str, agent: str, terms: GrantTerms) -> Grant:
    try:
        return registry.grant(tool, agent, **terms)
    except GrantError as error:
        if registry.state.get_access(agent, tool).blocks:  # another process has just set it
            raise make_refusal(str(error)) from error
        raise UsageError(str(error)) from error


def _build_grant_result(text: str, grant: Grant, *, changed: bool = True, notes: tuple[str, ...] = ()) -> ChangeResult:
    names = ("id", "key", "expires", "max_calls", "where", "delegable", "reason")
    terms = {name: getattr(grant, name) for name in names}
    terms["expires"] = None if grant.expires is None else grant.expires.isoformat()
    details = {"tool": grant.tool, "agent": grant.agent, "grant": terms}
    return ChangeResult(text=text, changed=changed, details=details, notes=notes)


def _format_limits(registry: ToolRegistry, grant: Grant) -> str:
    calls_left = registry.uses_left(grant)
    limits = (
        "" if calls_left is None else format_count(calls_left, "call"),
        "" if grant.expires is None else f"until {format_time(grant.expires)} UTC",
        "" if grant.where is None else f"where {json.dumps(grant.where)}",
        "delegable" if grant.delegable else "",
    )
    return ", ".join(filter(None, limits)) or "without limits"


# ── unassign, block, unblock ─────────────────────────────────────────────────────────────────────


@change_command("unassign", tool_argument, agent_argument)
def unassign_command(registry: ToolRegistry, tool: str, agent: str, reason: str) -> ChangeResult:
    """Take TOOL from AGENT, whatever gives it access, until it is assigned again."""
    notes = collect_agent_notes(registry, agent)
    check_tool_exists(registry, tool, recorded_for=agent)
    details = {"tool": tool, "agent": agent, "reason": reason}
    if not plan_removal(registry.state, tool, agent, OPERATOR, reason):
        is_removed = registry.state.get_access(agent, tool).removed
        text = f"{tool} was already taken from {agent}." if is_removed else f"There is no {tool} to take from {agent}."
        return ChangeResult(text=text, changed=False, details=details)
    had_access = registry.remove_tool_from_agent(tool, agent, reason=reason)
    text = f"Took {tool} from {agent}."
    if not had_access:
        text = f"{agent} could not call {tool} before either; from now on only an assignment gives it."
    return ChangeResult(text=text, details=details, notes=notes)


@change_command("block", tool_argument, agent_argument)
def block_command(registry: ToolRegistry, tool: str, agent: str, reason: str) -> ChangeResult:
    """Forbid AGENT to call TOOL, whatever else allows it; no grant overrides a block."""
    check_tool_exists(registry, tool, recorded_for=agent)
    notes, details = collect_agent_notes(registry, agent), {"tool": tool, "agent": agent, "reason": reason}
    for block in registry.state.get_access(agent, tool).blocks:
        if block.by == OPERATOR:
            text = f"{agent} is already blocked from {tool} {_format_block(block)}."
            return ChangeResult(text=text, changed=False, details=details)
    registry.block(tool, agent, reason=reason)
    return ChangeResult(text=f"Blocked {agent} from {tool}.", details=details, notes=notes)


def _format_block(block: Block) -> str:
    author = block.person or block.by
    return f"(by {author}: {block.reason})" if block.reason else f"(by {author})"


@change_command("unblock", tool_argument, agent_argument)
def unblock_command(registry: ToolRegistry, tool: str, agent: str, reason: str) -> ChangeResult:
    """Remove every block of AGENT from TOOL."""
    check_tool_exists(registry, tool, recorded_for=agent)
    notes, details = collect_agent_notes(registry, agent), {"tool": tool, "agent": agent, "reason": reason}
    if not registry.unblock(tool, agent, reason=reason):
        return ChangeResult(text=f"{agent} is not blocked from {tool}.", changed=False, details=details, notes=notes)
    return ChangeResult(text=f"Unblocked {agent} from {tool}.", details=details)
