# Tests of: integrations/pydantic_ai, integrations/langchain, integrations/openai_agents, integrations/framework_calls
"""An agent of any framework calls exactly the tools that it may call now, in its own name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from framework_contract import Framework, ModelCall, script

from praval_tools import Agent, Content, ToolContext, ToolRegistry, ToolUsageError
from praval_tools.journal.events import AgentToolCall


@pytest.fixture
def registry() -> ToolRegistry:
    """A shop, in which a clerk and a boss have tools."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("shop.add", owned_by="clerk")
    def add(x: int, y: int = 1) -> int:
        """Add two numbers."""
        return x + y

    @registry.tool("whoami", shared=True)
    async def whoami(context: ToolContext) -> str:
        """Say who calls."""
        return f"{context.agent} for {','.join(context.chain) or 'nobody'}"

    @registry.tool("fire", owned_by="boss")
    def fire(name: str) -> str:
        """Fire somebody."""
        return f"{name} is fired"

    @registry.tool("crash", owned_by="clerk")
    def crash() -> str:
        """Crash."""
        raise LookupError("nothing there")

    return registry


def list_calls(registry: ToolRegistry) -> list[tuple[str | None, str]]:
    """Return agent and tool of each call that ran."""
    assert registry.journal is not None
    return [(call.agent, call.tool_name) for call in registry.journal.events() if isinstance(call, AgentToolCall)]


class TestTools:
    def test_are_those_of_the_agent(self, framework: Framework, registry: ToolRegistry) -> None:
        """A model is offered what its agent may call, with the parameters, and nothing else."""
        model = script("Done.")
        outcome = framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        assert "Done." == outcome.text
        assert ["crash", "shop_add", "whoami"] == sorted(model.requests[0].tools)
        assert ["x"] == model.requests[0].tools["shop_add"]["required"]

    def test_answer_calls(self, framework: Framework, registry: ToolRegistry) -> None:
        """Sync and async tools are called by sync and async programs, in the agent's name."""
        replies = ([ModelCall("shop_add", '{"x": 2}', "a"), ModelCall("whoami", {}, "b")], "Done.")
        for run in (framework.run_sync, lambda agent: asyncio.run(framework.run(agent))):
            model = script(*replies)
            run(framework.make_agent(framework.make_adapter(registry), "clerk", model))
            request = model.requests[1]
            assert [("a", "3", False), ("b", "clerk for nobody", False)] == sorted(
                (answer.id, answer.text, answer.failed) for answer in request.answers
            )
        assert [("clerk", "shop.add"), ("clerk", "shop.add"), ("clerk", "whoami"), ("clerk", "whoami")] == sorted(
            list_calls(registry)
        )

    def test_of_others_do_not_run(self, framework: Framework, registry: ToolRegistry) -> None:
        """A tool that was not offered does not run, whatever a model calls it, and its name is not shown."""
        model = script(
            [ModelCall("fire", {"name": "bob"}, "a")],
            [ModelCall("invented", {}, "b")],
            [ModelCall("shop_add", {"x": 1}, "c")],
            "Done.",
        )
        outcome = framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        assert "Done." == outcome.text
        assert model.requests[1].get_answer("a").failed and model.requests[2].get_answer("b").failed
        assert "fire" not in model.requests[2].get_answer("b").text
        assert "2" == model.requests[3].get_answer("c").text
        assert ("clerk", "fire") not in list_calls(registry)

    def test_appear_and_go_in_a_run(self, framework: Framework, registry: ToolRegistry) -> None:
        """A grant shows at the next request; after a revocation the next call is refused, and the run goes on."""

        def grant() -> list[ModelCall]:
            registry.assign_tool_to_agent("fire", "clerk")
            return [ModelCall("shop_add", {"x": 1}, "a")]

        def revoke() -> list[ModelCall]:
            registry.remove_tool_from_agent("fire", "clerk")
            return [ModelCall("fire", {"name": "bob"}, "b")]

        model = script(grant, revoke, [ModelCall("shop_add", {"x": 1}, "c")], "Done.")
        outcome = framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        assert "Done." == outcome.text
        assert [False, True, False, False] == ["fire" in names for names in model.offered]
        answer = model.requests[2].get_answer("b")
        assert answer.failed and "Tool 'fire' is forbidden for this agent." in answer.text and "boss" not in answer.text
        assert ("clerk", "fire") not in list_calls(registry)

    def test_are_called_as_nobody_else(self, framework: Framework, registry: ToolRegistry) -> None:
        """A model that names another agent in its arguments does not call as that one."""
        calls = [ModelCall("whoami", {"agent": "boss"}, "a"), ModelCall("whoami", {"context": {"agent": "boss"}}, "b")]
        model = script(calls, [ModelCall("whoami", {}, "c")], "Done.")
        framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        answers = {answer.id: answer for request in model.requests for answer in request.answers}
        assert "clerk for nobody" == answers["c"].text
        assert not any(answer.text.startswith("boss for") for answer in answers.values())
        assert {"clerk"} == {agent for agent, _ in list_calls(registry)}

    def test_say_what_is_wrong(self, framework: Framework, registry: ToolRegistry) -> None:
        """Bad arguments and exceptions reach the model as errors, without a traceback, and the run goes on."""
        model = script(
            [ModelCall("shop_add", {"x": "two"}, "a"), ModelCall("crash", {}, "b")],
            [ModelCall("shop_add", {"x": 2}, "c")],
            "Done.",
        )
        outcome = framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        answers = {answer.id: answer for request in model.requests for answer in request.answers}
        assert "Done." == outcome.text
        assert answers["a"].failed and "$.x: is not an integer" in answers["a"].text
        assert answers["b"].failed and "LookupError: nothing there" in answers["b"].text
        assert "Traceback" not in answers["b"].text
        assert "3" == answers["c"].text

    @pytest.mark.parametrize("has_image", [False, True])
    def test_return_text_that_can_be_sent(self, framework: Framework, has_image: bool) -> None:
        """Half of a surrogate pair in a content block reaches no model: UTF-8 cannot carry it."""
        registry = ToolRegistry()

        @registry.tool("read", owned_by="clerk")
        def read() -> list[Content]:
            """Read something."""
            image = [Content(type="image", data=b"png", mime_type="image/png")] if has_image else []
            return [Content.of_text("a\ud800b"), *image]

        model = script([ModelCall("read")], "Done.")
        framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        assert "a?b" in model.requests[1].get_answer().text

    @pytest.mark.parametrize("has_image", [False, True])
    def test_return_no_more_text_than_a_tool_may(self, framework: Framework, has_image: bool) -> None:
        """A `max_result_size` cuts what a model reads: promised of every result, and not kept for content blocks."""
        registry = ToolRegistry()

        @registry.tool("read", owned_by="clerk", max_result_size=80)
        def read() -> list[Content]:
            """Read something."""
            image = [Content(type="image", data=b"png", mime_type="image/png")] if has_image else []
            return [Content.of_text("a" * 5000), *image]

        model = script([ModelCall("read")], "Done.")
        framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        answer = model.requests[1].get_answer().text
        assert "characters left out" in answer and answer.count("a") < 100


