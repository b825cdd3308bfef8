"""`Grant`: the recorded permission of one agent to call one tool, with its terms as keywords for type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from attrs import field, frozen
from attrs.converters import optional

from praval_tools.access.bounds.given_bounds import to_plain_bounds
from praval_tools.lazy_import import load
from praval_tools.misuse import explain_misuse
from praval_tools.names import OPERATOR, HasName, to_plain_text
from praval_tools.schema.frozen_json import freeze_json

if TYPE_CHECKING:
    from praval_tools.access.bounds.bounds import Bounds
    from praval_tools.tools.implementation import ToolImplementation


def _freeze_bounds(where: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Return a read-only copy of bounds, whatever kind of mapping they are given as."""
    frozen_bounds: Mapping[str, object] | None = freeze_json(to_plain_bounds(where))
    return frozen_bounds


@explain_misuse
@frozen(kw_only=True)
class Grant:
    """
    A recorded permission: *agent* may call *tool*, within its expiry, count and bounds.

    Args:
        id: Identifies this grant.
        tool: The tool's name.
        agent: Who may call it.
        by: Who granted it; `operator` for the host program.
        key: Start-up code that uses the same key again gets this same grant.
        reason: Why.
        expires: The moment from which it permits nothing; None: never.
        max_calls: How many calls it admits; None: any number.
        where: Bounds on the arguments, as given; read-only.
        delegable: Whether *agent* may lend it on, narrower.
        parent: The grant that it was lent from.
        made: When.
        person: Who acted as the operator, where that is known.
    """

    id: str
    tool: str
    agent: str
    by: str = OPERATOR
    key: str | None = field(default=None, converter=optional(to_plain_text))
    reason: str = field(default="", converter=to_plain_text)
    expires: datetime | None = None
    max_calls: int | None = None
    where: Mapping[str, Any] | None = field(default=None, hash=False, converter=_freeze_bounds)
    delegable: bool = False
    parent: str | None = None
    made: datetime | None = None
    person: str = field(default="", converter=to_plain_text)
    bounds: Bounds | None = field(default=None, eq=False, repr=False)


def takes_place_of(grant: Grant, parent: Grant) -> bool:
    """Tell whether *grant*, which comes from *parent*, is that one declared again by its key, and not lent from it."""
    return grant.key is not None and (grant.by, grant.key) == (parent.by, parent.key)


def has_same_key(grant: Grant, other: Grant) -> bool:
    """Tell whether two grants were made with one key, by one maker, of one tool and to one agent."""
    return grant.key is not None and (grant.by, grant.key, grant.tool, grant.agent) == (
        other.by, other.key, other.tool, other.agent
    )  # fmt: skip


GrantTermsKey = tuple[object, ...]
"""What two grants have in common if the second adds nothing to the first."""

RequestKey = tuple[object, ...]
"""What two grants have in common if the second asks for the same again, later."""


def get_terms_key(grant: Grant) -> GrantTermsKey:
    """Return what *grant* permits to whom, by whom and why; equal for identical grants."""
    return grant.agent, grant.tool, grant.expires, *_get_terms_besides_expiry(grant)


def list_request_keys(grant: Grant) -> list[RequestKey]:
    """Return what *grant* asks for: one key is equal for a repeated request; a duration counts from when it is made."""
    terms = _get_terms_besides_expiry(grant)
    keys: list[RequestKey] = [("until", grant.expires, *terms)]
    if grant.expires is not None and grant.made is not None:
        keys.append(("for", grant.expires - grant.made, *terms))
    return keys


def _get_terms_besides_expiry(grant: Grant) -> tuple[object, ...]:
    return grant.by, grant.reason, grant.max_calls, grant.delegable, grant.parent, grant.bounds


class GrantTerms(TypedDict, total=False):
    """What a grant may say besides tool and agent, as keywords, for type checkers."""

    key: str | None
    reason: str
    expires: datetime | timedelta | None
    max_calls: int | None
    where: Mapping[str, object] | None
    delegable: bool


class SwitchTarget(TypedDict, total=False):
    """What is disabled or enabled, as keywords, for type checkers."""

    tool: str | HasName | None
    namespace: str | None
    category: str | None
    tag: str | None


def compile_bounds(implementation: ToolImplementation, where: Mapping[str, object], tool: str) -> Bounds:
    """
    Return what *where* bounds for the tool of this name; what that needs is imported for the first grant with bounds.

    Raises:
        GrantError: With every reason why it cannot be enforced, or nothing could meet it.
        ToolDefinitionError: A type hint of the tool is unresolved.
    """
    bounds: Bounds = load("praval_tools.access.bounds.tool_bounds").compile_tool_bounds(implementation, where, tool)
    return bounds


def has_time_zone(moment: datetime) -> bool:
    """Tell whether *moment* has a time zone."""
    return moment.tzinfo is not None and moment.utcoffset() is not None


def resolve_expiry(expires: datetime | timedelta | None, now: datetime) -> datetime | None:
    """Return the moment that *expires* means; a time span counts from *now*."""
    return now + expires if isinstance(expires, timedelta) else expires
