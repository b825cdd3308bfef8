"""Access rules: whether and by which grants an agent may call a tool; pure functions that everything else asks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cache, lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
from msgspec.structs import replace

from praval_tools.access.permissions import Grant
from praval_tools.access.records import AccessRecord, AgentProfile, DisabledRecord, GrantRecord, Principal, ToolRecord
from praval_tools.names import OPERATOR, describe_author
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.decision import AccessOutcome, Decision, Tried
from praval_tools.tools.implementation import BoundArguments, ToolImplementation
from praval_tools.tools.tool import AnyTool

if TYPE_CHECKING:
    from praval_tools.access.bounds.bounds import Bounds

_MAX_COMBINATION_CHECKS: Final = 256
"""How many combinations of several members' bounds are checked for arguments that meet them; others count as met."""
_CONFIGURED_KINDS: Final = ("config", "mcp", "openapi")
"""The kinds of sources whose file, if they have one, is a configuration."""


class AccessRecords(Protocol):
    """What the rules read: the records, and nothing else."""

    def find_tool_record(self, tool: str) -> ToolRecord | None:
        """Return the tool's record."""

    def get_profile(self, agent: str) -> AgentProfile:
        """Return the agent's profile, the default one where it is not declared."""

    def get_access(self, agent: str, tool: str) -> AccessRecord:
        """Return what is recorded between the two."""

    def find_disabled_record(self, tool: AnyTool) -> DisabledRecord | None:
        """Return the record that disables *tool*, if there is one."""

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant."""


class RecordsBeforeSpending:
    """The records as before this call spent its grants: a second decision must not refuse it for its own use."""

    __slots__ = ("_records", "_grants", "get_access", "find_disabled_record", "get_profile", "find_tool_record")

    def __init__(self, records: AccessRecords, grants: frozenset[str]) -> None:
        self._records, self._grants = records, grants
        self.find_tool_record, self.get_profile = records.find_tool_record, records.get_profile
        self.get_access, self.find_disabled_record = records.get_access, records.find_disabled_record

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
    """
    What permits a call of the tool, or the refusal.

    `member_paths` has the access paths of each agent that must be permitted, the best first: the caller's own, then
    those of its delegators. `paths` has the best two that combine one of each; where there is one, it is the only one.
    """

    record: ToolRecord | None
    paths: tuple[AccessPath, ...] = ()
    refusal: Decision | None = None
    member_paths: tuple[tuple[AccessPath, ...], ...] = ()

    @property
    def decision(self) -> Decision:
        """The decision before any arguments are known."""
        return self.paths[0].decision if self.refusal is None else self.refusal

    @property
    def has_free_path(self) -> bool:
        """Whether every call is permitted without spending anything."""
        return all(any(not path.is_metered and not path.bounds for path in paths) for paths in self.member_paths)

    def find_path(self, rank: tuple[tuple[bool, bool, int], ...]) -> AccessPath | None:
        """Return the path that combines those of these ranks, one for each member."""
        pairs = zip(self.member_paths, rank, strict=False)  # a refusal has no paths
        first = (next((path for path in paths if path.rank == (part,)), None) for paths, part in pairs)
        chosen = [path for path in first if path is not None]
        return _combine_paths(chosen) if chosen and len(chosen) == len(rank) else None


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
    member_paths = tuple(
        tuple(path for path in paths if not path.bounds or can_satisfy_all(path.bounds, implementation))
        for paths in _list_member_paths(records, principal, record, now)
    )
    if best := tuple(islice(_iter_combinations(member_paths, implementation), 2)):
        return AccessResolution(record, best, None, member_paths)
    return AccessResolution(record, (), _explain_missing_path(records, principal, record, now))


def _iter_combinations(
    member_paths: tuple[tuple[AccessPath, ...], ...], implementation: ToolImplementation
) -> Iterator[AccessPath]:
    """Yield the paths that combine one of each member and that some arguments can meet, the best first."""
    if len(member_paths) == 1:
        yield from member_paths[0]
        return
    checks = iter(range(_MAX_COMBINATION_CHECKS))

    def extend(
        first: list[AccessPath], rest: tuple[tuple[AccessPath, ...], ...], *, is_metered: bool
    ) -> Iterator[AccessPath]:
        if not rest:
            yield _combine_paths(first)
            return
        for path in rest[0]:
            chosen = [*first, path]
            if is_metered and not any(other.is_metered for paths in (chosen, *rest[1:]) for other in paths):
                continue  # all of these came before
            bounds = _combine_paths(chosen).bounds
            if not bounds or next(checks, None) is None or can_satisfy_all(bounds, implementation):
                yield from extend(chosen, rest[1:], is_metered=is_metered)

    if all(member_paths) and member_paths:
        free = tuple(tuple(path for path in paths if not path.is_metered) for paths in member_paths)
        if all(free):
            yield from extend([], free, is_metered=False)
        yield from extend([], member_paths, is_metered=True)


def _combine_paths(chosen: list[AccessPath]) -> AccessPath:
    """Return the path by which all members are permitted: the caller's decision, and the grants of all, each once."""
    if len(chosen) == 1:
        return chosen[0]
    grants = {record.grant.id: record for path in chosen for record in path.grants}
    ranks = tuple(rank for path in chosen for rank in path.rank)
    return AccessPath(chosen[0].decision, tuple(grants.values()), ranks)


