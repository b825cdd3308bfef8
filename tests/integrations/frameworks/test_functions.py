# Tests of: registry/bound_tool, registry/toolset
"""An agent of any framework that takes functions calls exactly the tools that it may call, in the agent's name."""

from __future__ import annotations

from typing import Any

import pytest
from framework_contract import ModelCall, script
from function_frameworks import FunctionFramework, load_framework

from praval_tools import Agent, Allow, Tool, ToolContext, ToolRegistry
from praval_tools.journal.events import AgentToolCall

_OWN_WARNINGS = {
    "crewai": [pytest.mark.filterwarnings("ignore::DeprecationWarning:crewai", "ignore:.*'crewai:ImportWarning")]
}
"""What a framework warns of in its own code."""


_INSTALLED_APART = [
    pytest.param(name, marks=_OWN_WARNINGS.get(name, ())) for name in ("crewai", "agent-framework", "strands")
]


@pytest.fixture(params=["pydantic-ai", "langchain", *_INSTALLED_APART])
def framework(request: pytest.FixtureRequest) -> FunctionFramework:
    """A framework that is installed."""
    return load_framework(request.param)


@pytest.fixture
def effects() -> list[str]:
    """What the tools did."""
    return []


@pytest.fixture
def registry(effects: list[str]) -> ToolRegistry:
    """A shop, in which a clerk and a boss have tools."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("shop.add", owned_by="clerk")
    def add(x: int, y: int = 1) -> int:
        """Add two numbers."""
        effects.append(f"add {x}")
        return x + y

    @registry.tool("whoami", shared=True)
    async def whoami(context: ToolContext) -> str:
        """Say who calls."""
        return str(context.agent)

    @registry.tool("fire", owned_by="boss")
    def fire(name: str) -> str:
        """Fire somebody."""
        effects.append(f"fire {name}")
        return f"{name} is fired"

    @registry.tool("crash", owned_by="clerk")
    def crash() -> str:
        """Crash."""
        raise LookupError("nothing there")

    return registry


def run(framework: FunctionFramework, registry: ToolRegistry, *replies: Any, agent: str = "clerk") -> list[Any]:
    """Run an agent until it is done, and return what its model was sent."""
    model = script(*replies, "Done.")
    functions = registry.toolset(agent).functions(failure=type(framework).failure)
    assert "Done." == framework.run(functions, model)
    return model.requests


class TestFunctions:
    def test_are_the_tools_of_the_agent(self, framework: FunctionFramework, registry: ToolRegistry) -> None:
        """A model is offered what the agent may call, with names that providers take, and the parameters."""
        (request,) = run(framework, registry)

        assert ["crash", "shop_add", "whoami"] == sorted(request.tools)
        assert {"x", "y"} == set(request.tools["shop_add"]["properties"])
        assert "integer" == request.tools["shop_add"]["properties"]["x"]["type"]
        assert {} == request.tools["whoami"].get("properties", {})

    def test_answer_calls(self, framework: FunctionFramework, registry: ToolRegistry) -> None:
        """Sync and async tools are called in the agent's name, and recorded."""
        calls = [ModelCall("shop_add", {"x": 2}, "a"), ModelCall("whoami", {}, "b")]
        for agent in ("clerk", "boss"):
            registry.assign_tool_to_agent("shop.add", agent)
            request = run(framework, registry, calls, agent=agent)[1]
            assert ["3", agent] == [request.get_answer(call_id).text for call_id in "ab"]

        assert registry.journal is not None
        events = [event for event in registry.journal.events() if isinstance(event, AgentToolCall)]
        assert {("clerk", "shop.add"), ("clerk", "whoami"), ("boss", "shop.add"), ("boss", "whoami")} == {
            (event.agent, event.tool_name) for event in events
        }

    def test_of_others_do_not_run(
        self, framework: FunctionFramework, registry: ToolRegistry, effects: list[str]
    ) -> None:
        """A name that was not offered runs nothing, and the run goes on."""
        calls = [ModelCall("fire", {"name": "bob"}, "a"), ModelCall("invented", {}, "b")]
        requests = run(framework, registry, calls, [ModelCall("shop_add", {"x": 1}, "c")])

        assert "2" == requests[2].get_answer("c").text
        assert ["add 1"] == effects

    def test_are_decided_at_each_call(
        self, framework: FunctionFramework, registry: ToolRegistry, effects: list[str]
    ) -> None:
        """A tool that is revoked in a run is refused, in the text that models get; the next list has new grants."""

        def revoke() -> list[ModelCall]:
            registry.remove_tool_from_agent("fire", "clerk")
            return [ModelCall("fire", {"name": "bob"}, "b")]

        registry.assign_tool_to_agent("fire", "clerk")
        requests = run(framework, registry, revoke, [ModelCall("shop_add", {"x": 1}, "c")])

        text = requests[1].get_answer("b").text
        assert "Tool 'fire' is forbidden for this agent." in text and "boss" not in text
        assert "2" == requests[2].get_answer("c").text
        registry.assign_tool_to_agent("fire", "clerk")
        assert "fire" in run(framework, registry)[0].tools
        assert ["add 1"] == effects

    def test_say_what_is_wrong(self, framework: FunctionFramework, registry: ToolRegistry, effects: list[str]) -> None:
        """Bad arguments do not reach the tool, exceptions come without a traceback, and the run goes on."""
        calls = [ModelCall("shop_add", {"x": "two"}, "a"), ModelCall("crash", {}, "b")]
        requests = run(framework, registry, calls, [ModelCall("shop_add", {"x": 2}, "c")])

        crashed = requests[1].get_answer("b").text
        assert "LookupError: nothing there" in crashed and "Traceback" not in crashed
        assert requests[1].get_answer("a").text != "3"
        assert "3" == requests[2].get_answer("c").text
        assert ["add 2"] == effects

    def test_run_many_calls_at_once(self, framework: FunctionFramework, registry: ToolRegistry) -> None:
        """Twenty calls of one reply each get their own answer."""
        calls = [ModelCall("shop_add", {"x": number}, f"call_{number}") for number in range(20)]
        request = run(framework, registry, calls)[1]

        assert {f"call_{number}": str(number + 1) for number in range(20)} == {
            answer.id: answer.text for answer in request.answers
        }

    def test_repeat_nothing_in_a_run(
        self, framework: FunctionFramework, registry: ToolRegistry, effects: list[str]
    ) -> None:
        """A program that runs again in its journaled run gets what its calls returned, and no tool runs again."""
        replies = [[ModelCall("shop_add", {"x": number})] for number in (1, 2, 1)]
        for _ in range(2):
            with registry.run("order-1"):
                requests = run(framework, registry, *replies)
            assert ["2", "3", "2"] == [request.get_answer().text for request in requests[1:]]
            assert ["add 1", "add 2", "add 1"] == effects

    def test_have_the_parameters_of_a_schema(self, framework: FunctionFramework, registry: ToolRegistry) -> None:
        """A tool of which only a JSON Schema is known, as one of an MCP server, gets the types that it wants."""
        properties = {"count": {"type": "integer"}, "deep": {"type": "boolean"}, "note": {"type": "string"}}
        schema = {"type": "object", "properties": properties, "required": ["count", "deep"]}
        taken: list[dict[str, object]] = []
        tool = Tool("order", "Order.", schema, lambda **given: taken.append(given), owned_by="clerk")
        registry.register_tool(tool)
        requests = run(framework, registry, [ModelCall("order", {"count": 2, "deep": True})])

        offered = requests[0].tools["order"]["properties"]
        assert {"integer", "boolean"} == {offered[name]["type"] for name in ("count", "deep")}
        assert [{"count": 2, "deep": True}] == taken, requests[1].get_answer().text

    def test_wait_for_no_approval(self, framework: FunctionFramework, registry: ToolRegistry) -> None:
        """A call that needs approval fails, and the model reads why; a handler of the registry is asked."""
        registry.tool("pay", owned_by="clerk", requires_approval=True, description="Pay.")(lambda: "paid")
        refused = run(framework, registry, [ModelCall("pay")])[1].get_answer().text
        registry.set_approval_handler(lambda request: Allow(by="eve"))
        paid = run(framework, registry, [ModelCall("pay")])[1].get_answer().text

        assert "needs an approval" in refused
        assert "paid" == paid

    def test_may_be_those_of_a_delegate(self, framework: FunctionFramework, registry: ToolRegistry) -> None:
        """A delegate's functions are those that it may call for another agent, and say for whom they are called."""

        @registry.tool("for_whom", shared=True)
        def for_whom(context: ToolContext) -> str:
            """Say for whom the call is."""
            return ",".join(context.chain)

        helper = Agent("clerk", registry=registry).delegate("helper")
        model = script([ModelCall("for_whom")], "Done.")
        framework.run(helper.tools.functions(), model)

        assert "fire" not in model.offered[0]
        assert "clerk" == model.requests[1].get_answer().text

    @pytest.mark.parametrize("framework", _INSTALLED_APART, indirect=True)
    def test_get_what_the_framework_made_of_arguments(
        self, framework: FunctionFramework, registry: ToolRegistry
    ) -> None:
        """These frameworks read a text as the number that the hint wants, and leave out what no parameter takes."""
        requests = run(framework, registry, [ModelCall("shop_add", {"x": "2", "z": 5})])

        assert "3" == requests[1].get_answer().text
