"""The commands about one agent and one tool: `assign`, `unassign`, `block`, `unblock`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import click

from praval_tools import Block, Grant, ToolRegistry
from praval_tools.access.permissions import GrantTerms
from praval_tools.cli.changes import (
    ChangeResult,
    agent_argument,
    apply_change,
    change_options,
    check_tool_exists,
    collect_agent_notes,
    make_refusal,
    tool_argument,
)
from praval_tools.cli.common import EXIT_USAGE, CommandError
from praval_tools.cli.times import FutureTimeParam, Param, format_time
from praval_tools.errors import GrantError
from praval_tools.names import OPERATOR

_LIMIT_FIELDS = ("expires", "max_calls", "where")


# ── assign ───────────────────────────────────────────────────────────────────────────────────────


class _JsonObjectParam(Param):
    """A JSON object."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Any]:
        try:
            found = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError) as error:
            self.fail(f"it is no JSON: {error}.", param, ctx)
        if not isinstance(found, dict):
            self.fail("""it is no JSON object; write for example '{"amount": {"maximum": 100}}'.""", param, ctx)
        return found


@click.command("assign")
@tool_argument
@agent_argument
@click.option(
    "--expires", metavar="WHEN", type=FutureTimeParam(), help="Until then: 90s, 15m, 2h, 7d, or an ISO moment (UTC)."
)
@click.option("--max-calls", metavar="N", type=click.IntRange(min=1), help="For so many calls.")
@click.option(
    "--where", metavar="JSON", type=_JsonObjectParam(), help="Bounds: parameter to JSON Schema, as an object."
)
@click.option("--key", metavar="KEY", help="The same key is the same grant, with what is left of it.")
@click.option("--delegable", is_flag=True, help="The agent may lend it on, narrower.")
@change_options
def assign_command(
    ctx: click.Context, tool: str, agent: str, *, expires: datetime | timedelta | None, max_calls: int | None,
    where: dict[str, Any] | None, key: str | None, delegable: bool, reason: str, as_json: bool,
) -> None:  # fmt: skip
    """
    Let AGENT call TOOL, for ever or within limits.

    Without --key it is a new grant, which counts even if the tool was taken from the agent before.
    No grant lifts a block: exit code 3.
    """
    terms = GrantTerms(
        key=key, reason=reason, expires=expires, max_calls=max_calls, where=where, delegable=delegable
    )  # fmt: skip
    apply_change(ctx, "assign", lambda registry: _assign_tool(registry, tool, agent, terms), as_json=as_json)


def _assign_tool(registry: ToolRegistry, tool: str, agent: str, terms: GrantTerms) -> ChangeResult:
    check_tool_exists(registry, tool)
    notes = collect_agent_notes(registry, agent)
    state = registry.state
    if blocks := state.get_access(agent, tool).blocks:
        raise make_refusal(
            f"{_describe_block(agent, tool, blocks[0], 'is')}. Lift it first: praval-tools unblock {tool} {agent}."
        )
    if state.get_profile(agent).retired:
        raise make_refusal(f"Agent {agent!r} is retired and can call nothing; declare it again.")
    key = terms["key"]
    if key is None:
        if (standing := _find_unlimited_grant(registry, tool, agent, terms)) is not None:
            return _build_grant_result(f"{agent} has {tool} already, without limits.", standing, changed=False)
        terms = GrantTerms(**{**terms, "key": f"cli:{os.urandom(8).hex()}"})
    old = None if key is None else state.grant_ids_by_key.get(key)
    made = _create_grant(registry, tool, agent, terms)
    if old is not None:
        if made not in registry.grants(tool=tool, agent=agent):
            raise make_refusal(f"The grant of key {key!r} is over. Give another key, or none for a new grant.")
        return _build_grant_result(
            f"The grant of key {key!r} stands already: {_format_limits(registry, made)}.", made, changed=False
        )
    decision = registry.explain(agent, tool)
    if not decision.allowed:
        notes += (f"{agent} still cannot call it: {decision.reason}",)
    return _build_grant_result(f"Assigned {tool} to {agent}: {_format_limits(registry, made)}.", made, notes=notes)


def _create_grant(registry: ToolRegistry, tool: str, agent: str, terms: GrantTerms) -> Grant:
    try:
        return registry.grant(tool, agent, **terms)
    except GrantError as error:
        if registry.state.get_access(agent, tool).blocks:  # set by another process just now
            raise make_refusal(str(error)) from error
        raise CommandError(str(error), EXIT_USAGE) from error


