"""The access state: every record that a registry holds, immutable, with look-ups for rules, lists and the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from praval_tools.access import events
from praval_tools.access.drift import take_snapshot
from praval_tools.access.permissions import Grant, GrantTermsKey, get_terms_key, has_same_key
from praval_tools.access.records import (
    NO_ACCESS,
    AccessRecord,
    AgentProfile,
    DisabledRecord,
    GrantRecord,
    MetadataOverrides,
    ToolRecord,
)
from praval_tools.names import MAX_NAME_LENGTH, OPERATOR, fold_name, to_wire_name
from praval_tools.persistent_map import PersistentMap as Map
from praval_tools.tools.tool import AnyTool

K = TypeVar("K")
V = TypeVar("V")

EMPTY_MAP: Final[Map[Any, Any]] = Map()

Label = tuple[str, str | None]
"""A kind, like `category`, `owner` or `tag`, and its value."""

StoredChangeKey = tuple[str, str, str]
"""Kind, key and source of a stored change."""


class RegisteredPolicy(msgspec.Struct, frozen=True):
    """A policy, its name, and whether it takes the whole principal beside the name of an agent."""

    name: str
    check: Callable[..., Any]
    takes_principal: bool = False


class AccessState(msgspec.Struct, frozen=True):
    """Every record behind one pointer; only `transitions.apply_event` makes another."""

    tools: Map[str, ToolRecord] = EMPTY_MAP
    names_by_wire_key: Map[str, str] = EMPTY_MAP
    withdrawn: Map[str, ToolRecord] = EMPTY_MAP
    """Tools that left this registry alone, if their owner or sharing was changed at run time and no journal has it."""
    tools_by_label: Map[Label, Map[str, int]] = EMPTY_MAP
    profiles: Map[str, AgentProfile] = EMPTY_MAP
    access_by_agent: Map[str, Map[str, AccessRecord]] = EMPTY_MAP
    agents_by_tool: Map[str, Map[str, int]] = EMPTY_MAP
    grants: Map[str, GrantRecord] = EMPTY_MAP
    child_grant_ids: Map[str, tuple[str, ...]] = EMPTY_MAP
    grant_ids_by_key: Map[tuple[str, str], str] = EMPTY_MAP  # by who made the grant, and its key
    redeclared_keys: Map[tuple[str, str], events.GrantRedeclared] = EMPTY_MAP
    grant_ids_by_terms: Map[GrantTermsKey, tuple[str, ...]] = EMPTY_MAP
    overrides_by_tool: Map[str, Map[str, MetadataOverrides]] = EMPTY_MAP
    disabled: Mapping[tuple[str, str], tuple[DisabledRecord, ...]] = msgspec.field(default_factory=dict)
    """A kind and a name → who disables it, each once."""
    lifted: Map[tuple[str, ...], None] = EMPTY_MAP
    """Blocks and disablings of files that somebody lifted, not a file; see `get_block_key`, `get_disabling_key`."""
    policies: tuple[RegisteredPolicy, ...] = ()
    stored_changes: Map[str, Map[StoredChangeKey, events.StoredChange]] = EMPTY_MAP
    revision: int = 0
    next_seq: int = 0
    frozen: bool = False

    def resolve_tool_name(self, name: str) -> str:
        """Return the name of the tool that *name* means: its own, or the one under which it travels to a provider."""
        if name in self.tools or len(name) > MAX_NAME_LENGTH:
            return name
        holder = self.names_by_wire_key.get(fold_name(name))
        return holder if holder is not None and to_wire_name(holder) == name else name

    # ── what the rules read ──────────────────────────────────────────────────────────────────────

    def find_tool_record(self, tool: str) -> ToolRecord | None:
        """Return the tool's record."""
        return self.tools.get(tool)

    def get_profile(self, agent: str) -> AgentProfile:
        """Return the agent's profile, the default one where it is not declared."""
        return self.profiles.get(agent) or AgentProfile(name=agent)

    def get_access(self, agent: str, tool: str) -> AccessRecord:
        """Return what is recorded between the two."""
        access = self.access_by_agent.get(agent)
        return NO_ACCESS if access is None else access.get(tool) or NO_ACCESS

    def find_disabled_record(self, tool: AnyTool) -> DisabledRecord | None:
        """Return a record that disables *tool*, if there is one."""
        if self.disabled:
            for label in (("tool", tool.name), *list_tool_labels(tool)):
                if records := self.disabled.get(label):  # type: ignore[arg-type]
                    return records[0]
        return None

    def find_grant(self, grant_id: str) -> GrantRecord | None:
        """Return a grant."""
        return self.grants.get(grant_id)

    # ── what the journal holds ───────────────────────────────────────────────────────────────────

    def list_stored_changes(self, tool: str) -> list[events.StoredChange]:
        """Return the changes of the tool of this name that the journal holds."""
        return list((self.stored_changes.get(tool) or EMPTY_MAP).values())

    def list_narrowed_grants(self, grant_id: str) -> list[str]:
        """Return the grants of whose key this one took the place, the latest first."""
        narrowed = list[str]()
        record: GrantRecord | None = self.grants[grant_id]
        while record is not None and record.grant.parent is not None:
            parent = self.grants.get(record.grant.parent)
            is_narrowed = parent is not None and parent.narrowed_by == record.grant.id
            narrowed += [record.grant.parent] if is_narrowed else []
            record = parent if is_narrowed else None
        return narrowed

    def find_known_grant(self, grant_id: str) -> Grant | None:
        """Return a grant, also one that waits for its tool."""
        if (record := self.grants.get(grant_id)) is not None:
            return record.grant
        for changes in self.stored_changes.values():
            for (kind, key, _), stored in changes.items():
                if kind == "grant" and key == grant_id and isinstance(stored.change, events.ToolAssigned):
                    return stored.change.grant
        return None

    def iter_pending_grants(self, tool: str | None) -> Iterator[tuple[events.StoredChange, Grant]]:
        """Yield the journal's grants that wait for their tool, *tool* or any: what the journal holds, and the grant."""
        for name in self.stored_changes if tool is None else (tool,):
            changes = [stored for stored in self.list_stored_changes(name) if stored.change is not None]
            ended = {stored.key for stored in changes if stored.kind == "ended"}
            for stored in changes:
                change = stored.change
                is_over = stored.key in self.grants or stored.key in ended
                if stored.kind == "grant" and not is_over and isinstance(change, events.ToolAssigned):
                    yield stored, change.grant

    # ── lists ────────────────────────────────────────────────────────────────────────────────────

    def get_tools_by_label(self, kind: str, value: str | None) -> Mapping[str, int]:
        """Return the names of the tools that carry a label, with their positions."""
        return self.tools_by_label.get((kind, value)) or EMPTY_MAP

    def find_candidate_tools(self, agent: str) -> list[str]:
        """Return the tools that any rule could give *agent*, in registration order."""
        profile = self.get_profile(agent)
        names: set[str] = set(profile.tools)
        if profile.auto_discover_tools:
            names.update(self.get_tools_by_label("owner", agent), self.get_tools_by_label("shared", ""))
        for category in profile.tool_categories:
            names.update(self.get_tools_by_label("category", category))
        names.update(self.access_by_agent.get(agent) or ())
        return sort_by_registration(self, names)


