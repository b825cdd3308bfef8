# Tests of: integrations/langchain
"""What is particular to LangChain: lists of tools, names of parameters and agents, content, streams, graphs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from framework_contract import ModelCall, Script, script

pytest.importorskip("langchain")

from framework_langchain import ScriptedModel, read_answers
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from praval_tools import Content, Tool, ToolContext, ToolRegistry, ToolUsageError
from praval_tools.integrations.langchain import ToolAccess, tools_for
from praval_tools.journal.events import AgentToolCall
from praval_tools.tools.frames import get_current_actor

GO: Any = {"messages": [("user", "Go.")]}


@pytest.fixture
def registry() -> ToolRegistry:
    """A clerk with a few tools, and a boss with one."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("shop.add", owned_by="clerk")
    def add(x: int, y: int = 1) -> int:
        """Add two numbers."""
        return x + y

    @registry.tool("draw", owned_by="clerk")
    async def draw() -> list[Content]:
        """Draw something."""
        return [Content.of_text("a dot"), Content.image(b"png", "image/png"), Content.audio(b"wav", "audio/wav")]

    @registry.tool("fire", owned_by="boss")
    def fire(name: str) -> str:
        """Fire somebody."""
        return f"{name} is fired"

    return registry


def make_agent(model: Script, *middleware: Any, name: str | None = "clerk", **options: Any) -> Any:
    """Return an agent."""
    return create_agent(ScriptedModel(script=model), name=name, middleware=middleware, **options)


def call_in_graph(tools: Any, *calls: ModelCall, **options: Any) -> list[ToolMessage]:
    """Return the answers of a `ToolNode` in a graph that makes calls."""
    model = ScriptedModel(script=script(calls))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, **options))
    graph.add_edge(START, "model")
    graph.add_edge("model", "tools")
    messages = graph.compile().invoke(GO)["messages"]
    return [message for message in messages if isinstance(message, ToolMessage)]


def list_calls(registry: ToolRegistry) -> list[tuple[str | None, str]]:
    """Return agent and tool of each call that was made."""
    assert registry.journal is not None
    return [(call.agent, call.tool_name) for call in registry.journal.events() if isinstance(call, AgentToolCall)]


class TestToolLists:
    def test_are_run_by_tool_nodes(self, registry: ToolRegistry) -> None:
        """A `ToolNode` of LangGraph runs the tools of a list, sync and async ones, in the agent's name."""
        calls = ModelCall("shop_add", {"x": 1}, "a"), ModelCall("draw", {}, "b"), ModelCall("shop_add", {"x": "z"}, "c")
        answers = call_in_graph(tools_for(registry, "clerk"), *calls)

        assert [("a", "success"), ("b", "success"), ("c", "error")] == [
            (message.tool_call_id, message.status) for message in answers
        ]
        assert "2" == answers[0].content
        assert "$.x: is not an integer" in answers[2].text
        assert [("clerk", "draw"), ("clerk", "shop.add")] == sorted(list_calls(registry))

    def test_are_run_by_agents(self, registry: ToolRegistry) -> None:
        """An agent gets the tools of a list, and what was revoked since is refused."""

        def block() -> list[ModelCall]:
            registry.block("shop.add", "clerk")
            return [ModelCall("shop_add", {"x": 2})]

        model = script([ModelCall("shop_add", {"x": 1})], block, "Done.")
        agent = make_agent(model, tools=tools_for(registry, "clerk"))
        agent.invoke(GO)

        assert ["draw", "shop_add"] == sorted(model.offered[2])
        assert ("2", False) == (model.requests[1].get_answer().text, model.requests[1].get_answer().failed)
        assert model.requests[2].get_answer().failed

    def test_are_tools_of_langchain(self, registry: ToolRegistry) -> None:
        """Each is a `StructuredTool` that can be called by itself, sync and async."""
        draw, add = sorted(tools_for(registry, "clerk"), key=lambda one: one.name)

        assert isinstance(add, StructuredTool)
        assert ("shop_add", "Add two numbers.") == (add.name, add.description)
        assert ["x", "y"] == list(add.args)
        assert "4" == add.invoke({"x": 3})
        assert "7" == asyncio.run(add.ainvoke({"x": 3, "y": 4}))
        assert "a dot" == asyncio.run(draw.ainvoke({}))[0]["text"]

    def test_run_calls_that_repeat_an_id(self, registry: ToolRegistry) -> None:
        """A loop of the program's own calls a tool in a journaled run: calls of one id are calls of their own."""
        registry.journal = "memory"
        ran: list[int] = []
        registry.tool("note", owned_by="clerk", description="Note.")(lambda x: ran.append(x))
        for _ in range(2):
            (tool,) = [tool for tool in tools_for(registry, "clerk") if tool.name == "note"]
            with registry.run("order-1"):
                for number in (1, 2, 1):
                    call = {"type": "tool_call", "name": "note", "args": {"x": number}, "id": "call_0"}
                    assert "success" == tool.invoke(call).status
        assert [1, 2, 1] == ran