def _find_unlimited_grant(registry: ToolRegistry, tool: str, agent: str, terms: Mapping[str, Any]) -> Grant | None:
    """Return a grant of the operator's that gives without limits what *terms* ask for without limits."""
    if any(terms[name] is not None for name in _LIMIT_FIELDS):
        return None
    for one in registry.grants(tool=tool, agent=agent, by=OPERATOR):
        if all(getattr(one, name) is None for name in _LIMIT_FIELDS) and one.delegable == terms["delegable"]:
            return one
    return None


def _build_grant_result(text: str, grant: Grant, *, changed: bool = True, notes: tuple[str, ...] = ()) -> ChangeResult:
    given = {
        "id": grant.id, "key": grant.key, "expires": grant.expires.isoformat() if grant.expires else None,
        "max_calls": grant.max_calls, "where": grant.where, "delegable": grant.delegable, "reason": grant.reason,
    }  # fmt: skip
    about = {"tool": grant.tool, "agent": grant.agent, "grant": given}
    return ChangeResult(text=text, changed=changed, details=about, notes=notes)


def _format_limits(registry: ToolRegistry, grant: Grant) -> str:
    left = registry.uses_left(grant)
    told = [] if left is None else [f"{left} call{'' if left == 1 else 's'}"]
    if grant.expires is not None:
        told.append(f"until {format_time(grant.expires)} UTC")
    if grant.where is not None:
        told.append(f"where {json.dumps(grant.where)}")
    if grant.delegable:
        told.append("may be lent on")
    return ", ".join(told) or "without limits"


# ── the others ───────────────────────────────────────────────────────────────────────────────────


@click.command("unassign")
@tool_argument
@agent_argument
@change_options
def unassign_command(ctx: click.Context, tool: str, agent: str, *, reason: str, as_json: bool) -> None:
    """Take TOOL from AGENT, by whatever way it has it, until it is assigned again."""

    def unassign_tool(registry: ToolRegistry) -> ChangeResult:
        notes = collect_agent_notes(registry, agent)
        check_tool_exists(registry, tool, recorded_for=agent)
        before, about = registry.state.get_access(agent, tool), {"tool": tool, "agent": agent, "reason": reason}
        if before.removed and not before.grants:
            return ChangeResult(text=f"{tool} was taken from {agent} already.", changed=False, details=about)
        could = registry.remove_tool_from_agent(tool, agent, reason=reason)
        more = "" if could else f" {agent} could not call it before either."
        return ChangeResult(text=f"Took {tool} from {agent}.{more}", details=about, notes=notes)

    apply_change(ctx, "unassign", unassign_tool, as_json=as_json)


@click.command("block")
@tool_argument
@agent_argument
@change_options
def block_command(ctx: click.Context, tool: str, agent: str, *, reason: str, as_json: bool) -> None:
    """Refuse TOOL to AGENT, whatever permits it; no grant lifts that."""

    def block_tool(registry: ToolRegistry) -> ChangeResult:
        check_tool_exists(registry, tool, recorded_for=agent)
        notes, about = collect_agent_notes(registry, agent), {"tool": tool, "agent": agent, "reason": reason}
        mine = [one for one in registry.state.get_access(agent, tool).blocks if one.by == OPERATOR]
        if mine:
            return ChangeResult(
                text=f"{_describe_block(agent, tool, mine[0], 'is already')}.", changed=False, details=about
            )
        registry.block(tool, agent, reason=reason)
        return ChangeResult(text=f"Blocked {agent} from {tool}.", details=about, notes=notes)

    apply_change(ctx, "block", block_tool, as_json=as_json)


def _describe_block(agent: str, tool: str, block: Block, verb: str) -> str:
    why = f": {block.reason}" if block.reason else ""
    return f"{agent} {verb} blocked from {tool} (by {block.by}{why})"


@click.command("unblock")
@tool_argument
@agent_argument
@change_options
def unblock_command(ctx: click.Context, tool: str, agent: str, *, reason: str, as_json: bool) -> None:
    """Lift every block of AGENT from TOOL."""

    def unblock_tool(registry: ToolRegistry) -> ChangeResult:
        check_tool_exists(registry, tool, recorded_for=agent)
        notes, about = collect_agent_notes(registry, agent), {"tool": tool, "agent": agent, "reason": reason}
        if not registry.unblock(tool, agent, reason=reason):
            return ChangeResult(text=f"{agent} is not blocked from {tool}.", changed=False, details=about, notes=notes)
        return ChangeResult(text=f"Lifted the block of {agent} from {tool}.", details=about)

    apply_change(ctx, "unblock", unblock_tool, as_json=as_json)
