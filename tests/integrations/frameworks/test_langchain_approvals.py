# Tests of: integrations/langchain, integrations/framework_calls
"""Approvals are interrupts of LangGraph: what they say, which answer counts for which call, and who can pause."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from framework_contract import ModelCall, Script, script

pytest.importorskip("langchain")

from framework_langchain import ScriptedModel
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from pydantic import ValidationError

from praval_tools import Allow, Deny, ToolRegistry, ToolUsageError
from praval_tools.integrations.langchain import ToolAccess, tools_for

GO: Any = {"messages": [("user", "Go.")]}
THREAD: Any = {"configurable": {"thread_id": "1"}}
APPROVE = {"type": "approve"}
PAY_BOB, PAY_ANN = ModelCall("pay", {"to": "bob"}, "a"), ModelCall("pay", {"to": "ann"}, "b")


@pytest.fixture
def paid() -> list[str]:
    """Who was paid."""
    return []


@pytest.fixture
def registry(paid: list[str]) -> ToolRegistry:
    """A bank in which paying needs approval."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("pay", owned_by="clerk", requires_approval=True, risk_level="high", approval_reason="it moves money")
    def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return f"paid {to}"

    return registry


def make_agent(registry: ToolRegistry, model: Script, **options: Any) -> Any:
    """Return an agent that can pause."""
    options = {"checkpointer": InMemorySaver(), **options}
    return create_agent(ScriptedModel(script=model), name="clerk", middleware=[ToolAccess(registry)], **options)


def list_tool_texts(result: Any) -> list[str]:
    """Return what the tools answered."""
    return [message.text for message in result["messages"] if isinstance(message, ToolMessage)]


