"""Decisions on calls: whether an agent may call a tool and why, and what policies and people answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from praval_tools.misuse import ExplainedStructType
from praval_tools.names import to_plain_text
from praval_tools.schema.json_input import copy_json
from praval_tools.tools.shown_fields import list_shown_fields, write_repr

AccessOutcome = Literal["allowed", "unknown", "disabled", "forbidden"]


class Tried(msgspec.Struct, frozen=True):
    """A rule that was tried: whether it holds, why, and what would change that."""

    rule: str
    holds: bool
    why: str
    change: str = ""


class Decision(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """
    Whether an agent may call a tool, the rule that decided, and its source.

    Args:
        allowed: The answer.
        outcome: `allowed`, `unknown`, `disabled` or `forbidden`.
        rule: Which rule decided.
        source: The record that decided: the grant, the block, the listing; None where there is none. Of an
            unknown tool, what names the registry that has it, or the one asked where that has no tools.
        agent: Who asks.
        tool: For which tool.
        reason: One sentence for a person.
        remedy: What would change the answer, for the operator.
        tried: Every rule looked at; only `explain` fills it.
        owner: The tool's owner, where a call was refused.
    """

    allowed: bool
    outcome: AccessOutcome
    rule: str
    agent: str | None
    tool: str
    reason: str = ""
    remedy: str = ""
    source: object = None
    tried: tuple[Tried, ...] = ()
    owner: str | None = None

    def __bool__(self) -> bool:
        return self.allowed

    def describe_refusal(self, message: str, code: str) -> str:
        """
        Return *message* with owner, rule, reason and remedy, for the developer.

        Where the error's *code* says that the tool is unknown, which may be to hide it: with the registry that has it.
        """
        if code == "unknown-tool":
            return f"{message} {self.remedy}" if self.outcome == "unknown" and self.source else message
        owner = f"owner {self.owner!r}" if self.owner else "no owner"
        reason = "" if self.reason in message else f" {self.reason}"
        return f"{message}{reason} (rule {self.rule}; {owner}) {self.remedy}".rstrip()


def _set_plain_texts(answer: Deny | Ask | Allow) -> None:
    """Make the texts of *answer* plain ones: they can be recorded, and run no code of their own where they are read."""
    for name in ("reason", "by"):
        text = getattr(answer, name, "")
        if type(text) is not str:
            msgspec.structs.force_setattr(answer, name, "" if text is None else to_plain_text(text))


class Deny(msgspec.Struct, frozen=True, metaclass=ExplainedStructType):
    """A refusal, by a policy or by a person who was asked, with its reason."""

    reason: str = ""
    by: str = ""

    def __post_init__(self) -> None:
        _set_plain_texts(self)


class Ask(msgspec.Struct, frozen=True, metaclass=ExplainedStructType):
    """A policy's request that a person approves the call first."""

    reason: str = ""

    def __post_init__(self) -> None:
        _set_plain_texts(self)


class ApprovalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """
    A call that waits for a person; its `repr` shows the names of its arguments, which may be secrets.

    Args:
        id: Its own id, by which it is answered; ids of calls may repeat.
        tool_call_id: The id of the call; it is sent again with this id once it was answered.
        tool: The tool's name.
        agent: Who calls; None for the operator.
        chain: The agents on whose behalf it calls, the nearest first.
        arguments: What the tool would get, as JSON, after repairs.
        risk_level: The tool's.
        reason: Why somebody is asked.
        run_id: The journaled run that the call belongs to.
        fingerprint: The tool's; an approval of another definition does not count.
        asked: When.
        expires: From when on an answer comes too late.
        digest: Of all that an answer is bound to: the call, its run, who calls and on whose behalf, the tool's
            definition and the exact arguments; `1`, `1.0` and `true` differ.
    """

    id: str = ""
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
    digest: str = ""

    def copy(self) -> ApprovalRequest:
        """Return the request with arguments of its own, for somebody who may change what is shown."""
        return msgspec.structs.replace(self, arguments=copy_json(self.arguments))

    def __repr__(self) -> str:
        return write_repr(self, list_shown_fields(self))

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return list_shown_fields(self)


class Allow(msgspec.Struct, frozen=True, metaclass=ExplainedStructType):
    """
    A person's approval.

    Args:
        arguments: What the tool is to get instead, as JSON; bound and decided again. None: what was requested.
        by: Who approves.
        reason: Why.
    """

    arguments: Mapping[str, Any] | None = None
    by: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        _set_plain_texts(self)

    def __repr__(self) -> str:
        return write_repr(self, list_shown_fields(self))

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return list_shown_fields(self)


ApprovalAnswer = Allow | Deny


class ApprovalEntry(msgspec.Struct, frozen=True):
    """A request that waits, or whose answer was not used yet."""

    request: ApprovalRequest
    answer: ApprovalAnswer | None = None