class TestArguments:
    def test_may_have_any_name(self, registry: ToolRegistry) -> None:
        """Names that LangChain uses for itself, and drops or breaks on elsewhere, are names like any other."""
        seen = []
        names = ["config", "run_manager", "self", "runtime", "state", "store", "callbacks", "input", "args", "kwargs"]

        def note(**values: str) -> str:
            seen.append(values)
            return "noted"

        parameters = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
        registry.register(Tool("note", "Note.", parameters, note, owned_by="clerk"))
        values = {name: f"the {name}" for name in names}
        model = script([ModelCall("note", values)], "Done.")
        make_agent(model, ToolAccess(registry)).invoke(GO)
        asyncio.run(make_agent(script([ModelCall("note", values)], "Done."), ToolAccess(registry)).ainvoke(GO))
        (listed,) = [one for one in tools_for(registry, "clerk") if one.name == "note"]
        listed.invoke(dict(values))
        call_in_graph([listed], ModelCall("note", values))

        assert "noted" == model.requests[1].get_answer().text
        assert [values] * 4 == seen


class TestNames:
    def test_of_agents_are_needed(self, registry: ToolRegistry) -> None:
        """An agent without a name has no tools: nobody knows whose they would be."""
        with pytest.raises(ToolUsageError, match="has no name"):
            make_agent(script("Done."), ToolAccess(registry), name=None).invoke(GO)

    def test_of_agents_can_be_given(self, registry: ToolRegistry) -> None:
        """The agent of the registry that was given stands for one that has no name."""
        model = script([ModelCall("fire", {"name": "bob"})], "Done.")
        make_agent(model, ToolAccess(registry, "boss"), name=None).invoke(GO)

        assert ["fire"] == model.offered[0]
        assert "bob is fired" == model.requests[1].get_answer().text

    def test_of_agents_are_not_passed_on(self, registry: ToolRegistry) -> None:
        """An agent without a name that runs in a tool of another one does not call in that one's name."""
        access = ToolAccess(registry)

        @tool
        def ask() -> str:
            """Ask a helper."""
            helper = make_agent(script([ModelCall("shop_add", {"x": 1})], "Done."), access, name=None)
            return str(helper.invoke(GO)["messages"][-1].text)

        with pytest.raises(ToolUsageError, match="has no name"):
            make_agent(script([ModelCall("ask")], "Done."), access, tools=[ask]).invoke(GO)
        assert [] == list_calls(registry)

    def test_of_agents_within_others_can_be_given(self, registry: ToolRegistry) -> None:
        """An agent that was given its tools, and has no name, may run in a tool of another one."""
        inner = script([ModelCall("fire", {"name": "bob"})], "Done.")

        @tool
        def ask() -> str:
            """Ask a helper."""
            return str(make_agent(inner, ToolAccess(registry, "boss"), name=None).invoke(GO)["messages"][-1].text)

        make_agent(script([ModelCall("ask")], "Done."), ToolAccess(registry), tools=[ask]).invoke(GO)

        assert "bob is fired" == inner.requests[1].get_answer().text

    def test_of_agents_cannot_be_given_by_a_caller(self, registry: ToolRegistry) -> None:
        """The configuration of a call, which a server may take from its clients, does not make an agent another one."""
        model = script([ModelCall("fire", {"name": "bob"})], "Done.")
        with pytest.raises(ToolUsageError, match=r"'boss'.*'clerk'"):
            make_agent(model, ToolAccess(registry)).invoke(GO, {"metadata": {"lc_agent_name": "boss"}})
        assert [] == list_calls(registry)

    def test_of_hidden_tools_stay_hidden(self, registry: ToolRegistry) -> None:
        """What a model reads of a tool that it may not call, or that it made up, names no other."""
        registry.assign_tool_to_agent("fire", "clerk")
        tools = tools_for(registry, "clerk")
        registry.remove_tool_from_agent("fire", "clerk")
        model = script([ModelCall("made_up", {}, "a"), ModelCall("fire", {"name": "x"}, "b")], "Done.")
        make_agent(model, ToolAccess(registry), tools=tools).invoke(GO)

        made_up, fire = (model.requests[1].get_answer(one) for one in "ab")
        assert made_up.failed and fire.failed
        assert "fire" not in made_up.text and "draw" not in made_up.text
        assert "boss" not in fire.text
        assert ["draw", "shop_add"] == model.offered[0]

    def test_have_to_be_valid(self, registry: ToolRegistry) -> None:
        """What cannot be the name of an agent is refused when the middleware is made."""
        with pytest.raises(ValueError, match="agent name"):
            ToolAccess(registry, "")


class TestRecords:
    def test_name_the_thread_and_the_reply(self, registry: ToolRegistry) -> None:
        """The id of each call begins with that of the thread, and of the model's reply."""
        model = script([ModelCall("shop_add", {"x": 1})], [ModelCall("shop_add", {"x": 1})], "Done.")
        config = {"configurable": {"thread_id": "chat-1"}}
        messages = make_agent(model, ToolAccess(registry)).invoke(GO, config)["messages"]

        replies = [message.id for message in messages if isinstance(message, AIMessage) and message.tool_calls]
        assert registry.journal is not None
        events = [event for event in registry.journal.events() if isinstance(event, AgentToolCall)]
        assert [f"chat-1/{reply}/call_0" for reply in replies] == [event.tool_call_id for event in events]


