"""Why an agent may call a tool: pure functions that listing, exporting, calling and explaining all ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from praval_tools.access.records import AgentProfile, Block, Grant, Principal
from praval_tools.lazy_import import load
from praval_tools.names import OPERATOR
from praval_tools.tools.decision import Decision, Tried
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    from praval_tools.access.bounds.bounds import Bounds

_MAX_PATH_COMBINATIONS: Final = 1_024
"""How many combinations of its own ways and those for whom it acts are looked at, the best first."""


class ToolRecord(msgspec.Struct, frozen=True):
    """
    A tool as it is registered now.

    `seq` is its place in lists, `replaced` the definition that was there before, `declared` what it said of itself.
    """

    tool: Tool[..., Any]
    seq: int
    overrides: tuple[tuple[str, Any], ...] = ()
    past_owners: tuple[str | None, ...] = ()
    previous_implementation: ToolImplementation | None = None
    declared_metadata: ToolMetadata | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolRecord) and self._get_comparison_key() == other._get_comparison_key()

    def __hash__(self) -> int:
        return hash((self.tool.name, self.seq))

    def _get_comparison_key(self) -> tuple[Any, ...]:
        tool = self.tool
        return (
            tool.implementation,
            tool.metadata,
            self.seq,
            self.overrides,
            self.past_owners,
            self.previous_implementation,
        )


class GrantRecord(msgspec.Struct, frozen=True):
    """
    A grant with what was spent of it; `ended` says why it is over, empty while it lives.

    `stored`: the journal holds it.
    """

    grant: Grant
    seq: int
    spent_calls: int = 0
    end_reason: str = ""
    stored: bool = False

    @property
    def calls_left(self) -> int | None:
        """How many calls it still admits; None: any number."""
        return None if self.grant.max_calls is None else max(0, self.grant.max_calls - self.spent_calls)


class AccessRecord(msgspec.Struct, frozen=True):
    """
    What stands between one agent and one tool: live grants, a removal, blocks.

    `lost`: grants that were over, and `settled`: the removal was made, before this process looked at the journal.
    """

    grants: tuple[str, ...] = ()
    removed: bool = False
    removal_stored: bool = False
    stored_ended_grants: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


class DisabledRecord(msgspec.Struct, frozen=True):
    """Something that is switched off, by whom and why."""

    kind: str
    name: str
    by: str = OPERATOR
    reason: str = ""


NO_ACCESS = AccessRecord()


class AccessRecords(Protocol):
    """What the rules read: the records, and nothing else."""

    def find_tool_record(self, tool: str) -> ToolRecord | None:
        """Return the tool's record."""

    def get_profile(self, agent: str) -> AgentProfile:
        """Return the agent's profile, the default one where it is not declared."""

    def get_access(self, agent: str, tool: str) -> AccessRecord:
        """Return what stands between the two."""

    def find_disabling(self, tool: Tool[..., Any]) -> DisabledRecord | None:
        """Return what switches *tool* off."""

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant."""


class PrepaidRecords:
    """The facts for a call that has paid: what it spent of *grants* it may use again, as long as they live."""

    __slots__ = ("_records", "_grants", "get_access", "find_disabling", "get_profile", "find_tool_record")

    def __init__(self, facts: AccessRecords, grants: frozenset[str]) -> None:
        self._records, self._grants = facts, grants
        self.find_tool_record, self.get_profile, self.get_access = (
            facts.find_tool_record,
            facts.get_profile,
            facts.get_access,
        )
        self.find_disabling = facts.find_disabling

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant, with the use that the call has had."""
        one = self._records.find_grant(grant_id)
        if one is None or grant_id not in self._grants:
            return one
        return replace(one, spent_calls=min(one.spent_calls, one.grant.max_calls or 0) - 1)


