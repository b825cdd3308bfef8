"""Advice from a journal: what was permitted and never used, bounds that all calls fit, refusals that repeat."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from attrs import Factory, define, frozen

from praval_tools.access.bounds.tool_bounds import compile_tool_bounds
from praval_tools.access.permissions import Grant
from praval_tools.errors import EventFormatError, GrantError, ToolDefinitionError
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import AgentToolCall, ApprovalAnswered, CallRefused, EventType
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import format_count
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.report.call_patterns import CallPattern
from praval_tools.report.command_line import CommandLine
from praval_tools.tools.frames import activate_tool_frame

AdviceKind = Literal[
    "unused-grant", "narrower-grant", "unused-share", "unused-category", "unused-tool", "wanted-grant"
]

MIN_REFUSALS: Final = 3
"""From how many refusals of one agent and tool on a grant is wanted."""

_EVENT_TYPES: Final = (EventType.AGENT_TOOL_CALL, EventType.CALL_REFUSED, EventType.APPROVAL_ANSWERED)
_UNKNOWN_RULES: Final = ("blocked", "definition", "disabled", "policy", "operator")
"""Rules whose refusals no grant would change."""
_BOUNDS_RULE: Final = "out-of-bounds"

_Key = tuple[str, str]


@frozen(kw_only=True)
class Advice:
    """
    One thing to change, from what happened.

    Args:
        kind: What it is about.
        tool: The tool; empty where it is about several.
        agent: The agent; empty where it is about all.
        text: What was found, and what would suffice.
        calls: How many recorded calls it rests on.
        first: When the first of them was made.
        last: When the latest one was.
        commands: What to type, one after the other; nothing is changed by itself.
        grant: The id of the grant that it is about.
        terms: Those of the grant that would suffice: `where`, `max_calls`, `expires`.
    """

    kind: AdviceKind
    tool: str = ""
    agent: str = ""
    text: str
    calls: int = 0
    first: datetime | None = None
    last: datetime | None = None
    commands: tuple[str, ...] = ()
    grant: str | None = None
    terms: Mapping[str, object] = Factory(dict)


@define
class _Usage:
    """
    What the calls of a span of time used.

    Args:
        registry: With the tools.
    """

    registry: ToolRegistry
    by_grant: dict[str, CallPattern] = Factory(lambda: defaultdict(CallPattern))
    by_delegate: set[_Key] = Factory(set)
    """Agents in whose chain a tool was called: which of their permissions that used is not recorded."""
    by_share: set[str] = Factory(set)
    by_category: set[_Key] = Factory(set)
    refused: dict[_Key, CallPattern] = Factory(lambda: defaultdict(CallPattern))
    out_of_bounds: dict[_Key, CallPattern] = Factory(lambda: defaultdict(CallPattern))
    seen_tools: set[str] = Factory(set)
    edited: set[_Key] = Factory(set)
    """Agents and tools whose calls ran with other arguments than those that were judged first."""

    def add(self, event: AgentToolCall | CallRefused) -> None:
        """Add a call that began, or was refused."""
        tool, agent = event.tool_name, event.agent
        self.seen_tools.add(tool)
        if agent is None:
            return
        decision = event.decision
        if isinstance(event, CallRefused) and (decision is None or not decision.allowed):
            rule = "" if decision is None else decision.rule
            if event.outcome == "forbidden" and not event.chain and rule not in _UNKNOWN_RULES:
                refused = self.out_of_bounds if rule == _BOUNDS_RULE else self.refused
                refused[agent, tool].add(event.time, _read_as_judged(self.registry, tool, event.arguments))
            return
        if event.chain:
            self.by_delegate.update((member, tool) for member in (agent, *event.chain))
        elif decision is not None:
            if decision.rule == "shared":
                self.by_share.add(tool)
            elif decision.rule == "category":
                self.by_category.add((agent, tool))
            if decision.source.startswith("grant:"):
                pattern = self.by_grant[decision.source.removeprefix("grant:")]
                if isinstance(event, AgentToolCall):  # else it waits for an approval, or came to nothing otherwise
                    pattern.add(event.time, _read_as_judged(self.registry, tool, event.arguments))


def _read_as_judged(registry: ToolRegistry, name: str, arguments: object) -> object:
    """
    Return recorded arguments as bounds see them: a time, a path and the like may be written in several ways.

    None where nobody can tell, as of a tool that has changed since.
    """
    record = get_runtime(registry).access_store.state.find_tool_record(name)
    if record is None or not isinstance(arguments, dict) or record.tool.implementation.supplied_schema is not None:
        return arguments
    implementation = record.tool.implementation
    try:
        with activate_tool_frame(name):  # classes of its parameters may run code of their own
            bound = implementation.bind(arguments)
            judged = implementation.render_for_review(bound)
    except (Exception, SystemExit):  # the seam to these classes
        return None
    return {  # a Decimal is bounded as a number, as which it may be given
        key: value if isinstance(judged[key], Decimal) else judged[key] for key, value in bound.arguments.items()
    }


def collect_advice(
    registry: ToolRegistry, records: Iterable[Record], command_line: CommandLine = CommandLine()
) -> list[Advice]:
    """
    Return what the records of a span of time advise for a registry; its memory does not grow with them.

    Nobody would have been refused by what is advised: a call whose permission is not recorded exactly, since it was
    made on behalf of others, counts for every permission that it may have used.

    Args:
        registry: With the present grants, and the tools and agents of the program, where there is one.
        records: Of its journal, in order.
        command_line: How the commands of the advice begin.
    """
    usage = _Usage(registry)
    for record in records:
        if record.type in _EVENT_TYPES:
            try:
                event = from_json(record.body, event_id=record.id)
            except EventFormatError:
                continue  # of another version; audit shows it
            if isinstance(event, AgentToolCall | CallRefused):
                usage.add(event)
            elif isinstance(event, ApprovalAnswered) and event.arguments is not None and event.agent is not None:
                usage.edited.add((event.agent, event.tool_name))
    return [
        *_advise_on_grants(registry, usage, command_line), *_advise_on_shares(registry, usage, command_line),
        *_advise_on_categories(registry, usage, command_line), *_advise_on_tools(registry, usage, command_line),
        *_advise_on_refusals(registry, usage, command_line),
    ]  # fmt: skip


# ── grants ───────────────────────────────────────────────────────────────────────────────────────


def _advise_on_grants(registry: ToolRegistry, usage: _Usage, command_line: CommandLine) -> Iterator[Advice]:
    stored = _list_stored_grants(registry)
    live = [grant for grant in registry.grants() if grant.id in stored]
    counts: dict[_Key, int] = defaultdict(int)
    for grant in live:
        counts[grant.agent, grant.tool] += 1
    lent = {grant.parent for grant in live}
    for grant in live:
        if grant.id in lent:  # others hold what came from it
            continue
        key = grant.agent, grant.tool
        own, is_delegated = usage.by_grant.get(grant.id), key in usage.by_delegate
        if own is None and not is_delegated:
            text = f"{grant.agent!r} never used its grant of {grant.tool!r}."
            commands = (command_line.write("revoke", [grant.id]),)
            yield Advice(
                kind="unused-grant", tool=grant.tool, agent=grant.agent, text=text, commands=commands, grant=grant.id
            )
        elif own is not None and own.count and not is_delegated and grant.parent is None:  # a lender narrows its own
            own.has_other_arguments |= key in usage.edited
            yield from _narrow_grant(registry, grant, own, command_line, is_alone=counts[key] == 1)


def _list_stored_grants(registry: ToolRegistry) -> set[str]:
    """Return the ids of the grants in the journal; what a program grants at its start may not be there yet."""
    journal = registry.journal
    return set() if journal is None else {row.key for row in journal.store.state().rows if row.kind == "grant"}


def _narrow_grant(
    registry: ToolRegistry, grant: Grant, pattern: CallPattern, command_line: CommandLine, *, is_alone: bool
) -> Iterator[Advice]:
    """Advise narrower terms; how often it was used says enough only where no other grant may pay instead."""
    is_by_parameter = grant.where is None or all(isinstance(bound, dict) for bound in grant.where.values())
    present = dict(grant.where or {}) if is_by_parameter else {}
    found = _list_valid_bounds(registry, grant.tool, pattern) if is_by_parameter else {}
    where = {name: bound for name, bound in found.items() if name not in present}
    terms: dict[str, object] = {}
    options: list[str] = []
    reasons = [f"{name} {_describe_bound(bound)}" for name, bound in where.items()]
    if where:
        terms["where"] = present | where
    if is_alone and grant.max_calls is None:
        terms["max_calls"] = pattern.count
        reasons.append(f"at most {format_count(pattern.count, 'call')}")
    if grant.expires is None and pattern.first is not None and pattern.last is not None:
        days = max(0, (pattern.last - (grant.made or pattern.first)) // timedelta(days=1)) + 1
        terms["expires"] = pattern.last
        options += ["--expires", f"{days}d"]
        reasons.append(f"an expiry after {format_count(days, 'day')}")
    elif grant.expires is not None:
        options += ["--expires", grant.expires.isoformat()]
    if not terms:
        return
    kept = terms.get("where", grant.where)
    if kept is not None:
        options += ["--where", json.dumps(kept)]
    if (limit := terms.get("max_calls", registry.uses_left(grant))) is not None:
        options += ["--max-calls", str(limit)]
    if grant.delegable:
        options.append("--delegable")
    yield Advice(
        kind="narrower-grant", tool=grant.tool, agent=grant.agent, calls=pattern.count, first=pattern.first,
        last=pattern.last, grant=grant.id, terms=terms,
        text=f"For what {grant.agent!r} did with {grant.tool!r} this would have sufficed: {', '.join(reasons)}.",
        commands=(
            command_line.write("assign", [grant.tool, grant.agent], options), command_line.write("revoke", [grant.id])
        ),
    )  # fmt: skip


def _list_valid_bounds(registry: ToolRegistry, name: str, pattern: CallPattern) -> dict[str, dict[str, object]]:
    """Return the bounds that all calls fit, as far as a grant of the tool can have them."""
    record = get_runtime(registry).access_store.state.find_tool_record(name)
    valid: dict[str, dict[str, object]] = {}
    if record is None:
        return valid
    for parameter, bound in pattern.build_bounds().items():
        with suppress(GrantError, ToolDefinitionError):  # such as on a parameter that does not exist any more
            compile_tool_bounds(record.tool.implementation, {parameter: bound}, name)
            valid[parameter] = bound
    return valid


def _describe_bound(bound: Mapping[str, object]) -> str:
    if "minimum" in bound:
        return f"from {bound['minimum']} to {bound['maximum']}"
    if "pattern" in bound:
        return f"like {bound['pattern']}"
    return f"one of {json.dumps(bound['enum'], ensure_ascii=False)}"


# ── other permissions ────────────────────────────────────────────────────────────────────────────


def _advise_on_shares(registry: ToolRegistry, usage: _Usage, command_line: CommandLine) -> Iterator[Advice]:
    used = usage.by_share | {tool for _, tool in usage.by_delegate}
    for tool in registry.get_shared_tools():
        name = tool.name
        if name not in used:
            text = f"Nobody used that {name!r} is shared."
            yield Advice(kind="unused-share", tool=name, text=text, commands=(command_line.write("unshare", [name]),))


def _advise_on_categories(registry: ToolRegistry, usage: _Usage, command_line: CommandLine) -> Iterator[Advice]:
    used = usage.by_category | usage.by_delegate
    state = get_runtime(registry).access_store.state
    for agent in registry.agents:
        for category in state.get_profile(agent).tool_categories:
            names = [tool.name for tool in registry.get_tools_by_category(category)]
            reached = [name for name in names if registry.explain(agent, name).rule == "category"]
            if reached and not any((agent, name) in used for name in names):
                text = f"{agent!r} requests category {category!r} and called none of its tools by that."
                commands = tuple(command_line.write("unassign", [name, agent]) for name in reached)
                yield Advice(kind="unused-category", agent=agent, text=text, commands=commands)


def _advise_on_tools(registry: ToolRegistry, usage: _Usage, command_line: CommandLine) -> Iterator[Advice]:
    for tool in registry.list_all_tools():
        if tool.name not in usage.seen_tools:
            text, command = f"Nobody called {tool.name!r}.", command_line.write("disable", [tool.name])
            yield Advice(kind="unused-tool", tool=tool.name, text=text, commands=(command,))


def _advise_on_refusals(registry: ToolRegistry, usage: _Usage, command_line: CommandLine) -> Iterator[Advice]:
    for (agent, tool), pattern in usage.refused.items():
        if pattern.count < MIN_REFUSALS:
            continue
        terms, command = _write_wanted_grant(registry, agent, tool, pattern, command_line)
        yield Advice(
            kind="wanted-grant", tool=tool, agent=agent, calls=pattern.count, first=pattern.first, last=pattern.last,
            text=f"{agent!r} was refused {tool!r} {pattern.count} times: is a grant wanted?",
            commands=(command,), terms=terms,
        )  # fmt: skip
    for (agent, tool), pattern in usage.out_of_bounds.items():
        if pattern.count < MIN_REFUSALS:
            continue
        terms, command = _write_wanted_grant(registry, agent, tool, pattern, command_line)
        if "where" not in terms:  # a grant without bounds would permit more than was asked for
            options = [f"--agent={agent}", f"--tool={tool}", "--outcome=forbidden"]
            terms, command = {}, command_line.write("audit", [], options)
        yield Advice(
            kind="wanted-grant", tool=tool, agent=agent, calls=pattern.count, first=pattern.first, last=pattern.last,
            text=f"{agent!r} was refused {tool!r} {pattern.count} times for arguments outside of the bounds of its "
            f"grants: are these too narrow?",
            commands=(command,), terms=terms,
        )  # fmt: skip


def _write_wanted_grant(
    registry: ToolRegistry, agent: str, tool: str, pattern: CallPattern, command_line: CommandLine
) -> tuple[dict[str, object], str]:
    """Return the terms of a grant that permits these calls, and the command for it."""
    bounds, options = _list_valid_bounds(registry, tool, pattern), ["--max-calls", str(pattern.count)]
    terms: dict[str, object] = {"max_calls": pattern.count}
    if bounds:
        terms["where"] = bounds
        options += ["--where", json.dumps(bounds)]
    return terms, command_line.write("assign", [tool, agent], options)
