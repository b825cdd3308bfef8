"""`Telemetry`: what the operator sets of spans and metrics; one object for any number of registries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import version
from typing import Final
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter
from opentelemetry.trace import TracerProvider, get_tracer

from praval_tools.errors import ToolUsageError
from praval_tools.execution.runtime import Runtime
from praval_tools.integrations.opentelemetry.instruments import Instruments
from praval_tools.integrations.opentelemetry.tracing import SpanTracer
from praval_tools.misuse import explain_misuse
from praval_tools.names import format_count, shorten_repr
from praval_tools.registry.telemetry import CONTENT_SIZES
from praval_tools.runs.call_plans import CallPlans

_SCOPE: Final = "praval_tools"
_BUCKETS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
)  # fmt: skip
"""Seconds: those of the conventions, and shorter ones, since many tools compute something and return."""


@explain_misuse
class Telemetry:
    """
    Spans and metrics of the calls of registries, named as OpenTelemetry's conventions for generative AI say.

    Make one object for all registries. Neither spans nor metrics hold arguments, values or messages of errors, unless
    they are asked for.

    Args:
        tracer_provider: Makes the spans; None: OpenTelemetry's global one, whenever that is set.
        meter_provider: Takes the metrics; None: the global one.
        record_arguments: True: spans hold the arguments, without the secrets, which are hidden as in the journal.
        record_results: True: they hold values and the messages of errors, without secrets, too.
        max_content_size: Characters of each of these; what is longer is cut in the middle.

    Raises:
        ToolUsageError: A provider is none, or the size is not a whole number from 16 to 1,048,576.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        record_arguments: bool = False,
        record_results: bool = False,
        max_content_size: int = 4_096,
    ) -> None:
        if type(max_content_size) is not int or max_content_size not in CONTENT_SIZES:
            allowed = f"a whole number from {CONTENT_SIZES[0]} to {CONTENT_SIZES[-1]:,}"
            raise ToolUsageError(f"max_content_size: {shorten_repr(max_content_size)} is not {allowed}.")
        _check_provider("tracer_provider", tracer_provider, "get_tracer")
        _check_provider("meter_provider", meter_provider, "get_meter")
        release = version("praval-tools")
        meter = get_meter(_SCOPE, release, meter_provider)
        self._instruments = Instruments(
            tracer=get_tracer(_SCOPE, release, tracer_provider),
            duration=meter.create_histogram(
                "gen_ai.execute_tool.duration", "s", "Duration of the calls of tools.",
                explicit_bucket_boundaries_advisory=_BUCKETS,
            ),
            record_arguments=record_arguments, record_results=record_results, max_content_size=max_content_size,
        )  # fmt: skip
        meter.create_observable_up_down_counter(
            "praval.approvals.waiting", [self._observe_waiting], "{approval}", "Approvals that wait for an answer."
        )
        self._tracers = WeakSet[SpanTracer]()

    def __repr__(self) -> str:
        return f"<Telemetry of {format_count(len(self._tracers), 'registry', 'registries')}>"

    def make_tracer(self, runtime: Runtime, get_plans: Callable[[], CallPlans]) -> SpanTracer:
        """Return what traces the calls of one registry; *get_plans* returns what is secret in them."""
        tracer = SpanTracer(self._instruments, runtime, get_plans)
        self._tracers.add(tracer)
        return tracer

    def _observe_waiting(self, _: CallbackOptions) -> Iterator[Observation]:
        """Yield how many approvals wait in registries of each name; a reader of metrics asks."""
        counts = Counter[str]()
        for tracer in list(self._tracers):
            if (waiting := tracer.count_waiting_approvals()) is not None:
                counts[tracer.registry_name] += waiting
        for name, count in counts.items():
            yield Observation(count, {"praval.registry.name": name})


def _check_provider(name: str, provider: object, method: str) -> None:
    if provider is not None and not callable(getattr(provider, method, None)):
        raise ToolUsageError(f"{name}: {shorten_repr(provider)} has no {method}(); pass a provider of OpenTelemetry.")


def get_shared_telemetry(
    *, record_arguments: bool = False, record_results: bool = False, max_content_size: int = 4_096
) -> Telemetry:
    """Return the telemetry with these options and the global providers: `telemetry=True` stands for that without."""
    return _make_shared_telemetry(record_arguments, record_results, max_content_size)


@cache
def _make_shared_telemetry(record_arguments: bool, record_results: bool, max_content_size: int) -> Telemetry:
    return Telemetry(
        record_arguments=record_arguments, record_results=record_results, max_content_size=max_content_size
    )
