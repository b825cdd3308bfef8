"""The events that change an access state, such as `GrantRevoked`, and which of them widen access or are journaled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from praval_tools.access.drift import ToolSnapshot
from praval_tools.access.permissions import Grant
from praval_tools.access.records import AgentProfile, Block, Origin
from praval_tools.names import OPERATOR, to_plain_text
from praval_tools.tools.tool import AnyTool


class StateEvent(msgspec.Struct, frozen=True, kw_only=True):
    """
    Base of the events: who changed something, and why.

    Args:
        by: Who changed it; `operator` for the host program.
        reason: Why.
        person: Who acted as the operator, where that is known.
        id: Identifies this event in the journal; empty as long as it is in none.
        time: When it was journaled.
        process: Which process wrote it.
        stored: It was read from the journal: an earlier process, or another one, wrote it.
        before_start: It was so when this process opened the journal.
    """

    by: str = OPERATOR
    reason: str = ""
    person: str = ""
    id: str = ""
    time: datetime | None = None
    process: str = ""
    stored: bool = False
    before_start: bool = False

    def __post_init__(self) -> None:
        if type(self.reason) is not str:  # a class of its own would run code wherever it is read
            msgspec.structs.force_setattr(self, "reason", to_plain_text(self.reason))

    @property
    def origin(self) -> Origin:
        """Where it happened, as this process sees it."""
        return "earlier" if self.before_start else "elsewhere" if self.stored else "here"


class ToolRegistered(StateEvent, frozen=True, kw_only=True):
    """
    A tool was registered, or replaced the one of its name in place.

    Args:
        tool: The tool.
        replaces: It took the place of another one.
        redeclares: Its owner and flags count where nobody changed those that were declared before.
        is_other_version: Grants of the tool before it are not for this one: they wait in the journal, as after a start
            with another version, and what was shared of that tool ends.
    """

    tool: AnyTool
    replaces: bool = False
    redeclares: bool = False
    is_other_version: bool = False


class ToolUnregistered(StateEvent, frozen=True, kw_only=True):
    """A tool left the registry; its grants ended."""

    tool: str


class ToolWithdrawn(StateEvent, frozen=True, kw_only=True):
    """A tool left this registry alone; the grants of it that a journal holds wait there for a tool of its source."""

    tool: str


class AgentDeclared(StateEvent, frozen=True, kw_only=True):
    """An agent was declared in the host's code."""

    profile: AgentProfile


class AgentRetired(StateEvent, frozen=True, kw_only=True):
    """An agent was retired: it can call nothing until declared again, and its grants ended."""

    agent: str


class ToolListed(StateEvent, frozen=True, kw_only=True):
    """A tool was added to an agent's list."""

    tool: str
    agent: str


class ToolAssigned(StateEvent, frozen=True, kw_only=True):
    """
    A grant was made.

    Args:
        grant: The grant.
        snapshot: What the tool was then, where a journal stores the grant; older ones have none.
    """

    grant: Grant
    snapshot: ToolSnapshot | None = None


class GrantRedeclared(StateEvent, frozen=True, kw_only=True):
    """
    The key of a grant was used again with other terms.

    Args:
        key: The key.
        made: The terms of the grant that differ, as text.
        declared: What they are declared as now; empty: nothing differs any more.
        counts: Whether all that is declared counts, since it is narrower.
    """

    key: str
    made: str = ""
    declared: str = ""
    counts: bool = False


class GrantRevoked(StateEvent, frozen=True, kw_only=True):
    """A grant, and what came from it, ended."""

    grant: str


class GrantSpent(StateEvent, frozen=True, kw_only=True):
    """A call was admitted under these grants; each has one use less."""

    grants: tuple[str, ...]


class ToolUnassigned(StateEvent, frozen=True, kw_only=True):
    """A tool was removed from an agent: its grants ended, and no other rule permits it."""

    tool: str
    agent: str


class ToolBlocked(StateEvent, frozen=True, kw_only=True):
    """An agent was blocked from a tool."""

    block: Block


class ToolUnblocked(StateEvent, frozen=True, kw_only=True):
    """A block was lifted; `setter` None: all blocks of this agent and tool."""

    tool: str
    agent: str
    setter: str | None = None


class OwnershipTransferred(StateEvent, frozen=True, kw_only=True):
    """A tool got another owner."""

    tool: str
    to: str | None


class ToolShared(StateEvent, frozen=True, kw_only=True):
    """
    A tool was shared.

    Args:
        tool: Its name.
        snapshot: What it was then, where a journal stores that; older ones have none.
    """

    tool: str
    snapshot: ToolSnapshot | None = None


