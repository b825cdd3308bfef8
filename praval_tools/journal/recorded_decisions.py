"""The form in which the journal stores the decision on a call: which rule decided, and by which record."""

from __future__ import annotations

from attrs import frozen

from praval_tools.access.permissions import Grant
from praval_tools.access.records import AgentProfile, Block, Delegation
from praval_tools.tools.decision import Decision


@frozen(kw_only=True)
class RecordedDecision:
    """
    What the journal keeps of a `Decision`: which rule decided, and by which record.

    Args:
        allowed: Whether the call was allowed.
        rule: Which rule decided.
        reason: One sentence for a person.
        source: The record, as text: `grant:<id>`, `block:<by>`, `agent:<name>`, or the name of its kind.
    """

    allowed: bool
    rule: str
    reason: str = ""
    source: str = ""


def to_recorded_decision(decision: Decision) -> RecordedDecision:
    """Return what the journal keeps of *decision*."""
    return RecordedDecision(
        allowed=decision.allowed, rule=decision.rule, reason=decision.reason, source=_describe_source(decision.source)
    )


def _describe_source(source: object) -> str:
    if source is None or isinstance(source, str):
        return source or ""
    if isinstance(source, Grant):
        return f"grant:{source.id}"
    if isinstance(source, Block):
        return f"block:{source.by}"
    if isinstance(source, AgentProfile):
        return f"agent:{source.name}"
    if isinstance(source, Delegation):
        return f"delegation:{source.parent.agent}"
    name = getattr(source, "name", "")
    return f"{type(source).__name__.lower()}:{name}" if isinstance(name, str) and name else type(source).__name__
