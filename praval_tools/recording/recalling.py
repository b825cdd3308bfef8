"""Recorded results given back with less ado than a call needs that may run."""

from __future__ import annotations

from typing import Any

from praval_tools.model.calls import ToolCall, ToolResult
from praval_tools.model.permissions import Principal
from praval_tools.recording import noting
from praval_tools.recording.openrun import current_run
from praval_tools.recording.short import Roads


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
    short = roads.short(noting.writable(call), who, awaited=awaited)
    if short is None:
        return None
    try:
        run.inside.append(None)
        run.entered()
        entry = run.recording.recall(short.request(call))
        if entry is None:
            return None
        return noting.replayed(entry, entry.call_id, short.road.tool, short.road.most)
    finally:
        run.inside.pop()
        run.left()
