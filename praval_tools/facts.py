"""Every event that changes who may do what: past-tense facts, one closed union."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import field, frozen

from praval_tools.model.permissions import AgentProfile, Block, Grant
from praval_tools.model.tool import Tool
from praval_tools.naming import OPERATOR


@frozen(kw_only=True)
class Fact:
    """Base of the events: who did it, and why."""

    by: str = OPERATOR
    reason: str = ""


@frozen(kw_only=True)
class ToolRegistered(Fact):
    """A tool came into the registry, or replaced the one of its name in place."""

    tool: Tool[..., Any] = field(eq=lambda tool: (id(tool.definition_), tool.metadata))
    replaces: bool = False


@frozen(kw_only=True)
class ToolUnregistered(Fact):
    """A tool left the registry; its grants ended."""

    tool: str


@frozen(kw_only=True)
class AgentDeclared(Fact):
    """An agent was declared in the host's code."""

    profile: AgentProfile


@frozen(kw_only=True)
class AgentRetired(Fact):
    """An agent was retired: it can call nothing until declared again, and its grants ended."""

    agent: str


@frozen(kw_only=True)
class ToolListed(Fact):
    """A tool was added to an agent's list."""

    tool: str
    agent: str


@frozen(kw_only=True)
class ToolAssigned(Fact):
    """A grant was made."""

    grant: Grant


@frozen(kw_only=True)
class GrantRevoked(Fact):
    """A grant, and what came from it, ended."""

    grant: str


@frozen(kw_only=True)
class GrantSpent(Fact):
    """A call was admitted under these grants; each has one use less."""

    grants: tuple[str, ...]


@frozen(kw_only=True)
class ToolUnassigned(Fact):
    """An agent lost a tool: its grants ended, and its other ways."""

    tool: str
    agent: str


@frozen(kw_only=True)
class ToolBlocked(Fact):
    """An agent was blocked from a tool."""

    block: Block


@frozen(kw_only=True)
class ToolUnblocked(Fact):
    """A block was lifted; `setter` None: all blocks of this agent and tool."""

    tool: str
    agent: str
    setter: str | None = None


@frozen(kw_only=True)
class OwnershipTransferred(Fact):
    """A tool has another owner."""

    tool: str
    to: str | None


@frozen(kw_only=True)
class ToolShared(Fact):
    """A tool was shared."""

    tool: str


@frozen(kw_only=True)
class ToolUnshared(Fact):
    """A tool is shared no more."""

    tool: str


@frozen(kw_only=True)
class ToolDisabled(Fact):
    """A tool, namespace, category or tag was disabled."""

    kind: str
    name: str


@frozen(kw_only=True)
class ToolEnabled(Fact):
    """A tool, namespace, category or tag was enabled again."""

    kind: str
    name: str


@frozen(kw_only=True)
class ToolConfigured(Fact):
    """The operator overrode some of a tool's metadata."""

    tool: str
    changes: Mapping[str, Any]


@frozen(kw_only=True)
class PolicyAdded(Fact):
    """A policy is asked at every call from now on."""

    name: str
    policy: Callable[..., Any]


@frozen(kw_only=True)
class PolicyRemoved(Fact):
    """A policy is asked no more."""

    name: str


@frozen(kw_only=True)
class RegistryCleared(Fact):
    """Everything was forgotten."""


Event = (
    ToolRegistered | ToolUnregistered | AgentDeclared | AgentRetired | ToolListed | ToolAssigned | GrantRevoked
    | GrantSpent | ToolUnassigned | ToolBlocked | ToolUnblocked | OwnershipTransferred | ToolShared | ToolUnshared
    | ToolDisabled | ToolEnabled | ToolConfigured | PolicyAdded | PolicyRemoved | RegistryCleared
)  # fmt: skip
"""The closed union of all events."""
