"""Conversations that go on in another loop, and loops that end with what a tool returned."""

# Tests of: loop, state_machine

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from loop_rig import RAN, Run, registry, run  # noqa: F401

from praval_tools import Allow, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.loop import LoopResult, ModelReply, StopReason, ToolLoop
from praval_tools.testing import fake_model


class TestHistory:
    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses", "anthropic", "gemini"])
    def test_a_conversation_goes_on(self, api_format: str, registry: ToolRegistry) -> None:
        """What was said before stands before the new prompt, as a result or as stored messages."""
        model = fake_model(("add", {"x": 1}), "One.", "Two.", "Three.", api_format=api_format)
        loop = ToolLoop(registry.agent("ann"), model)
        first = loop.run("Go.")
        second = loop.run("And?", history=first)
        third = loop.run("And?", history=json.loads(json.dumps(second.messages)))

        assert [*first.messages] == model.requests[2].messages[:-1]
        assert [*second.messages] == model.requests[3].messages[:-1]
        assert ["One.", "Two.", "Three."] == [one.text for one in (first, second, third)]
        assert 3 == len({one.run_id for one in (first, second, third)})
        assert [(1, 0)] == RAN

    def test_with_another_agent(self, registry: ToolRegistry) -> None:
        """Another agent takes a conversation up with its own tools, and needs no new prompt."""
        first = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).run("Go.")
        registry.disable("post")
        model = fake_model("Done.")
        ended = ToolLoop(registry.agent("bob"), model).run(history=first)

        assert [*first.messages] == model.requests[0].messages
        assert ended.answered

    def test_in_every_way(self, registry: ToolRegistry) -> None:
        """Streams and async code take a history, too."""
        first = ToolLoop(registry.agent("ann"), fake_model("One.")).run("Go.")

        async def main() -> list[Any]:
            loop = ToolLoop(registry.agent("ann"), fake_model("Two.", "Three."))
            ended = await loop.arun("And?", history=first)
            return [ended, *[one.result async for one in loop.astream("And?", history=ended) if hasattr(one, "result")]]

        ended = [*asyncio.run(main())]
        *_, last = ToolLoop(registry.agent("ann"), fake_model("Four.")).stream("And?", history=ended[-1])
        assert [4, 6, 8] == [len(one.messages) for one in (*ended, last.result)]

    def test_what_waits_is_not_taken_up(self, registry: ToolRegistry) -> None:
        """Providers refuse calls without results: the error says to resume the run."""
        first = ToolLoop(registry.agent("ann"), fake_model(("post", {"text": "x"}))).run("Go.", "r")
        with pytest.raises(ToolUsageError, match=r"resume\('r'\)"):
            ToolLoop(registry.agent("ann"), fake_model()).run("And?", history=first)

    def test_a_model_of_another_format_refuses(self, registry: ToolRegistry) -> None:
        """The messages of one provider are not sent to another."""
        first = ToolLoop(registry.agent("ann"), fake_model("One.", api_format="anthropic")).run("Go.")
        with pytest.raises(ToolUsageError, match="'anthropic'.* speaks 'openai-chat'"):
            ToolLoop(registry.agent("ann"), fake_model()).run("And?", history=first)

    def test_a_cut_reply_with_calls_is_left_out(self, registry: ToolRegistry, run: Run) -> None:
        """Providers refuse calls without results, so a conversation does not hold them."""
        cut = ModelReply(text="Let me", calls=(ToolCall("1", "add", {"x": 1}),), stop="truncated")
        ended = run(ToolLoop(registry.agent("ann"), fake_model(cut)))

        assert (StopReason.TRUNCATED, "Let me") == (ended.reason, ended.text)
        assert ["user"] == [one["role"] for one in ended.messages]

    def test_begun_again_it_replays(self, registry: ToolRegistry) -> None:
        """A run that began with a history is found again by that, and asks for nothing that is recorded."""
        first = ToolLoop(registry.agent("ann"), fake_model("One.")).run("Go.")
        loop = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "Two."))
        once, again = (loop.run("And?", "r", history=first) for _ in range(2))

        assert (once.text, once.messages) == (again.text, again.messages)
        assert [(1, 0)] == RAN


class TestAnswerTool:
    def test_it_ends_the_loop(self, registry: ToolRegistry, run: Run) -> None:
        """The first call that succeeds ends it; the value is the answer, and the calls beside it are made."""
        calls = [("add", {"x": 1}), ("add", {"x": 20, "y": 1})]
        ended: LoopResult = run(ToolLoop(registry.agent("ann"), fake_model(calls), answer_tool="add"))

        assert (StopReason.ANSWER, 1, 1, True) == (ended.reason, ended.answer, ended.steps, ended.answered)
        assert [1, 21] == [one.result for one in ended.results]
        assert ["user", "assistant", "tool", "tool"] == [one["role"] for one in ended.messages]

    def test_a_call_that_fails_does_not(self, registry: ToolRegistry, run: Run) -> None:
        """The model reads what is wrong, and tries again."""
        model = fake_model(("add", {"x": "one"}), ("add", {"x": 1}))
        ended = run(ToolLoop(registry.agent("ann"), model, answer_tool=registry.get_tool("add")))

        assert (1, 2) == (ended.answer, ended.steps)

    def test_a_model_may_answer_in_words(self, registry: ToolRegistry, run: Run) -> None:
        """Then there is no value."""
        ended = run(ToolLoop(registry.agent("ann"), fake_model("One."), answer_tool="add"))

        assert ("One.", None) == (ended.text, ended.answer)

    def test_replayed_it_ends_again(self, registry: ToolRegistry, run: Run) -> None:
        """A run that ended so ends so when it is begun again, and calls nothing twice."""
        for model in (fake_model(("add", {"x": 1})), fake_model()):
            assert 1 == run(ToolLoop(registry.agent("ann"), model, answer_tool="add"), "Go.", "r").answer
        assert [(1, 0)] == RAN

    @pytest.mark.parametrize("name", ["notes.file", "notes_file"])
    def test_by_each_of_its_names(self, name: str, run: Run) -> None:
        """Also by the one under which models are sent it."""
        with ToolRegistry() as made:
            made.tool("notes.file", owned_by="ann", description="File it.")(lambda: 7)

            assert 7 == run(ToolLoop(made.agent("ann"), fake_model(("notes_file", {})), answer_tool=name)).answer

    def test_is_a_tool_that_exists(self, registry: ToolRegistry, run: Run) -> None:
        """A misspelt name is an error before the first request: the loop would go on until its steps are spent."""
        model = fake_model("One.")

        with pytest.raises(ToolUsageError, match="Did you mean 'add'") as error:
            run(ToolLoop(registry.agent("ann"), model, answer_tool="ad"))

        assert ("no-answer-tool", []) == (error.value.code, model.requests)

    def test_one_that_waits_for_approval(self, registry: ToolRegistry) -> None:
        """A person decides first; the answer comes when the run is resumed."""
        loop = ToolLoop(registry.agent("ann"), fake_model(("post", {"text": "x"})), answer_tool="post")
        ended = loop.run("Go.", "r")
        assert (StopReason.APPROVAL_REQUIRED, None) == (ended.reason, ended.answer)

        registry.approvals.answer(ended.waiting[0], Allow(by="eve"))
        assert "posted x" == loop.resume("r").answer