class AccessPath(msgspec.Struct, frozen=True):
    """One way to a tool: the decision it gives, and every grant that must admit the call and is spent by it."""

    decision: Decision
    grants: tuple[GrantRecord, ...] = ()
    rank: tuple[tuple[bool, bool, int], ...] = ()

    @property
    def is_metered(self) -> bool:
        """Whether a call this way spends anything."""
        return any(one.grant.max_calls is not None for one in self.grants)

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds that the arguments must meet."""
        if not self.grants:
            return ()
        return tuple(one.grant.bounds for one in self.grants if one.grant.bounds is not None)

    @property
    def is_unconditional(self) -> bool:
        """Whether nothing but a change of the records can end it: no count, no bounds, no expiry."""
        return all(
            one.grant.max_calls is None and one.grant.bounds is None and one.grant.expires is None
            for one in self.grants
        )


class AccessResolution(msgspec.Struct, frozen=True):
    """Every way to the tool, the best first; or the refusal."""

    record: ToolRecord | None
    paths: tuple[AccessPath, ...] = ()
    refusal: Decision | None = None

    @property
    def decision(self) -> Decision:
        """The decision before any arguments are known."""
        if self.refusal is not None:
            return self.refusal
        return self.paths[0].decision


def resolve_access(facts: AccessRecords, who: Principal, tool: str, now: datetime) -> AccessResolution:
    """
    Find every way by which *who* may call *tool*, or the refusal, by the rules in order.

    Pure: reads *facts* and nothing else, so that listing, calling and explaining cannot disagree.
    """
    record = facts.find_tool_record(tool)
    refusal = _find_refusal(facts, who, tool, record)
    if record is None or refusal is not None:
        return AccessResolution(record, (), refusal)
    paths = tuple(_drop_unsatisfiable(_find_paths(facts, who, record, now), record.tool.implementation))
    if paths:
        return AccessResolution(record, tuple(sorted(paths, key=_get_path_sort_key)))
    return AccessResolution(record, (), _make_refusal(facts, who, record, now))


def _get_path_sort_key(path: AccessPath) -> tuple[bool, tuple[tuple[bool, bool, int], ...]]:
    """What spends nothing first; then, for the agent and each for whom it acts: open, uncounted, the oldest grant."""
    return path.is_metered, path.rank


def _find_refusal(facts: AccessRecords, who: Principal, tool: str, record: ToolRecord | None) -> Decision | None:
    agent = who.agent
    if record is None:
        return Decision(False, "unknown", "unknown", agent, tool, f"There is no tool {tool!r}.",
                        "Register it, or check the spelling.")  # fmt: skip
    definition = record.tool.implementation
    if definition.signature.unresolved and not definition.is_compilable:
        return Decision(False, "disabled", "definition", agent, tool, f"A hint of {tool!r} leads nowhere.",
                        "Import or define what it names; praval-tools check says what that is.")  # fmt: skip
    if (off := facts.find_disabling(record.tool)) is not None:
        why = f": {off.reason}" if off.reason else ""
        return Decision(False, "disabled", "disabled", agent, tool,
                        f"The {off.kind} {off.name!r} is disabled by {off.by!r}{why}.",
                        f"The operator may enable the {off.kind} {off.name!r}.", off)  # fmt: skip
    for member in (agent, *who.chain):
        if blocks := facts.get_access(member, tool).blocks:
            why = f": {blocks[0].reason}" if blocks[0].reason else ""
            return Decision(False, "forbidden", "blocked", agent, tool,
                            f"{blocks[0].by!r} blocked {member!r} from {tool!r}{why}.",
                            f"{_name_or_operator(blocks[0].by)} may lift the block.", blocks[0])  # fmt: skip
        if facts.get_profile(member).retired:
            return Decision(False, "forbidden", "retired", agent, tool, f"Agent {member!r} is retired.",
                            f"Declare {member!r} again.", member)  # fmt: skip
    return None


def _name_or_operator(name: str) -> str:
    return "the operator" if name == OPERATOR else f"{name!r} or the operator"


def _find_paths(facts: AccessRecords, who: Principal, record: ToolRecord, now: datetime) -> list[AccessPath]:
    link = who.delegation
    if link is None:
        return _find_own_paths(facts, who.agent, record, now)
    if link.tools is not None and record.tool.name not in link.tools:
        return []
    if link.mode == "own":
        return _find_own_paths(facts, who.agent, record, now)
    above = _find_paths(facts, link.parent, record, now)
    if link.mode == "inherit":
        return [replace(path, decision=replace(path.decision, agent=who.agent)) for path in above]
    own = _find_own_paths(facts, who.agent, record, now)
    return [
        AccessPath(mine.decision, _merge_grants(mine.grants, theirs.grants), (*mine.rank, *theirs.rank))
        for mine, theirs in islice(product(own, above), _MAX_PATH_COMBINATIONS)
    ]


def _merge_grants(first: tuple[GrantRecord, ...], second: tuple[GrantRecord, ...]) -> tuple[GrantRecord, ...]:
    known = {one.grant.id for one in first}
    return (*first, *(one for one in second if one.grant.id not in known))


def _find_own_paths(facts: AccessRecords, agent: str, record: ToolRecord, now: datetime) -> list[AccessPath]:
    access, found = facts.get_access(agent, record.tool.name), []
    if not access.removed and (opened := _find_open_rule(facts.get_profile(agent), record)) is not None:
        found.append(AccessPath(opened, (), ((False, False, 0),)))
    for grant_id in access.grants:
        lineage = _list_live_lineage(facts, grant_id, now)
        if lineage:
            way = AccessPath(_make_grant_decision(agent, record, lineage[0].grant), lineage)
            found.append(replace(way, rank=((True, way.is_metered, lineage[0].seq),)))
    found.sort(key=_get_path_sort_key)
    free = next((at for at, one in enumerate(found) if not one.bounds), None)
    return found if free is None else found[: free + 1]  # what comes after a way without bounds is never taken


def _find_open_rule(profile: AgentProfile, record: ToolRecord) -> Decision | None:
    for rule, holds, why, _ in iter_open_rules(profile, record):
        if holds:
            return Decision(True, "allowed", rule, profile.name, record.tool.name, f"{why}.", "", rule)
    return None


def iter_open_rules(profile: AgentProfile, record: ToolRecord) -> Iterator[tuple[str, bool, str, str]]:
    """Yield rules 4–7: name, whether it holds, why, and what would change that."""
    tool, meta, agent = record.tool.name, record.tool.metadata, profile.name
    auto, private = profile.auto_discover_tools, meta.private
    owns = meta.owned_by == agent
    if owns and not auto:
        yield "owner", False, f"{agent!r} owns {tool!r} but has auto_discover_tools=False", "list it, or grant it"
    else:
        other = "it has no owner" if meta.owned_by is None else f"its owner is {meta.owned_by!r}"
        said = f"{agent!r} owns {tool!r}" if owns else other
        yield "owner", owns, said, f"transfer_ownership({tool!r}, {agent!r})"
    listed = tool in profile.tools
    hidden = " but it is private" if private else ""
    change = "" if private else f"@agent({agent!r}, tools=[{tool!r}])"
    yield "listed", listed and not private, f"{agent!r} {'lists' if listed else 'does not list'} it{hidden}", change
    said = ("it is shared" if meta.shared else "it is not shared") + hidden
    if meta.shared and not auto:
        said += f" but {agent!r} has auto_discover_tools=False"
    change = f"share_tool({tool!r})" if auto and not private else ""
    yield "shared", meta.shared and auto and not private, said, change
    asked = meta.category in profile.tool_categories
    trusted = meta.source is None or meta.source.trusted or "category" in dict(record.overrides)
    open_ = asked and trusted and (meta.category != "general" or meta.owned_by is None)
    said = f"{agent!r} {'requests' if asked else 'does not request'} category {meta.category!r}{hidden}"
    if asked and not trusted:
        said += ", which counts for a plugin's tool once the operator trusts it"
    elif asked and not open_:
        said += ", which reaches only tools without an owner"
    reachable = not private and (meta.category != "general" or meta.owned_by is None)
    change = f"@agent({agent!r}, tool_categories=[{meta.category!r}])" if reachable else ""
    yield "category", open_ and not private, said, change


def _list_live_lineage(facts: AccessRecords, grant_id: str | None, now: datetime) -> tuple[GrantRecord, ...]:
    """Return the grant and all that it came from, or nothing where one of them is no way any more."""
    found: list[GrantRecord] = []
    while grant_id is not None:
        one = facts.find_grant(grant_id)
        if one is None or get_end_reason(one, now):
            return ()
        found.append(one)
        grant_id = one.grant.parent
    return tuple(found)


def get_end_reason(one: GrantRecord, now: datetime) -> str:
    """Return why a grant is no way any more; empty while it is one."""
    if one.end_reason:
        return one.end_reason
    if one.grant.expires is not None and now >= one.grant.expires:
        return f"expired at {one.grant.expires.isoformat()}"
    return "spent" if one.calls_left == 0 else ""


def _make_grant_decision(agent: str, record: ToolRecord, grant: Grant) -> Decision:
    why = f": {grant.reason}" if grant.reason else ""
    return Decision(True, "allowed", "granted", agent, record.tool.name,
                    f"{grant.by!r} granted {record.tool.name!r} to {grant.agent!r}{why}.", "", grant)  # fmt: skip


def _drop_unsatisfiable(paths: Iterable[AccessPath], definition: ToolImplementation) -> Iterator[AccessPath]:
    """Leave out the ways whose bounds nothing can meet together."""
    for path in paths:
        if not path.bounds or can_satisfy_all(path.bounds, definition):
            yield path


@lru_cache(1024)
def can_satisfy_all(bounds: tuple[Bounds, ...], definition: ToolImplementation) -> bool:
    """Return False only where no arguments for a tool of this definition can meet all *bounds*."""
    module: Any = load("praval_tools.access.bounds.bounds")  # it is there: it made the bounds
    return bool(module.is_satisfiable(bounds, definition.compiled.parameters_schema))


def _make_refusal(facts: AccessRecords, who: Principal, record: ToolRecord, now: datetime) -> Decision:
    tool, owner = record.tool.name, record.tool.metadata.owned_by
    lender = _name_or_operator(owner or OPERATOR)
    remedy = f"{lender} may grant it: assign_tool_to_agent({tool!r}, {who.agent!r})."
    link = who.delegation
    if link is not None and (_find_own_paths(facts, who.agent, record, now) or link.mode == "inherit"):
        narrowed = link.tools is not None and tool not in link.tools
        why = "its delegation leaves it out" if narrowed else f"{link.parent.agent!r}, for whom it acts, may not"
        return Decision(False, "forbidden", "delegation", who.agent, tool,
                        f"{who.agent!r} may not call {tool!r}: {why}.", remedy, link)  # fmt: skip
    access = facts.get_access(who.agent, tool)
    why = "the tool was taken from it" if access.removed else "nothing gives it this tool"
    over = [
        get_end_reason(one, now)
        for one in map(facts.find_grant, access.grants)
        if one is not None and get_end_reason(one, now)
    ]
    if over:
        why = f"its grant is {over[-1]}"
    return Decision(False, "forbidden", "no-way", who.agent, tool,
                    f"{who.agent!r} may not call {tool!r}: {why}.", remedy)  # fmt: skip


def find_violations(path: AccessPath, given: dict[str, Any], filled: dict[str, Any]) -> tuple[str, ...]:
    """Return why the arguments are outside of the path's bounds; nothing where they are inside."""
    return tuple(reason for bounds in path.bounds for reason in bounds.find_violations(given, filled))