class TestInterrupt:
    def test_says_what_it_is_about(self, registry: ToolRegistry) -> None:
        """It has the form of LangChain's own approvals for single calls, and names agent, risk and request."""
        (waiting,) = make_agent(registry, script([PAY_BOB])).invoke(GO, THREAD)["__interrupt__"]

        (request,) = registry.approvals.pending()
        assert {
            "type": "tool_approval",
            "tool_call_id": "a",
            "name": "pay",
            "args": {"to": "bob"},
            "description": "Agent 'clerk' calls 'pay', which needs an approval: it moves money",
            "agent": "clerk",
            "approval_id": request.id,
            "reason": "it moves money",
            "risk_level": "high",
        } == waiting.value
        assert ["approve", "edit", "reject"] == sorted(waiting.response_schema["discriminator"]["mapping"])

    def test_is_answered_by_a_plain_resume(self, registry: ToolRegistry, paid: list[str]) -> None:
        """Where one call waits, its answer needs no id; sync agents pause as async ones do."""
        agent = make_agent(registry, script([PAY_BOB], "Done."))
        agent.invoke(GO, THREAD)
        result = agent.invoke(Command(resume=APPROVE), THREAD)

        assert ["bob"] == paid and "Done." == result["messages"][-1].text

    def test_passes_on_why_it_was_rejected(self, registry: ToolRegistry, paid: list[str]) -> None:
        """The model reads the person's reason."""
        agent = make_agent(registry, script([PAY_BOB], "Done."))
        agent.invoke(GO, THREAD)
        result = agent.invoke(Command(resume={"type": "reject", "message": "not on a sunday"}), THREAD)

        assert [] == paid and "not on a sunday" in list_tool_texts(result)[0]

    def test_of_each_call_has_its_own_answer(self, registry: ToolRegistry, paid: list[str]) -> None:
        """Two calls of one reply wait at once; each gets the answer to its own id, together or one by one."""
        for together in (True, False):
            paid.clear()
            agent = make_agent(registry, script([PAY_BOB, PAY_ANN], "Done."))
            waiting = agent.invoke(GO, THREAD)["__interrupt__"]
            bob, ann = sorted(waiting, key=lambda one: str(one.value["tool_call_id"]))
            answers: dict[str, Any] = {bob.id: {"type": "reject"}, ann.id: APPROVE}
            for answer in [answers] if together else [{key: value} for key, value in answers.items()]:
                result = agent.invoke(Command(resume=answer), THREAD)

            assert ["ann"] == paid and "Done." == result["messages"][-1].text
            assert "paid ann" == list_tool_texts(result)[1] and "paid" not in list_tool_texts(result)[0]

    @pytest.mark.parametrize("run", [None, "r"])
    def test_of_calls_under_one_id(self, registry: ToolRegistry, paid: list[str], run: str | None) -> None:
        """Broken promise: in a run, a reply that repeats an id ended the graph with an error, at each invocation."""
        other = ModelCall("look", {}, PAY_BOB.id)

        @registry.tool("look", owned_by="clerk")
        def look() -> str:
            """Look."""
            return "seen"

        for calls in ([PAY_BOB, other], [other, PAY_BOB], [PAY_BOB, ModelCall("pay", {"to": "ann"}, PAY_BOB.id)]):
            agent, names = make_agent(registry, script(calls, "Done.")), [call.name for call in calls]
            with registry.run(f"{run} {names}") if run else nullcontext():
                waiting = agent.invoke(GO, THREAD)["__interrupt__"]
                result = agent.invoke(Command(resume={one.id: APPROVE for one in waiting}), THREAD)
            texts = {"pay": "paid", "look": "seen"}
            assert [texts[name] for name in names] == [text.split()[0] for text in list_tool_texts(result)]

        assert ["ann", "bob", "bob", "bob"] == sorted(paid)

    def test_needs_an_id_where_several_wait(self, registry: ToolRegistry, paid: list[str]) -> None:
        """One answer without an id is given to none of two calls."""
        agent = make_agent(registry, script([PAY_BOB, PAY_ANN], "Done."))
        agent.invoke(GO, THREAD)
        with pytest.raises(RuntimeError, match="interrupt id"):
            agent.invoke(Command(resume=APPROVE), THREAD)

        assert [] == paid

    def test_of_altered_messages_is_another(self, registry: ToolRegistry, paid: list[str]) -> None:
        """An answer for a call whose arguments were altered in the checkpoint runs neither; the new one is denied."""
        agent = make_agent(registry, script([PAY_BOB], "Done."))
        agent.invoke(GO, THREAD)
        message = agent.get_state(THREAD).values["messages"][-1].model_copy(deep=True)
        message.tool_calls[0]["args"] = {"to": "mallory"}
        agent.update_state(THREAD, {"messages": [message]}, as_node="model")
        result = agent.invoke(Command(resume=APPROVE), THREAD)

        assert [] == paid and "approval" in list_tool_texts(result)[0]
        assert ["bob"] == [request.arguments["to"] for request in registry.approvals.pending()]

    @pytest.mark.parametrize(
        "answer",
        [
            True,
            {"type": "maybe"},
            {"type": "edit", "edited_action": {"name": "steal", "args": {"to": "bob"}}},
            {"type": "approve", "edited_action": {"name": "pay", "args": {"to": "bob"}}},
            {"type": "approve", "message": "but not today"},
        ],
    )
    def test_takes_valid_answers_alone(self, registry: ToolRegistry, paid: list[str], answer: Any) -> None:
        """Anything but a decision about this tool raises, and the call can be answered all the same."""
        agent = make_agent(registry, script([PAY_BOB], "Done."))
        agent.invoke(GO, THREAD)
        with pytest.raises(ValidationError):
            agent.invoke(Command(resume=answer), THREAD)
        assert [] == paid

        agent.invoke(Command(resume=APPROVE), THREAD)
        assert ["bob"] == paid

    def test_is_over_where_the_operator_answered(self, registry: ToolRegistry, paid: list[str]) -> None:
        """An answer in the registry counts when the graph goes on, whatever it is given."""
        agent = make_agent(registry, script([PAY_BOB], "Done."))
        agent.invoke(GO, THREAD)
        registry.approvals.answer(registry.approvals.pending()[0].id, Deny("no", by="eve"))
        result = agent.invoke(Command(resume=APPROVE), THREAD)

        assert [] == paid and "Done." == result["messages"][-1].text

    def test_that_stopped_before_the_call_answers_nothing(self, registry: ToolRegistry, paid: list[str]) -> None:
        """A decision with which a graph is resumed before it asked is none: nobody had seen the call."""
        agent = make_agent(registry, script([PAY_BOB], "Done."), interrupt_before=["tools"])
        agent.invoke(GO, THREAD)
        agent.invoke(Command(resume=APPROVE), THREAD)

        assert [] == paid


