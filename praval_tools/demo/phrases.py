"""Turning values of the demo into short sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict, has

from praval_tools.demo.question import Question
from praval_tools.demo.statistics import EMPTY_LABEL, MIN_GROUP_ROWS, Average, Comparison
from praval_tools.demo.tools import DataSummary, NotebookEntry, Report, Word


def summarize_result(value: Any, unit: str = "rows") -> str:
    """Return what a tool gave back in one line."""
    if isinstance(value, DataSummary):
        return f"{value.rows:,} {value.unit}, {_format_columns([column.name for column in value.columns])}"
    if isinstance(value, Report):
        return "published"
    if isinstance(value, int):
        return ""
    if isinstance(value, dict):
        most = ", ".join(f"{key or EMPTY_LABEL} {count:,}" for key, count in list(value.items())[:3])
        return f"{len(value)} groups: {most}{' ...' if len(value) > 3 else ''}"
    if isinstance(value, list) and value:
        return _summarize_list(value, unit)
    if has(type(value)):  # a package's
        return ", ".join(f"{name} {one}" for name, one in asdict(value).items())
    return "nothing" if not value else str(value)


def _format_columns(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{len(names)} column{'s' if len(names) != 1 else ''}: {', '.join(names[:6])}{more}"


def _summarize_list(values: list[Any], unit: str) -> str:
    first = values[0]
    if isinstance(first, Average):
        return f"{len(values)} groups of {sum(one.rows for one in values):,} {unit}"
    if isinstance(first, Comparison):
        out, calm = (sum(one.verdict == verdict for one in values) for verdict in ("stands out", "within luck"))
        return f"{len(values)} groups: {out} stand{'s' if out == 1 else ''} out, {calm} within luck"
    if isinstance(first, Word):
        return ", ".join(f"{one.word} ({one.times:,})" for one in values)
    if isinstance(first, NotebookEntry):
        return f"{len(values)} note{'s' if len(values) != 1 else ''}"
    return f"{len(values)} {unit}, the first: {' | '.join(cell or '-' for cell in first.values())}"


def format_arguments(given: dict[str, Any], *, max_length: int = 400) -> str:
    """Return arguments as they would stand in a call, each cut to *each*; of mappings only how much they hold."""
    return ", ".join(f"{name}={_format_argument(value, max_length)}" for name, value in given.items())


def _format_argument(value: Any, most: int) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {len(values)} values" for key, values in value.items()) + "}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 2]}…{text[-1]}"


def format_mean(question: Question, value: float) -> str:
    """Return a mean of the question's measure: as a share, or as a number."""
    return f"{value:.1%}" if question.is_share else format_number(value)


def format_measure(question: Question, value: float) -> str:
    """Return a mean with the name of its measure: "46.9% cancelled", "words 12.3"."""
    text = format_mean(question, value)
    return f"{text} {question.measure}" if question.is_share else f"{question.measure} {text}"


def format_number(value: float) -> str:
    """Return *value* with as many digits as a reader wants."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_odds(chance: float) -> str:
    """Return a probability as odds: "once in 4,082"."""
    if chance < 1e-6:
        return "less than once in a million"
    return f"once in {round(1 / chance):,}" if chance < 0.5 else "more often than not"


def describe_expectation(question: Question) -> str:
    """Return where the expected values come from."""
    return f"the same {join_names(question.within)}" if question.within else f"all {question.table.unit}"


def join_names(names: Sequence[str]) -> str:
    """Join names: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def build_headline(question: Question, groups: Iterable[Comparison]) -> str:
    """Return the answer in one sentence."""
    groups = list(groups)
    if not any(one.rows >= MIN_GROUP_ROWS for one in groups):
        return f"No group by {question.by!r} is large enough to tell luck from more."
    found = _select_outliers(groups)
    if not found:
        return f"Nothing stands out by {question.by!r}: every difference is within luck."
    top = found[0]
    average = "" if question.is_share else " on average"
    expected = format_mean(question, top.expected)
    return f"{top.group} stands out: {format_measure(question, top.observed)}{average}, where {expected} was to be expected."


def build_findings(question: Question, groups: Sequence[Comparison]) -> list[str]:
    """Return what the comparison says, a sentence each."""
    found = _select_outliers(groups)
    told = [_describe_comparison(question, one) for one in found[:3]]
    judged = [one for one in groups if one.rows >= MIN_GROUP_ROWS]
    calm = [one for one in judged if one.verdict == "within luck"]
    few = len(groups) - len(judged)
    if not judged:
        told.append(
            f"No group has {MIN_GROUP_ROWS} {question.table.unit}, which is what it takes to tell luck from more."
        )
    elif calm or few:
        told.append(f"{len(calm)} of {len(judged)} stay within luck" + _describe_small_groups(question, few))
    if calm and len(judged) > 2:
        first = max(judged, key=lambda one: one.observed)
        if first.verdict == "within luck":
            told.append(
                f"{first.group}, highest at first sight, is one of those: luck does that {format_odds(first.chance)}."
            )
    return told


def _describe_small_groups(question: Question, few: int) -> str:
    if not few:
        return "."
    return f"; {few} more {'has' if few == 1 else 'have'} fewer than {MIN_GROUP_ROWS} {question.table.unit}, too few to tell."


def _describe_comparison(question: Question, one: Comparison) -> str:
    expected, extra = format_mean(question, one.expected), ""
    if question.is_share:
        rows = (one.observed - one.expected) * one.rows
        extra = f", {abs(rows):,.0f} {'more' if rows > 0 else 'fewer'} of {one.rows:,}"
    return (
        f"{one.group}: {format_measure(question, one.observed)} against {expected} for {describe_expectation(question)}{extra}; "
        f"luck does that {format_odds(one.chance)}."
    )


def _select_outliers(groups: Iterable[Comparison]) -> list[Comparison]:
    found = (one for one in groups if one.verdict == "stands out")
    return sorted(found, key=lambda one: (one.chance, -abs(one.observed - one.expected)))
