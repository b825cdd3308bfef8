"""The records of an access state: agents and principals, tools, grants, and what is recorded between them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from praval_tools.access.permissions import Grant, RequestKey
from praval_tools.errors import InvalidNameError
from praval_tools.misuse import ExplainedStructType
from praval_tools.names import OPERATOR, check_agent_name, shorten_repr, to_plain_text
from praval_tools.persistent_map import PersistentMap

if TYPE_CHECKING:
    from datetime import datetime

    from praval_tools.tools.implementation import ToolImplementation
    from praval_tools.tools.metadata import ToolMetadata
    from praval_tools.tools.source import DeclarationSite
    from praval_tools.tools.tool import AnyTool

MAX_CHAIN_LENGTH: Final = 32
"""How many agents may act for each other in a row."""

MIN_PRUNE_SIZE: Final = 8
"""How many grants of one tool to one agent are kept at least before those that ended are dropped."""

MetadataOverrides = tuple[tuple[str, object], ...]
"""Fields of a tool's metadata that the operator overrode, with their values."""


class Block(msgspec.Struct, frozen=True, kw_only=True, metaclass=ExplainedStructType):
    """A refusal that beats every permission: *agent* may not call *tool*; `person` is who acted as the operator."""

    tool: str
    agent: str
    by: str = OPERATOR
    reason: str = ""
    person: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "reason", to_plain_text(self.reason))