class ToolUnshared(StateEvent, frozen=True, kw_only=True):
    """A tool is not shared any more."""

    tool: str


class ToolDisabled(StateEvent, frozen=True, kw_only=True):
    """A tool, namespace, category or tag was disabled."""

    kind: str
    name: str


class ToolEnabled(StateEvent, frozen=True, kw_only=True):
    """
    A tool, namespace, category or tag was enabled again.

    Args:
        kind: Which of these it is.
        name: Its name.
        setter: Whose disabling ended; None: all of them.
    """

    kind: str
    name: str
    setter: str | None = None


class ToolConfigured(StateEvent, frozen=True, kw_only=True):
    """The operator overrode some of a tool's metadata."""

    tool: str
    changes: Mapping[str, Any]


class PolicyAdded(StateEvent, frozen=True, kw_only=True):
    """A policy is asked at every call from now on."""

    name: str
    policy: Callable[..., object]
    takes_principal: bool = False


class PolicyRemoved(StateEvent, frozen=True, kw_only=True):
    """A policy is not asked any more."""

    name: str


class GrantsCounted(StateEvent, frozen=True, kw_only=True):
    """The store says how many calls these grants have left; other processes spend them, too."""

    left: Mapping[str, int]


class StoredChange(StateEvent, frozen=True, kw_only=True):
    """
    The journal holds a change of a tool; it counts for the tool of this name that comes from `source`.

    Args:
        tool: The tool's name.
        source: Where that tool comes from.
        kind: What was changed: `grant`, `ended`, `owner`, `shared`, `configured`.
        key: Identifies it among its kind.
        change: The event; None: it does not hold any more.
        left: How many calls a grant has left; None: it is not counted.
        revision: The revision of the store that it made, for their order.
    """

    tool: str
    source: str
    kind: str
    key: str
    change: StateEvent | None
    left: int | None = None
    revision: int = 0


class RecordsAdded(StateEvent, frozen=True, kw_only=True):
    """
    The journal gets records in one write with the changes that they are about; subscribers do not hear of the records.

    Args:
        records: Events of the journal, which is above this layer.
    """

    records: tuple[Any, ...]


class RegistryFrozen(StateEvent, frozen=True, kw_only=True):
    """Nothing is declared any more; who may call what still changes."""


class RegistryCleared(StateEvent, frozen=True, kw_only=True):
    """Everything was forgotten."""


AnyStateEvent = (
    ToolRegistered | ToolUnregistered | ToolWithdrawn | AgentDeclared | AgentRetired | ToolListed | ToolAssigned
    | GrantRedeclared | GrantRevoked
    | GrantSpent | ToolUnassigned | ToolBlocked | ToolUnblocked | OwnershipTransferred | ToolShared | ToolUnshared
    | ToolDisabled | ToolEnabled | ToolConfigured | PolicyAdded | PolicyRemoved | GrantsCounted | StoredChange
    | RecordsAdded | RegistryFrozen | RegistryCleared
)  # fmt: skip
"""The closed union of all events."""

ToolChange = OwnershipTransferred | ToolShared | ToolUnshared | ToolConfigured
"""A change of a tool's metadata, which the journal keeps for later processes."""

WIDENING_EVENTS = (ToolAssigned, ToolUnblocked, OwnershipTransferred, ToolShared, ToolEnabled, ToolConfigured)
"""The changes that may allow more than before: durable first, then visible; all others are visible first."""

STORED_EVENTS = (
    *WIDENING_EVENTS, ToolUnassigned, ToolBlocked, ToolDisabled, ToolUnshared, ToolUnregistered, GrantRevoked,
    AgentRetired,
)  # fmt: skip
"""What is changed at run time and kept in a journal; what code declares at every start is not."""


def extract_narrowing_part(event: AnyStateEvent) -> AnyStateEvent | None:
    """Return what of *event* allows nothing new, if anything does."""
    if isinstance(event, ToolConfigured) and event.changes.get("requires_approval") is True:
        return msgspec.structs.replace(event, changes={"requires_approval": True})
    return None if isinstance(event, WIDENING_EVENTS) else event


def make_revocation(grant_id: str, cause: StateEvent) -> GrantRevoked:
    """Return the end of a grant that *cause* brought about, with its origin."""
    return GrantRevoked(
        grant=grant_id, by=cause.by, reason=cause.reason, person=cause.person, id=cause.id, time=cause.time,
        process=cause.process,
    )  # fmt: skip
