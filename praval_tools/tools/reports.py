"""What a tool reports while it runs, `ToolProgress` and `ToolLog`, and who listens in a context."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Final, Literal, TypeAlias, cast, get_args

import msgspec

from praval_tools.misuse import ExplainedStructType
from praval_tools.names import to_plain_scalar, to_plain_text


class ToolProgress(msgspec.Struct, frozen=True, kw_only=True, metaclass=ExplainedStructType):
    """
    What a tool said of its progress: *done* of *total*, in its own unit.

    Args:
        tool: The tool's name.
        agent: Who called; None for the operator.
        tool_call_id: The id of the call.
        run_id: The journaled run, if there is one.
        done: How much is done.
        total: How much there is; None: unknown.
        message: What is being done.
    """

    tool: str
    agent: str | None
    tool_call_id: str
    run_id: str | None = None
    done: float
    total: float | None = None
    message: str = ""

    def __post_init__(self) -> None:
        convert_fields(self, message=to_plain_message, done=_to_plain_number, total=_to_plain_number)


ReportedNumber: TypeAlias = float | str | None
"""A number of a report, its text where it is not a number, or None."""


def convert_fields(report: msgspec.Struct, **converters: Callable[..., object]) -> None:
    """Replace fields of a report that is being made by what their converters return."""
    for name, convert in converters.items():
        msgspec.structs.force_setattr(report, name, convert(getattr(report, name)))


def to_plain_message(message: str) -> str:
    """Return the message of a report as a plain text; an empty one where there is none."""
    return to_plain_text(message or "")


def _to_plain_number(value: ReportedNumber) -> ReportedNumber:
    """Return a number as a plain one, which runs no code of its own where it is shown; what is none, as its text."""
    plain = to_plain_scalar(value)
    if plain is None or isinstance(plain, int | float):
        return plain
    try:
        return float(cast("float", plain))
    except (TypeError, ValueError, OverflowError):
        return to_plain_text(plain)


def to_json_number(value: ReportedNumber) -> ReportedNumber:
    """Return a number of a report as JSON has it: NaN and infinities as texts, which `ToolProgress` reads as such."""
    plain = _to_plain_number(value)
    if plain is None or isinstance(plain, str):
        return plain
    try:
        number = float(plain)
    except OverflowError:  # an integer larger than any float
        number = math.inf if plain > 0 else -math.inf
    return number if math.isfinite(number) else repr(number)


LogLevel: TypeAlias = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How serious a log message is, the least serious first."""

LOG_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)


class ToolLog(msgspec.Struct, frozen=True, kw_only=True, metaclass=ExplainedStructType):
    """
    What a tool wrote by `ToolContext.log`, for whoever called it.

    Args:
        tool: The tool's name.
        agent: Who called; None for the operator.
        tool_call_id: The id of the call.
        run_id: The journaled run, if there is one.
        level: How serious it is.
        text: What was written.
    """

    tool: str
    agent: str | None
    tool_call_id: str
    run_id: str | None = None
    level: LogLevel = "info"
    text: str

    def __post_init__(self) -> None:
        convert_fields(self, level=to_plain_text, text=to_plain_text)


ToolReport: TypeAlias = ToolProgress | ToolLog
"""What a tool says of its call while it runs."""

report_listener: ContextVar[Callable[[ToolReport], None] | None] = ContextVar("praval_tools_report", default=None)
"""Takes the reports of the calls that begin in a context, such as those of one loop; None where nobody listens."""