class TestTimeTravel:
    def test_asks_again(self, registry: ToolRegistry, paid: list[str]) -> None:
        """A fork from a checkpoint before the call pays nobody without another answer."""
        agent = make_agent(registry, script([PAY_BOB], "Done.", "Done."))
        agent.invoke(GO, THREAD)
        agent.invoke(Command(resume=APPROVE), THREAD)
        before = next(state for state in agent.get_state_history(THREAD) if state.next == ("tools",))
        forked = agent.invoke(None, before.config)

        assert ["bob"] == paid and 1 == len(forked["__interrupt__"])
        agent.invoke(Command(resume=APPROVE), THREAD)
        assert ["bob", "bob"] == paid

    def test_repeats_nothing_in_a_run(self, registry: ToolRegistry, paid: list[str]) -> None:
        """In a journaled run a fork gets what the call returned, also from another process that resumes it."""
        agent = make_agent(registry, script([PAY_BOB], "Done.", "Done."))
        with registry.run("order-1"):
            agent.invoke(GO, THREAD)
        with registry.run("order-1"):
            agent.invoke(Command(resume=APPROVE), THREAD)
            before = next(state for state in agent.get_state_history(THREAD) if state.next == ("tools",))
            forked = agent.invoke(None, before.config)

        assert ["bob"] == paid
        assert ["paid bob"] == list_tool_texts(forked)
        assert "Done." == forked["messages"][-1].text


class TestGraphWithoutPauses:
    def test_says_what_it_needs(self, registry: ToolRegistry, paid: list[str]) -> None:
        """An agent without a checkpointer cannot resume: the error says what to pass."""
        agent = make_agent(registry, script([PAY_BOB]), checkpointer=None)
        with pytest.raises(ToolUsageError, match=r"checkpointer=InMemorySaver\(\)"):
            agent.invoke(GO)
        assert [] == paid

    def test_fails_the_call(self, registry: ToolRegistry, paid: list[str]) -> None:
        """A list of tools pauses nothing: the model reads that the call needs an approval."""
        agent = create_agent(ScriptedModel(script=script([PAY_BOB], "Done.")), tools_for(registry, "clerk"))
        (text,) = list_tool_texts(agent.invoke(GO))

        assert [] == paid and "approval" in text


class TestSharedTask:
    def make_graph(self, registry: ToolRegistry, *calls: ModelCall) -> Any:
        """Return a graph whose `ToolNode` gets all calls of a message at once."""
        access: Any = ToolAccess(registry, "clerk")
        model = ScriptedModel(script=script(calls))
        graph = StateGraph(MessagesState)
        graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode([], wrap_tool_call=access.wrap_tool_call))
        graph.add_edge(START, "model")
        graph.add_edge("model", "tools")
        return graph.compile(checkpointer=InMemorySaver())

    def test_pauses_for_a_call_alone(self, registry: ToolRegistry, paid: list[str]) -> None:
        """One call of a message can wait for its answer."""
        graph = self.make_graph(registry, PAY_BOB)
        assert 1 == len(graph.invoke(GO, THREAD)["__interrupt__"])
        graph.invoke(Command(resume=APPROVE), THREAD)

        assert ["bob"] == paid

    def test_never_mixes_up_answers(self, registry: ToolRegistry, paid: list[str]) -> None:
        """Several calls would share their interrupts, and take each other's answers: the model is to make one."""
        result = self.make_graph(registry, PAY_BOB, PAY_ANN).invoke(GO, THREAD)

        assert [] == paid and "__interrupt__" not in result
        assert all("with no other call beside it" in text for text in list_tool_texts(result))


