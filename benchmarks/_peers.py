"""
The peers, each by its documented fastest validated call, with the version that is installed.

"Validated" is what makes them comparable: a way that skips the check of the arguments is shown as such, and not judged.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from _measure import Case, async_case, sync_case

PACKAGES: Final = (
    "pydantic", "toolregistry", "langchain-core", "langchain", "pydantic-ai-slim", "openai-agents", "praval", "mcp",
    "fastmcp",
)  # fmt: skip
ARGUMENTS: Final = {"x": 1.5, "y": 2.5}
TEXT: Final = b'{"x": 1.5, "y": 2.5}'


def add(x: float, y: float) -> float:
    """
    Add two numbers.

    Args:
        x: One number.
        y: The other.
    """
    return x + y


async def add_async(x: float, y: float) -> float:
    """
    Add two numbers.

    Args:
        x: One number.
        y: The other.
    """
    return x + y


def versions() -> dict[str, str]:
    """Return the installed peers with their versions."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _named(package: str) -> str:
    return f"{package} {version(package)}"


def bare() -> Case:
    """Return the call that all ratios are to."""
    return sync_case("bare", "f(x=…, y=…), bare Python", "f(x=1.5, y=2.5)", f=add)


def sync_peers(installed: dict[str, str]) -> Iterator[Case]:
    """Yield the sync call of every installed peer."""
    yield sync_case("peer:unpacked", "f(**arguments), nothing checked", "f(**d)", f=add, d=ARGUMENTS)
    if "pydantic" in installed:
        yield from _pydantic()
    if "toolregistry" in installed:
        yield from _toolregistry()
    if "langchain-core" in installed:
        yield from _langchain()
    if "praval" in installed:
        yield from _praval()


def async_peers(installed: dict[str, str], runner: asyncio.Runner) -> Iterator[Case]:
    """Yield the awaited call of every installed peer that has one for async tools."""
    yield async_case("peer:awaited", "await f(x=…, y=…), bare Python", "await f(x=1.5, y=2.5)", runner, f=add_async)
    if "pydantic-ai-slim" in installed:
        manager, call = runner.run(_pydantic_ai())
        yield async_case(
            "peer:pydantic-ai", "Pydantic AI ToolManager.handle_call", "await h(c)", runner,
            _named("pydantic-ai-slim"), h=manager.handle_call, c=call,
        )  # fmt: skip
    if "toolregistry" in installed:
        from toolregistry import Tool

        tool = Tool.from_function(add_async)
        yield async_case(
            "peer:toolregistry-async", "toolregistry Tool.arun", "await r(d)", runner,
            _named("toolregistry"), r=tool.arun, d=ARGUMENTS,
        )  # fmt: skip
    if "langchain-core" in installed:
        from langchain_core.tools import StructuredTool

        structured = StructuredTool.from_function(coroutine=add_async)
        yield async_case(
            "peer:langchain-async", "LangChain StructuredTool.ainvoke", "await r(d)", runner,
            _named("langchain-core"), r=structured.ainvoke, d=ARGUMENTS,
        )  # fmt: skip


def _pydantic() -> Iterator[Case]:
    """Yield the three ways to a validated call; the judged figure takes the fastest of them."""
    from pydantic import TypeAdapter, validate_call
    from pydantic_core import SchemaValidator, core_schema
    from typing_extensions import TypedDict

    class Arguments(TypedDict):
        x: float
        y: float

    made_with = f"{_named('pydantic')} (core {version('pydantic-core')})"
    number, field = core_schema.float_schema(), core_schema.typed_dict_field
    core = SchemaValidator(core_schema.typed_dict_schema({"x": field(number), "y": field(number)}))
    yield sync_case(
        "peer:pydantic-core", "pydantic-core SchemaValidator, then f(**d)", "f(**v(d))", made_with,
        f=add, v=core.validate_python, d=ARGUMENTS,
    )  # fmt: skip
    yield sync_case(
        "peer:pydantic-adapter", "pydantic TypeAdapter(TypedDict), then f(**d)", "f(**v(d))", made_with,
        f=add, v=TypeAdapter(Arguments).validate_python, d=ARGUMENTS,
    )  # fmt: skip
    yield sync_case(
        "peer:pydantic-validate_call", "pydantic @validate_call", "f(x=1.5, y=2.5)", made_with, f=validate_call(add)
    )
    yield sync_case(
        "peer:pydantic-json", "pydantic-core validate_json, then f(**d), to_json", "j(f(**v(d)))", made_with,
        f=add, v=core.validate_json, d=TEXT, j=__import__("pydantic_core").to_json,
    )  # fmt: skip


