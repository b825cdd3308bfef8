"""Access rules: whether and by which grants an agent may call a tool; pure functions that everything else asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec.structs import replace

from praval_tools.access.permissions import Grant
from praval_tools.access.records import AccessRecord, AgentProfile, DisabledRecord, GrantRecord, Principal, ToolRecord
from praval_tools.names import OPERATOR
from praval_tools.tools.decision import AccessOutcome, Decision, Tried
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.tool import AnyTool

if TYPE_CHECKING:
    from praval_tools.access.bounds.bounds import Bounds

_MAX_PATH_COMBINATIONS: Final = 1_024
"""How many combinations of an agent's own access paths and its delegators' are looked at, the best first."""


class AccessRecords(Protocol):
    """What the rules read: the records, and nothing else."""

    def find_tool_record(self, tool: str) -> ToolRecord | None:
        """Return the tool's record."""

    def get_profile(self, agent: str) -> AgentProfile:
        """Return the agent's profile, the default one where it is not declared."""

    def get_access(self, agent: str, tool: str) -> AccessRecord:
        """Return what is recorded between the two."""

    def find_disabling(self, tool: AnyTool) -> DisabledRecord | None:
        """Return the record that disables *tool*."""

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant."""


class PrepaidRecords:
    """The records as before this call spent its grants: a second decision must not refuse it for its own use."""

    __slots__ = ("_records", "_grants", "get_access", "find_disabling", "get_profile", "find_tool_record")

    def __init__(self, records: AccessRecords, grants: frozenset[str]) -> None:
        self._records, self._grants = records, grants
        self.find_tool_record, self.get_profile = records.find_tool_record, records.get_profile
        self.get_access, self.find_disabling = records.get_access, records.find_disabling

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant as if the call had not used it yet."""
        record = self._records.find_grant(grant_id)
        if record is None or grant_id not in self._grants:
            return record
        return replace(record, spent_calls=min(record.spent_calls, record.grant.max_calls or 0) - 1)


class AccessPath(msgspec.Struct, frozen=True):
    """
    What permits a call: the decision, and every grant that must admit the call and is spent by it.

    `rank` sorts paths. For each agent of the chain: needs a grant, the grant counts calls, its sequence number.
    """

    decision: Decision
    grants: tuple[GrantRecord, ...] = ()
    rank: tuple[tuple[bool, bool, int], ...] = ()

    @property
    def is_metered(self) -> bool:
        """Whether a call by this path spends anything."""
        return any(record.grant.max_calls is not None for record in self.grants)

    @property
    def bounds(self) -> tuple[Bounds, ...]:
        """The bounds that the arguments must meet."""
        if not self.grants:
            return ()
        return tuple(record.grant.bounds for record in self.grants if record.grant.bounds is not None)

    @property
    def is_unconditional(self) -> bool:
        """Whether nothing but a change of the records can end it: no count, no bounds, no expiry."""
        return all(
            record.grant.max_calls is None and record.grant.bounds is None and record.grant.expires is None
            for record in self.grants
        )


class AccessResolution(msgspec.Struct, frozen=True):
    """Every access path to the tool, the best first; or the refusal."""

    record: ToolRecord | None
    paths: tuple[AccessPath, ...] = ()
    refusal: Decision | None = None

    @property
    def decision(self) -> Decision:
        """The decision before any arguments are known."""
        return self.paths[0].decision if self.refusal is None else self.refusal


def resolve_access(records: AccessRecords, principal: Principal, tool: str, now: datetime) -> AccessResolution:
    """
    Find every path by which *principal* may call *tool*, or the refusal, by the rules in order.

    Pure: reads *records* and nothing else, so that listing, calling and explaining cannot disagree.
    """
    record = records.find_tool_record(tool)
    refusal = _find_refusal(records, principal, tool, record)
    if record is None or refusal is not None:
        return AccessResolution(record, (), refusal)
    implementation = record.tool.implementation
    paths = [
        path
        for path in _find_paths(records, principal, record, now)
        if not path.bounds or can_satisfy_all(path.bounds, implementation)
    ]
    if paths:
        return AccessResolution(record, tuple(sorted(paths, key=_get_path_sort_key)))
    return AccessResolution(record, (), _explain_missing_path(records, principal, record, now))


