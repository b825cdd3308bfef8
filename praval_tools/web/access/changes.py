"""The changes that forms make: grant, revoke, take away, block, lift; through the registry, as the operator."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from praval_tools.access.events import AnyStateEvent, StateEvent
from praval_tools.access.permissions import GrantTerms
from praval_tools.access.state import AccessState
from praval_tools.config.times import parse_span, parse_time
from praval_tools.errors import AccessWarning, EventFormatError, JournalError, JournalWarning
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.codec import from_json
from praval_tools.journal.events import EventType
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.report.event_text import describe_event
from praval_tools.report.text import format_time
from praval_tools.schema.json_input import parse_typed_json
from praval_tools.web.access.access import AccessReader
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import StaleFormError

CHANGES: Final = {
    "grant": "Granted.", "revoke": "The grant was revoked.", "remove": "Taken away.", "block": "Blocked.",
    "lift": "Every block of the two was lifted.",
}  # fmt: skip
"""What the forms do, and what is said when it is done."""
MAX_REASON: Final = 2_000
TYPED_FIELDS: Final = {
    "max_calls": "for at most so many calls", "expires": "until", "where": "bounds", "reason": "reason",
}  # fmt: skip
"""What people type into the forms, and what it is called."""
TIME_HELP: Final = "2h, 7d, or 2026-12-31T18:00 (UTC)"

_MAX_CHANGES_SHOWN: Final = 10
_MAX_EVENTS_READ: Final = 20_000
"""How many of the latest events are read for what was changed since a page was made."""
_MAX_CALLS: Final = 1_000_000_000
_warnings_lock: Final = ForkSafeLock()


def compute_revision(state: AccessState, agent: str, tool: str) -> str:
    """
    Return what tells whether what is recorded between an agent and a tool, or what decides on it, is still the same.

    Calls that use up a grant do not change it.
    """
    access, profile = state.get_access(agent, tool), state.get_profile(agent)
    grants = [(each, record.end_reason) for each in access.grants if (record := state.find_grant(each)) is not None]
    listed = (tool in profile.tools, profile.tool_categories, profile.auto_discover_tools)
    known: list[object] = [grants, access.removed, access.blocks, listed, profile.declared, profile.retired]
    if (found := state.find_tool_record(tool)) is not None:
        meta = found.tool.metadata
        known += [found.tool.fingerprint, meta.owned_by, meta.shared, meta.private, meta.category]
        known += [meta.requires_approval, meta.risk_level, state.find_disabled_record(found.tool)]
    return blake2b(repr(known).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def list_changes_since(access: AccessReader, fields: Mapping[str, str]) -> list[str]:
    """Return what was changed of what a form is about since its page was made, a line each, the latest ones."""
    agent, tool = parts.read_hidden(fields, "agent"), parts.read_hidden(fields, "tool")
    text = fields.get("seq", "")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        return []
    grants, lines = access.read_state().get_access(agent, tool).grants, deque[str](maxlen=_MAX_CHANGES_SHOWN)
    for record in access.store.read(after_seq=max(int(text), access.store.last_seq() - _MAX_EVENTS_READ)):
        if record.call_id is not None or record.type == EventType.GRANT_SPENT:
            continue
        with suppress(EventFormatError):  # of a damaged one nothing is known
            event = from_json(record.body, event_id=record.id)
            if isinstance(event, StateEvent) and _is_about(event, agent, tool, grants):
                change = describe_event(event)
                why = f" ({change.reason})" if change.reason else ""
                lines.append(f"{format_time(record.time)} UTC, {change.actor}: {change.action}{why}")
    return list(lines)


def _is_about(event: StateEvent, agent: str, tool: str, grants: Collection[str]) -> bool:
    subject: object = getattr(event, "block", None) or getattr(event, "grant", None) or event
    if isinstance(subject, str):
        return subject in grants
    return getattr(subject, "agent", agent) == agent and getattr(subject, "tool", tool) == tool


def make_change(registry: ToolRegistry, operator: str, fields: Mapping[str, str]) -> list[str]:
    """
    Make the change of a form as the operator, and record it with the person who sent the form.

    Args:
        registry: The program's.
        operator: Who sent the form.
        fields: Those of the form.

    Returns:
        What whoever made it should know besides: what allows the call all the same, or that a grant narrows nothing.

    Raises:
        StaleFormError: What the form is about has changed since its page was made; nothing was changed.
        ToolError: The registry refuses it; nothing was changed.
        ValueError: The form says nothing that can be done; nothing was changed.
        JournalError: It could not be recorded.
    """
    agent, tool = parts.read_hidden(fields, "agent"), parts.read_hidden(fields, "tool")
    change, revision = fields.get("change", ""), fields.get("revision", "")
    if change not in CHANGES:
        raise ValueError("The form says nothing that can be done.")
    reason = fields.get("reason", "").strip()[:MAX_REASON]
    terms = _read_terms(fields, reason) if change == "grant" else GrantTerms()
    store = get_runtime(registry).access_store

    def check_revision(state: AccessState) -> list[AnyStateEvent]:
        if compute_revision(state, agent, tool) != revision:
            raise StaleFormError(f"What {agent} may do with {tool} has changed since this page was made.")
        return []

    with _warnings_lock, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with registry.as_operator(person=operator), registry.change():
            store.commit(check_revision)  # tried again with the change, where another process was faster
            if tool not in store.get_current_state().tools and change in ("grant", "block"):
                raise ValueError(f"There is no tool {tool}.")
            match change:
                case "grant":
                    registry.grant(tool, agent, **terms)
                case "revoke":
                    _revoke(registry, parts.read_hidden(fields, "grant"), agent, tool, reason)
                case "remove":
                    registry.remove_tool_from_agent(tool, agent, reason=reason)
                case "block":
                    registry.block(tool, agent, reason=reason)
                case "lift":
                    registry.unblock(tool, agent, reason=reason)
    for warning in caught:
        if issubclass(warning.category, JournalWarning):
            raise JournalError("The change", f"was not recorded: {warning.message}", "Make it again when it can be.")
    return [str(warning.message) for warning in caught if issubclass(warning.category, AccessWarning)]


def _revoke(registry: ToolRegistry, grant_id: str, agent: str, tool: str, reason: str) -> None:
    if grant_id not in registry.state.get_access(agent, tool).grants:
        raise ValueError("There is no such grant of the two.")
    registry.revoke(grant_id, reason=reason)


def _read_terms(fields: Mapping[str, str], reason: str) -> GrantTerms:
    terms = GrantTerms(
        key=f"page:{os.urandom(8).hex()}",  # a new grant, also where the tool was taken away before
        reason=reason,
        expires=_read_expiry(fields.get("expires", "").strip()),
        max_calls=_read_count(fields.get("max_calls", "").strip()),
        delegable=fields.get("delegable") == "yes",
    )
    if text := fields.get("where", "").strip():
        try:
            where = parse_typed_json(text)
        except ValueError as error:
            raise ValueError(f"The bounds are not JSON: {error}.") from error
        if not isinstance(where, dict):
            raise ValueError('The bounds are not a JSON object, such as {"amount": {"maximum": 100}}.')
        terms["where"] = where
    return terms


def _read_expiry(text: str) -> datetime | timedelta | None:
    if not text:
        return None
    try:
        expires = parse_time(text) or parse_span(text)
    except OverflowError as error:
        raise ValueError("The expiry is too far away.") from error
    if expires is None:
        raise ValueError(f"The expiry is not a time; write {TIME_HELP}.")
    return expires


def _read_count(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 12 and 0 < int(text) <= _MAX_CALLS):
        raise ValueError(f"The number of calls is not a number from 1 to {_MAX_CALLS:,}.")
    return int(text)
