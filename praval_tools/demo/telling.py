"""Turning values of the demo into short sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from praval_tools.demo.figures import FEW, Average, Comparison
from praval_tools.demo.question import Question
from praval_tools.demo.tools import DataSummary, Note, Report, Word


def summary(value: Any, unit: str = "rows") -> str:
    """Return what a tool gave back in one line."""
    if isinstance(value, DataSummary):
        return f"{value.rows:,} {value.unit}, {_columns([column.name for column in value.columns])}"
    if isinstance(value, Report):
        return f"published: {value.headline}"
    if isinstance(value, int):
        return f"note {value}"
    if isinstance(value, list) and value:
        return _listed(value, unit)
    return "nothing" if not value else str(value)


def _columns(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{len(names)} column{'s' if len(names) != 1 else ''}: {', '.join(names[:6])}{more}"


def _listed(values: list[Any], unit: str) -> str:
    first = values[0]
    if isinstance(first, Average):
        return f"{len(values)} groups of {sum(one.rows for one in values):,} {unit}"
    if isinstance(first, Comparison):
        found = {verdict: sum(1 for one in values if one.verdict == verdict) for verdict in ("stands out", "within luck")}
        return f"{len(values)} groups: {found['stands out']} stand out, {found['within luck']} within luck"
    if isinstance(first, Word):
        return ", ".join(f"{one.word} ({one.times:,})" for one in values)
    if isinstance(first, Note):
        return f"{len(values)} note{'s' if len(values) != 1 else ''}"
    return f"{len(values)} {unit}, the first: {' | '.join(cell or '-' for cell in first.values())}"


def arguments(given: dict[str, Any]) -> str:
    """Return arguments as they would stand in a call; mappings only by how many values each key has."""
    return ", ".join(f"{name}={_argument(value)}" for name, value in given.items())


def _argument(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {len(values)} values" for key, values in value.items()) + "}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 48 else f"{text[:46]}…{text[-1]}"


def amount(question: Question, value: float) -> str:
    """Return a mean of the question's measure: as a share, or as a number."""
    return f"{value:.1%}" if question.is_share else number(value)


def number(value: float) -> str:
    """Return *value* with as many digits as a reader wants."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def luck(chance: float) -> str:
    """Return a probability as odds: "once in 4,082"."""
    if chance < 1e-6:
        return "less than once in a million"
    return f"once in {round(1 / chance):,}" if chance < 0.5 else "most of the time"


def expectation(question: Question) -> str:
    """Return where the expected values come from."""
    return f"the same {both(question.within)}" if question.within else f"all {question.table.unit} alike"


def both(names: Sequence[str]) -> str:
    """Join names: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def headline(question: Question, groups: Iterable[Comparison]) -> str:
    """Return the answer in one sentence."""
    found = _standing_out(groups)
    if not found:
        return f"No {question.by} stands out: every difference is within luck."
    top = found[0]
    observed, expected = amount(question, top.observed), amount(question, top.expected)
    what = f"{observed} {question.measure}" if question.is_share else f"{question.measure} {observed} on average"
    return f"{top.group} stands out: {what}, where {expected} was to be expected."


def findings(question: Question, groups: Sequence[Comparison]) -> list[str]:
    """Return what the comparison says, a sentence each."""
    found = _standing_out(groups)
    told = [_finding(question, one) for one in found[:3]]
    judged = [one for one in groups if one.rows >= FEW]
    calm = [one for one in judged if one.verdict == "within luck"]
    rest = f"{len(calm)} of {len(judged)} groups stay within luck" if judged else "No group is large enough to judge"
    few = len(groups) - len(judged)
    told.append(rest + (f"; {few} have fewer than {FEW} {question.table.unit}, too few to tell." if few else "."))
    if calm and len(judged) > 2:
        first = max(judged, key=lambda one: one.observed)
        if first.verdict == "within luck":
            told.append(f"{first.group}, highest at first sight, is one of those: luck does that {luck(first.chance)}.")
    return told


def _finding(question: Question, one: Comparison) -> str:
    observed, expected = amount(question, one.observed), amount(question, one.expected)
    extra = ""
    if question.is_share:
        rows = (one.observed - one.expected) * one.rows
        extra = f", {abs(rows):,.0f} {'more' if rows > 0 else 'fewer'} of {one.rows:,}"
    return (
        f"{one.group}: {observed} against {expected} for {expectation(question)}{extra}; luck does that {luck(one.chance)}."
    )


def _standing_out(groups: Iterable[Comparison]) -> list[Comparison]:
    return sorted((one for one in groups if one.verdict == "stands out"), key=lambda one: one.chance)
