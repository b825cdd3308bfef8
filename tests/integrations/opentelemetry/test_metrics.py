"""The duration of each call is measured, and the approvals that wait are counted; with few series of each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from clocks import HandClock
from telemetry_rig import Collector, collector, registry

from praval_tools import Agent, Allow, JournalError, ToolCall, ToolRegistry
from praval_tools.integrations.opentelemetry.attributes import KnownNames
from praval_tools.registry.registry import get_runtime

# Tests of: integrations/instruments, integrations/attributes, integrations/telemetry

__all__ = ["collector", "registry"]

DURATION, WAITING = "gen_ai.execute_tool.duration", "praval.approvals.waiting"


def call(name: str, agent: str | None = "ann", **arguments: Any) -> ToolCall:
    """Return a call."""
    return ToolCall("call-1", name, arguments, agent)


def declare(registry: ToolRegistry, **options: Any) -> None:
    """Declare a tool of ann's that may fail."""

    @registry.tool("divide", owned_by="ann", **options)
    def divide(by: int) -> float:
        """Divide."""
        return 1 / by


class TestDuration:
    def test_is_measured_in_seconds(self, collector: Collector) -> None:
        """From the request to the result, in buckets that begin at a millisecond."""
        clock = HandClock()
        registry = ToolRegistry(telemetry=collector.make_telemetry(), clock=clock)

        @registry.tool("wait", shared=True)
        def wait() -> None:
            """Wait."""
            clock.seconds += 1.5

        registry.execute_tool("wait")

        (point,) = collector.read_points(DURATION)
        assert (1, 1.5) == (point.count, point.sum)
        assert (0.001, 81.92, 17) == (point.explicit_bounds[0], point.explicit_bounds[-1], len(point.explicit_bounds))

    def test_says_who_called_what_and_how_it_ended(self, registry: ToolRegistry, collector: Collector) -> None:
        """Agent, tool, outcome, rule and type of the error are its attributes, and nothing else."""
        declare(registry)

        registry.execute(call("divide", by=1))
        asyncio.run(registry.aexecute(call("divide", by=1)))
        registry.execute(call("divide", by=0))
        registry.execute(call("divide", "eve", by=1))
        registry.execute(call("divide", None, by=1))

        base = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "divide", "gen_ai.tool.type": "function"}
        by_ann = base | {"gen_ai.agent.name": "ann", "praval.decision.rule": "owner"}
        refused = base | {"praval.call.outcome": "forbidden"}
        expected = [
            (2, by_ann | {"praval.call.outcome": "ok"}),
            (1, by_ann | {"praval.call.outcome": "tool_error", "error.type": "ZeroDivisionError"}),
            (1, refused | {"gen_ai.agent.name": "eve", "praval.decision.rule": "no-way"}),
            (1, refused | {"praval.decision.rule": "no-agent"}),
        ]
        assert expected == [(point.count, dict(point.attributes)) for point in collector.read_points(DURATION)]

    def test_has_few_series(self, registry: ToolRegistry, collector: Collector) -> None:
        """Names that a model invents are one series, and so are agents beyond the thousandth."""
        declare(registry)
        for number in range(1_010):
            registry.execute(call(f"invented_{number}"))
            registry.execute(call("divide", f"agent_{number}", by=1))

        attributes = [dict(point.attributes) for point in collector.read_points(DURATION)]
        assert {"_OTHER", "divide"} == {one["gen_ai.tool.name"] for one in attributes}
        agents = {one["gen_ai.agent.name"] for one in attributes}
        assert (1_001, True) == (len(agents), "_OTHER" in agents)

    def test_of_a_replayed_call_is_not_measured(self, collector: Collector) -> None:
        """Nothing ran; the span alone says that it was asked for."""
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)
            declare(registry)
            for _ in range(2):
                with registry.run("r"):
                    registry.execute(ToolCall(None, "divide", {"by": 1}, "ann"))

            assert [1] == [point.count for point in collector.read_points(DURATION)]
            assert 2 == len(collector.call_spans)

    def test_of_an_interrupted_call_is_measured(self, registry: ToolRegistry, collector: Collector) -> None:
        """As cancelled."""

        @registry.tool("stop", owned_by="ann")
        def stop() -> None:
            """Stop."""
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            registry.execute(call("stop"))

        (point,) = collector.read_points(DURATION)
        assert "cancelled" == point.attributes["praval.call.outcome"]


class TestWaitingApprovals:
    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_are_counted_until_they_are_answered(self, journal: str | None, collector: Collector) -> None:
        """Per name of a registry, all registries of a telemetry together."""
        telemetry = collector.make_telemetry()
        names = ("bank", "bank", "shop")
        registries = [ToolRegistry(name=name, telemetry=telemetry, journal=journal) for name in names]
        for one in registries:
            Agent("ann", registry=one)
            declare(one, requires_approval=True)

        def count_waiting() -> dict[str, int]:
            return {point.attributes["praval.registry.name"]: point.value for point in collector.read_points(WAITING)}

        assert {"bank": 0, "shop": 0} == count_waiting()
        for one in registries:
            one.execute(call("divide", by=1))
        assert {"bank": 2, "shop": 1} == count_waiting()
        registries[0].approvals.answer("call-1", Allow())
        assert {"bank": 1, "shop": 1} == count_waiting()
        registries[2].close()
        registries[1].telemetry = None
        assert {"bank": 0} == count_waiting()
        for one in registries:
            one.close()

    def test_that_cannot_be_read_are_left_out(self, registry: ToolRegistry, collector: Collector) -> None:
        """A store that does not answer is reported once, and the reader of metrics goes on."""

        def fail() -> None:
            raise JournalError("runs.db", "it is gone", "Bring it back.")

        get_runtime(registry).approvals.__dict__["pending"] = fail

        for _ in range(2):
            assert [] == collector.read_points(WAITING)
        assert ["telemetry"] == [problem.kind for problem in registry.problems()]


class TestKnownNames:
    def test_are_let_through_up_to_a_limit(self) -> None:
        """The first ones stay, whatever comes later."""
        names = KnownNames(2)

        assert ["a", "b", "_OTHER", "a", "_OTHER"] == [names.limit(name) for name in "abcad"]
