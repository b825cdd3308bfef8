"""What a tool traces in a worker process is in the trace of its call, and so are the calls that it makes there."""

# Tests of: integrations/tracing, execution/trace_context, execution/remote_call, registry/worker

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import traced_tools
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import NonRecordingSpan, SpanContext
from telemetry_rig import Collector, collector

from praval_tools import ToolCall, ToolRegistry
from praval_tools.integrations.opentelemetry import Telemetry, TelemetryWarning

__all__ = ["collector"]

pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX")
FUNCTIONS = (
    traced_tools.work, traced_tools.work_in_batch, traced_tools.work_later, traced_tools.call_inside,
    traced_tools.has_span,
)  # fmt: skip


@pytest.fixture
def registry(collector: Collector) -> Iterator[ToolRegistry]:
    """A traced registry whose tools run in one worker process."""
    with ToolRegistry(engine="process", processes=1, telemetry=collector.make_telemetry()) as registry:
        for function in FUNCTIONS:
            registry.tool(function.__name__, shared=True, engine="process")(function)
        yield registry


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the spans of worker processes are written."""
    return tmp_path / "spans"


def read_spans(file: Path) -> dict[str, list[Any]]:
    """Return the spans of worker processes by their name: process, trace, id, parent."""
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    return {name: values for name, *values in rows}


def find_span(spans: list[ReadableSpan], tool: str) -> SpanContext:
    """Return the context of the span of the only call of a tool."""
    (span,) = (span for span in spans if span.name == f"execute_tool {tool}")
    assert span.context is not None
    return span.context


class TestSpansOfWorkerProcesses:
    @pytest.mark.parametrize("tool", ["work", "work_later"])
    def test_are_inside_the_span_of_the_call(
        self, tool: str, registry: ToolRegistry, collector: Collector, file: Path
    ) -> None:
        """A span that the function makes has the call's span as its parent, and is of its trace."""
        registry.agent("ann").call(tool, file=str(file))

        call, (process, *made) = find_span(collector.spans, tool), read_spans(file)["work"]
        assert [call.trace_id, call.span_id] == [made[0], made[2]]
        assert os.getpid() != process

    def test_hold_the_calls_that_the_function_makes(
        self, registry: ToolRegistry, collector: Collector, file: Path
    ) -> None:
        """The span of a call from inside has the span around it as its parent, though that is of another process."""
        registry.agent("ann").call("call_inside", file=str(file))

        spans, call = read_spans(file), find_span(collector.spans, "call_inside")
        inner = next(span for span in collector.spans if span.name == "execute_tool work")
        assert inner.parent is not None and inner.context is not None
        assert [call.span_id, spans["outer"][2]] == [spans["outer"][3], inner.parent.span_id]
        assert inner.context.span_id == spans["work"][3]
        assert {call.trace_id} == {inner.context.trace_id, spans["outer"][1], spans["work"][1]}

    def test_are_exported_when_the_registry_is_closed(
        self, registry: ToolRegistry, collector: Collector, file: Path
    ) -> None:
        """A worker process ends of its own accord, so that what a batch still holds is not lost."""
        registry.agent("ann").call("work_in_batch", file=str(file))

        registry.close()

        assert find_span(collector.spans, "work_in_batch").span_id == read_spans(file)["work"][3]

    def test_are_in_no_trace_of_another_call(self, registry: ToolRegistry, file: Path) -> None:
        """The next call of a process, which is not traced, is in no span."""
        ann = registry.agent("ann")
        assert True is ann.call("has_span")

        registry.telemetry = None

        assert False is ann.call("has_span")


class TestFailures:
    def test_of_a_provider_change_no_call(self, collector: Collector, file: Path) -> None:
        """A span that cannot say which it is: the call runs without, and the failure is reported."""

        class Broken(NonRecordingSpan):
            def get_span_context(self) -> SpanContext:
                raise RuntimeError("no context")

        class BrokenTracer:
            def start_span(self, *_: Any, **__: Any) -> Any:
                return Broken(SpanContext(1, 1, is_remote=False))

        class BrokenProvider:
            def get_tracer(self, *_: Any, **__: Any) -> Any:
                return BrokenTracer()

        telemetry = Telemetry(tracer_provider=BrokenProvider(), meter_provider=collector.meter_provider)  # type: ignore[arg-type]
        with ToolRegistry(engine="process", processes=1, telemetry=telemetry) as registry:
            registry.tool("has_span", shared=True)(traced_tools.has_span)
            with pytest.warns(TelemetryWarning, match="no context"):
                result = registry.execute(ToolCall(None, "has_span", {}, "ann"))
        assert False is result.result
