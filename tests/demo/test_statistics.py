"""The figures of the demo: averages, what luck does, and how it is said."""

# Tests of: statistics, phrases, table

from __future__ import annotations

import math
import random

import pytest
from demo_rig import flights  # noqa: F401

from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.statistics import Average, compare_groups, compute_averages
from praval_tools.demo.table import Column, Table
from praval_tools.demo.tools import ColumnSummary, DataSummary


class TestFigures:
    def test_naive_averages(self, flights: Question) -> None:
        """
        The averages are those of counting by hand: 130 of JetBlue's 277 flights were cancelled.
        """
        found = {
            one.group: one for one in compute_averages(flights.table, "cancelled", by=["airline"], only=flights.only)
        }

        assert (found["JetBlue Airways"].rows, found["JetBlue Airways"].mean) == (277, 130 / 277)

    def test_only_one_airline_is_more_than_luck(self, flights: Question) -> None:
        """
        Set against the flights of the same date, airport and hour, JetBlue alone stands out.
        """
        found = compare_groups(flights.table, "cancelled", by="airline", within=flights.within, only=flights.only)

        assert [one.group for one in found if one.verdict == "stands out"] == ["JetBlue Airways"]
        assert found[0].expected == pytest.approx(0.5326, abs=1e-4)

    def test_expected_sums_are_the_observed_ones(self, flights: Question) -> None:
        """
        What is expected over all groups adds up to what was observed.
        """
        found = compare_groups(flights.table, "departure_delay", by="airline", within=("date", "airport"))

        observed = math.fsum(one.observed * one.rows for one in found)
        assert math.fsum(one.expected * one.rows for one in found) == pytest.approx(observed)

    def test_chance_is_that_of_shuffling(self) -> None:
        """
        The closed form agrees with 2,000 shuffles of the groups inside the strata.
        """
        dice = random.Random(8)
        strata = [dice.choice("ab") for _ in range(120)]
        groups = [dice.choice("xy") for _ in range(120)]
        values = [dice.gauss(10 if stratum == "a" else 20, 3) + (group == "x") for stratum, group in
                  zip(strata, groups, strict=True)]  # fmt: skip
        found = {
            one.group: one for one in compare_groups(_table(s=strata, g=groups, v=values), "v", by="g", within=["s"])
        }

        distance = abs(found["x"].observed - found["x"].expected) * found["x"].rows
        extreme = 0
        for _ in range(2000):
            shuffled = list(groups)
            for name in "ab":
                places = [number for number, stratum in enumerate(strata) if stratum == name]
                drawn = [groups[place] for place in places]
                dice.shuffle(drawn)
                for place, group in zip(places, drawn, strict=True):
                    shuffled[place] = group
            total = math.fsum(value for value, group in zip(values, shuffled, strict=True) if group == "x")
            extreme += abs(total - found["x"].expected * found["x"].rows) >= distance
        assert found["x"].chance / 2 == pytest.approx(extreme / 2000, abs=0.03)

    def test_no_difference_is_luck(self) -> None:
        """
        Where all values are equal nothing stands out, and nothing divides by zero.
        """
        found = compare_groups(_table(g=["a", "b"] * 30, v=[1.0] * 60), "v", by="g")

        assert [(one.chance, one.verdict) for one in found] == [(1.0, "within luck")] * 2

    def test_small_groups_get_no_verdict(self) -> None:
        """
        A group with fewer than 20 rows is too small to judge.
        """
        found = compare_groups(_table(g=["a"] * 40 + ["b"] * 3, v=[1.0] * 40 + [9.0] * 3), "v", by="g")

        assert {one.group: one.verdict for one in found}["b"] == "too few"


def _table(**columns: list) -> Table:
    return Table(
        name="t.csv",
        columns=tuple(Column(name=name, values=[str(value) for value in values]) for name, values in columns.items()),
    )


class TestPhrases:
    @pytest.mark.parametrize(
        ("chance", "text"),
        [
            (1e-9, "less than once in a million"),
            (0.00025, "once in 4,000"),
            (0.06, "once in 17"),
            (0.7, "more often than not"),
        ],
    )
    def test_luck(self, chance: float, text: str) -> None:
        """
        Probabilities are printed as odds.
        """
        assert text == phrases.format_odds(chance)

    def test_one_row_is_not_plural(self) -> None:
        """
        One row is "1 row", in a group as in the whole; of each kind of table.
        """
        average, record = Average(group="a", rows=1, mean=2.0), {"v": "2"}

        assert "1 group of 1 row" == phrases.summarize_result([average])
        assert "2 groups of 2 lines" == phrases.summarize_result([average, average], "line")
        assert "1 line, the first: 2" == phrases.summarize_result([record], "line")
        assert "2 rows, the first: 2" == phrases.summarize_result([record, record])
        assert "1 row, 1 column: v" == phrases.summarize_result(
            DataSummary(
                name="t.csv", rows=1, unit="row", columns=[ColumnSummary(name="v", kind="number", distinct=1, empty=0)]
            )
        )
