"""Describes results, figures and findings of the demo in short sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence, Sized
from typing import Any

from attrs import asdict, has

from praval_tools.demo.question import Question
from praval_tools.demo.statistics import EMPTY_LABEL, MIN_GROUP_ROWS, Average, Comparison
from praval_tools.demo.tools import DataSummary, NotebookEntry, Report, Word
from praval_tools.names import format_count


def summarize_result(value: Any, unit: str = "row") -> str:
    """Return the result of a tool in one line."""
    if isinstance(value, DataSummary):
        return f"{format_count(value.rows, value.unit)}, {_format_columns([column.name for column in value.columns])}"
    if isinstance(value, Report):
        return "published"
    if isinstance(value, int):
        return ""
    if isinstance(value, dict):
        most = ", ".join(f"{key or EMPTY_LABEL} {count:,}" for key, count in list(value.items())[:3])
        return f"{_count_groups(value)}: {most}{' ...' if len(value) > 3 else ''}"
    if isinstance(value, list) and value:
        return _summarize_list(value, unit)
    if has(type(value)):  # a result of an installed package
        return ", ".join(f"{name} {item}" for name, item in asdict(value).items())
    return "nothing" if not value else str(value)


def _count_groups(groups: Sized) -> str:
    return format_count(len(groups), "group")


def _format_columns(names: Sequence[str]) -> str:
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return f"{format_count(len(names), 'column')}: {', '.join(names[:6])}{more}"


def _summarize_list(values: list[Any], unit: str) -> str:
    first = values[0]
    if isinstance(first, Average):
        return f"{_count_groups(values)} of {format_count(sum(average.rows for average in values), unit)}"
    if isinstance(first, Comparison):
        out, calm = (sum(group.verdict == verdict for group in values) for verdict in ("stands out", "within luck"))
        return f"{_count_groups(values)}: {out} stand{'s' if out == 1 else ''} out, {calm} within luck"
    if isinstance(first, Word):
        return ", ".join(f"{word.word} ({word.times:,})" for word in values)
    if isinstance(first, NotebookEntry):
        return format_count(len(values), "note")
    return f"{format_count(len(values), unit)}, the first: {' | '.join(cell or '-' for cell in first.values())}"


def format_arguments(arguments: dict[str, Any], *, max_length: int = 400) -> str:
    """Return arguments as in a call, each cut to *max_length*; of mappings only how many values they hold."""
    return ", ".join(f"{name}={_format_argument(value, max_length)}" for name, value in arguments.items())


def _format_argument(value: Any, most: int) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {format_count(len(values), 'value')}" for key, values in value.items()) + "}"
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
    """Return *value* with a sensible number of digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_odds(chance: float) -> str:
    """Return a probability as odds: "once in 4,082"."""
    if chance < 1e-6:
        return "less than once in a million"
    return f"once in {round(1 / chance):,}" if chance < 0.5 else "more often than not"


def list_findings(report: Report, words: list[Word]) -> list[str]:
    """Return the findings of the report, and the most frequent words of a text."""
    return [*report.findings, *([f"Most frequent long words: {summarize_result(words)}."] if words else [])]


def describe_expectation(question: Question) -> str:
    """Return where the expected values come from, in two sentences."""
    return f"Expected: the average of {_name_comparable_rows(question)}. Rows are taken as independent of each other."


def _name_comparable_rows(question: Question) -> str:
    return f"the same {join_names(question.within)}" if question.within else f"all {question.table.unit}s"


def join_names(names: Sequence[str]) -> str:
    """Join names: "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def build_headline(question: Question, groups: Iterable[Comparison]) -> str:
    """Return the answer in one sentence."""
    groups = list(groups)
    if not any(group.rows >= MIN_GROUP_ROWS for group in groups):
        return f"No group by {question.by!r} is large enough to tell luck from more."
    outliers = _select_outliers(groups)
    if not outliers:
        return f"Nothing stands out by {question.by!r}: every difference is within luck."
    top = outliers[0]
    observed = f"{format_measure(question, top.observed)}{'' if question.is_share else ' on average'}"
    return f"{top.group} stands out: {observed}, where {format_mean(question, top.expected)} was to be expected."


def build_findings(question: Question, groups: Sequence[Comparison]) -> list[str]:
    """Return what the comparison shows, a sentence per finding."""
    outliers = _select_outliers(groups)
    findings = [_describe_comparison(question, group) for group in outliers[:3]]
    judged = [group for group in groups if group.rows >= MIN_GROUP_ROWS]
    calm = [group for group in judged if group.verdict == "within luck"]
    few = len(groups) - len(judged)
    if not judged:
        findings.append(
            f"No group has {MIN_GROUP_ROWS} {question.table.unit}s, which is what it takes to tell luck from more."
        )
    elif calm or few:
        findings.append(f"{len(calm)} of {len(judged)} stay within luck" + _describe_small_groups(question, few))
    if calm and len(judged) > 2:
        first = max(judged, key=lambda group: group.observed)
        if first.verdict == "within luck":
            findings.append(
                f"{first.group}, highest at first sight, is one of those: luck does that {format_odds(first.chance)}."
            )
    return findings


def _describe_small_groups(question: Question, few: int) -> str:
    if not few:
        return "."
    verb = "has" if few == 1 else "have"
    return f"; {few} more {verb} fewer than {MIN_GROUP_ROWS} {question.table.unit}s, too few to tell."


def _describe_comparison(question: Question, group: Comparison) -> str:
    expected, extra = format_mean(question, group.expected), ""
    if question.is_share:
        rows = (group.observed - group.expected) * group.rows
        extra = f", {abs(rows):,.0f} {'more' if rows > 0 else 'fewer'} of {group.rows:,}"
    return (
        f"{group.group}: {format_measure(question, group.observed)} against {expected} for "
        f"{_name_comparable_rows(question)}{extra}; luck does that {format_odds(group.chance)}."
    )


def _select_outliers(groups: Iterable[Comparison]) -> list[Comparison]:
    outliers = (group for group in groups if group.verdict == "stands out")
    return sorted(outliers, key=lambda group: (group.chance, -abs(group.observed - group.expected)))
