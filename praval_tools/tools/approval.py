"""What is asked of a person before a call runs, and what the answer may be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    A call that waits for a person.

    Args:
        tool_call_id: The id of the call; it is sent again with this id once it was answered.
        tool: The tool's name.
        agent: Who calls; None for the operator.
        chain: For whom the agent acts, the nearest first.
        arguments: What the tool would get, as JSON, after repairs.
        risk_level: The tool's.
        reason: Why somebody is asked.
        run_id: The journaled run that the call belongs to.
        fingerprint: The tool's; an approval of another definition does not count.
        asked: When.
        expires: From when on an answer comes too late.
    """

    tool_call_id: str
    tool: str
    agent: str | None
    chain: tuple[str, ...] = ()
    arguments: dict[str, Any]
    risk_level: str = "low"
    reason: str = ""
    run_id: str | None = None
    fingerprint: str = ""
    asked: datetime
    expires: datetime


class Allow(msgspec.Struct, frozen=True):
    """
    A person's yes.

    Args:
        arguments: What the tool is to get instead, as JSON; bound and decided again. None: what was asked for.
        by: Who says so.
        reason: Why.
    """

    arguments: Mapping[str, Any] | None = None
    by: str = ""
    reason: str = ""
