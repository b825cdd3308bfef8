"""Calls: checked for access, validated, run; sync and async, from values and from JSON text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from _measure import Case, Figure, Series, async_case, compare, sync_case
from _peers import ARGUMENTS, TEXT, add, add_async, async_peers, bare, sync_peers

from praval_tools import Agent, ToolCall, ToolRegistry, tool
from praval_tools.execution.hooks import CallHooks
from praval_tools.registry.registry import get_runtime


def home() -> ToolRegistry:
    """Return a registry with one agent that owns a sync and an async tool."""
    registry = ToolRegistry(name="bench")
    tool("add", owned_by="calculator", registry=registry)(add)
    tool("add_async", owned_by="calculator", registry=registry)(add_async)
    Agent("calculator", registry=registry)
    return registry


def sync_cases(registry: ToolRegistry) -> Iterator[Case]:
    """Yield every way of ours to a sync call."""
    toolset, agent = registry.toolset("calculator"), registry.agent("calculator")
    yield sync_case("call:toolset.call", 'toolset.call("add", x=…, y=…)', "c('add', x=1.5, y=2.5)", c=toolset.call)
    yield sync_case("call:bound", 'bound = toolset["add"]; bound(x=…, y=…)', "b(x=1.5, y=2.5)", b=toolset["add"])
    yield sync_case("call:agent.call", 'agent.call("add", x=…, y=…)', "c('add', x=1.5, y=2.5)", c=agent.call)
    yield sync_case("call:lookup", 'toolset["add"](x=…, y=…), looked up each time', "t['add'](x=1.5, y=2.5)", t=toolset)
    yield sync_case(
        "call:registry.execute", "registry.execute(ToolCall(…)) → ToolResult", "e(C('id', 'add', d, 'calculator'))",
        e=registry.execute, C=ToolCall, d=ARGUMENTS,
    )  # fmt: skip
    yield sync_case(
        "call:toolset.execute", "toolset.execute(ToolCall(…)) → ToolResult", "e(C('id', 'add', d))",
        e=toolset.execute, C=ToolCall, d=ARGUMENTS,
    )  # fmt: skip
    yield sync_case("call:json", "toolset.call_json(JSON text) → JSON text", "c('add', d)", c=toolset.call_json, d=TEXT)
    yield sync_case(
        "call:json-result", "registry.execute(JSON text).for_model()", "e(C('id', 'add', d, 'calculator')).for_model()",
        e=registry.execute, C=ToolCall, d=TEXT,
    )  # fmt: skip
    yield sync_case(
        "call:direct", "the Tool itself, called by the host program", "f(x=1.5, y=2.5)", f=registry.get_tool("add")
    )


def stepped_cases() -> Iterator[Case]:
    """Yield the call with one policy, one limit, or one hook of a plugin, each trivial."""
    registries = {kind: home() for kind in ("policy", "limit", "before", "after")}
    registries["policy"].add_policy(lambda agent, tool, arguments: None)
    registries["limit"].limits.set(tool="add", concurrent=5)
    get_runtime(registries["before"]).install_hooks(CallHooks(before=(lambda *, call, tool, arguments: None,)))
    get_runtime(registries["after"]).install_hooks(CallHooks(after=(lambda *, call, tool, result: None,)))
    titles = {"policy": "a policy", "limit": "a limit", "before": "a before-call hook", "after": "an after-call hook"}
    for kind, registry in registries.items():
        title = f'toolset.call("add", x=…, y=…), with {titles[kind]}'
        yield sync_case(f"call:{kind}", title, "c('add', x=1.5, y=2.5)", c=registry.toolset("calculator").call)


def async_cases(registry: ToolRegistry, runner: asyncio.Runner) -> Iterator[Case]:
    """Yield every way of ours to an awaited call."""
    toolset = registry.toolset("calculator")
    yield async_case(
        "async:toolset.acall", 'await toolset.acall("add_async", x=…, y=…)', "await c('add_async', x=1.5, y=2.5)",
        runner, c=toolset.acall,
    )  # fmt: skip
    yield async_case(
        "async:bound", 'await toolset["add_async"].acall(x=…, y=…)', "await b(x=1.5, y=2.5)",
        runner, b=toolset["add_async"].acall,
    )  # fmt: skip
    yield async_case(
        "async:registry.aexecute", "await registry.aexecute(ToolCall(…))",
        "await e(C('id', 'add_async', d, 'calculator'))", runner, e=registry.aexecute, C=ToolCall, d=ARGUMENTS,
    )  # fmt: skip


def measure(installed: dict[str, str], rounds: int) -> tuple[dict[str, Series], list[Figure]]:
    """Time every call, ours and theirs, in one go; return the series and the figures that compare."""
    registry = home()
    with asyncio.Runner() as runner:
        ours = [*sync_cases(registry), *stepped_cases(), *async_cases(registry, runner)]
        theirs = [*sync_peers(installed), *async_peers(installed, runner)]
        series = compare(bare(), ours + theirs, rounds=rounds)
    registry.close()
    return series, [figure for one in series.values() for figure in one.figures()] + _compared(series)


def _compared(series: dict[str, Series]) -> list[Figure]:
    faster = [
        Figure(key, series[peer].ratio / series[base].ratio, "x", note=series[peer].case.made_with)
        for key, peer, base in _FASTER
        if peer in series
    ]
    slower = [
        Figure(key, series[base].ratio / series[peer].ratio, "x", note=series[peer].case.made_with)
        for key, peer, base in _SLOWER
        if peer in series
    ]
    return faster + slower


_FASTER: Final = (
    ("faster:toolregistry", "peer:toolregistry", "call:toolset.call"),
    ("faster:langchain", "peer:langchain-run", "call:toolset.call"),
    ("faster:praval", "peer:praval", "call:toolset.call"),
    ("faster:pydantic-ai", "peer:pydantic-ai", "async:toolset.acall"),
    ("faster:pydantic-ai-result", "peer:pydantic-ai", "async:registry.aexecute"),
)
_SLOWER: Final = (
    ("slower:pydantic", "peer:pydantic-adapter", "call:toolset.call"),
    ("slower:pydantic-core", "peer:pydantic-core", "call:toolset.call"),
)
