"""Functions that trace what they do: in a worker process, whose spans go into the file that the test names."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

from praval_tools import current_agent


class FileExporter(SpanExporter):
    """Writes a line of each span that ends into the file that its attribute `file` names."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the lines."""
        for span in spans:
            attributes, parent = dict(span.attributes or {}), span.parent
            path = Path(str(attributes["file"]))
            row = [span.name, os.getpid(), span.context.trace_id, span.context.span_id, parent and parent.span_id]
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        return SpanExportResult.SUCCESS


PROVIDER = TracerProvider()
PROVIDER.add_span_processor(SimpleSpanProcessor(FileExporter()))
BATCHES = TracerProvider()
BATCHES.add_span_processor(BatchSpanProcessor(FileExporter()))


def work(file: str) -> None:
    """Make a span."""
    with PROVIDER.get_tracer("tools").start_as_current_span("work", attributes={"file": file}):
        pass


def work_in_batch(file: str) -> None:
    """Make a span that is exported later."""
    with BATCHES.get_tracer("tools").start_as_current_span("work", attributes={"file": file}):
        pass


async def work_later(file: str) -> None:
    """Make a span."""
    work(file)


def call_inside(file: str) -> None:
    """Make a span, and in it a call."""
    with PROVIDER.get_tracer("tools").start_as_current_span("outer", attributes={"file": file}):
        current_agent().call("work", file=file)


def has_span() -> bool:
    """Tell whether this runs in a span."""
    return trace.get_current_span().get_span_context().is_valid
