# Tests of: integrations/openai_agents
"""What is particular to the OpenAI Agents SDK: hand-offs, agents as tools, stored states, streams, fixed lists."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from framework_contract import ModelCall, Script, script

agents = pytest.importorskip("agents")

from agents import Agent, FunctionTool, ModelBehaviorError, RunConfig, Runner, function_tool  # noqa: E402
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call  # noqa: E402
from agents.tool_context import ToolContext as SdkContext  # noqa: E402
from framework_openai_agents import RUN_CONFIG, make_model  # noqa: E402

from praval_tools import Allow, Ask, Content, ToolCall, ToolContext, ToolRegistry, ToolUsageError  # noqa: E402
from praval_tools.integrations.openai_agents import RegistryAgent, tools_for  # noqa: E402

SUPPORT = Path(__file__).parents[2] / "support"
DEFAULTS = RunConfig(tracing_disabled=True)


@pytest.fixture
def paid() -> list[int]:
    """What was paid."""
    return []


@pytest.fixture
def registry(paid: list[int]) -> ToolRegistry:
    """A clerk with a few tools."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("add", owned_by="clerk")
    def add(x: int, y: int = 1) -> int:
        """Add two numbers."""
        return x + y

    @registry.tool("pay", owned_by="clerk", requires_approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    @registry.tool("refund", owned_by="boss")
    def refund(amount: int) -> str:
        """Refund."""
        paid.append(-amount)
        return f"refunded {amount}"

    return registry


MakeAgent = Callable[[ToolRegistry, str, Script], Agent[Any]]


def make_registry_agent(registry: ToolRegistry, name: str, model: Script) -> Agent[Any]:
    """Return an agent whose tools are read at each step."""
    return RegistryAgent(name=name, model=make_model(model), registry=registry)


def make_plain_agent(registry: ToolRegistry, name: str, model: Script) -> Agent[Any]:
    """Return an agent with a fixed list of tools."""
    return Agent(name=name, model=make_model(model), tools=tools_for(registry, name))


both = pytest.mark.parametrize("make_agent", [make_registry_agent, make_plain_agent])


def run(agent: Agent[Any], state: Any = "Go.", config: RunConfig = RUN_CONFIG) -> Any:
    """Run an agent, or resume it."""
    return asyncio.run(Runner.run(agent, state, run_config=config))


def approve_all(result: Any, *, always: bool = False) -> Any:
    """Return the state of a run that waits, with all of its calls approved."""
    state = result.to_state()
    for item in result.interruptions:
        state.approve(item, always_approve=always)
    return state


def get_texts(model: Script) -> list[str]:
    """Return what the model got for its calls."""
    return [answer.text for request in model.requests for answer in request.answers]


class TestHandOffs:
    @both
    def test_give_the_receiver_its_own_tools(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """Who takes over has its tools and not those of who handed over, and calls in its own name."""
        receiving = script([ModelCall("refund", {"amount": 5}), ModelCall("pay", {"amount": 1}, "call_1")], "Done.")
        boss = make_agent(registry, "boss", receiving)
        handing = script([ModelCall("transfer_to_boss", {}, "call_a")])
        clerk = make_agent(registry, "clerk", handing)
        clerk.handoffs = [boss]

        assert "Done." == run(clerk).final_output
        assert [["add", "pay"]] == handing.offered
        assert [["refund"], ["refund"]] == receiving.offered
        assert [-5] == paid


class TestAgentsAsTools:
    @both
    def test_wait_for_approvals_of_their_own_calls(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """A call inside an agent that is a tool interrupts the outer run, and runs once when that is resumed."""
        inner = make_agent(registry, "clerk", script([ModelCall("pay", {"amount": 7})], "Paid."))
        model = script([ModelCall("ask_clerk", {"input": "pay"}), ModelCall("refund", {"amount": 1}, "b")], "Done.")
        boss = make_agent(registry, "boss", model)
        boss.tools = [*boss.tools, inner.as_tool("ask_clerk", "Ask the clerk.")]
        paused = run(boss)

        (item,) = paused.interruptions
        assert ("pay", [-1]) == (item.name, paid)
        (request,) = registry.approvals.pending()
        assert ("clerk", {"amount": 7}) == (request.agent, request.arguments)
        assert "Done." == run(boss, approve_all(paused)).final_output
        assert [-1, 7] == paid


class TestStates:
    def test_are_resumed_in_another_process_once(self, tmp_path: Path) -> None:
        """A state that was stored as JSON goes on elsewhere, where the journal has the request; twice it asks again."""

        def run_program(how: str) -> str:
            files = [str(tmp_path / name) for name in ("runs.db", "state.json", "payments")]
            command = [sys.executable, str(SUPPORT / "openai_agents_driver.py"), *files, how]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
            assert 0 == done.returncode, done.stderr
            return done.stdout.strip()

        run_program("pause")

        assert "['paid bob']" == run_program("resume")
        assert "was used before" in run_program("resume")
        assert "bob\n" == (tmp_path / "payments").read_text()

    @both
    def test_of_a_journaled_run_are_replayed(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """The program of a run that was approved may run again from its start: nothing is asked, nothing runs."""

        def run_once(model: Script) -> Any:
            return run(make_agent(registry, "clerk", model))

        replies: Sequence[Any] = ([ModelCall("pay", {"amount": 4}), ModelCall("add", {"x": 1}, "b")], "Done.")
        with registry.run("order-1"):
            agent = make_agent(registry, "clerk", script(*replies))
            run(agent, approve_all(run(agent)))
        model = script(*replies)
        with registry.run("order-1"):
            assert "Done." == run_once(model).final_output
        assert (["paid 4", "2"], [4]) == (get_texts(model), paid)

    def test_belong_to_their_journaled_run(self, registry: ToolRegistry, paid: list[int]) -> None:
        """A call that was asked for in a run is approved in that run, and in no other."""
        model = script([ModelCall("pay", {"amount": 6})], "Done.", "Done.")
        agent = make_registry_agent(registry, "clerk", model)
        with registry.run("order-1"):
            paused = run(agent)

        run(agent, approve_all(paused))
        assert [] == paid
        with registry.run("order-1"):
            run(agent, approve_all(paused))
        assert [6] == paid


class TestApprovals:
    @both
    def test_are_those_that_a_policy_asks_for(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """A policy that asks for some arguments interrupts the run for these; the other calls of the reply run."""
        registry.add_policy(lambda agent, tool, arguments: Ask("much") if arguments.get("amount", 0) > 100 else None)
        model = script([ModelCall("refund", {"amount": 200}, "a"), ModelCall("refund", {"amount": 2}, "b")], "Done.")
        agent = make_agent(registry, "boss", model)
        paused = run(agent)

        assert [-2] == paid
        assert ["a@1"] == [item.call_id for item in paused.interruptions]
        run(agent, approve_all(paused))
        assert [-2, -200] == paid

    @both
    def test_for_all_calls_of_a_tool_count_for_the_one_that_waits(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """`always_approve` approves what a person was shown; a later call is refused, and the model learns it."""
        model = script([ModelCall("pay", {"amount": 1})], [ModelCall("pay", {"amount": 9_999})], "Done.")
        agent = make_agent(registry, "clerk", model)
        run(agent, approve_all(run(agent), always=True))

        assert [1] == paid
        assert "was denied" in get_texts(model)[1]

    def test_of_arguments_that_are_no_json_run_nothing(self, registry: ToolRegistry, paid: list[int]) -> None:
        """The SDK asks a person about text that it cannot read, and not the registry: the call does not run."""
        for text in ("", '{"amount": '):
            model = script([ModelCall("pay", text)], "Done.")
            agent = make_registry_agent(registry, "clerk", model)
            state = run(agent).to_state()
            for item in state.get_interruptions():
                state.approve(item)

            assert "Done." == run(agent, state).final_output
        assert ([], []) == (paid, registry.approvals.pending())

    def test_are_not_asked_for_what_is_refused(self, registry: ToolRegistry) -> None:
        """A call that does not fit, or that a policy refuses, is answered at once."""
        registry.add_policy(lambda agent, tool, arguments: "no" if arguments.get("amount") == 13 else None)
        calls = [ModelCall("pay", {"amount": "many"}, "a"), ModelCall("pay", {"amount": 13}, "b")]
        model = script(calls, "Done.")

        assert "Done." == run(make_registry_agent(registry, "clerk", model)).final_output
        assert [] == registry.approvals.pending()
        assert "$.amount" in get_texts(model)[0] and "is forbidden" in get_texts(model)[1]


class TestCalls:
    @both
    def test_of_tools_that_were_revoked_end_no_run(self, make_agent: MakeAgent, registry: ToolRegistry) -> None:
        """A tool that goes between a reply and its calls is refused, also with the SDK's own settings."""

        def revoke() -> list[ModelCall]:
            registry.block("add", "clerk")
            return [ModelCall("add", {"x": 1})]

        model = script(revoke, "Done.")
        assert "Done." == run(make_agent(registry, "clerk", model), config=DEFAULTS).final_output
        assert "is forbidden" in get_texts(model)[0]

    @both
    def test_of_unknown_names_are_the_frameworks(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """A name that was not offered ends the run by the SDK's default, and is answered where that is asked for."""
        with pytest.raises(ModelBehaviorError, match="refund not found"):
            run(make_agent(registry, "clerk", script([ModelCall("refund", {"amount": 1})])), config=DEFAULTS)
        model = script([ModelCall("refund", {"amount": 1})], "Done.")
        run(make_agent(registry, "clerk", model))

        assert (["Tool 'refund' not found."], []) == (get_texts(model), paid)

    @both
    def test_with_arguments_that_are_no_json_are_answered(self, make_agent: MakeAgent, registry: ToolRegistry) -> None:
        """Text that is no JSON is an error for the model, and no person is asked about it."""
        model = script([ModelCall("add", '{"x": ')], "Done.")

        assert "Done." == run(make_agent(registry, "clerk", model)).final_output
        assert "JSON" in get_texts(model)[0]

    def test_that_repeat_an_id_run_nothing(self, registry: ToolRegistry, paid: list[int]) -> None:
        """The SDK demands ids that are unique in a run: another call with the id of an approved one ends it."""
        steps = [[function_call("pay", f'{{"amount": {amount}}}', call_id="call_0")] for amount in (1, 9_999)]
        model = ScriptedModel([*map(ModelStep, steps), ModelStep([assistant_message("Done.")])])
        agent = RegistryAgent(name="clerk", model=model, registry=registry)
        paused = run(agent)
        with pytest.raises(ModelBehaviorError, match="reused a .*tool call ID"):
            run(agent, approve_all(paused))

        assert [1] == paid

    @both
    def test_of_agents_as_tools_may_repeat_an_id(self, make_agent: MakeAgent, registry: ToolRegistry) -> None:
        """Two runs of an inner agent make calls of one id in a journaled run: both run, and both are replayed."""
        added: list[int] = []
        registry.tool("note", owned_by="clerk", description="Note.")(lambda x: added.append(x))
        for _ in range(2):
            note = ModelStep([function_call("note", {"x": 1}, call_id="call_0")])
            inner = ScriptedModel(
                [note, ModelStep([assistant_message("A.")]), note, ModelStep([assistant_message("B.")])]
            )
            model = script([ModelCall("ask", {"input": "a"})], [ModelCall("ask", {"input": "b"}, "b")], "Done.")
            boss, clerk = make_agent(registry, "boss", model), make_agent(registry, "clerk", script())
            clerk.model = inner
            boss.tools = [*boss.tools, clerk.as_tool("ask", "Ask the clerk.", run_config=RUN_CONFIG)]
            with registry.run("order-1"):
                run(boss)
            assert ["A.", "B."] == get_texts(model)
        assert [1, 1] == added

    @both
    def test_that_may_wait_keep_the_id_of_the_model(
        self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]
    ) -> None:
        """In a journaled run another run of the SDK that repeats such an id pays nothing."""

        def make(amount: int) -> Agent[Any]:
            return make_agent(registry, "clerk", script([ModelCall("pay", {"amount": amount})], "Done."))

        with registry.run("order-1"):
            agent = make(1)
            assert "Done." == run(agent, approve_all(run(agent))).final_output
            assert "Done." == run(make(1)).final_output
            with pytest.raises(Exception, match="Use the id for one call only"):
                run(make(2))
        assert [1] == paid

    @both
    def test_come_in_streams(self, make_agent: MakeAgent, registry: ToolRegistry, paid: list[int]) -> None:
        """A streamed run calls tools, waits for approvals and is resumed as any other."""
        model = script([ModelCall("add", {"x": 1}, "a"), ModelCall("pay", {"amount": 2}, "b")], "Done.")
        agent = make_agent(registry, "clerk", model)

        async def stream(state: Any) -> Any:
            result = Runner.run_streamed(agent, state, run_config=RUN_CONFIG)
            async for _ in result.stream_events():
                pass
            return result

        async def main() -> str:
            return str((await stream(approve_all(await stream("Go.")))).final_output)

        assert "Done." == asyncio.run(main())
        assert (["2", "paid 2"], [2]) == (sorted(get_texts(model)), paid)


class TestTools:
    @both
    def test_keep_their_schemas(self, make_agent: MakeAgent, registry: ToolRegistry) -> None:
        """Parameters that the strict mode cannot have are sent as they are; what was changed is sent changed."""

        @registry.tool("note", owned_by="boss")
        def note(tags: dict[str, int]) -> str:
            """Note something."""
            return "noted"

        agent = make_agent(registry, "boss", script("Done."))
        registry.configure("refund", description="Give money back.")

        async def list_tools() -> dict[str, FunctionTool]:
            tools = await agent.get_all_tools(agents.RunContextWrapper(None))
            return {tool.name: tool for tool in tools if isinstance(tool, FunctionTool)}

        tools = asyncio.run(list_tools())
        assert {"type": "integer"} == tools["note"].params_json_schema["properties"]["tags"]["additionalProperties"]
        assert not tools["note"].strict_json_schema
        assert "Give money back." == tools["refund"].description

    @both
    def test_return_content(self, make_agent: MakeAgent, registry: ToolRegistry) -> None:
        """Images and files reach the model as such, and texts beside them."""

        @registry.tool("draw", owned_by="boss")
        def draw() -> list[Content]:
            """Draw something."""
            file = Content.resource("file:///a.pdf", data=b"pdf", mime_type="application/pdf", name="a.pdf")
            return [Content.of_text("a dot"), Content.image(b"png", "image/png"), file]

        result = run(make_agent(registry, "boss", script([ModelCall("draw")], "Done.")))
        (output,) = [item["output"] for item in result.to_input_list() if item.get("type") == "function_call_output"]

        assert ["input_text", "input_image", "input_file"] == [part["type"] for part in output]
        assert "data:image/png;base64,cG5n" == output[1]["image_url"]

    def test_that_are_registered_in_a_run_are_offered(self, registry: ToolRegistry) -> None:
        """A `RegistryAgent` offers a new tool at the next step, while other runs of the same agent go on."""

        def register() -> list[ModelCall]:
            registry.tool("new", owned_by="clerk", description="Say new.")(lambda: "new")
            return [ModelCall("add", {"x": 1})]

        model = script(register, [ModelCall("add", {"x": 2})], [ModelCall("new")], [ModelCall("new")], "Done.", "Done.")
        agent = make_registry_agent(registry, "clerk", model)

        async def main() -> list[Any]:
            return await asyncio.gather(*(Runner.run(agent, "Go.", run_config=RUN_CONFIG) for _ in range(2)))

        assert ["Done.", "Done."] == [result.final_output for result in asyncio.run(main())]
        assert ["add", "new", "pay"] == sorted(model.offered[-1])
        assert "new" in get_texts(model)

    def test_stand_beside_those_of_the_framework(self, registry: ToolRegistry) -> None:
        """A `RegistryAgent` may have tools of the SDK alone, and a clone has the same."""

        @function_tool
        def clock() -> str:
            """Tell the time."""
            return "noon"

        model = script([ModelCall("clock")], "Done.")
        agent = RegistryAgent(name="boss", model=make_model(model), tools=[clock], registry=registry).clone()
        run(agent)

        assert [["clock", "refund"]] * 2 == model.offered
        assert ["noon"] == get_texts(model)


class TestFixedLists:
    def test_are_of_one_agent(self, registry: ToolRegistry) -> None:
        """The list of one agent is refused to another, and a name that is not one when the list is made."""
        with pytest.raises(ToolUsageError, match=r"'boss'.*'clerk'"):
            run(Agent(name="clerk", model=make_model(script("Done.")), tools=tools_for(registry, "boss")))
        with pytest.raises(ValueError, match="agent name"):
            tools_for(registry, "")

    def test_serve_runs_at_the_same_time(self, registry: ToolRegistry) -> None:
        """Two runs of one agent with one list go on while tools come and go."""

        def grant() -> list[ModelCall]:
            registry.assign_tool_to_agent("refund", "clerk")
            return [ModelCall("add", {"x": 1})]

        model = script(grant, grant, *(["Done."] * 2))
        agent = make_plain_agent(registry, "clerk", model)

        async def main() -> None:
            await asyncio.gather(*(Runner.run(agent, "Go.", run_config=RUN_CONFIG) for _ in range(2)))

        asyncio.run(main())
        assert [["add", "pay", "refund"]] * 2 == model.offered[2:]


class TestRunsAtOnce:
    def test_get_the_results_of_their_own_deps(self, registry: ToolRegistry) -> None:
        """Two runs that share fixed tools, and whose equal calls are recorded already, each get their own result."""

        @registry.tool("tenant", owned_by="clerk", requires_approval=True)
        def tenant(context: ToolContext[dict[str, str]]) -> str:
            """Say whose data they are."""
            return context.deps["tenant"]

        call = ToolCall("call_0", "tenant", {})
        for name in ("acme", "globex"):
            with registry.run(name):
                registry.toolset("clerk").execute(call, deps={"tenant": name})
                registry.approvals.answer("call_0", Allow(by="eve"))
                assert name == registry.toolset("clerk").execute(call, deps={"tenant": name}).result

        (tool,) = [tool for tool in tools_for(registry, "clerk") if tool.name == "tenant"]
        assert isinstance(tool, FunctionTool) and callable(tool.is_enabled)
        contexts = {
            name: SdkContext({"tenant": name}, tool_name="tenant", tool_call_id="call_0", tool_arguments="{}")
            for name in ("acme", "globex")
        }

        async def ask(name: str) -> None:
            with registry.run(name):
                assert callable(tool.is_enabled) and tool.is_enabled(contexts[name], Agent(name="clerk"))
                assert callable(tool.needs_approval)
                assert not await tool.needs_approval(contexts[name], {}, "call_0")

        async def main() -> dict[str, object]:
            for name in contexts:
                await ask(name)
            return {name: await tool.on_invoke_tool(contexts[name], "{}") for name in reversed(contexts)}

        assert {"globex": "globex", "acme": "acme"} == asyncio.run(main())

    def test_take_no_result_of_another_run(self, registry: ToolRegistry, paid: list[int]) -> None:
        """
        A result that its run did not take is not that of an equal call in a later run, which is decided anew.

        The SDK may ask whether a call needs approval and then not make it, as where a hook ends the run in between. An
        agent that was blocked since then got the result, and no record said so.
        """
        (tool,) = [tool for tool in tools_for(registry, "clerk") if tool.name == "pay"]
        contexts = [SdkContext(None, tool_name="pay", tool_call_id="a", tool_arguments='{"amount": 3}') for _ in "12"]

        async def ask(context: SdkContext[Any]) -> bool:
            assert isinstance(tool, FunctionTool) and callable(tool.is_enabled)
            assert tool.is_enabled(context, Agent(name="clerk")) and callable(tool.needs_approval)
            return bool(await tool.needs_approval(context, {"amount": 3}, "a"))

        async def main() -> object:
            assert await ask(contexts[0])
            registry.approvals.answer(registry.approvals.pending()[0].id, Allow(by="eve"))
            assert not await ask(contexts[0])
            registry.block("pay", "clerk")
            return await tool.on_invoke_tool(contexts[1], '{"amount": 3}')

        assert "is forbidden" in str(asyncio.run(main()))
        assert [3] == paid
