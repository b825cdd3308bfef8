"""The records that say who may call what."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict

import msgspec
from attrs import field, frozen

from praval_tools.errors import InvalidNameError
from praval_tools.names import OPERATOR, check_agent_name, shorten_repr

if TYPE_CHECKING:
    from praval_tools.access.bounds.bounds import Bounds


MAX_CHAIN_LENGTH: Final = 32
"""How many agents may act for each other in a row."""


@frozen(kw_only=True)
class Grant:
    """
    A recorded permission: *agent* may call *tool*, within its expiry, count and bounds.

    Args:
        id: Stands for this grant.
        tool: The tool's name.
        agent: Who may call it.
        by: Who granted it; `operator` for the host program.
        key: Start-up code that uses the same key again gets this same grant.
        reason: Why.
        expires: The moment from which it is no way any more; None: never.
        max_calls: How many calls it admits; None: any number.
        where: Bounds on the arguments, as given.
        delegable: Whether *agent* may lend it on, narrower.
        parent: The grant that it was lent from.
        made: When.
    """

    id: str
    tool: str
    agent: str
    by: str = OPERATOR
    key: str | None = None
    reason: str = ""
    expires: datetime | None = None
    max_calls: int | None = None
    where: Mapping[str, Any] | None = field(default=None, hash=False)
    delegable: bool = False
    parent: str | None = None
    made: datetime | None = None
    bounds: Bounds | None = field(default=None, eq=False, repr=False)


@frozen(kw_only=True)
class Block:
    """A refusal that beats every permission: *agent* may not call *tool*."""

    tool: str
    agent: str
    by: str = OPERATOR
    reason: str = ""


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
        place: Where it was declared.
        run: The same as a `Place`, which tells whether it runs again.
    """

    name: str
    tools: tuple[str, ...] = ()
    tool_categories: tuple[str, ...] = ()
    auto_discover_tools: bool = True
    declared: bool = False
    retired: bool = False
    place: str = ""
    run: Any = None


class Delegation(msgspec.Struct, frozen=True):
    """How a sub-agent stands to its parent: `intersect`, `inherit` or `own`, and what it is narrowed to."""

    mode: str
    parent: Principal
    tools: frozenset[str] | None = None


class Principal(msgspec.Struct, frozen=True):
    """Who calls: an agent, and the delegation by which it acts, if any."""

    agent: str
    delegation: Delegation | None = None

    @property
    def chain(self) -> tuple[str, ...]:
        """The agents on whose behalf this one acts, the nearest first."""
        if self.delegation is None:
            return ()
        parent = self.delegation.parent
        return (parent.agent, *parent.chain)


class GrantTerms(TypedDict, total=False):
    """What a grant may say besides tool and agent, as keywords, for type checkers."""

    key: str | None
    reason: str
    expires: datetime | timedelta | None
    max_calls: int | None
    where: Mapping[str, Any] | None
    delegable: bool


class SwitchTarget(TypedDict, total=False):
    """What is switched off or on, as keywords, for type checkers."""

    tool: Any
    namespace: str | None
    category: str | None
    tag: str | None


def with_delegators(who: Principal, others: object) -> Principal:
    """
    Return *who* acting for *others* too, the nearest first: each of them must be allowed what it calls.

    Raises:
        InvalidNameError: *others* are no agents' names.
    """
    if not isinstance(others, tuple | list) or len(others) > MAX_CHAIN_LENGTH:
        raise InvalidNameError(
            f"on_behalf_of={shorten_repr(others)} is no tuple of at most {MAX_CHAIN_LENGTH} agents' names."
        )
    above: Principal | None = None
    for name in reversed((who.agent, *others)):
        delegation = Delegation("intersect", above) if above is not None else None
        above = Principal(check_agent_name(name), delegation)
    return above or who


def is_aware(moment: datetime) -> bool:
    """Tell whether *moment* has a time zone."""
    return moment.tzinfo is not None and moment.utcoffset() is not None


def resolve_expiry(expires: datetime | timedelta | None, now: datetime) -> datetime | None:
    """Return the moment that *expires* means; a time span counts from *now*."""
    return now + expires if isinstance(expires, timedelta) else expires
