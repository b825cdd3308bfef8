"""What the tests of telemetry use: OpenTelemetry's own in-memory exporter, and what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from praval_tools import Agent, ToolRegistry
from praval_tools.integrations.opentelemetry import Telemetry

RECORD_ALL: dict[str, Any] = {"record_arguments": True, "record_results": True}
"""Options of a telemetry whose spans have the values of calls."""


class Collector:
    """The providers of one test, what they got, and registries that are traced by them."""

    def __init__(self, *processors: SpanProcessor) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracer_provider, self.meter_provider = TracerProvider(), MeterProvider([self.reader])
        for processor in (*processors, SimpleSpanProcessor(self.exporter)):
            self.tracer_provider.add_span_processor(processor)
        self.tracer = self.tracer_provider.get_tracer("test")

    def make_telemetry(self, **options: Any) -> Telemetry:
        """Return a telemetry of these providers."""
        return Telemetry(tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in that order."""
        return list(self.exporter.get_finished_spans())

    @property
    def call_spans(self) -> list[ReadableSpan]:
        """Those of calls."""
        return [span for span in self.spans if span.name.startswith("execute_tool")]

    def take_span(self) -> ReadableSpan:
        """Return the only span of a call, and forget all spans."""
        (span,) = self.call_spans
        self.exporter.clear()
        return span

    def read_spans(self) -> str:
        """Return all spans as JSON."""
        return "\n".join(span.to_json() for span in self.spans)

    def read_points(self, metric: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self.reader.get_metrics_data()
        return [
            point
            for resource in ([] if data is None else data.resource_metrics)
            for scope in resource.scope_metrics
            for one in scope.metrics
            if one.name == metric
            for point in one.data.data_points
        ]

    def close(self) -> None:
        """Shut the providers down."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()


@pytest.fixture
def collector() -> Iterator[Collector]:
    """The providers of one test."""
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture
def registry(collector: Collector) -> Iterator[ToolRegistry]:
    """A registry that is traced."""
    with ToolRegistry(name="bank", telemetry=collector.make_telemetry()) as registry:
        Agent("ann", registry=registry)
        yield registry


def get_attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(span.attributes or {})


def list_events(span: ReadableSpan) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a span, each with its attributes."""
    return [(event.name, dict(event.attributes or {})) for event in span.events]
