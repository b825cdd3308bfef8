"""Recorded results given back with less ado than a call needs that may run."""

from __future__ import annotations

from typing import Any

from praval_tools.access.records import Principal
from praval_tools.runs import call_records
from praval_tools.runs.fast_recording import Roads
from praval_tools.runs.open_run import current_run
from praval_tools.tools.call import ToolCall, ToolResult


def recalled(
    recorder: Any, roads: Roads, call: ToolCall, who: Principal | None, *, awaited: bool
) -> ToolResult | None:
    """
    Return the recorded result of a call that repeats one by its content.

    None: it must be looked for as every call is; so must all that follow the first that is not recorded in its run.
    """
    run = current_run.get()
    if run is None or run.recorder is not recorder or not run.recording.recalls or run.strict_fingerprint:
        return None
    recorder.runtime.ledger.refuse_calls()
    if call.tool_call_id is not None or call.run_id is not None:
        return None
    short = roads.short(call_records.writable(call), who, awaited=awaited)
    if short is None:
        return None
    try:
        run.inside.append(None)
        run.entered()
        entry = run.recording.recall(short.request(call))
        if entry is None:
            return None
        return call_records.replayed(entry, entry.call_id, short.road.tool, short.road.most)
    finally:
        run.inside.pop()
        run.left()
