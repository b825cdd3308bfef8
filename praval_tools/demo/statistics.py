"""Computes the demo's statistics: averages per group, and how each group differs from what its rows let expect."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal

from attrs import field, frozen

from praval_tools.demo.table import RowFilter, Table

Verdict = Literal["stands out", "within luck", "too few"]

MIN_GROUP_ROWS = 20
"""A group with fewer rows gets no verdict: the normal approximation says nothing about it."""
SIGNIFICANCE_LEVEL = 0.05
EMPTY_LABEL = "(empty)"


@frozen(kw_only=True)
class Average:
    """The mean of a measure in one group; of a yes/no column: the share of yes."""

    group: str
    rows: int
    mean: float


@frozen(kw_only=True)
class Comparison:
    """
    What one group has, against what its rows would have if only the column that divides the groups made no difference.

    Args:
        group: Value of the dividing column.
        rows: How many rows it has.
        observed: Their mean.
        expected: The mean to expect from the strata that the rows are in.
        chance: Probability of a difference at least this large by luck, times the number of groups judged.
        verdict: What that means.
    """

    group: str
    rows: int
    observed: float
    expected: float
    chance: float
    verdict: Verdict


def compute_averages(table: Table, measure: str, *, by: Sequence[str], only: RowFilter = None) -> list[Average]:
    """Return the average of *measure* for each combination of the values of *by*, in order of appearance."""
    numbers = table.get_column(measure).numbers
    averages = []
    for key, rows in table.group_rows(by, table.select_rows(only)):
        known = [value for row in rows if (value := numbers[row]) is not None]
        if known:
            name = " · ".join(part or EMPTY_LABEL for part in key)
            averages.append(Average(group=name, rows=len(known), mean=math.fsum(known) / len(known)))
    return averages


@frozen
class _Stratum:
    """Rows that are comparable: they differ only in the group."""

    mean: float
    variance: float
    rows: int


@frozen
class _GroupTotals:
    """What the rows of one group add up to over all strata."""

    rows: list[int] = field(factory=list)
    values: list[float] = field(factory=list)
    expected: list[float] = field(factory=list)
    variance: list[float] = field(factory=list)


def compare_groups(
    table: Table, measure: str, *, by: str, within: Sequence[str] = (), only: RowFilter = None
) -> list[Comparison]:
    """
    Compare each value of *by* with what the strata of *within* let expect, the furthest below first.

    Inside a stratum the groups are as if drawn at random from its rows; totals and variances of such draws are known in
    closed form, so no shuffling is needed. Probabilities are corrected for the number of groups (Bonferroni).
    """
    numbers = table.get_column(measure).numbers
    known = [row for row in table.select_rows(only) if numbers[row] is not None]
    groups: dict[str, _GroupTotals] = {}
    for _, rows in table.group_rows(within, known):
        stratum = _summarize_stratum([numbers[row] or 0.0 for row in rows])
        for (name,), members in table.group_rows([by], rows):
            _add_to_totals(
                groups.setdefault(name or EMPTY_LABEL, _GroupTotals()),
                stratum,
                [numbers[row] or 0.0 for row in members],
            )
    judged = sum(1 for totals in groups.values() if sum(totals.rows) >= MIN_GROUP_ROWS)
    return sorted(
        (_judge_group(name, totals, judged) for name, totals in groups.items()),
        key=lambda comparison: (comparison.observed - comparison.expected) * comparison.rows,
    )


def select_shown_groups(groups: Sequence[Comparison], maximum: int) -> list[Comparison]:
    """Return the groups that have a verdict, all if none has; of many the first and the last ones."""
    shown = [group for group in groups if group.verdict != "too few"] or list(groups)
    return shown if len(shown) <= maximum else [*shown[: maximum // 2], *shown[-maximum // 2 :]]


def _summarize_stratum(values: list[float]) -> _Stratum:
    mean = math.fsum(values) / len(values)
    return _Stratum(mean, math.fsum((value - mean) ** 2 for value in values) / len(values), len(values))


def _add_to_totals(totals: _GroupTotals, stratum: _Stratum, values: Iterable[float]) -> None:
    values = list(values)
    drawn, of = len(values), stratum.rows
    totals.rows.append(drawn)
    totals.values.append(math.fsum(values))
    totals.expected.append(drawn * stratum.mean)
    totals.variance.append(stratum.variance * drawn * (of - drawn) / (of - 1) if of > 1 else 0.0)


def _judge_group(name: str, totals: _GroupTotals, judged: int) -> Comparison:
    rows, observed, expected = sum(totals.rows), math.fsum(totals.values), math.fsum(totals.expected)
    spread = math.sqrt(math.fsum(totals.variance))
    distance = abs(observed - expected) / spread if spread > 1e-12 else 0.0
    chance = min(1.0, math.erfc(distance / math.sqrt(2)) * max(judged, 1))
    verdict: Verdict = (
        "too few" if rows < MIN_GROUP_ROWS else "stands out" if chance < SIGNIFICANCE_LEVEL else "within luck"
    )
    return Comparison(
        group=name,
        rows=rows,
        observed=observed / rows,
        expected=expected / rows,
        chance=chance,
        verdict=verdict,
    )
