# Tests of: integrations/pydantic_ai
"""What is particular to Pydantic AI: names of agents, retries, content, streams, toolsets of functions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from framework_contract import ModelCall, script

pydantic_ai = pytest.importorskip("pydantic_ai")

from framework_pydantic_ai import make_model, read_answers  # noqa: E402
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolApproved  # noqa: E402
from pydantic_ai.capabilities import ProcessHistory  # noqa: E402
from pydantic_ai.durable_exec import DurabilityEngineSpec, DurableRunContext  # noqa: E402
from pydantic_ai.exceptions import UnexpectedModelBehavior  # noqa: E402
from pydantic_ai.messages import BinaryContent, ModelMessage, ToolReturnPart  # noqa: E402
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel  # noqa: E402
from pydantic_ai.toolsets import CombinedToolset, WrapperToolset  # noqa: E402

from praval_tools import Content, ToolRegistry, ToolUsageError  # noqa: E402
from praval_tools.integrations.pydantic_ai import AgentToolset, function_toolset  # noqa: E402
from praval_tools.journal.events import AgentToolCall  # noqa: E402


@pytest.fixture
def registry() -> ToolRegistry:
    """A clerk with a few tools."""
    registry = ToolRegistry()

    @registry.tool("add", owned_by="clerk")
    def add(x: int, y: int = 1) -> int:
        """Add two numbers."""
        return x + y

    @registry.tool("draw", owned_by="clerk")
    def draw() -> list[Content]:
        """Draw something."""
        return [Content.of_text("a dot"), Content.image(b"png", "image/png")]

    @registry.tool("pay", owned_by="clerk", requires_approval=True, risk_level="high", approval_reason="it moves money")
    def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    return registry


def run(agent: Agent[Any, Any], **options: Any) -> Any:
    """Run an agent."""
    return asyncio.run(agent.run("Go.", **options))


class TestAgentNames:
    def test_are_needed(self, registry: ToolRegistry) -> None:
        """An agent without a name has no tools: nobody knows whose they would be."""
        agents = [Agent(make_model(script("Done.")), toolsets=[AgentToolset(registry)])]
        with pytest.raises(ToolUsageError, match="has no name"):
            asyncio.run(agents[0].run("Go.", infer_name=False))

    def test_can_be_given_for_agents_without_one(self, registry: ToolRegistry) -> None:
        """The agent of the registry that was given stands for one that has no name."""
        model = script("Done.")
        agents = [Agent(make_model(model), toolsets=[AgentToolset(registry, "clerk")])]
        asyncio.run(agents[0].run("Go.", infer_name=False))

        assert [["add", "draw", "pay"]] == model.offered

    def test_have_to_be_valid(self, registry: ToolRegistry) -> None:
        """What cannot be the name of an agent is refused when the toolset is made."""
        with pytest.raises(ValueError, match="agent name"):
            AgentToolset(registry, "")


class TestRetries:
    def test_are_spent_by_arguments_alone(self, registry: ToolRegistry) -> None:
        """Arguments that do not fit spend the budget of the framework, refusals do not."""
        registry.add_policy(lambda agent, tool, arguments: "not today" if arguments.get("x") == 13 else None)
        refused = [[ModelCall("add", {"x": 13})] for _ in range(5)]
        agent = Agent(make_model(script(*refused, "Done.")), name="clerk", toolsets=[AgentToolset(registry)], retries=1)
        assert "Done." == run(agent).output

        wrong = [[ModelCall("add", {"x": "a"})] for _ in range(5)]
        agent = Agent(make_model(script(*wrong, "Done.")), name="clerk", toolsets=[AgentToolset(registry)], retries=1)
        with pytest.raises(UnexpectedModelBehavior, match="add"):
            run(agent)


class TestRecords:
    def test_name_the_conversation(self, registry: ToolRegistry) -> None:
        """The id of a call begins with that of the conversation, in all of its runs, and ends with the model's."""
        registry.journal = "memory"
        agent = Agent(
            make_model(script(*[[ModelCall("add", {"x": 1})], "Done."] * 2)),
            name="clerk",
            toolsets=[AgentToolset(registry)],
        )
        first = run(agent, conversation_id="chat-1")
        run(agent, message_history=first.all_messages())

        ids = [event.tool_call_id for event in registry.journal.events() if isinstance(event, AgentToolCall)]
        assert 2 == len(set(ids))
        assert [("chat-1", "call_0")] * 2 == [tuple(str(call_id).split("/")[::2]) for call_id in ids]