def _get_path_sort_key(path: AccessPath) -> tuple[bool, tuple[tuple[bool, bool, int], ...]]:
    """What spends nothing comes first; then by rank."""
    return path.is_metered, path.rank


def _make_refusal(
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
        return _make_refusal("unknown", "unknown", agent, tool, reason, remedy)
    implementation = record.tool.implementation
    if implementation.has_unresolved_hints:
        reason = f"A type hint of {tool!r} is unresolved."
        remedy = "Import or define what it names; registry.problems() says what that is."
        return _make_refusal("disabled", "definition", agent, tool, reason, remedy)
    if (off := records.find_disabled_record(record.tool)) is not None:
        author = describe_author(off.by, off.person)
        reason = f"The {off.kind} {off.name!r} is disabled by {author}{_format_reason(off.reason)}."
        remedy = f"The operator may enable the {off.kind} {off.name!r}."
        return _make_refusal("disabled", "disabled", agent, tool, reason, remedy, off)
    for member in (agent, *principal.chain):
        if blocks := records.get_access(member, tool).blocks:
            block = blocks[0]
            author = describe_author(block.by, block.person)
            reason = f"{author} blocked {member!r} from {tool!r}{_format_reason(block.reason)}."
            remedy = f"{_name_or_operator(block.by)} may lift the block."
            return _make_refusal("forbidden", "blocked", agent, tool, reason, remedy, block)
        if records.get_profile(member).retired:
            reason, remedy = f"Agent {member!r} is retired.", f"Declare {member!r} again."
            return _make_refusal("forbidden", "retired", agent, tool, reason, remedy, member)
    return None


def _format_reason(reason: str) -> str:
    return f": {reason}" if reason else ""


def _name_or_operator(name: str) -> str:
    return "the operator" if name == OPERATOR else f"{name!r} or the operator"


def _list_member_paths(
    records: AccessRecords, principal: Principal, record: ToolRecord, now: datetime
) -> list[list[AccessPath]]:
    """Return the sorted paths of each agent that must be permitted; nothing where a delegation leaves the tool out."""
    delegation = principal.delegation
    if delegation is not None and delegation.tools is not None and record.tool.name not in delegation.tools:
        return []
    if delegation is None or delegation.mode == "own":
        return [find_own_paths(records, principal.agent, record, now)]
    parents = _list_member_paths(records, delegation.parent, record, now)
    if not parents:
        return []
    if delegation.mode == "inherit":
        agent = principal.agent
        return [[replace(path, decision=replace(path.decision, agent=agent)) for path in parents[0]], *parents[1:]]
    return [find_own_paths(records, principal.agent, record, now), *parents]


def find_own_paths(records: AccessRecords, agent: str, record: ToolRecord, now: datetime) -> list[AccessPath]:
    """Return the paths of an agent that acts for itself, up to the first one without bounds."""
    access = records.get_access(agent, record.tool.name)
    if not access.removed and (decision := _find_grantless_rule(records.get_profile(agent), record)) is not None:
        return [AccessPath(decision, (), ((False, False, 0),))]
    paths = list[AccessPath]()
    for grant_id in access.grants:
        if lineage := list_live_lineage(records, grant_id, now):
            is_metered = any(ancestor.grant.max_calls is not None for ancestor in lineage)
            rank = ((True, is_metered, lineage[0].seq),)
            paths.append(AccessPath(_allow_by_grant(agent, record, lineage[0].grant), lineage, rank))
            is_in_order = is_metered == (lineage[0].grant.max_calls is not None)
            if not paths[-1].bounds and is_in_order:  # what comes after it is never used
                break
    return sorted(paths, key=_get_path_sort_key)


def _find_grantless_rule(profile: AgentProfile, record: ToolRecord) -> Decision | None:
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
    change = "" if private else _write_request(profile, record, "tools", tool)
    yield Tried("listed", is_listed and not private, why, change)
    why = ("it is shared" if meta.shared else "it is not shared") + hidden
    if meta.shared and not auto:
        why += f" but {agent!r} has auto_discover_tools=False"
    change = f"share_tool({tool!r})" if auto and not private else ""
    yield Tried("shared", meta.shared and auto and not private, why, change)
    yield _try_category(profile, record, hidden)


def _write_request(profile: AgentProfile, record: ToolRecord, key: str, name: str) -> str:
    """Return what requests a tool or a category where the agent is declared, or would be: in a file, or in code."""
    source = record.tool.metadata.source
    is_new_entry = not profile.declared and source is not None and source.kind in _CONFIGURED_KINDS
    file = source.file if is_new_entry and source is not None else profile.config_file
    if not file:
        return f"@agent({profile.name!r}, {key}=[{name!r}])"
    path = ".".join(("agents", profile.name, key))
    return f"{name!r} in {path} of {file}"


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
    has_effect = is_reachable and not meta.private
    change = _write_request(profile, record, "tool_categories", meta.category) if has_effect else ""
    return Tried("category", is_requested and is_trusted and is_reachable and not meta.private, why, change)


def list_lineage(records: AccessRecords, grant_id: str | None) -> list[GrantRecord]:
    """Return a grant and those that it came from or that narrow it, the nearest first, as far as they are known."""
    lineage: list[GrantRecord] = []
    while grant_id is not None and (record := records.find_grant(grant_id)) is not None:
        if record.narrowed_by is not None and (not lineage or lineage[-1].grant.id != record.narrowed_by):
            grant_id = record.narrowed_by  # what was lent from it is bounded by that, too
            continue
        lineage.append(record)
        grant_id = record.grant.parent
    return lineage


def list_live_lineage(records: AccessRecords, grant_id: str, now: datetime) -> tuple[GrantRecord, ...]:
    """Return a grant and all that it came from; nothing where one of them has ended or is not known."""
    grant = records.find_grant(grant_id)
    if grant is None or grant.has_ended(now):
        return ()
    lineage = list_lineage(records, grant_id)
    if lineage[-1].grant.parent is not None or any(ancestor.has_ended(now) for ancestor in lineage):
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
    author = describe_author(grant.by, grant.person)
    reason = f"{author} granted {tool!r} to {grant.agent!r}{_format_reason(grant.reason)}."
    return Decision(True, "allowed", "granted", agent, tool, reason, "", grant)


@lru_cache(1024)
def can_satisfy_all(bounds: tuple[Bounds, ...], implementation: ToolImplementation) -> bool:
    """Return False only where no arguments for a tool of this definition can meet all *bounds*."""
    return bounds[0].is_satisfiable_with(bounds[1:], implementation.compiled.parameters_schema)


def _explain_missing_path(records: AccessRecords, principal: Principal, record: ToolRecord, now: datetime) -> Decision:
    """Return the refusal of *principal*, which nothing permits to call the tool."""
    tool, agent, delegation = record.tool.name, principal.agent, principal.delegation
    lacking, left_out = _find_missing_links(records, principal, record, now)
    remedy = _write_missing_remedy(record, lacking, left_out)
    if delegation is not None and (delegation.mode == "inherit" or find_own_paths(records, agent, record, now)):
        if left_out:
            _, delegate = left_out[0]
            why = f"{'its delegation' if delegate == agent else f'the delegation to {delegate!r}'} leaves it out"
        else:
            why = f"{next((name for name in lacking if name != agent), agent)!r}, for whom it acts, may not"
        reason = f"{agent!r} may not call {tool!r}: {why}."
        return _make_refusal("forbidden", "delegation", agent, tool, reason, remedy, delegation)
    access = records.get_access(agent, tool)
    ended = [grant for grant in map(records.find_grant, access.grants) if grant is not None and grant.has_ended(now)]
    if ended:
        why = f"its grant is {get_end_reason(max(ended, key=lambda grant: grant.seq), now)}"
    else:
        why = "the tool was removed from it" if access.removed else "nothing gives it this tool"
    return _make_refusal("forbidden", "no-way", agent, tool, f"{agent!r} may not call {tool!r}: {why}.", remedy)


def _find_missing_links(
    records: AccessRecords, principal: Principal, record: ToolRecord, now: datetime
) -> tuple[list[str], list[tuple[str, str]]]:
    """
    Return the members that lack the tool, and the parent and delegate of each delegation that leaves it out.

    Where each has it, and no arguments meet the bounds of all, all of them count as lacking it.
    """
    asked, lacking, left_out = list[str](), list[str](), list[tuple[str, str]]()
    member: Principal | None = principal
    while member is not None:
        delegation, agent = member.delegation, member.agent
        if delegation is not None and delegation.tools is not None and record.tool.name not in delegation.tools:
            left_out.append((delegation.parent.agent, agent))
        if delegation is None or delegation.mode != "inherit":
            asked.append(agent)
            if not find_own_paths(records, agent, record, now):
                lacking.append(agent)
        member = None if delegation is None or delegation.mode == "own" else delegation.parent
    return list(dict.fromkeys(lacking if lacking or left_out else asked)), left_out


def _write_missing_remedy(record: ToolRecord, lacking: list[str], left_out: list[tuple[str, str]]) -> str:
    """Return all that must be done before the call is permitted."""
    tool = record.tool.name
    steps = [f"{parent!r} may delegate it to {agent!r}: tools=[…, {tool!r}]." for parent, agent in left_out]
    if lacking:
        lender = _name_or_operator(record.tool.metadata.owned_by or OPERATOR)
        calls = " and ".join(f"assign_tool_to_agent({tool!r}, {agent!r})" for agent in lacking)
        steps.insert(0, f"{lender} may grant it: {calls}.")
    return " ".join(steps)


def choose_path(
    resolution: AccessResolution, bound: BoundArguments, implementation: ToolImplementation
) -> tuple[AccessPath | None, Decision]:
    """
    Choose for every member the first path that admits the arguments.

    Args:
        resolution: The paths.
        bound: The arguments.
        implementation: That of the tool.

    Returns:
        The path that combines them, None where a member has none, and the decision.
    """
    if not resolution.paths[0].bounds:
        return resolution.paths[0], resolution.paths[0].decision

    @cache
    def find_violations(bounds: Bounds) -> tuple[str, ...]:
        try:
            return bounds.find_violations(*implementation.render_for_bounds(bound, bounds.parameter_names))
        except Unencodable as error:
            return (f"{error}",)

    chosen: list[AccessPath] = []
    reasons: dict[str, None] = {}
    for paths in resolution.member_paths:
        admitting = (path for path in paths if not any(map(find_violations, path.bounds)))
        if (path := next(admitting, None)) is not None:
            chosen.append(path)
        else:
            violations = (find_violations(bounds) for path in paths for bounds in path.bounds)
            reasons.update(dict.fromkeys(chain.from_iterable(violations)))
    if len(chosen) == len(resolution.member_paths):
        combined = _combine_paths(chosen)
        return combined, combined.decision
    first = resolution.decision
    reason = f"The arguments are outside the grant: {'; '.join(reasons)}."
    remedy = "Call it within the bounds, or ask for a wider grant."
    return None, replace(first, allowed=False, outcome="forbidden", rule="out-of-bounds", reason=reason, remedy=remedy)
