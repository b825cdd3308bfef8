"""OpenTelemetry: spans and metrics of calls, for the operator; the extra is `otel`."""

from praval_tools.errors import MissingExtraError

try:
    import opentelemetry.trace  # noqa: F401  # said here, once for all modules
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("opentelemetry"):
        raise
    raise MissingExtraError("Telemetry", "otel") from error

from praval_tools.integrations.opentelemetry.backend import TelemetryWarning
from praval_tools.integrations.opentelemetry.telemetry import Telemetry

__all__ = ["Telemetry", "TelemetryWarning"]
