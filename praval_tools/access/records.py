"""The records of an access state: agents and principals, and what is known of tools, grants and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from praval_tools.access.permissions import Block, Grant
from praval_tools.errors import InvalidNameError
from praval_tools.names import OPERATOR, check_agent_name, shorten_repr

if TYPE_CHECKING:
    from praval_tools.tools.implementation import ToolImplementation
    from praval_tools.tools.metadata import ToolMetadata
    from praval_tools.tools.source import DeclarationSite
    from praval_tools.tools.tool import AnyTool

MAX_CHAIN_LENGTH: Final = 32
"""How many agents may act for each other in a row."""

MetadataOverrides = tuple[tuple[str, object], ...]
"""Fields of a tool's metadata that the operator overrode, with their values."""


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
        run: The same as a site, which can tell whether the declaration runs again.
    """

    name: str
    tools: tuple[str, ...] = ()
    tool_categories: tuple[str, ...] = ()
    auto_discover_tools: bool = True
    declared: bool = False
    retired: bool = False
    place: str = ""
    run: DeclarationSite | None = None


class Delegation(msgspec.Struct, frozen=True):
    """How a sub-agent's permissions follow from its parent's: `intersect`, `inherit` or `own`, limited to *tools*."""

    mode: str
    parent: Principal
    tools: frozenset[str] | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who calls: an agent, and its delegation, if any."""

    agent: str
    delegation: Delegation | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf this one calls, the nearest first."""
        if self.delegation is None:
            return ()
        parent = self.delegation.parent
        return (parent.agent, *parent.chain)


def with_delegators(principal: Principal, delegators: object) -> Principal:
    """
    Return *principal* acting for *delegators* too, the nearest first: each of them must be allowed what it calls.

    Raises:
        InvalidNameError: *delegators* are not agents' names.
    """
    if not isinstance(delegators, tuple | list) or len(delegators) > MAX_CHAIN_LENGTH:
        raise InvalidNameError(
            f"on_behalf_of={shorten_repr(delegators)} is not a tuple of at most {MAX_CHAIN_LENGTH} agents' names."
        )
    result: Principal | None = None
    for name in reversed((principal.agent, *delegators)):
        delegation = Delegation("intersect", result) if result is not None else None
        result = Principal(check_agent_name(name), delegation)
    return result or principal


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
    """

    tool: AnyTool
    seq: int
    overrides: MetadataOverrides = ()
    past_owners: tuple[str | None, ...] = ()
    previous_implementation: ToolImplementation | None = None
    declared_metadata: ToolMetadata | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolRecord) and self._get_comparison_key() == other._get_comparison_key()

    def __hash__(self) -> int:
        return hash((self.tool.name, self.seq))

    def _get_comparison_key(self) -> tuple[object, ...]:
        """Return all that two equal records share: a tool itself is compared by identity."""
        tool = (self.tool.implementation, self.tool.metadata)
        return (*tool, self.seq, self.overrides, self.past_owners, self.previous_implementation)


class GrantRecord(msgspec.Struct, frozen=True):
    """
    A grant and how much of it is used.

    Args:
        grant: The grant.
        seq: Its position among all grants.
        spent_calls: How many calls it has admitted.
        end_reason: Why it ended; empty while it is live.
        stored: Whether the journal holds it.
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
    What is recorded between one agent and one tool.

    Args:
        grants: The ids of the live grants.
        removed: Whether the tool was removed from the agent.
        removal_stored: Whether that was before this process read the journal.
        stored_ended_grants: Grants that ended before this process read the journal.
        blocks: The blocks.
    """

    grants: tuple[str, ...] = ()
    removed: bool = False
    removal_stored: bool = False
    stored_ended_grants: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


class DisabledRecord(msgspec.Struct, frozen=True):
    """A tool, namespace, category or tag that is disabled: by whom, and why."""

    kind: str
    name: str
    by: str = OPERATOR
    reason: str = ""


NO_ACCESS: Final = AccessRecord()
