"""Whether a call that failed is tried again, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from praval_tools.errors import RetryableToolError
from praval_tools.tools.call import Outcome, ToolResult

if TYPE_CHECKING:
    from praval_tools.execution.effects import RunTool
    from praval_tools.execution.runtime import Runtime


def compute_retry_delay(runtime: Runtime, run: RunTool, result: ToolResult) -> float | None:
    """
    Return the seconds until the call is tried again; None: it is not.

    Again are tried errors that say so, those that the tool lists in `retry_on`, and time-outs of idempotent tools.
    The wait doubles each time, give or take a quarter, so that many that failed at once do not come back at once.
    """
    if result.outcome is Outcome.OK or run.attempts > runtime.get_retries(run.tool):
        return None
    meta = run.tool.metadata
    if result.outcome is Outcome.TIMEOUT:
        again = meta.idempotent is True
    elif result.outcome is Outcome.TOOL_ERROR:
        again = isinstance(result.exception, (RetryableToolError, *meta.retry_on))
    else:
        again = False
    if not again:
        return None
    return float(runtime.options.retry_wait * 2 ** (run.attempts - 1) * runtime.rng.uniform(0.75, 1.25))
