"""Every event that changes who may do what: past-tense facts, one closed union."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from praval_tools.access.records import AgentProfile, Block, Grant
from praval_tools.names import OPERATOR
from praval_tools.tools.tool import Tool


class StateEvent(msgspec.Struct, frozen=True, kw_only=True):
    """
    Base of the events: who did it, and why.

    Args:
        by: Who did it; `operator` for the host program.
        reason: Why.
        id: Stands for this event in the journal; empty as long as it is in none.
        time: When it was journaled.
        process: Which process wrote it.
        stored: It was read from the journal: an earlier process did it, or another one.
    """

    by: str = OPERATOR
    reason: str = ""
    id: str = ""
    time: datetime | None = None
    process: str = ""
    stored: bool = False


class ToolRegistered(StateEvent, frozen=True, kw_only=True):
    """A tool came into the registry, or replaced the one of its name in place."""

    tool: Tool[..., Any]
    replaces: bool = False


class ToolUnregistered(StateEvent, frozen=True, kw_only=True):
    """A tool left the registry; its grants ended."""

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
    """A grant was made."""

    grant: Grant


class GrantRevoked(StateEvent, frozen=True, kw_only=True):
    """A grant, and what came from it, ended."""

    grant: str


class GrantSpent(StateEvent, frozen=True, kw_only=True):
    """A call was admitted under these grants; each has one use less."""

    grants: tuple[str, ...]


class ToolUnassigned(StateEvent, frozen=True, kw_only=True):
    """An agent lost a tool: its grants ended, and its other ways."""

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
    """A tool has another owner."""

    tool: str
    to: str | None


class ToolShared(StateEvent, frozen=True, kw_only=True):
    """A tool was shared."""

    tool: str


class ToolUnshared(StateEvent, frozen=True, kw_only=True):
    """A tool is shared no more."""

    tool: str


class ToolDisabled(StateEvent, frozen=True, kw_only=True):
    """A tool, namespace, category or tag was disabled."""

    kind: str
    name: str


class ToolEnabled(StateEvent, frozen=True, kw_only=True):
    """A tool, namespace, category or tag was enabled again."""

    kind: str
    name: str


class ToolConfigured(StateEvent, frozen=True, kw_only=True):
    """The operator overrode some of a tool's metadata."""

    tool: str
    changes: Mapping[str, Any]


class PolicyAdded(StateEvent, frozen=True, kw_only=True):
    """A policy is asked at every call from now on."""

    name: str
    policy: Callable[..., Any]


class PolicyRemoved(StateEvent, frozen=True, kw_only=True):
    """A policy is asked no more."""

    name: str


class GrantsCounted(StateEvent, frozen=True, kw_only=True):
    """The store says how many calls these grants have left; other processes spend them, too."""

    left: Mapping[str, int]


class ActKept(StateEvent, frozen=True, kw_only=True):
    """
    The journal holds an act on a tool; it counts for the one of this name that comes from `source`.

    Args:
        tool: The tool's name.
        source: Where that tool comes from.
        kind: What it is: `grant`, `ended`, `owner`, `shared`, `configured`.
        key: What stands for it among its kind.
        act: The act; None: it does not hold any more.
        left: How many calls a grant has left; None: it is not counted.
        revision: The change that made it, for their order.
    """

    tool: str
    source: str
    kind: str
    key: str
    act: StateEvent | None
    left: int | None = None
    revision: int = 0


class RegistryCleared(StateEvent, frozen=True, kw_only=True):
    """Everything was forgotten."""


AnyStateEvent = (
    ToolRegistered | ToolUnregistered | AgentDeclared | AgentRetired | ToolListed | ToolAssigned | GrantRevoked
    | GrantSpent | ToolUnassigned | ToolBlocked | ToolUnblocked | OwnershipTransferred | ToolShared | ToolUnshared
    | ToolDisabled | ToolEnabled | ToolConfigured | PolicyAdded | PolicyRemoved | GrantsCounted | ActKept
    | RegistryCleared
)  # fmt: skip
"""The closed union of all events."""

WIDENING_EVENTS = (ToolAssigned, ToolUnblocked, OwnershipTransferred, ToolShared, ToolEnabled, ToolConfigured)
"""The acts that may allow more than before: durable first, then visible; all others are visible first."""

STORED_EVENTS = (
    *WIDENING_EVENTS, ToolUnassigned, ToolBlocked, ToolDisabled, ToolUnshared, ToolUnregistered, GrantRevoked, AgentRetired,
)  # fmt: skip
"""What is done at run time and kept in a journal; what code declares at every start is not."""


def extract_narrowing_part(event: Any) -> Any:
    """Return what of the act *event* allows nothing new; None: no part of it."""
    if isinstance(event, ToolConfigured) and event.changes.get("requires_approval") is True:
        return msgspec.structs.replace(event, changes={"requires_approval": True})
    return None if isinstance(event, WIDENING_EVENTS) else event