def _toolregistry() -> Iterator[Case]:
    """Yield `run` (of which `run_raw` is the deprecated name since 0.12) and the registry's own `invoke`."""
    from toolregistry import Tool, ToolRegistry

    made_with = _named("toolregistry")
    tool, registry = Tool.from_function(add), ToolRegistry()
    registry.register(add)
    yield sync_case("peer:toolregistry", "toolregistry Tool.run", "r(d)", made_with, r=tool.run, d=ARGUMENTS)
    yield sync_case(
        "peer:toolregistry-invoke", "toolregistry ToolRegistry.invoke", "r('add', d)", made_with,
        r=registry.invoke, d=ARGUMENTS,
    )  # fmt: skip


def _langchain() -> Iterator[Case]:
    from langchain_core.tools import StructuredTool

    made_with, tool = _named("langchain-core"), StructuredTool.from_function(add)
    yield sync_case("peer:langchain", "LangChain StructuredTool.invoke", "r(d)", made_with, r=tool.invoke, d=ARGUMENTS)
    yield sync_case("peer:langchain-run", "LangChain StructuredTool.run", "r(d)", made_with, r=tool.run, d=ARGUMENTS)


def _praval() -> Iterator[Case]:
    from praval.core.tool_registry import Tool, ToolMetadata
    from praval.tool_execution import run_tool

    made_with, tool = _named("praval"), Tool(add, ToolMetadata("add"))
    entry = {"name": "add", "function": add, "description": "", "parameters": {}}
    yield sync_case(
        "peer:praval", "Praval tool_execution.run_tool", "r(e, d)", made_with, r=run_tool, e=entry, d=ARGUMENTS
    )
    yield sync_case(
        "peer:praval-execute", "Praval Tool.execute, nothing checked", "r(x=1.5, y=2.5)", made_with, r=tool.execute
    )


async def _pydantic_ai() -> tuple[Any, Any]:
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    context: Any = RunContext(deps=None, model=TestModel(), usage=RunUsage())
    manager: Any = await ToolManager(FunctionToolset([add_async])).for_run_step(context)
    return manager, ToolCallPart("add_async", ARGUMENTS, tool_call_id="call-1")


# ── declaring ────────────────────────────────────────────────────────────────────────────────────


def declarers(installed: dict[str, str]) -> Iterator[tuple[str, str, Callable[[Callable[..., Any]], object]]]:
    """Yield for every peer its key, name and version, and what turns a function into its tool."""
    if "toolregistry" in installed:
        from toolregistry import Tool as RegistryTool

        yield "toolregistry", _named("toolregistry"), RegistryTool.from_function
    if "langchain-core" in installed:
        from langchain_core.tools import StructuredTool

        yield "langchain", _named("langchain-core"), StructuredTool.from_function
    if "pydantic-ai-slim" in installed:
        from pydantic_ai import Tool as AgentTool

        yield "pydantic-ai", _named("pydantic-ai-slim"), AgentTool
    if "praval" in installed:
        from praval import tool

        yield "praval", _named("praval"), lambda function: tool(function.__name__, owned_by="bench")(function)


def praval_catalogue(names: list[tuple[str, str, str, str]]) -> Any:
    """Return Praval's registry with tools of these (name, owner, category, tag)."""
    from praval.core.tool_registry import Tool, ToolMetadata, ToolRegistry

    registry = ToolRegistry()
    for name, owner, category, tag in names:
        registry.register_tool(Tool(add, ToolMetadata(name, owner, category=category, tags=[tag])))
    return registry


def quiet() -> None:
    """Drop the peers' deprecation warnings, which are not what is measured."""
    warnings.simplefilter("ignore")