def choose_path(verdict: AccessResolution, given: dict[str, Any], filled: Any) -> tuple[AccessPath | None, Decision]:
    """
    Return the first way that admits the arguments, and the decision; *filled* is called where bounds need it.
    """
    reasons: list[str] = []
    for path in verdict.paths:
        if not path.bounds:
            return path, path.decision
        broken = find_violations(path, given, filled())
        if not broken:
            return path, path.decision
        reasons.extend(one for one in broken if one not in reasons)
    first = verdict.decision
    return None, Decision(
        False, "forbidden", "granted", first.agent, first.tool,
        f"The arguments are outside of the grant: {'; '.join(reasons)}.",
        "Call it within the bounds, or ask for a wider grant.", first.source,
    )  # fmt: skip


def list_tried_rules(
    facts: AccessRecords, who: Principal, tool: str, now: datetime, decision: Decision | None = None
) -> tuple[Tried, ...]:
    """
    Return every rule in order: whether it holds, why, and what would change that.

    *decision* is the one on given arguments: a grant whose bounds they break does not hold.
    """
    record, agent = facts.find_tool_record(tool), who.agent
    if record is None:
        return (Tried("unknown", True, f"there is no tool {tool!r}", "register it"),)
    off, members = facts.find_disabling(record.tool), (agent, *who.chain)
    blocked = [(one, facts.get_access(one, tool).blocks[0]) for one in members if facts.get_access(one, tool).blocks]
    rows = [
        Tried("unknown", False, f"{tool!r} is registered"),
        Tried("disabled", off is not None, f"{off.kind} {off.name!r} is disabled" if off else "it is enabled",
              f"enable({off.kind}={off.name!r})" if off else ""),
        Tried("blocked", bool(blocked), f"blocked by {blocked[0][1].by!r}" if blocked else "no block names the two",
              f"unblock({tool!r}, {blocked[0][0]!r})" if blocked else ""),
    ]  # fmt: skip
    rows += [Tried("retired", True, f"{one!r} is retired", "declare it again") for one in members
             if facts.get_profile(one).retired]  # fmt: skip
    if decision is not None and decision.rule == "delegation":
        rows.append(Tried("delegation", True, decision.reason, decision.remedy))
    while who.delegation is not None and who.delegation.mode == "inherit":
        who = who.delegation.parent
    return (*rows, *_iter_tried_permissions(facts, who.agent, record, now, decision))