class TestAgents:
    def test_share_an_adapter(self, framework: Framework, registry: ToolRegistry) -> None:
        """Two agents that use one adapter at once each get their own tools, and call in their own names."""
        calls = [[ModelCall("whoami", {}, f"call_{number}")] for number in range(5)]
        models = {name: script(*calls, "Done.") for name in ("clerk", "boss")}
        adapter = framework.make_adapter(registry)

        async def main() -> None:
            agents = [framework.make_agent(adapter, name, model) for name, model in models.items()]
            await asyncio.gather(*(framework.run(agent) for agent in agents))

        asyncio.run(main())

        for name, model in models.items():
            assert {f"{name} for nobody"} == {answer.text for request in model.requests for answer in request.answers}
            assert ("fire" in model.offered[0]) is (name == "boss")

    def test_are_not_mixed_up_in_calls_side_by_side(self, framework: Framework, registry: ToolRegistry) -> None:
        """Twenty calls of each of two agents of one adapter, all running at the same time, are each in their names."""
        barrier = asyncio.Barrier(40)

        @registry.tool("meet", shared=True)
        async def meet(context: ToolContext, number: int) -> str:
            """Wait for the others."""
            await asyncio.wait_for(barrier.wait(), 30)
            return f"{context.agent} {number}"

        calls = [ModelCall("meet", {"number": number}, f"call_{number}") for number in range(20)]
        models = {name: script(calls, "Done.") for name in ("clerk", "boss")}
        adapter = framework.make_adapter(registry)

        async def main() -> None:
            agents = [framework.make_agent(adapter, name, model) for name, model in models.items()]
            await asyncio.gather(*map(framework.run, agents))

        asyncio.run(main())

        for name, model in models.items():
            answers = {answer.id: answer.text for answer in model.requests[1].answers}
            assert {f"call_{number}": f"{name} {number}" for number in range(20)} == answers

    def test_run_many_calls_at_once(self, framework: Framework, registry: ToolRegistry) -> None:
        """Twenty calls of one reply each get their own answer."""
        calls = [ModelCall("shop_add", {"x": number}, f"call_{number}") for number in range(20)]
        model = script(calls, "Done.")
        framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", model))

        assert {f"call_{number}": str(number + 1) for number in range(20)} == {
            answer.id: answer.text for answer in model.requests[1].answers
        }

    def test_run_calls_side_by_side(self, framework: Framework, registry: ToolRegistry) -> None:
        """Twenty calls of one reply run at the same time: each waits for all the others."""
        barrier = asyncio.Barrier(20)

        @registry.tool("meet", owned_by="clerk")
        async def meet(number: int) -> int:
            """Wait for the others."""
            await asyncio.wait_for(barrier.wait(), 30)
            return number

        model = script([ModelCall("meet", {"number": number}, f"call_{number}") for number in range(20)], "Done.")
        asyncio.run(framework.run(framework.make_agent(framework.make_adapter(registry), "clerk", model)))

        assert sorted(map(str, range(20))) == sorted(answer.text for answer in model.requests[1].answers)

    def test_that_were_given_are_those_that_run(self, framework: Framework, registry: ToolRegistry) -> None:
        """Tools of one agent are refused to an agent of another name, and to one without any."""
        adapter = framework.make_adapter(registry, "boss")
        with pytest.raises(ToolUsageError, match=r"'boss'.*'clerk'"):
            framework.run_sync(framework.make_agent(adapter, "clerk", script("Done.")))

    def test_can_ask_others(self, framework: Framework, registry: ToolRegistry) -> None:
        """An agent that runs inside another's tool calls in its own name, as part of that call."""
        adapter = framework.make_adapter(registry)
        inner_model = script([ModelCall("whoami")], "Inner.")

        @registry.tool("ask_boss", owned_by="clerk")
        async def ask_boss() -> str:
            """Ask the boss."""
            outcome = await framework.run(framework.make_agent(adapter, "boss", inner_model))
            return outcome.text or ""

        model = script([ModelCall("ask_boss")], "Done.")
        outcome = asyncio.run(framework.run(framework.make_agent(adapter, "clerk", model)))

        assert "Done." == outcome.text and "Inner." == model.requests[1].get_answer().text
        assert "boss for nobody" == inner_model.requests[1].get_answer().text
        assert registry.journal is not None
        events = [event for event in registry.journal.events() if isinstance(event, AgentToolCall)]
        calls = {event.tool_name: event for event in events}
        assert calls["whoami"].parent_id == calls["ask_boss"].tool_call_id

    def test_are_found_in_records_by_the_ids_of_the_framework(
        self, framework: Framework, registry: ToolRegistry
    ) -> None:
        """A record has the id that the model's provider gave the call, behind that of the conversation or call."""
        calls = [[ModelCall("shop_add", {"x": 1}, "call_7")], [ModelCall("shop_add", {"x": 1}, "call_7")], "Done."]
        framework.run_sync(framework.make_agent(framework.make_adapter(registry), "clerk", script(*calls)))

        assert registry.journal is not None
        ids = [str(call.tool_call_id) for call in registry.journal.events() if isinstance(call, AgentToolCall)]
        assert 2 == len(set(ids))
        assert all("call_7" == call_id.rpartition("/")[2].partition("@")[0] for call_id in ids), ids

    def test_work_for_others(self, framework: Framework, registry: ToolRegistry) -> None:
        """A delegate has no more tools than who it works for, and its calls say for whom they are."""
        helper = Agent("clerk", registry=registry).delegate("boss", mode="intersect")
        model = script([ModelCall("whoami")], "Done.")
        framework.run_sync(framework.make_agent(framework.make_adapter(registry, helper), "boss", model))

        assert ["whoami"] == model.offered[0]
        assert "boss for clerk" == model.requests[1].get_answer().text

    def test_pass_their_deps(self, framework: Framework, registry: ToolRegistry) -> None:
        """What the framework injects into a run reaches tools that declare typed dependencies."""

        @registry.tool("tenant", owned_by="clerk")
        def tenant(context: ToolContext[dict[str, Any]]) -> str:
            """Say whose data they are."""
            return str(context.deps["tenant"])

        model = script([ModelCall("tenant")], "Done.")
        agent = framework.make_agent(framework.make_adapter(registry), "clerk", model)
        asyncio.run(framework.run(agent, deps={"tenant": "acme"}))

        assert "acme" == model.requests[1].get_answer().text