def _get_path_sort_key(path: AccessPath) -> tuple[bool, tuple[tuple[bool, bool, int], ...]]:
    """What spends nothing comes first; then by rank."""
    return path.is_metered, path.rank


def _refuse(
    outcome: AccessOutcome, rule: str, agent: str, tool: str, reason: str, remedy: str, source: object = None
) -> Decision:
    return Decision(False, outcome, rule, agent, tool, reason, remedy, source)


def _find_refusal(
    records: AccessRecords, principal: Principal, tool: str, record: ToolRecord | None
) -> Decision | None:
    """Return the refusal of the rules that no permission beats: unknown, disabled, blocked, retired."""
    agent = principal.agent
    if record is None:
        reason, remedy = f"There is no tool {tool!r}.", "Register it, or check the spelling."
        return _refuse("unknown", "unknown", agent, tool, reason, remedy)
    implementation = record.tool.implementation
    if implementation.signature.unresolved and not implementation.is_compilable:
        reason = f"A type hint of {tool!r} is unresolved."
        remedy = "Import or define what it names; praval-tools check says what that is."
        return _refuse("disabled", "definition", agent, tool, reason, remedy)
    if (off := records.find_disabling(record.tool)) is not None:
        reason = f"The {off.kind} {off.name!r} is disabled by {off.by!r}{_format_reason(off.reason)}."
        remedy = f"The operator may enable the {off.kind} {off.name!r}."
        return _refuse("disabled", "disabled", agent, tool, reason, remedy, off)
    for member in (agent, *principal.chain):
        if blocks := records.get_access(member, tool).blocks:
            block = blocks[0]
            reason = f"{block.by!r} blocked {member!r} from {tool!r}{_format_reason(block.reason)}."
            remedy = f"{_name_or_operator(block.by)} may lift the block."
            return _refuse("forbidden", "blocked", agent, tool, reason, remedy, block)
        if records.get_profile(member).retired:
            reason, remedy = f"Agent {member!r} is retired.", f"Declare {member!r} again."
            return _refuse("forbidden", "retired", agent, tool, reason, remedy, member)
    return None


def _format_reason(reason: str) -> str:
    return f": {reason}" if reason else ""


def _name_or_operator(name: str) -> str:
    return "the operator" if name == OPERATOR else f"{name!r} or the operator"


def _find_paths(
    records: AccessRecords, principal: Principal, record: ToolRecord, now: datetime
) -> Iterable[AccessPath]:
    """Return the paths of *principal*; acting for another, each of its own combined with each of the other's."""
    delegation = principal.delegation
    if delegation is not None and delegation.tools is not None and record.tool.name not in delegation.tools:
        return ()
    if delegation is None or delegation.mode == "own":
        return find_own_paths(records, principal.agent, record, now)
    parent_paths = _find_paths(records, delegation.parent, record, now)
    if delegation.mode == "inherit":
        return [replace(path, decision=replace(path.decision, agent=principal.agent)) for path in parent_paths]
    own_paths = find_own_paths(records, principal.agent, record, now)
    return [
        AccessPath(own.decision, _merge_grants(own.grants, parent.grants), (*own.rank, *parent.rank))
        for own, parent in islice(product(own_paths, parent_paths), _MAX_PATH_COMBINATIONS)
    ]


def _merge_grants(first: tuple[GrantRecord, ...], second: tuple[GrantRecord, ...]) -> tuple[GrantRecord, ...]:
    known = {record.grant.id for record in first}
    return (*first, *(record for record in second if record.grant.id not in known))