class TestResults:
    def test_keep_their_content(self, registry: ToolRegistry) -> None:
        """Values keep their type, images and sounds their bytes."""
        model = script([ModelCall("add", {"x": 1}, "a"), ModelCall("draw", {}, "b")], "Done.")
        agent = Agent(make_model(model), name="clerk", toolsets=[AgentToolset(registry)])
        parts = [part for message in run(agent).all_messages() for part in message.parts]
        contents = {part.tool_call_id: part.content for part in parts if isinstance(part, ToolReturnPart)}

        assert 2 == contents["a"]
        text, image = contents["b"]
        assert "a dot" == text
        assert isinstance(image, BinaryContent) and (b"png", "image/png") == (image.data, image.media_type)

    def test_come_in_streams(self, registry: ToolRegistry) -> None:
        """A streaming run calls tools as any other does."""
        requests: list[list[ModelMessage]] = []

        async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
            requests.append(messages)
            if len(requests) == 1:
                yield {0: DeltaToolCall("add", '{"x": 1', tool_call_id="a")}
                yield {0: DeltaToolCall(json_args=', "y": 5}')}
            else:
                yield "Done."

        agent = Agent(FunctionModel(stream_function=stream), name="clerk", toolsets=[AgentToolset(registry)])

        async def main() -> str:
            async with agent.run_stream("Go.") as result:
                return str(await result.get_output())

        assert "Done." == asyncio.run(main())
        assert ["6"] == [answer.text for answer in read_answers(requests[1][-1].parts)]


class TestApprovals:
    def test_say_what_they_are_about(self, registry: ToolRegistry) -> None:
        """The framework's request names the risk, the reason and the id of the request in the registry."""
        agent = Agent(
            make_model(script([ModelCall("pay", {"amount": 5})])),
            name="clerk",
            toolsets=[AgentToolset(registry)],
            output_type=[str, DeferredToolRequests],
        )
        about = run(agent).output.metadata["call_0"]

        (request,) = registry.approvals.pending()
        expected = ("clerk", "high", "it moves money", {"amount": 5}, request.id)
        assert expected == tuple(about[k] for k in ("agent", "risk_level", "reason", "arguments", "approval_id"))


class TestShortenedHistories:
    """Conversations of which a processor keeps the last message, so that all replies have one place."""

    @pytest.mark.parametrize("to", [[1, 1], [1, 2]])
    def test_mix_up_no_calls(self, to: list[int]) -> None:
        """Broken promise: in a journaled run, a call with an earlier one's id was answered with that one's result."""
        registry, paid = ToolRegistry(journal="memory"), list[int]()
        registry.tool("pay", owned_by="clerk")(_pay_into(paid))
        with registry.run("salaries"):
            assert "Done." == run(_make_forgetful_agent(registry, to)).output

        assert to == paid

    def test_let_approved_calls_run(self) -> None:
        """Broken promise: an approved call was denied, for it waited under its place in the shortened conversation."""
        registry, paid = ToolRegistry(), list[int]()
        registry.tool("pay", owned_by="clerk", requires_approval=True)(_pay_into(paid))
        agent = _make_forgetful_agent(registry, [1, 2])
        outcome = run(agent)
        for _ in range(2):
            answers = DeferredToolResults(approvals={"call_0": True})
            outcome = asyncio.run(agent.run(message_history=outcome.all_messages(), deferred_tool_results=answers))

        assert "Done." == outcome.output and [1, 2] == paid


