"""Which calls may take the short road: those in which no step waits for anything but the function."""

from __future__ import annotations

from typing import Any

from praval_tools.access.records import Principal
from praval_tools.access.rules import judge
from praval_tools.execution.context import Site
from praval_tools.execution.fast_path import Lane, Road, async_lane, plain, sync_lane
from praval_tools.execution.runtime import Runtime
from praval_tools.tools.tool import Tool


def new_lane(runtime: Runtime, who: Principal, name: str) -> Lane | None:
    """Return a lane of *who* and the tool *name* for the present state; None: the pipeline must see to each call."""
    ledger, state = runtime.ledger, runtime.ledger.state
    if not runtime.options.usual_arguments:
        return None
    if ledger.closed or ledger.changing or runtime.turnstile.closed or type(name) is not str:
        return None
    if state.policies or runtime.hooks.watch:
        return None
    verdict = judge(state, who, name, runtime.clock.now())
    tool = verdict.record.tool if verdict.record is not None else None
    if runtime.limits.apply(who.agent, name):
        return None
    if tool is None or verdict.refusal is not None or not verdict.paths[0].lasting or not _is_short(runtime, tool):
        return None
    if not tool.definition_.usable:
        return None
    gauge, site = runtime.gauges.of(who.agent, name), Site(runtime.home, who, who.agent, name)
    if tool.is_async:
        made = async_lane(tool.definition_, ledger, state, gauge, site, runtime.timeout(tool))
    else:
        made = sync_lane(tool.definition_, ledger, state, gauge, site)
    json, most = tool.definition_.compiled.result_json, runtime.most(tool)
    made.road = Road(tool, verdict, verdict.paths[0].decision, state, site, json, most)
    return made


def _is_short(runtime: Runtime, tool: Tool[..., Any]) -> bool:
    meta = tool.metadata
    if meta.requires_approval or not meta.concurrency_safe or not plain(tool.definition_):
        return False
    if runtime.retries(tool):
        return False
    engine = meta.engine or runtime.options.engine
    return engine in (None, "inline") and (tool.is_async or meta.timeout is None)
