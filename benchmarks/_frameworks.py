"""
What an adapter adds to a tool call of its framework: alone, and in a run of an agent with a scripted model.

Both sides run the framework's own way of calling a tool, with the same function: once as a tool of the framework, once
as one of the registry. The figure is the ratio of the two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any, Final

from _measure import Figure, async_case, compare
from _peers import ARGUMENTS, add_async

from praval_tools import ToolRegistry


def comparing(installed: dict[str, str], rounds: int) -> Iterator[Figure]:
    """Yield for every framework that is installed how much longer its call of our tool takes than of its own."""
    for (package, kind), prepare in _FRAMEWORKS.items():
        if package not in installed:
            continue
        with asyncio.Runner() as runner:
            own, ours = runner.run(prepare())
            series = compare(
                async_case("own", "its own tool", "await c()", runner, c=own),
                [async_case("ours", "a tool of the registry", "await c()", runner, c=ours)],
                rounds=rounds,
            )
        (figure,) = (figure for figure in series["ours"].figures() if figure.unit == "x")
        note = f"{package} {version(package)}"
        yield Figure(f"framework:{package}:{kind}", figure.value, "x", figure.low, figure.high, note)


async def _pydantic_ai_call() -> tuple[Any, Any]:
    """A tool manager is given the agent's capabilities, as in every run: their hooks are part of each call."""
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.messages import ModelResponse, ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    from praval_tools.integrations.pydantic_ai import AgentToolset

    registry, call = ToolRegistry(), ToolCallPart("add_async", ARGUMENTS, tool_call_id="call-1")
    registry.tool("add_async", owned_by="bench")(add_async)
    agent = Agent(TestModel(), name="bench")
    context: Any = RunContext(
        deps=None, model=TestModel(), usage=RunUsage(), agent=agent, root_capability=agent.root_capability,
        messages=[ModelResponse([call])], conversation_id="bench",
    )  # fmt: skip

    async def make(toolset: Any) -> Callable[[], Any]:
        manager: Any = await ToolManager(toolset, root_capability=agent.root_capability).for_run_step(context)
        return lambda: manager.handle_call(call)

    return await make(FunctionToolset([add_async])), await make(AgentToolset(registry))


async def _pydantic_ai_run() -> tuple[Any, Any]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    from praval_tools.integrations.pydantic_ai import AgentToolset

    registry = ToolRegistry()
    registry.tool("add_async", owned_by="bench")(add_async)

    def reply(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("Done.")])
        return ModelResponse([ToolCallPart("add_async", ARGUMENTS, f"call-{number}") for number in range(10)])

    def make(toolset: Any) -> Callable[[], Any]:
        agent: Any = Agent(FunctionModel(reply), name="bench", toolsets=[toolset])
        return lambda: agent.run("Add.")

    return make(FunctionToolset([add_async])), make(AgentToolset(registry))


async def _langchain_call() -> tuple[Any, Any]:
    from langchain_core.messages import AIMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    from praval_tools.integrations.langchain import ToolAccess

    registry = ToolRegistry()
    registry.tool("add_async", owned_by="bench")(add_async)
    access: Any = ToolAccess(registry, "bench")
    call: Any = {"type": "tool_call", "name": "add_async", "args": ARGUMENTS, "id": "call-1"}
    state: Any = {"messages": [AIMessage("", id="reply-1", tool_calls=[call])]}

    def make(node: Any) -> Callable[[], Any]:
        graph: Any = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        compiled = graph.compile()
        return lambda: compiled.ainvoke(state)

    return make(ToolNode([_make_langchain_tool()])), make(ToolNode([], awrap_tool_call=access.awrap_tool_call))


async def _langchain_run() -> tuple[Any, Any]:
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, ToolMessage

    from praval_tools.integrations.langchain import ToolAccess

    registry = ToolRegistry()
    registry.tool("add_async", owned_by="bench")(add_async)
    calls: Any = [
        {"type": "tool_call", "name": "add_async", "args": ARGUMENTS, "id": f"call-{number}"} for number in range(10)
    ]

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
            is_answered = isinstance(messages[-1], ToolMessage)
            self.messages = iter(["Done." if is_answered else AIMessage("", tool_calls=calls)])
            return super()._generate(messages, *args, **options)

    class PassOn(AgentMiddleware):
        """What LangChain takes for any middleware, two threads for each call, is not the adapter's."""

        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    def make(**options: Any) -> Callable[[], Any]:
        agent: Any = create_agent(Model(messages=iter(())), name="bench", **options)
        return lambda: agent.ainvoke({"messages": [("user", "Add.")]})

    own = make(tools=[_make_langchain_tool()], middleware=[PassOn()])
    return own, make(middleware=[ToolAccess(registry)])


async def _openai_agents_calls() -> tuple[Any, Any]:
    """The SDK calls tools in runs alone: a hundred of one reply stand for the call."""
    return _make_openai_agents_runs(100)


async def _openai_agents_run() -> tuple[Any, Any]:
    return _make_openai_agents_runs(10)


def _make_openai_agents_runs(count: int) -> tuple[Any, Any]:
    from agents import Agent, RunConfig, Runner, function_tool
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

    from praval_tools.integrations.openai_agents import RegistryAgent

    registry = ToolRegistry()
    registry.tool("add_async", owned_by="bench")(add_async)
    calls = [function_call("add_async", ARGUMENTS, call_id=f"call-{number}") for number in range(count)]
    steps, config = [calls, [assistant_message("Done.")]], RunConfig(tracing_disabled=True)

    def make(kind: Any, **options: Any) -> Callable[[], Any]:
        def run() -> Any:
            agent = kind(name="bench", model=ScriptedModel([ModelStep(step) for step in steps]), **options)
            return Runner.run(agent, "Add.", run_config=config)

        return run

    return make(Agent, tools=[function_tool(add_async)]), make(RegistryAgent, registry=registry)


def _make_langchain_tool() -> Any:
    from langchain_core.tools import StructuredTool

    return StructuredTool.from_function(coroutine=add_async, name="add_async", description="Add.")


_FRAMEWORKS: Final = {
    ("langchain", "call"): _langchain_call,
    ("langchain", "run"): _langchain_run,
    ("openai-agents", "call"): _openai_agents_calls,
    ("openai-agents", "run"): _openai_agents_run,
    ("pydantic-ai-slim", "call"): _pydantic_ai_call,
    ("pydantic-ai-slim", "run"): _pydantic_ai_run,
}