class AgentProfile(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """
    What the host's code says about an agent.

    Args:
        name: Its name.
        tools: The tools that it lists, by name, declared yet or not.
        tool_categories: The categories that it requests.
        auto_discover_tools: Whether it may call what it owns and what is shared.
        declared: False for a name that only grants mention.
        retired: It can call nothing until declared again.
        place: Where it was declared, as text.
        config_file: The file of a configuration that declares it; empty where code does.
        run: The same as a site, which can tell whether the declaration runs again.
    """

    name: str
    tools: tuple[str, ...] = ()
    tool_categories: tuple[str, ...] = ()
    auto_discover_tools: bool = True
    declared: bool = False
    retired: bool = False
    place: str = ""
    config_file: str = ""
    run: DeclarationSite | None = None


def _refuse_subclass(cls: type) -> None:
    """Refuse a subclass, which could compare itself, or name its members, as those of another principal."""
    raise TypeError(f"{cls.__name__} cannot be a class of its own: who calls is a plain value.")


class Delegation(msgspec.Struct, frozen=True):
    """How a sub-agent's permissions follow from its parent's: `intersect`, `inherit` or `own`, limited to *tools*."""

    mode: str
    parent: Principal
    tools: frozenset[str] | None = None

    def __init_subclass__(cls, **_: object) -> None:
        _refuse_subclass(cls)

    def __post_init__(self) -> None:
        if type(self.parent) is not Principal:
            raise TypeError(f"The parent of a delegation is a Principal, not {shorten_repr(self.parent)}.")
        if len(self.parent.chain) >= MAX_CHAIN_LENGTH:
            raise InvalidNameError(f"{self.parent.agent!r} acts for {MAX_CHAIN_LENGTH} others; more are not chained.")
        msgspec.structs.force_setattr(self, "mode", to_plain_text(self.mode))
        if self.tools is not None:
            msgspec.structs.force_setattr(self, "tools", frozenset(map(to_plain_text, self.tools)))


class Principal(msgspec.Struct, frozen=True):
    """
    Who calls: an agent, and its delegation, if any.

    What is decided, counted or kept for a caller is so for its principal, never for the name of the agent alone.
    Its fields are plain, and it has no subclasses: equal principals are the same ones, whoever made them.
    """

    agent: str
    delegation: Delegation | None = None

    def __init_subclass__(cls, **_: object) -> None:
        _refuse_subclass(cls)

    def __post_init__(self) -> None:
        if self.delegation is not None and type(self.delegation) is not Delegation:
            raise TypeError(f"What a principal calls by is a Delegation, not {shorten_repr(self.delegation)}.")
        if type(self.agent) is not str:
            msgspec.structs.force_setattr(self, "agent", to_plain_text(self.agent))

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf this one calls, the nearest first."""
        if self.delegation is None:
            return ()
        parent = self.delegation.parent
        return (parent.agent, *parent.chain)

    @property
    def members(self) -> tuple[str, ...]:
        """The agent, and those for whom it acts, each once."""
        return (self.agent,) if self.delegation is None else tuple(dict.fromkeys((self.agent, *self.chain)))

    @property
    def delegation_digest(self) -> str:
        """The same text for equal delegations, in every process; empty for an agent that acts for itself."""
        return "" if self.delegation is None else _compute_digest(self.delegation)


def list_members(principal: Principal | None) -> tuple[str, ...]:
    """Return the members of *principal*; none for the operator."""
    return () if principal is None else principal.members


def _iter_delegations(principal: Principal) -> Iterator[Delegation]:
    """Yield the delegations by which *principal* acts for others, its own first."""
    while (delegation := principal.delegation) is not None:
        yield delegation
        principal = delegation.parent


@lru_cache(1024)
def _compute_digest(delegation: Delegation) -> str:
    """Return the digest of the modes, parents and tools of *delegation* and of those behind it."""
    from hashlib import blake2b  # loads OpenSSL: only who delegates pays for it

    links = [
        [link.mode, link.parent.agent, None if link.tools is None else sorted(link.tools)]
        for link in (delegation, *_iter_delegations(delegation.parent))
    ]
    return blake2b(msgspec.json.encode(links), digest_size=16).hexdigest()


def resolve_principal(named: Principal, delegators: object, running: Principal | None) -> Principal:
    """
    Return the principal that makes a call.

    A call that is made while a principal with delegators runs is on behalf of these too, whatever the call says.

    Args:
        named: The agent that the call names.
        delegators: Those on whose behalf the call says that it is made, the nearest first; nothing: those of *named*.
        running: Who runs where the call is made; None for the operator.

    Raises:
        InvalidNameError: *delegators* are not names of agents, or not those of the principal.
    """
    names = tuple(delegators) if isinstance(delegators, list) else delegators or ()
    if not isinstance(names, tuple) or len(names) > MAX_CHAIN_LENGTH:
        raise InvalidNameError(
            f"on_behalf_of={shorten_repr(delegators)} is not a tuple of at most {MAX_CHAIN_LENGTH} agents' names."
        )
    principal = named
    if running is not None and running.delegation is not None and not _is_delegate_of(named, running):
        if named.delegation is not None:
            raise InvalidNameError(
                f"{named.agent!r} acts for {_join_names(named.chain)}; {running.agent!r}, which acts for "
                f"{_join_names(running.chain)}, makes calls for these alone. Delegate to it from there."
            )
        is_running = named.agent == running.agent
        principal = running if is_running else Principal(named.agent, Delegation("intersect", running))
    elif named.delegation is None:
        return _build_delegated_principal(named.agent, names)
    elif running is not None and running.delegation is not None:
        principal = _restrict_to_ancestor(named, running)
    chain = principal.chain
    if len(chain) > MAX_CHAIN_LENGTH:
        raise InvalidNameError(f"{named.agent!r} would act for more than {MAX_CHAIN_LENGTH} others in a row.")
    if names and names != chain:
        raise InvalidNameError(
            f"{principal.agent!r} acts for {_join_names(chain)} here; the call is on behalf of {shorten_repr(names)}."
        )
    return principal


def _build_delegated_principal(agent: str, delegators: tuple[object, ...]) -> Principal:
    """Return *agent* acting for *delegators*, the nearest first: each of them must be allowed what it calls."""
    principal = Principal(agent)
    delegation: Delegation | None = None
    for name in reversed(delegators):
        delegation = Delegation("intersect", Principal(check_agent_name(name), delegation))
        principal = Principal(agent, delegation)
    return principal


def _is_delegate_of(principal: Principal, ancestor: Principal) -> bool:
    """Tell whether *principal* is *ancestor* or acts for it."""
    return principal == ancestor or any(link.parent == ancestor for link in _iter_delegations(principal))


def _restrict_to_ancestor(principal: Principal, ancestor: Principal) -> Principal:
    """Return *principal*, which acts for *ancestor*, so that it may call nothing that *ancestor* may not."""
    delegation = principal.delegation
    if delegation is None or principal == ancestor:
        return principal
    mode = "intersect" if delegation.mode == "own" else delegation.mode
    parent = _restrict_to_ancestor(delegation.parent, ancestor)
    return Principal(principal.agent, Delegation(mode, parent, delegation.tools))


def _join_names(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))


class ToolRecord(msgspec.Struct, frozen=True):
    """
    A tool as it is registered now.

    Args:
        tool: The tool, with its present owner and flags.
        seq: Its position in lists.
        overrides: What the operator configured.
        past_owners: Its owners before, the first one first.
        previous_implementation: The definition that this one replaced.
        declared_metadata: What the tool's code said of it.
        changed_fields: Which of its owner and sharing were changed at run time, also where they are as declared.
    """

    tool: AnyTool
    seq: int
    overrides: MetadataOverrides = ()
    past_owners: tuple[str | None, ...] = ()
    previous_implementation: ToolImplementation | None = None
    declared_metadata: ToolMetadata | None = None
    changed_fields: frozenset[str] = frozenset()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolRecord) and self._get_comparison_key() == other._get_comparison_key()

    def __hash__(self) -> int:
        return hash((self.tool.name, self.seq))

    def _get_comparison_key(self) -> tuple[object, ...]:
        """Return all that two equal records share: a tool itself is compared by identity."""
        tool = (self.tool.implementation, self.tool.metadata)
        return (
            *tool, self.seq, self.overrides, self.past_owners, self.previous_implementation, self.changed_fields
        )  # fmt: skip


Origin = Literal["here", "elsewhere", "earlier"]
"""In this process; in another one while this one runs; in any before this one opened the journal."""


class GrantRecord(msgspec.Struct, frozen=True):
    """
    A grant and how much of it is used.

    Args:
        grant: The grant.
        seq: Its position among all grants.
        spent_calls: How many calls it has admitted.
        end_reason: Why it ended; empty while it is live.
        end_origin: Where it was ended.
        stored: Whether the journal holds it.
        narrowed_by: The grant of the same key that took its place, and comes from it.
    """

    grant: Grant
    seq: int
    spent_calls: int = 0
    end_reason: str = ""
    end_origin: Origin = "here"
    stored: bool = False
    narrowed_by: str | None = None

    @property
    def calls_left(self) -> int | None:
        """How many calls it still admits, or None where the number is not limited."""
        return None if self.grant.max_calls is None else max(0, self.grant.max_calls - self.spent_calls)

    def has_ended(self, now: datetime | None) -> bool:
        """Tell whether it permits nothing any more; what it came from may have ended all the same."""
        expires = self.grant.expires
        is_expired = expires is not None and now is not None and now >= expires
        return bool(self.end_reason) or is_expired or self.calls_left == 0


class AccessRecord(msgspec.Struct, frozen=True):
    """
    What is recorded between one agent and one tool.

    Args:
        grants: The ids of the grants, in the order in which calls use them: those that count no calls first, and
            the oldest first. Of those that have expired or are spent, new grants drop some.
        prune_size: With how many grants the next one drops all that have expired or are spent.
        removal: Where the tool was removed from the agent; None: it was not.
        ended_requests: What was asked for with grants that were ended before this process opened the journal.
        blocks: The blocks.
    """

    grants: tuple[str, ...] = ()
    prune_size: int = MIN_PRUNE_SIZE
    removal: Origin | None = None
    ended_requests: PersistentMap[RequestKey, None] = PersistentMap()
    blocks: tuple[Block, ...] = ()

    @property
    def removed(self) -> bool:
        """Whether the tool was removed from the agent."""
        return self.removal is not None


class DisabledRecord(msgspec.Struct, frozen=True):
    """A tool, namespace, category or tag that is disabled: by whom, and why."""

    kind: str
    name: str
    by: str = OPERATOR
    reason: str = ""
    person: str = ""


NO_ACCESS: Final = AccessRecord()
