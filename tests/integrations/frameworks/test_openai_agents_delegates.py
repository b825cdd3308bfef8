# Tests of: integrations/openai_agents
"""Who takes over a conversation of the OpenAI Agents SDK on another's behalf has no more tools than that one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from framework_contract import ModelCall, script

pytest.importorskip("agents")

from agents import Agent as SdkAgent
from agents import Runner, RunState
from framework_openai_agents import RUN_CONFIG, make_model

from praval_tools import Agent, Ask, ToolContext, ToolRegistry
from praval_tools.integrations.openai_agents import RegistryAgent, tools_for


@pytest.mark.parametrize("kind", ["registry agent", "fixed list"])
@pytest.mark.parametrize("way", ["hand-off", "tool"])
def test_a_helper_calls_on_behalf_of_who_asked(kind: str, way: str) -> None:
    """A hand-off, or an agent as a tool, to a delegate: its calls are its own, on behalf of the other."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("whoami", shared=True)
    def whoami(context: ToolContext) -> str:
        """Say who calls for whom."""
        return f"{context.agent} for {','.join(context.chain)}"

    registry.tool("secret", owned_by="helper", description="A tool of the helper alone.")(lambda: "secret")
    delegate = Agent("clerk", registry=registry).delegate("helper", mode="intersect")
    inner = script([ModelCall("whoami"), ModelCall("secret", {}, "b")], "Done.")
    helper: SdkAgent[Any]
    if kind == "registry agent":
        helper = RegistryAgent(name="helper", model=make_model(inner), registry=registry, registry_agent=delegate)
    else:
        helper = SdkAgent(name="helper", model=make_model(inner), tools=tools_for(registry, delegate))
    asked = "transfer_to_helper" if way == "hand-off" else "ask"
    clerk = RegistryAgent(
        name="clerk",
        model=make_model(script([ModelCall(asked, {} if way == "hand-off" else {"input": "Go."}, "a")], "Done.")),
        handoffs=[helper] if way == "hand-off" else [],
        tools=[] if way == "hand-off" else [helper.as_tool("ask", "Ask the helper.", run_config=RUN_CONFIG)],
        registry=registry,
    )
    assert "Done." == asyncio.run(Runner.run(clerk, "Go.", run_config=RUN_CONFIG)).final_output

    assert [["whoami"]] * 2 == inner.offered
    assert "helper for clerk" == inner.requests[1].get_answer().text
    assert inner.requests[1].get_answer("b").failed


@pytest.mark.parametrize("kind", ["registry agent", "fixed list"])
def test_a_call_id_that_is_repeated_answers_no_other_call(kind: str) -> None:
    """An approval for good in one conversation, of a call that needs none, ends no request of another conversation."""
    registry, paid = ToolRegistry(journal="memory"), list[int]()

    @registry.tool("pay", shared=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    registry.add_policy(lambda agent, tool, arguments: Ask("much") if arguments["amount"] > 100 else None)

    def make(*replies: Any) -> SdkAgent[Any]:
        model = make_model(script(*replies))
        if kind == "registry agent":
            return RegistryAgent(name="clerk", model=model, registry=registry)
        return SdkAgent(name="clerk", model=model, tools=tools_for(registry, "clerk"))

    async def main() -> None:
        other = make([ModelCall("pay", {"amount": 1}, "x")], [ModelCall("pay", {"amount": 500}, "a")], "Done.")
        waiting = await Runner.run(other, "Go.", run_config=RUN_CONFIG)
        trusting = make([ModelCall("pay", {"amount": 200}, "a")], [ModelCall("pay", {"amount": 5}, "a")], "Done.")
        state = (await Runner.run(trusting, "Go.", run_config=RUN_CONFIG)).to_state()
        state.approve(state.get_interruptions()[0], always_approve=True)
        assert "Done." == (await Runner.run(trusting, state, run_config=RUN_CONFIG)).final_output
        assert [1, 200, 5] == paid
        state = waiting.to_state()
        state.approve(state.get_interruptions()[0])
        assert "Done." == (await Runner.run(other, state, run_config=RUN_CONFIG)).final_output

    asyncio.run(main())
    assert [1, 200, 5, 500] == paid


def test_a_stored_state_of_an_agent_that_is_a_tool_runs_its_call_once() -> None:
    """The state of the outer run keeps for which request the inner one waits."""
    registry, paid = ToolRegistry(journal="memory"), list[int]()

    @registry.tool("pay", owned_by="helper", requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    call, ends = ModelCall("pay", {"amount": 7}), ["Done."] * 4
    helper = RegistryAgent(name="helper", model=make_model(script([call], *ends)), registry=registry)
    asking = make_model(script([ModelCall("ask", {"input": "Go."}, "a")], *ends))
    helping = helper.as_tool("ask", "Ask the helper.", run_config=RUN_CONFIG)
    clerk = RegistryAgent(name="clerk", model=asking, tools=[helping], registry=registry)

    async def main() -> None:
        stored = (await Runner.run(clerk, "Go.", run_config=RUN_CONFIG)).to_state().to_string()
        for _ in range(2):
            state: RunState[Any, Any] = await RunState.from_string(clerk, stored)
            state.approve(state.get_interruptions()[0])
            await Runner.run(clerk, state, run_config=RUN_CONFIG)

    asyncio.run(main())
    assert [7] == paid
