"""Whether an agent may call a tool, and why."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

AccessOutcome = Literal["allowed", "unknown", "disabled", "forbidden"]


class Tried(msgspec.Struct, frozen=True):
    """One rule that was looked at: whether it holds, why, and what would change that."""

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
        source: The record that decided: the grant, the block, the listing; None where there is none.
        agent: Who asks.
        tool: For which tool.
        reason: One sentence for a person.
        remedy: What would change the answer, for the operator.
        tried: Every rule looked at; filled by `explain` alone.
    """

    allowed: bool
    outcome: AccessOutcome
    rule: str
    agent: str | None
    tool: str
    reason: str = ""
    remedy: str = ""
    source: Any = None
    tried: tuple[Tried, ...] = ()

    def __bool__(self) -> bool:
        return self.allowed


class Deny(msgspec.Struct, frozen=True):
    """A no, of a policy or of a person who was asked, with its reason."""

    reason: str = ""
    by: str = ""


class Ask(msgspec.Struct, frozen=True):
    """A policy's wish that a person approves the call first."""

    reason: str = ""