class TestNestedAgents:
    def test_pause_in_tools_of_the_program(self, registry: ToolRegistry, paid: list[str]) -> None:
        """An agent that runs in a tool of the program's own pauses the whole, and goes on where it was."""
        helper_model = script([PAY_BOB], "Paid.")

        @tool
        def ask() -> str:
            """Ask the clerk."""
            helper = make_agent(registry, helper_model, checkpointer=None)
            return str(helper.invoke(GO)["messages"][-1].text)

        model = ScriptedModel(script=script([ModelCall("ask")], "Done."))
        agent = create_agent(model, [ask], checkpointer=InMemorySaver())
        assert 1 == len(agent.invoke(GO, THREAD)["__interrupt__"])
        result = agent.invoke(Command(resume=APPROVE), THREAD)

        assert ["bob"] == paid and ["Paid."] == list_tool_texts(result)

    def test_do_not_pause_in_tools_of_the_registry(self, registry: ToolRegistry, paid: list[str]) -> None:
        """An answer that comes through code of a tool could be that code's: nobody is asked, the call fails."""
        helper_model = script([PAY_BOB], "Not paid.")

        @registry.tool("ask", owned_by="clerk")
        def ask() -> str:
            """Ask another clerk."""
            helper = make_agent(registry, helper_model, checkpointer=None)
            return str(helper.invoke(GO)["messages"][-1].text)

        result = make_agent(registry, script([ModelCall("ask")], "Done.")).invoke(GO, THREAD)

        assert [] == paid and "__interrupt__" not in result
        assert ["Not paid."] == list_tool_texts(result)
        assert helper_model.requests[1].get_answer("a").failed


class TestTools:
    def test_may_ask_by_themselves(self, registry: ToolRegistry) -> None:
        """A tool that interrupts the graph pauses it, and runs again with the answer."""

        @registry.tool("ask_user", owned_by="clerk")
        def ask_user(question: str) -> str:
            """Ask the user."""
            return f"the user says {interrupt(question)}"

        agent = make_agent(registry, script([ModelCall("ask_user", {"question": "Why?"})], "Done."))
        (waiting,) = agent.invoke(GO, THREAD)["__interrupt__"]

        assert "Why?" == waiting.value
        assert ["the user says because"] == list_tool_texts(agent.invoke(Command(resume="because"), THREAD))


class TestApprovalsThatAreNotNeededAnyMore:
    """The operator takes the approval away, or answers by a handler, while the person thinks about the call."""

    @pytest.mark.parametrize("lift", [
        lambda registry: registry.configure("pay", requires_approval=False),
        lambda registry: registry.set_approval_handler(lambda request: Allow()),
    ], ids=["configured", "handler"])  # fmt: skip
    @pytest.mark.parametrize(
        ("answer", "runs"),
        [
            ({"type": "reject"}, []),
            (APPROVE, ["bob"]),
            ({"type": "edit", "edited_action": {"name": "pay", "args": {"to": "eve"}}}, ["eve"]),
        ],
    )
    def test_the_answer_counts(
        self, registry: ToolRegistry, paid: list[str], lift: Any, answer: dict[str, Any], runs: list[str]
    ) -> None:
        """Broken promise: what the person had rejected ran then, and what was changed ran as it was before."""
        agent = make_agent(registry, script([PAY_BOB], "Done."))
        agent.invoke(GO, THREAD)
        lift(registry)

        result = agent.invoke(Command(resume=answer), THREAD)

        assert runs == paid
        assert [f"paid {name}" for name in runs] == [text for text in list_tool_texts(result) if "paid" in text]
        assert [] == registry.approvals.pending()