class TestOwnTools:
    def test_stay(self, registry: ToolRegistry) -> None:
        """Tools of the program's own are offered and run beside those of the registry, and win under one name."""

        @tool
        def draw() -> str:
            """Draw it here."""
            return "drawn here"

        model = script([ModelCall("draw", {}, "a"), ModelCall("shop_add", {"x": 1}, "b")], "Done.")
        make_agent(model, ToolAccess(registry), tools=[draw]).invoke(GO)

        assert ["draw", "shop_add"] == sorted(model.offered[0])
        assert ["drawn here", "2"] == [model.requests[1].get_answer(one).text for one in "ab"]


class TestOfferedTools:
    def test_call_for_their_agent_wherever_they_run(self, registry: ToolRegistry) -> None:
        """What another middleware does with an offered tool is done in the name of the agent it was offered to."""
        callers = []

        @registry.tool("whoami", shared=True)
        def whoami(context: ToolContext) -> str:
            """Say who calls."""
            callers.append(context.agent)
            return context.agent or ""

        class CallFirst(AgentMiddleware):
            """Calls a tool before the model is asked."""

            def wrap_model_call(self, request: Any, handler: Any) -> Any:
                next(one for one in request.tools if one.name == "whoami").invoke({})
                return handler(request)

        access = ToolAccess(registry)
        for name in ("ann", "ben"):  # both may call the same tools
            make_agent(script("Done."), access, CallFirst(), name=name).invoke(GO)

        assert ["ann", "ben"] == callers


class TestResults:
    def test_run_no_code_of_the_tool_as_the_operator(self, registry: ToolRegistry) -> None:
        """What an error of a tool says of its class is not asked in the name of the program."""
        actors = list[str]()

        class Classed(Exception):
            @property
            def __class__(self) -> type:
                actors.append(get_current_actor())
                return Exception

        @registry.tool("fail", owned_by="clerk")
        def fail() -> None:
            """Fail."""
            raise Classed("x")

        call_in_graph(tools_for(registry, "clerk"), ModelCall("fail"))
        assert "operator" not in actors

    def test_keep_their_content(self, registry: ToolRegistry) -> None:
        """Images reach the model as LangChain's content blocks; sounds, which tool messages cannot hold, in words."""
        agent = make_agent(script([ModelCall("draw")], "Done."), ToolAccess(registry))
        (answer,) = [one for one in agent.invoke(GO)["messages"] if isinstance(one, ToolMessage)]

        text, image, sound = answer.content_blocks
        assert {"type": "text", "text": "a dot"} == text
        assert ("image", "cG5n", "image/png") == (image["type"], image.get("base64"), image.get("mime_type"))
        assert {"type": "text", "text": "[audio/wav, 3 bytes]"} == sound

    def test_come_in_streams(self, registry: ToolRegistry) -> None:
        """A streaming run calls tools as any other does, and its events tell of them."""
        replies: Any = [ModelCall("shop_add", {"x": 1, "y": 5})], "Done."
        agent = make_agent(script(*replies), ToolAccess(registry))
        streamed = [message for message, _ in agent.stream(GO, stream_mode="messages")]
        assert ["6"] == [answer.text for answer in read_answers([m for m in streamed if isinstance(m, ToolMessage)])]
        assert "Done." == "".join(message.text for message in streamed if isinstance(message, AIMessage))

        async def list_events() -> list[tuple[str, str]]:
            agent = make_agent(script(*replies), ToolAccess(registry))
            events = [event async for event in agent.astream_events(GO, version="v2")]
            return [(event["event"], event["name"]) for event in events if event["event"].startswith("on_tool")]

        assert [("on_tool_start", "shop_add"), ("on_tool_end", "shop_add")] == asyncio.run(list_events())


class TestGraphs:
    def test_use_the_middleware_in_tool_nodes(self, registry: ToolRegistry) -> None:
        """A graph without `create_agent` decides each call by the middleware that its `ToolNode` wraps calls in."""
        access: Any = ToolAccess(registry, "clerk")
        calls = ModelCall("shop_add", {"x": 1}, "a"), ModelCall("fire", {"name": "bob"}, "b")
        answers = call_in_graph([], *calls, wrap_tool_call=access.wrap_tool_call)

        assert [("2", "success"), ("error",)] == [
            (answers[0].content, answers[0].status),
            (answers[1].status,),
        ]

    def test_cannot_call_as_an_agent_that_they_are_not(self, registry: ToolRegistry) -> None:
        """A message that another agent wrote calls nothing in the name of the one that runs."""
        access: Any = ToolAccess(registry, "boss")
        node = ToolNode([], wrap_tool_call=access.wrap_tool_call)
        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        call: Any = {"type": "tool_call", "name": "fire", "args": {"name": "bob"}, "id": "a"}
        messages = graph.compile().invoke({"messages": [AIMessage("", name="clerk", tool_calls=[call])]})["messages"]

        assert ("error", "a") == (messages[-1].status, messages[-1].tool_call_id)
        assert [] == list_calls(registry)
