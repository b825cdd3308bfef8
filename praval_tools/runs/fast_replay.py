"""Recorded results given back with less ado than a call needs that may run."""

from __future__ import annotations

from typing import Any

from praval_tools.access.records import Principal
from praval_tools.runs import call_records
from praval_tools.runs.fast_recording import JournaledFastPaths
from praval_tools.runs.open_run import current_run
from praval_tools.tools.call import ToolCall, ToolResult


def try_replay(
    recorder: Any, roads: JournaledFastPaths, call: ToolCall, who: Principal | None, *, awaited: bool
) -> ToolResult | None:
    """
    Return the recorded result of a call that repeats one by its content.

    None: it must be looked for as every call is; so must all that follow the first that is not recorded in its run.
    """
    run = current_run.get()
    if run is None or run.recorder is not recorder or not run.recording.may_match_completed or run.strict_fingerprint:
        return None
    recorder.runtime.access_store.refuse_calls()
    if call.tool_call_id is not None or call.run_id is not None:
        return None
    short = roads.find_fast_call(call_records.with_writable_ids(call), who, awaited=awaited)
    if short is None:
        return None
    try:
        run.active_calls.append(None)
        run.check_open()
        entry = run.recording.match_completed(short.build_request(call))
        if entry is None:
            return None
        return call_records.build_replayed_result(
            entry, entry.call_id, short.fast_path.tool, short.fast_path.max_result_size
        )
    finally:
        run.active_calls.pop()
        run.release_if_idle()
