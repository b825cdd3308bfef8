"""A backend that raises, hangs or is set up wrongly changes no call, and is reported once."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry.context import get_current
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from telemetry_rig import Collector

from praval_tools import Agent, Outcome, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.integrations.opentelemetry import Telemetry, TelemetryWarning


class Failing(SpanProcessor):
    """A processor that raises at one of its methods."""

    def __init__(self, method: str, error: BaseException) -> None:
        setattr(self, method, self._fail)
        self._error = error

    def _fail(self, *_: object, **__: object) -> None:
        raise self._error


class FailingSampler(Sampler):
    """A sampler that raises."""

    def should_sample(self, *_: object, **__: object) -> Any:
        """Raise."""
        raise LookupError("no rule")

    def get_description(self) -> str:
        """Return a name."""
        return "failing"


class HangingExporter(SpanExporter):
    """An exporter that waits until it may go on."""

    def __init__(self) -> None:
        self.began, self.may_end, self.count = threading.Event(), threading.Event(), 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Wait."""
        self.began.set()
        self.may_end.wait()
        self.count += len(spans)
        return SpanExportResult.SUCCESS


def make_registry(telemetry: Telemetry) -> ToolRegistry:
    """Return a traced registry with a tool."""
    registry = ToolRegistry(telemetry=telemetry)
    Agent("ann", registry=registry)

    @registry.tool("double", owned_by="ann")
    def double(x: int) -> int:
        """Double a number."""
        if x < 0:
            raise ValueError("negative")
        return 2 * x

    return registry


def call(registry: ToolRegistry, x: int = 2) -> Any:
    """Call the tool."""
    return registry.execute(ToolCall("1", "double", {"x": x}, "ann"))


def fail_at_instruments(collector: Collector) -> Telemetry:
    """Return a telemetry whose histogram raises."""
    telemetry = collector.make_telemetry()
    telemetry._instruments.duration.record = Failing("record", OSError("no socket")).record  # type: ignore[attr-defined]
    return telemetry


BACKENDS: dict[str, Callable[[Collector], Telemetry]] = {
    "on_start": lambda _: Collector(Failing("on_start", OSError("no socket"))).make_telemetry(),
    "on_end": lambda _: Collector(Failing("on_end", OSError("no socket"))).make_telemetry(),
    "exit": lambda _: Collector(Failing("on_end", SystemExit(3))).make_telemetry(),
    "sampler": lambda _: Telemetry(tracer_provider=TracerProvider(sampler=FailingSampler())),
    "duration": fail_at_instruments,
}


@pytest.fixture
def collector() -> Collector:
    """The providers of one test."""
    return Collector()


class TestFailures:
    @pytest.mark.parametrize("backend", BACKENDS)
    @pytest.mark.filterwarnings("default::praval_tools.integrations.opentelemetry.TelemetryWarning")
    def test_change_no_call_and_are_reported_once(self, backend: str, collector: Collector) -> None:
        """Sync, awaited and failing calls end as without telemetry; one warning and one problem say why."""
        registry = make_registry(BACKENDS[backend](collector))

        with warnings.catch_warnings(record=True) as caught:
            results = [call(registry, 2), call(registry, -1), call(registry, 3)]
            awaited = asyncio.run(registry.aexecute(ToolCall("1", "double", {"x": 4}, "ann")))

        assert [4, None, 6, 8] == [result.result for result in (*results, awaited)]
        assert Outcome.TOOL_ERROR is results[1].outcome
        assert [TelemetryWarning] == [warning.category for warning in caught]
        (problem,) = registry.problems()
        assert "telemetry" == problem.kind
        assert problem.message.startswith("Telemetry failed (")
        assert str(problem) == str(caught[0].message)

    def test_stop_no_call_where_warnings_are_errors(self, collector: Collector) -> None:
        """As in tests such as these."""
        registry = make_registry(BACKENDS["on_end"](collector))

        assert 4 == call(registry).result

    def test_are_many_and_reported_up_to_a_limit(self, collector: Collector) -> None:
        """A backend that raises another error each time does not fill the memory."""

        class Inventive(SpanProcessor):
            def on_end(self, span: ReadableSpan) -> None:
                raise type("Error", (Exception,), {})

        registry = make_registry(Collector(Inventive()).make_telemetry())
        for _ in range(50):
            call(registry)

        assert 20 == len(registry.problems())

    def test_by_an_interrupt_pass(self, collector: Collector) -> None:
        """Ctrl-C during the work of a backend is the caller's, and the context is as it was."""
        registry = make_registry(Collector(Failing("on_end", KeyboardInterrupt())).make_telemetry())

        before = get_current()
        with pytest.raises(KeyboardInterrupt):
            call(registry)
        assert before is get_current()

    def test_that_never_end_hold_no_call_up(self) -> None:
        """An exporter that hangs in the thread of a batch processor is waited for by nobody."""
        exporter = HangingExporter()
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1))
        registry = make_registry(Telemetry(tracer_provider=provider))

        call(registry)
        assert exporter.began.wait(30)
        results = [call(registry).result for _ in range(20)]
        exporter.may_end.set()
        provider.shutdown()

        assert [4] * 20 == results
        assert 21 == exporter.count


class TestSetUp:
    def test_of_no_provider_is_refused(self) -> None:
        """What cannot be one is found at once, not at the first call."""
        for name in ("tracer_provider", "meter_provider"):
            with pytest.raises(ToolUsageError, match=f"{name}: 3 has no get_"):
                Telemetry(**{name: 3})

    @pytest.mark.parametrize("size", [0, 15, 2**20 + 1, True, 4.5, "big"])
    def test_of_no_size_is_refused(self, size: Any) -> None:
        """The size of content is bounded at both ends."""
        with pytest.raises(ToolUsageError, match="max_content_size: .* is not a whole number from 16 to 1,048,576"):
            Telemetry(max_content_size=size)

    def test_of_a_sampler_that_takes_nothing_still_measures(self, collector: Collector) -> None:
        """A call that is not sampled makes no span, and is measured all the same."""
        telemetry = Telemetry(
            tracer_provider=TracerProvider(sampler=ALWAYS_OFF), meter_provider=collector.meter_provider,
            record_arguments=True,
        )  # fmt: skip
        registry = make_registry(telemetry)

        assert 4 == call(registry).result
        assert [] == collector.spans
        assert 1 == sum(point.count for point in collector.read_points("gen_ai.execute_tool.duration"))

    def test_of_no_sdk_costs_nothing_but_time(self) -> None:
        """With the API alone, and no provider, calls go on."""
        registry = ToolRegistry(telemetry=True)
        registry.tool("one", shared=True, description="One.")(lambda: 1)

        assert 1 == registry.execute_tool("one")
        assert [] == registry.problems()
