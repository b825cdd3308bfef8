"""The dashboard asks for what a Prometheus exporter gives of a registry, and for nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import CollectorRegistry

from praval_tools import Agent, Outcome, ToolCall, ToolRegistry
from praval_tools.integrations.opentelemetry import Telemetry

# Tests of: integrations/telemetry

DASHBOARD = json.loads(
    (Path(__file__).parents[3] / "docs" / "assets" / "telemetry-dashboard.json").read_text(encoding="utf-8")
)
FUNCTIONS = {"by", "histogram_quantile", "label_values", "max", "rate", "sum", "topk"}

_MATCHER = re.compile(r'(\w+)(?:=~|!=|=)"([^"]*)"')
_GROUPING = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def samples() -> Iterator[dict[str, set[str]]]:
    """The labels of each metric that an exporter gives after calls that ended in different ways."""
    exposed = CollectorRegistry()
    provider = MeterProvider([PrometheusMetricReader(registry=exposed)])
    with ToolRegistry(name="bank", telemetry=Telemetry(meter_provider=provider)) as registry:
        Agent("ann", registry=registry)

        @registry.tool("pay", owned_by="ann", requires_approval=True)
        def pay() -> None:
            """Pay."""

        @registry.tool("fail", owned_by="ann")
        def fail() -> None:
            """Fail."""
            raise ValueError

        for name, agent in (("pay", "ann"), ("pay", "eve"), ("fail", "ann"), ("none", "ann")):
            registry.execute(ToolCall("1", name, {}, agent))
        labels: dict[str, set[str]] = {}
        for family in exposed.collect():
            for sample in family.samples:
                labels.setdefault(sample.name, set()).update(sample.labels)
        yield labels
    provider.shutdown()


def list_queries() -> list[str]:
    """Return every query of the dashboard."""
    variables = [one["definition"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    return variables + [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def read_query(query: str) -> tuple[set[str], set[str]]:
    """Return the metrics of a query, and the labels by which it selects, groups or lists them."""
    labels = {label for label, _ in _MATCHER.findall(query)}
    labels |= {label.strip() for group in _GROUPING.findall(query) for label in group.split(",")}
    if (listed := re.match(r"label_values\(\w+, (\w+)\)", query)) is not None:
        labels.add(listed[1])
    bare = re.sub(r"\{[^}]*\}|\bby \([^)]*\)|\[[^\]]*\]", " ", query)
    words = set(re.findall(r"\b[a-z_]+\b", bare)) - FUNCTIONS - ({listed[1]} if listed is not None else set())
    return words, labels


class TestDashboard:
    @pytest.mark.parametrize("query", list_queries())
    def test_asks_for_what_there_is(self, query: str, samples: dict[str, set[str]]) -> None:
        """Every metric and every label of a query is in what the exporter gives, and each query has a metric."""
        metrics, labels = read_query(query)

        assert metrics
        for metric in metrics:
            assert metric in samples
            assert labels <= samples[metric]

    def test_legends_show_labels_of_their_query(self) -> None:
        """A legend names only what the query groups by."""
        for panel in DASHBOARD["panels"]:
            for target in panel["targets"]:
                shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                grouped = {label.strip() for group in _GROUPING.findall(target["expr"]) for label in group.split(",")}
                assert shown == grouped - {"le"} or (not shown and target["expr"].startswith(("sum(", "histogram_")))

    def test_selects_outcomes_that_there_are(self) -> None:
        """A misspelt outcome would select nothing, without an error."""
        matchers = [match for query in list_queries() for match in _MATCHER.findall(query)]
        outcomes = {name for label, text in matchers if label == "praval_call_outcome" for name in text.split("|")}

        assert outcomes <= {outcome.value for outcome in Outcome}
        assert {"cancelled", "approval_required"} == {outcome.value for outcome in Outcome} - outcomes

    def test_shows_what_an_operator_needs(self) -> None:
        """Calls by agent, tool and outcome, refusals by rule, durations, approvals that wait, and errors."""
        titles = {panel["title"] for panel in DASHBOARD["panels"]}

        assert titles >= {
            "Calls by agent", "Calls by tool", "Calls by outcome", "Refusals by rule", "Duration", "Approvals waiting",
            "Errors by tool and type",
        }  # fmt: skip
        (duration,) = (panel for panel in DASHBOARD["panels"] if panel["title"] == "Duration")
        assert ["p50", "p95", "p99"] == [target["legendFormat"] for target in duration["targets"]]

    def test_panels_stand_apart(self) -> None:
        """Each has its own id and place on the grid of 24 columns, and asks the source that the user chose."""
        panels = DASHBOARD["panels"]

        assert len(panels) == len({panel["id"] for panel in panels})
        assert {"${source}"} == {target["datasource"]["uid"] for panel in panels for target in panel["targets"]}
        assert all(place(panel)[1] <= 24 for panel in panels)
        assert not any(overlap(first, second) for first, second in combinations(panels, 2))


def place(panel: dict[str, Any]) -> tuple[int, int, int, int]:
    """Return the sides of a panel: left, right, top, bottom."""
    grid = panel["gridPos"]
    return grid["x"], grid["x"] + grid["w"], grid["y"], grid["y"] + grid["h"]


def overlap(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Tell whether two panels cover each other, in part at least."""
    (a, b, c, d), (e, f, g, h) = place(first), place(second)
    return a < f and e < b and c < h and g < d


class TestReading:
    def test_finds_metrics_and_labels(self) -> None:
        """A query that asks for something else would be seen."""
        query = 'topk(3, sum by (tool, le) (rate(calls_total{agent=~"$agent", outcome!="ok"}[5m]))) / max(other_total)'

        assert ({"calls_total", "other_total"}, {"tool", "le", "agent", "outcome"}) == read_query(query)
        assert ({"calls_total"}, {"agent"}) == read_query("label_values(calls_total, agent)")