def _pay_into(paid: list[int]) -> Callable[..., str]:
    def pay(number: int) -> str:
        """Pay somebody."""
        paid.append(number)
        return f"{number} is paid"

    return pay


def _make_forgetful_agent(registry: ToolRegistry, to: list[int]) -> Agent[Any, Any]:
    return Agent(
        make_model(script(*([ModelCall("pay", {"number": number})] for number in to), "Done.")),
        name="clerk",
        toolsets=[AgentToolset(registry)],
        output_type=[str, DeferredToolRequests],
        capabilities=[ProcessHistory(lambda messages: messages[-1:])],
    )


class TestToolsets:
    def test_combine_with_others(self, registry: ToolRegistry) -> None:
        """A prefix, a filter and a combination of the framework's leave the decision where it is."""
        model = script([ModelCall("clerk_add", {"x": 1})], "Done.")
        toolset = AgentToolset(registry).filtered(lambda ctx, tool: tool.name != "draw").prefixed("clerk")
        agent = Agent(make_model(model), name="clerk", toolsets=[CombinedToolset([toolset])])
        run(agent)

        assert [["clerk_add", "clerk_pay"]] * 2 == model.offered
        assert "2" == model.requests[1].get_answer().text

    def test_of_functions_decide_each_call(self, registry: ToolRegistry) -> None:
        """A toolset of functions keeps its list, and refuses what was revoked."""

        def block() -> list[ModelCall]:
            registry.block("add", "clerk")
            return [ModelCall("add", {"x": 2})]

        model = script([ModelCall("add", {"x": 1})], block, "Done.")
        toolset = function_toolset(registry, "clerk", id="tools")
        agent = Agent(make_model(model), name="clerk", toolsets=[toolset])
        run(agent)

        assert "tools" == toolset.id
        assert ["add", "draw", "pay"] == model.offered[2]
        assert ("2", False) == (model.requests[1].get_answer().text, model.requests[1].get_answer().failed)
        assert model.requests[2].get_answer().failed

    def test_of_functions_run_in_activities(self, registry: ToolRegistry) -> None:
        """
        Broken promise: on Temporal, each call failed, since an activity has no messages.

        Approved calls run there, too, once, with the arguments that were asked about.
        """
        calls = [
            ModelCall("add", {"x": 1}, "a"),
            ModelCall("pay", {"amount": 5}, "b"),
            ModelCall("pay", {"amount": 6}, "c"),
        ]
        model = script(calls, *["Done."] * 3)
        toolset = _InActivities(function_toolset(registry, "clerk", id="tools"))
        agent = Agent(make_model(model), name="clerk", toolsets=[toolset], output_type=[str, DeferredToolRequests])
        waiting = run(agent).all_messages()
        approvals = {"b": True, "c": ToolApproved(override_args={"amount": 600})}
        answers = DeferredToolResults(approvals=approvals)
        for _ in range(2):
            asyncio.run(agent.run(message_history=waiting, deferred_tool_results=answers))

        first, again = ({answer.id: answer.text for answer in request.answers} for request in model.requests[1:])
        assert "2" == first["a"] and "paid 5" == first["b"]
        assert not any("paid" in text for text in (first["c"], again["b"], again["c"]))

    def test_have_an_id(self, registry: ToolRegistry) -> None:
        """Durable execution finds a toolset by its id."""
        assert "shop" == AgentToolset(registry, id="shop").id
        assert AgentToolset(registry).id is None


class _InActivities(WrapperToolset[Any]):
    """Calls tools with what Pydantic AI lets through to an activity of a durable workflow."""

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
        sent = DurableRunContext.serialize_run_context(ctx)
        spec = DurabilityEngineSpec(engine_name="", durable_unit_noun="activity", durable_container_noun="workflow")
        received = DurableRunContext.restore(sent, deps=ctx.deps, agent=ctx.agent, engine_spec=spec)
        return await super().call_tool(name, tool_args, received, tool)