def find_own_paths(records: AccessRecords, agent: str, record: ToolRecord, now: datetime) -> list[AccessPath]:
    """Return the paths of an agent that acts for itself, up to the first one without bounds."""
    access, paths = records.get_access(agent, record.tool.name), list[AccessPath]()
    if not access.removed and (decision := _find_open_rule(records.get_profile(agent), record)) is not None:
        paths.append(AccessPath(decision, (), ((False, False, 0),)))
    for grant_id in access.grants:
        if lineage := list_live_lineage(records, grant_id, now):
            is_metered = any(ancestor.grant.max_calls is not None for ancestor in lineage)
            rank = ((True, is_metered, lineage[0].seq),)
            paths.append(AccessPath(_allow_by_grant(agent, record, lineage[0].grant), lineage, rank))
    paths.sort(key=_get_path_sort_key)
    unbounded = next((index for index, path in enumerate(paths) if not path.bounds), len(paths))
    return paths[: unbounded + 1]  # what comes after a path without bounds is never used


def _find_open_rule(profile: AgentProfile, record: ToolRecord) -> Decision | None:
    for tried in iter_grantless_rules(profile, record):
        if tried.holds:
            rule = tried.rule
            return Decision(True, "allowed", rule, profile.name, record.tool.name, f"{tried.why}.", "", rule)
    return None


def iter_grantless_rules(profile: AgentProfile, record: ToolRecord) -> Iterator[Tried]:
    """Yield the rules that permit without a grant: owner, listed, shared, category."""
    tool, meta, agent = record.tool.name, record.tool.metadata, profile.name
    auto, private = profile.auto_discover_tools, meta.private
    is_owner = meta.owned_by == agent
    if is_owner and not auto:
        why = f"{agent!r} owns {tool!r} but has auto_discover_tools=False"
        yield Tried("owner", False, why, "list it, or grant it")
    else:
        if is_owner:
            why = f"{agent!r} owns {tool!r}"
        else:
            why = "it has no owner" if meta.owned_by is None else f"its owner is {meta.owned_by!r}"
        yield Tried("owner", is_owner, why, f"transfer_ownership({tool!r}, {agent!r})")
    is_listed = tool in profile.tools
    hidden = " but it is private" if private else ""
    why = f"{agent!r} {'lists' if is_listed else 'does not list'} it{hidden}"
    yield Tried("listed", is_listed and not private, why, "" if private else f"@agent({agent!r}, tools=[{tool!r}])")
    why = ("it is shared" if meta.shared else "it is not shared") + hidden
    if meta.shared and not auto:
        why += f" but {agent!r} has auto_discover_tools=False"
    change = f"share_tool({tool!r})" if auto and not private else ""
    yield Tried("shared", meta.shared and auto and not private, why, change)
    yield _try_category(profile, record, hidden)


def _try_category(profile: AgentProfile, record: ToolRecord, hidden: str) -> Tried:
    """Return the rule by which a requested category permits; `general` only permits tools without an owner."""
    agent, meta = profile.name, record.tool.metadata
    is_requested = meta.category in profile.tool_categories
    is_trusted = meta.source is None or meta.source.trusted or "category" in dict(record.overrides)
    is_reachable = meta.category != "general" or meta.owned_by is None
    why = f"{agent!r} {'requests' if is_requested else 'does not request'} category {meta.category!r}{hidden}"
    if is_requested and not is_trusted:
        why += ", which counts for a plugin's tool once the operator trusts it"
    elif is_requested and not is_reachable:
        why += ", which reaches only tools without an owner"
    change = f"@agent({agent!r}, tool_categories=[{meta.category!r}])" if is_reachable and not meta.private else ""
    return Tried("category", is_requested and is_trusted and is_reachable and not meta.private, why, change)


def list_lineage(records: AccessRecords, grant_id: str | None) -> list[GrantRecord]:
    """Return a grant and those that it came from, the nearest first, as far as they are known."""
    lineage: list[GrantRecord] = []
    while grant_id is not None and (record := records.find_grant(grant_id)) is not None:
        lineage.append(record)
        grant_id = record.grant.parent
    return lineage


