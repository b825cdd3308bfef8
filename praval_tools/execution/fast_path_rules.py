"""Which calls may take the short road: those in which no step waits for anything but the function."""

from __future__ import annotations

from typing import Any

from praval_tools.access.records import Principal
from praval_tools.access.rules import resolve_access
from praval_tools.execution.context import FrameScope
from praval_tools.execution.fast_path import (
    FastFunction,
    FastPath,
    build_async_function,
    build_sync_function,
    is_plain_function,
)
from praval_tools.execution.runtime import Runtime
from praval_tools.tools.tool import Tool


def build_fast_function(runtime: Runtime, who: Principal, name: str) -> FastFunction | None:
    """Return a lane of *who* and the tool *name* for the present state; None: the pipeline must see to each call."""
    ledger, state = runtime.access_store, runtime.access_store.state
    if not runtime.options.has_default_argument_limits:
        return None
    if ledger.closed or ledger.has_open_change or runtime.exclusive_gate.is_closed or type(name) is not str:
        return None
    if state.policies or runtime.hooks.has_observers:
        return None
    verdict = resolve_access(state, who, name, runtime.clock.now())
    tool = verdict.record.tool if verdict.record is not None else None
    if runtime.limits.has_limit_for(who.agent, name):
        return None
    if (
        tool is None
        or verdict.refusal is not None
        or not verdict.paths[0].is_unconditional
        or not _has_fast_path(runtime, tool)
    ):
        return None
    if not tool.implementation.is_compilable:
        return None
    gauge, site = runtime.in_flight.get_counter(who.agent, name), FrameScope(runtime.registry, who, who.agent, name)
    if tool.is_async:
        made = build_async_function(tool.implementation, ledger, state, gauge, site, runtime.get_timeout(tool))
    else:
        made = build_sync_function(tool.implementation, ledger, state, gauge, site)
    json, most = tool.implementation.compiled.encode_result_text, runtime.get_max_result_size(tool)
    made.road = FastPath(tool, verdict, verdict.paths[0].decision, state, site, json, most)
    return made


def _has_fast_path(runtime: Runtime, tool: Tool[..., Any]) -> bool:
    meta = tool.metadata
    if meta.requires_approval or not meta.concurrency_safe or not is_plain_function(tool.implementation):
        return False
    if runtime.get_retries(tool):
        return False
    engine = meta.engine or runtime.options.engine
    return engine in (None, "inline") and (tool.is_async or meta.timeout is None)