def get_block_key(tool: str, agent: str, setter: str) -> tuple[str, ...]:
    """Return what stands in `lifted` for a block."""
    return "block", tool, agent, setter


def get_disabling_key(kind: str, name: str, setter: str) -> tuple[str, ...]:
    """Return what stands in `lifted` for what *setter* disabled."""
    return kind, name, setter


def get_tool_origin(tool: AnyTool) -> str:
    """
    Return what a stored change of *tool* is bound to: the distribution that ships it, else its module and name.

    Code that runs for somebody else than the operator can give its functions any names, so whose it is counts, too.
    """
    source = tool.metadata.source
    origin = f"{tool.implementation.site.import_name}:{tool.implementation.qualname}"
    if source is None:
        return origin
    origin = source.distribution or origin
    return f"{origin}{_DECLARED_BY}{source.declared_by!r}" if source.declared_by else origin


_DECLARED_BY: Final = " declared by "


def is_declared_origin(origin: str) -> bool:
    """Tell whether an origin is of a tool that code of an agent or plugin declared while it ran."""
    return _DECLARED_BY in origin  # no module, distribution or name of the operator's has it


def get_declarer(tool: AnyTool) -> str:
    """Return the agent or plugin whose code declared *tool* while it ran; empty where the operator's did."""
    source = tool.metadata.source
    return "" if source is None else source.declared_by