def list_live_lineage(records: AccessRecords, grant_id: str, now: datetime) -> tuple[GrantRecord, ...]:
    """Return a grant and all that it came from; nothing where one of them has ended or is not known."""
    lineage = list_lineage(records, grant_id)
    if not lineage or lineage[-1].grant.parent is not None or any(get_end_reason(grant, now) for grant in lineage):
        return ()
    return tuple(lineage)


def get_end_reason(record: GrantRecord, now: datetime) -> str:
    """Return why a grant permits nothing any more; an empty text while it is live."""
    if record.end_reason:
        return record.end_reason
    if record.grant.expires is not None and now >= record.grant.expires:
        return f"expired at {record.grant.expires.isoformat()}"
    return "spent" if record.calls_left == 0 else ""


def _allow_by_grant(agent: str, record: ToolRecord, grant: Grant) -> Decision:
    tool = record.tool.name
    reason = f"{grant.by!r} granted {tool!r} to {grant.agent!r}{_format_reason(grant.reason)}."
    return Decision(True, "allowed", "granted", agent, tool, reason, "", grant)


@lru_cache(1024)
def can_satisfy_all(bounds: tuple[Bounds, ...], implementation: ToolImplementation) -> bool:
    """Return False only where no arguments for a tool of this definition can meet all *bounds*."""
    return bounds[0].is_satisfiable_with(bounds[1:], implementation.compiled.parameters_schema)


def _explain_missing_path(records: AccessRecords, principal: Principal, record: ToolRecord, now: datetime) -> Decision:
    """Return the refusal of *principal*, which nothing permits to call the tool."""
    tool, agent, delegation = record.tool.name, principal.agent, principal.delegation
    lender = _name_or_operator(record.tool.metadata.owned_by or OPERATOR)
    remedy = f"{lender} may grant it: assign_tool_to_agent({tool!r}, {agent!r})."
    if delegation is not None and (delegation.mode == "inherit" or find_own_paths(records, agent, record, now)):
        is_left_out = delegation.tools is not None and tool not in delegation.tools
        parent = delegation.parent.agent
        why = "its delegation leaves it out" if is_left_out else f"{parent!r}, for whom it acts, may not"
        reason = f"{agent!r} may not call {tool!r}: {why}."
        return _refuse("forbidden", "delegation", agent, tool, reason, remedy, delegation)
    access = records.get_access(agent, tool)
    grants = filter(None, map(records.find_grant, access.grants))
    if ends := [reason for grant in grants if (reason := get_end_reason(grant, now))]:
        why = f"its grant is {ends[-1]}"
    else:
        why = "the tool was taken from it" if access.removed else "nothing gives it this tool"
    return _refuse("forbidden", "no-way", agent, tool, f"{agent!r} may not call {tool!r}: {why}.", remedy)


def choose_path(
    resolution: AccessResolution, arguments: Mapping[str, object], fill_defaults: Callable[[], Mapping[str, object]]
) -> tuple[AccessPath | None, Decision]:
    """
    Choose the first path that admits the arguments.

    Args:
        resolution: The paths.
        arguments: The arguments as JSON, as they were given.
        fill_defaults: Returns what the tool will get; called where bounds need it.

    Returns:
        The path, None where none admits them, and the decision.
    """
    reasons: list[str] = []
    for path in resolution.paths:
        if not path.bounds:
            return path, path.decision
        filled = fill_defaults()
        violations = [reason for bounds in path.bounds for reason in bounds.find_violations(arguments, filled)]
        if not violations:
            return path, path.decision
        reasons.extend(reason for reason in violations if reason not in reasons)
    first = resolution.decision
    reason = f"The arguments are outside of the grant: {'; '.join(reasons)}."
    remedy = "Call it within the bounds, or ask for a wider grant."
    return None, replace(first, allowed=False, outcome="forbidden", rule="granted", reason=reason, remedy=remedy)