def _iter_tried_permissions(
    facts: AccessRecords, agent: str, record: ToolRecord, now: datetime, decision: Decision | None
) -> Iterator[Tried]:
    """Yield rules 4–8; what would not give the tool back is not proposed where it was removed."""
    tool = record.tool.name
    access, profile = facts.get_access(agent, tool), facts.get_profile(agent)
    removed = " (but the tool was removed from this agent)" if access.removed else ""
    for rule, holds, why, change in iter_open_rules(profile, record):
        yield Tried(rule, holds and not removed, why + (removed if holds else ""), "" if removed else change)
    live = [lineage[0] for one in access.grants if (lineage := _list_live_lineage(facts, one, now))]
    change = f"assign_tool_to_agent({tool!r}, {agent!r})"
    broken = decision is not None and not decision.allowed and decision.rule == "granted"
    why = decision.reason if broken and decision is not None else _describe_grants(live)
    yield Tried("granted", bool(live) and not broken, why, change)
    if decision is not None and decision.rule == "policy":
        yield Tried("policy", True, decision.reason, decision.remedy)


def _describe_grants(live: list[GrantRecord]) -> str:
    if not live:
        return "no live grant names the two"
    one = live[0]
    left = "" if one.calls_left is None else f", {one.calls_left} call{'' if one.calls_left == 1 else 's'} left"
    until = "" if one.grant.expires is None else f", until {one.grant.expires.isoformat()}"
    within = ", with bounds on its arguments" if one.grant.where is not None else ""
    more = f" and {len(live) - 1} more" if len(live) > 1 else ""
    return f"granted by {one.grant.by!r}{left}{until}{within}{more}"
