"""The telemetry of a registry: `registry.telemetry`; what speaks to OpenTelemetry is imported only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol, TypedDict, Unpack

from praval_tools.errors import ToolUsageError
from praval_tools.execution.call_progress import CallTracer
from praval_tools.execution.runtime import Runtime
from praval_tools.names import shorten_repr
from praval_tools.registry.journal_attachment import JournalAttachment
from praval_tools.tools.frames import refuse_others_than_operator

if TYPE_CHECKING:
    from praval_tools.runs.call_plans import CallPlans


class TracerFactory(Protocol):
    """Makes what traces the calls of a registry; such as `integrations.opentelemetry.Telemetry`."""

    def make_tracer(self, runtime: Runtime, get_plans: Callable[[], CallPlans]) -> CallTracer:
        """Return the tracer of one registry; *get_plans* returns what is secret in its calls."""
        ...


CONTENT_SIZES: Final = range(16, 1_048_577)
"""How many characters a span may hold of arguments, of a value or of an error."""


class TelemetryOptions(TypedDict, total=False):
    """What a configuration says of telemetry; see `integrations.opentelemetry.Telemetry`."""

    record_arguments: bool
    record_results: bool
    max_content_size: int


_makers: Final[list[Callable[..., TracerFactory]]] = []


def set_telemetry_maker(make: Callable[..., TracerFactory]) -> None:
    """Have *make* return telemetry of these options; it imports OpenTelemetry, which needs an extra."""
    _makers[:] = [make]


def make_telemetry(**options: Unpack[TelemetryOptions]) -> TracerFactory:
    """
    Return the telemetry with these options and the global providers; the same for all who have the same options.

    Raises:
        MissingExtraError: OpenTelemetry is not installed.
    """
    return _makers[0](**options)


class ObservedByTelemetry:
    """What a registry says of its calls to its operator's telemetry."""

    _runtime: Runtime
    _journal: JournalAttachment
    _telemetry: TracerFactory | None = None

    @property
    def telemetry(self) -> TracerFactory | None:
        """Makes a span and a measured duration of each call: set it to True or a `Telemetry`; None: nothing does."""
        return self._telemetry

    @telemetry.setter
    def telemetry(self, telemetry: TracerFactory | bool | None) -> None:
        refuse_others_than_operator("set the telemetry")
        if telemetry is True:
            telemetry = make_telemetry()
        elif telemetry is False:
            telemetry = None
        if telemetry is not None and not hasattr(telemetry, "make_tracer"):
            raise ToolUsageError(f"The telemetry cannot be {shorten_repr(telemetry)}: set True, or a Telemetry(…).")
        runtime = self._runtime
        runtime.tracer = None if telemetry is None else telemetry.make_tracer(runtime, self._journal.get_call_plans)
        self._telemetry = telemetry
        runtime.access_store.invalidate_snapshots()