def sort_by_registration(state: AccessState, names: Iterable[str]) -> list[str]:
    """Return those of *names* that are registered, in registration order."""
    positions = ((record.seq, name) for name in names if (record := state.tools.get(name)) is not None)
    return [name for _, name in sorted(positions)]


def list_tool_labels(tool: AnyTool) -> list[Label]:
    """Return the labels of *tool*: its category, owner, tags and namespace, and that it is shared."""
    meta = tool.metadata
    labels: list[Label] = [("category", meta.category)]
    if meta.owned_by is not None:
        labels.append(("owner", meta.owned_by))
    for tag in meta.all_tags:
        labels.append(("tag", tag))
    if tool.namespace:
        labels.append(("namespace", tool.namespace))
    if meta.shared:
        labels.append(("shared", ""))
    return labels


def find_tool_origin(state: AccessState, tool: str) -> str:
    """Return the origin of the tool that has this name now; empty where there is none."""
    record = state.find_tool_record(tool)
    return "" if record is None else get_tool_origin(record.tool)


def list_changes_without_declared(state: AccessState, tool: str) -> list[events.StoredChange]:
    """Return the stored changes of a tool's name, without those of another tool that code of an agent declared."""
    origin = find_tool_origin(state, tool)
    changes = state.list_stored_changes(tool)
    return [stored for stored in changes if stored.source == origin or not is_declared_origin(stored.source)]


def list_shared_sources(state: AccessState, tool: str) -> list[str]:
    """Return for which sources the journal holds a sharing that ends with that of the tool which is registered now."""
    origin = find_tool_origin(state, tool)
    return [
        stored.source
        for stored in list_changes_without_declared(state, tool)
        if isinstance(stored.change, events.ToolShared)
        and (stored.source == origin or not is_declared_origin(origin))
    ]


def list_changed_sources(state: AccessState, event: events.ToolChange) -> list[str]:
    """Return for which sources the journal holds *event*: the tool's own, and each whose sharing ends with it."""
    origin = get_tool_origin(state.tools[event.tool].tool)
    ended = list_shared_sources(state, event.tool) if isinstance(event, events.ToolUnshared) else ()
    return list(dict.fromkeys((origin, *ended)))


def find_ended_grant(state: AccessState, tool: str, agent: str, maker: str, key: str) -> Grant | None:
    """Return a grant that *maker* made with this key and the journal holds as ended, whatever the tool is now."""
    changes = list_changes_without_declared(state, tool)
    ended = {stored.key for stored in changes if stored.kind == "ended" and stored.change is not None}
    for stored in changes if ended else ():
        change = stored.change
        if stored.key in ended and isinstance(change, events.ToolAssigned):
            grant = change.grant
            if (grant.agent, grant.by, grant.key) == (agent, maker, key):
                return grant
    return None


def list_same_key_grants(state: AccessState, grant_id: str) -> list[str]:
    """Return a grant with those that count beside it and were made with its key, for other versions of the tool."""
    grant = state.grants[grant_id].grant
    others = state.get_access(grant.agent, grant.tool).grants if grant.key is not None else ()
    return [
        grant_id, *(other for other in others if other != grant_id and has_same_key(state.grants[other].grant, grant))
    ]  # fmt: skip


def find_pending_grants_ended_by(state: AccessState, event: events.StateEvent) -> list[events.StoredChange]:
    """
    Return the journal's grants that *event* ends while they wait for their tools, and those lent from them.

    Who ends a grant with a key ends all that its maker made with the key: for each version of the tool. Code that
    declared the tool itself ends no grants of another one of that name.
    """
    revoked: Grant | None = None
    tool, source, agent = getattr(event, "tool", None), None, getattr(event, "agent", None)
    if isinstance(event, events.GrantRevoked):
        revoked = state.find_known_grant(event.grant)
        if revoked is None or (revoked.key is None and revoked.id in state.grants):
            return []
        tool = revoked.tool
    elif isinstance(event, events.ToolUnregistered):
        source = find_tool_origin(state, event.tool)
    elif not isinstance(event, events.ToolUnassigned | events.AgentRetired):
        return []
    own_source = _find_own_source(state, tool, event.by)
    pending = {
        stored.key: (stored, grant)
        for stored, grant in state.iter_pending_grants(tool)
        if own_source in (None, stored.source)
    }
    ended = [
        key
        for key, (stored, grant) in pending.items()
        if (agent is not None and agent == grant.agent)
        or (source is not None and source == stored.source)
        or (revoked is not None and (key == revoked.id or has_same_key(grant, revoked)))
    ]
    for parent in ended:  # grows meanwhile
        ended += [key for key, (_, grant) in pending.items() if grant.parent == parent and key not in ended]
    return [pending[key][0] for key in ended]


def _find_own_source(state: AccessState, tool: str | None, actor: str) -> str | None:
    """Return the origin of a tool that code of an agent or plugin declared, where *actor* is not the operator."""
    record = None if tool is None or actor == OPERATOR else state.find_tool_record(tool)
    return get_tool_origin(record.tool) if record is not None and get_declarer(record.tool) else None


def make_waiting_grant(state: AccessState, held: GrantRecord, revision: int) -> events.StoredChange:
    """Return what the journal holds of a live grant, whose tool is registered and about to go."""
    grant, tool = held.grant, state.tools[held.grant.tool]
    source = get_tool_origin(tool.tool)
    known = (state.stored_changes.get(grant.tool) or EMPTY_MAP).get(("grant", grant.id, source))
    change = known.change if known is not None else None
    if change is None:
        snapshot = take_snapshot(tool)
        change = events.ToolAssigned(grant=grant, by=grant.by, reason=grant.reason, id=grant.id, snapshot=snapshot)
    return events.StoredChange(
        tool=grant.tool, source=source, kind="grant", key=grant.id, change=change, left=held.calls_left,
        revision=revision,
    )  # fmt: skip


def without_grant(state: AccessState, grant: Grant) -> AccessState:
    """Return *state* without a grant that it holds, save between its agent and its tool."""
    key, terms = (grant.by, grant.key or ""), get_terms_key(grant)
    by_key, by_terms = state.grant_ids_by_key, state.grant_ids_by_terms
    same = tuple(other for other in by_terms.get(terms) or () if other != grant.id)
    return msgspec.structs.replace(
        state,
        grants=state.grants.discard(grant.id),
        child_grant_ids=state.child_grant_ids.discard(grant.id),
        grant_ids_by_key=by_key.discard(key) if by_key.get(key) == grant.id else by_key,
        grant_ids_by_terms=by_terms.set(terms, same) if same else by_terms.discard(terms),
    )


def with_access(state: AccessState, agent: str, tool: str, access: AccessRecord) -> AccessState:
    """Return *state* with what is recorded between the two; without it where that is nothing."""
    by_tool: Map[str, AccessRecord] = state.access_by_agent.get(agent) or EMPTY_MAP
    agents: Map[str, int] = state.agents_by_tool.get(tool) or EMPTY_MAP
    if access != NO_ACCESS:
        by_tool, agents = by_tool.set(tool, access), agents.set(agent, 0)
    else:
        by_tool, agents = by_tool.discard(tool), agents.discard(agent)
    return msgspec.structs.replace(
        state,
        access_by_agent=set_or_discard(state.access_by_agent, agent, by_tool),
        agents_by_tool=set_or_discard(state.agents_by_tool, tool, agents),
    )


def set_or_discard(outer: Map[str, Map[K, V]], key: str, inner: Map[K, V]) -> Map[str, Map[K, V]]:
    """Return *outer* with *inner* under *key*; without it where *inner* is empty."""
    return outer.set(key, inner) if len(inner) else outer.discard(key)
