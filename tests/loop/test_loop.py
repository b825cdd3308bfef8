"""The loop between a model and an agent's tools: what ends it, what it records, and how it goes on."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import attrs
import pytest

from praval_tools import (
    Agent,
    Allow,
    Content,
    Deny,
    JournalError,
    ModelError,
    Outcome,
    ReplayMismatchError,
    RunBusyError,
    Secret,
    ToolCall,
    ToolRegistry,
    ToolResult,
    ToolUsageError,
    UnknownFormatError,
    tool,
)
from praval_tools.formats import FORMATS, assistant_message, parse_tool_calls, result_messages
from praval_tools.journal import EventType
from praval_tools.loop import (
    CallsEnded,
    LoopEnded,
    LoopResult,
    ModelAnswered,
    ModelReply,
    StopReason,
    TextPiece,
    ToolLoop,
)
from praval_tools.testing import FakeModel, fake_model

RAN: list[Any] = []
DEEP: Any = {}
for _ in range(2_000):
    DEEP = {"a": DEEP}


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry with a journal and a tool that adds; what ran is in `RAN`."""
    RAN.clear()
    with ToolRegistry(journal="memory") as made:
        made.tool("add", shared=True)(add)
        made.tool("post", shared=True, requires_approval=True)(post)
        yield made


def add(x: int, y: int = 0) -> int:
    """Add two numbers."""
    RAN.append((x, y))
    return x + y


def post(text: str) -> str:
    """Post a text."""
    RAN.append(text)
    return f"posted {text}"


@pytest.fixture(params=["sync", "async", "stream", "astream"])
def run(request: pytest.FixtureRequest) -> Callable[..., LoopResult]:
    """Runs a loop in one of the four ways."""

    def by(loop: ToolLoop, prompt: Any = "Go.", run_id: str | None = None) -> LoopResult:
        if request.param == "sync":
            return loop.run(prompt, run_id)
        if request.param == "async":
            return asyncio.run(loop.arun(prompt, run_id))
        if request.param == "stream":
            *_, last = loop.stream(prompt, run_id)
        else:

            async def read() -> Any:
                return [one async for one in loop.astream(prompt, run_id)]

            *_, last = asyncio.run(read())
        assert isinstance(last, LoopEnded)
        return last.result

    return by


Run = Callable[..., LoopResult]


class TestEnds:
    def test_an_answer(self, registry: ToolRegistry, run: Run) -> None:
        """The loop ends with what the model says, and tells everything that led there."""
        model = fake_model(("add", {"x": 1, "y": 2}), "It is 3.")
        ended = run(ToolLoop(registry.agent("ann"), model))

        assert (StopReason.ANSWER, "It is 3.", 2, True) == (ended.reason, ended.text, ended.steps, ended.answered)
        assert [3] == [one.result for one in ended.results]
        assert ["user", "assistant", "tool", "assistant"] == [one["role"] for one in ended.messages]
        assert 0 == model.left
        assert ended.run_id in {one.run_id for one in registry.journal.runs()}

    @pytest.mark.parametrize("narrowed", [{"tags": ["sums"]}, {"exclude_tags": "news"}])
    def test_a_tool_that_is_not_offered(self, registry: ToolRegistry, run: Run, narrowed: dict[str, Any]) -> None:
        """A model that guesses a tool which the loop's tags leave out is refused, in the journal, too, and replayed."""
        registry.register_tool(tool("sum", shared=True, tags=["sums"], register=False)(add))
        registry.register_tool(tool("tell", shared=True, tags=["news"], register=False)(post))
        calls = [("tell", {"text": "x"}), ("sum", {"x": 1, "y": 2}), ("tell", {"text": "y"})]
        for _ in range(2):
            model = fake_model(calls, "Done.")
            ended = run(ToolLoop(registry.agent("ann"), model, **narrowed), "Go.", "r")
            assert "tell" not in [one["function"]["name"] for request in model.requests for one in request.tools]
            assert ["not-offered", None, "not-offered"] == [one.error_type for one in ended.results]
            assert [Outcome.FORBIDDEN, Outcome.OK, Outcome.FORBIDDEN] == [one.outcome for one in ended.results]
        assert [(1, 2)] == RAN
        refused = [one for one in registry.journal.events(run_id="r") if one.type is EventType.CALL_REFUSED]
        assert ["tell", "tell"] == [one.tool_name for one in refused]

    def test_the_limit_of_steps(self, registry: ToolRegistry, run: Run) -> None:
        """So many replies and no more, the calls of the last one made; with a higher limit it goes on."""
        script = [("add", {"x": at}) for at in range(5)]
        ended = run(ToolLoop(registry.agent("ann"), fake_model(*script), max_steps=3), "Go.", "r")
        assert (StopReason.STEP_LIMIT, 3, 3) == (ended.reason, ended.steps, len(RAN))

        ended = run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 7}), "Done."), max_steps=9), "Go.", "r")
        assert (StopReason.ANSWER, 5, 4) == (ended.reason, ended.steps, len(RAN))

    def test_the_limit_of_calls(self, registry: ToolRegistry, run: Run) -> None:
        """Calls beyond it are not made, the model that asks for them is not asked again; a higher limit goes on."""
        script = [[("add", {"x": 1}), ("add", {"x": 2})], [("add", {"x": 3}), ("add", {"x": 4})]]
        loop = ToolLoop(registry.agent("ann"), fake_model(*script), max_calls=3)
        ended = run(loop, "Go.", "r")
        assert StopReason.CALL_LIMIT is ended.reason
        assert [Outcome.OK] * 3 + [Outcome.LIMITED] == [one.outcome for one in ended.results]
        assert [1, 2, 3] == sorted(x for x, _ in RAN)

        ended = run(ToolLoop(registry.agent("ann"), fake_model("Done."), max_calls=9), "Go.", "r")
        assert (StopReason.ANSWER, [1, 2, 3, 4]) == (ended.reason, sorted(x for x, _ in RAN))

    def test_a_limit_that_is_just_met_leaves_room_for_the_answer(self, registry: ToolRegistry, run: Run) -> None:
        """Who made exactly as many calls as allowed may still answer."""
        ended = run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One."), max_steps=2, max_calls=1))

        assert ended.answered

    @pytest.mark.parametrize(("reply", "reason"), [
        ("", "empty"), ("  \n", "empty"), (ModelReply(), "empty"), ([], "empty"),
        (ModelReply(text="No.", stop="refused"), "refused"), (ModelReply(text="It w", stop="truncated"), "truncated"),
    ])  # fmt: skip
    def test_a_reply_without_an_answer(self, reply: Any, reason: str, registry: ToolRegistry, run: Run) -> None:
        """Silence, a refusal and half a text have reasons of their own."""
        assert reason == run(ToolLoop(registry.agent("ann"), fake_model(reply))).reason

    def test_a_pause_of_the_provider(self, registry: ToolRegistry, run: Run) -> None:
        """A model that wants to go on by itself is let."""
        paused = {"role": "assistant", "stop_reason": "pause_turn", "content": [{"type": "text", "text": "Hm."}]}
        model = fake_model(paused, "Done.", api_format="anthropic")
        ended = run(ToolLoop(registry.agent("ann"), model))

        assert "Done." == ended.text
        assert "assistant" == model.requests[1].messages[-1]["role"]

    @pytest.mark.parametrize("reply", [
        None, 3, {}, {"choices": [None]}, object(), b"text", ["add"], {"error": 3}, ModelReply(text=3),
        ModelReply(calls=({"name": "add"},)),
    ])  # fmt: skip
    def test_what_is_no_reply_is_an_error(self, reply: Any, registry: ToolRegistry, run: Run) -> None:
        """A model of one's own that returns junk is told so."""

        class Own:
            def reply(self, request: Any) -> Any:
                return reply

        with pytest.raises(ModelError):
            run(ToolLoop(registry.agent("ann"), Own()))

    @pytest.mark.parametrize(("api_format", "reply"), [
        ("gemini", {"candidates": [{"content": {"parts": [{"function_call": 3}]}}]}),
        ("gemini", {"function_call": {"name": "a"}, "candidates": [{"content": {"parts": [
            {"function_call": {"name": "a"}}, {"function_call": {"name": "b"}}]}}]}),
        ("anthropic", {"content": [{"type": "tool_use", "id": "1", "name": "add", "input": DEEP}]}),
        ("anthropic", [{"type": "content_block_start", "index": [], "content_block": {}}, {"type": "message_stop"}]),
        ("anthropic", [{"type": "content_block_start", "index": 0, "content_block": "x"},
                       {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}]),
        ("anthropic", [{"type": "message_start", "message": {"usage": [1]}}]),
        ("openai-chat", [{"choices": [], "usage": 3}]),
    ], ids=["no call", "more calls", "deep", "no index", "no block", "no usage", "no end"])  # fmt: skip
    def test_what_no_provider_sends_is_an_error(
        self, api_format: str, reply: Any, registry: ToolRegistry, run: Run
    ) -> None:
        """A reply of parts that fit nowhere, whole or in pieces, is a ModelError and no other exception."""

        class Own:
            format = api_format

            def reply(self, request: Any) -> Any:
                return iter(reply) if isinstance(reply, list) else reply

        with pytest.raises(ModelError):
            run(ToolLoop(registry.agent("ann"), Own(), retries=0))
        assert [] == RAN

    @pytest.mark.parametrize("stop", ["truncated", "refused"])
    def test_calls_of_half_a_reply_are_not_made(self, stop: str, registry: ToolRegistry, run: Run) -> None:
        """What a model was asked to stop in, or declined in the middle of, may lack half of its arguments."""
        reply = ModelReply(calls=(ToolCall("1", "add", {"x": 1}),), stop=stop)
        ended = run(ToolLoop(registry.agent("ann"), fake_model(reply)))

        assert (stop, [], ()) == (ended.reason, RAN, ended.results)

    def test_what_the_model_raises_is_raised(self, registry: ToolRegistry, run: Run) -> None:
        """An exception of a model of one's own comes out as it is, and the run can be gone on with."""
        with pytest.raises(ZeroDivisionError):
            run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), ZeroDivisionError())), "Go.", "r")

        assert run(ToolLoop(registry.agent("ann"), fake_model("Done.")), "Go.", "r").answered
        assert 1 == len(RAN)

    def test_retries_are_bounded(self, registry: ToolRegistry, run: Run) -> None:
        """What may pass is tried again, as often as said; what may not, never."""
        passing, lasting = ModelError("busy", True, 0.0), ModelError("no", False)
        agent = registry.agent("ann")
        assert run(ToolLoop(agent, fake_model(passing, passing, "Yes."), retries=2)).answered
        for script, asked in (([passing, passing], 2), ([lasting, "Yes."], 1), ([ModelError("x", True, 61.0)], 1)):
            model = fake_model(*script)
            with pytest.raises(ModelError):
                run(ToolLoop(agent, model, retries=1))
            assert asked == len(model.requests)

    def test_the_conversation_grows_as_it_was_said(self, registry: ToolRegistry, run: Run) -> None:
        """Each request has the whole of it, and the tools as they are then."""
        agent = registry.agent("ann")

        def give(request: Any) -> Any:
            registry.disable("post")
            return ("add", {"x": 1})

        model = fake_model(give, "One.")
        run(ToolLoop(agent, model, instructions="Be brief."))

        assert [["add", "post"], ["add"]] == [
            [one["function"]["name"] for one in request.tools] for request in model.requests]  # fmt: skip
        assert [1, 3] == [len(one.messages) for one in model.requests]
        assert ["Be brief."] * 2 == [one.instructions for one in model.requests]


class TestModels:
    def test_any_object_with_one_method_is_one(self, registry: ToolRegistry) -> None:
        """Sync or async, a text or a provider's reply, whole or in pieces."""

        class Awaited:
            async def reply(self, request: Any) -> Any:
                return "Hello."

        class InPieces:
            async def reply(self, request: Any) -> Any:
                async def pieces() -> Any:
                    yield "Hel"
                    yield "lo."

                return pieces()

        class Whole:
            def reply(self, request: Any) -> Any:
                return {"choices": [{"message": {"content": "Hello."}, "finish_reason": "stop"}]}

        for model in (Awaited(), InPieces(), Whole()):
            assert "Hello." == asyncio.run(ToolLoop(registry.agent("ann"), model).arun("Hi.")).text

    @pytest.mark.parametrize("wrong", [
        lambda agent: ToolLoop("ann", fake_model()), lambda agent: ToolLoop(agent, object()),
        lambda agent: ToolLoop(agent, fake_model(), max_steps=0), lambda agent: ToolLoop(agent, fake_model(), 1.5),
        lambda agent: ToolLoop(agent, fake_model(), max_calls=-1), lambda agent: ToolLoop(agent, None),
        lambda agent: ToolLoop(agent, fake_model(), retry_wait=-1.0),
        lambda agent: ToolLoop(agent, fake_model(), retry_wait=float("nan")),
        lambda agent: ToolLoop(agent, fake_model(), retry_wait=None),
        lambda agent: ToolLoop(agent, fake_model(), max_parallel=0), lambda agent: ToolLoop(agent, fake_model()).run(),
        lambda agent: ToolLoop(agent, fake_model()).run([object()]),
    ])  # fmt: skip
    def test_what_cannot_work_is_refused(self, wrong: Any, registry: ToolRegistry) -> None:
        """At once, with what to do instead."""
        with pytest.raises(ToolUsageError):
            wrong(registry.agent("ann"))

    def test_without_a_journal(self, run: Run) -> None:
        """A loop works, and nothing of it can be gone on with."""
        with ToolRegistry() as registry:
            registry.tool("add", shared=True)(add)
            ended = run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")))
            assert ("One.", None, "call_1") == (ended.text, ended.run_id, ended.results[0].tool_call_id)
            with pytest.raises(ToolUsageError, match="no journal"):
                run(ToolLoop(registry.agent("ann"), fake_model("x")), "Go.", "r")

    def test_messages_as_a_prompt(self, registry: ToolRegistry) -> None:
        """A conversation may begin with several messages in the model's own format."""
        prompt = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?"},
                  {"role": "user", "content": "Add."}]  # fmt: skip
        model = fake_model("Done.")
        ToolLoop(registry.agent("ann"), model).run(prompt)

        assert prompt == model.requests[0].messages

    def test_a_format_of_ones_own(self, registry: ToolRegistry) -> None:
        """A model may speak a format that no package knows: what it is asked is written by that."""
        mine = attrs.evolve(FORMATS["openai-chat"], name="mine", user=lambda text: {"who": "me", "says": text})

        class Own:
            format = mine

            def reply(self, request: Any) -> Any:
                return ModelReply(text=str(request.messages[0]))

        assert "{'who': 'me', 'says': 'Hi.'}" == ToolLoop(registry.agent("ann"), Own()).run("Hi.").text
        Own.format = "nobody's"
        with pytest.raises(UnknownFormatError):
            ToolLoop(registry.agent("ann"), Own())

    def test_a_fake_model_says_when_its_script_is_over(self, registry: ToolRegistry) -> None:
        """One request too many fails the test, with what was asked."""
        model = fake_model(("add", {"x": 1}))
        with pytest.raises(AssertionError, match="the script has 1"):
            ToolLoop(registry.agent("ann"), model).run("Go.")
        assert isinstance(model, FakeModel)

    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses", "anthropic", "gemini"])
    def test_media_reach_the_model_in_every_format(self, api_format: str, registry: ToolRegistry) -> None:
        """A picture that a tool returns is in the next request."""

        @registry.tool("look", shared=True)
        def look() -> list[Content]:
            """Look."""
            return [Content.of_text("Here."), Content.image(b"abc", "image/png")]

        model = fake_model(("look",), "Nice.", api_format=api_format)
        ToolLoop(registry.agent("ann"), model).run("Go.")
        said = json.dumps(model.requests[1].messages)

        assert "Here." in said
        assert ("YWJj" in said) == (api_format != "openai-chat")


class TestCalls:
    def test_a_thousand_at_once(self, registry: ToolRegistry, run: Run) -> None:
        """They run, so many at a time, each gets its result, in order."""
        lock, now, most = threading.Lock(), [0], [0]

        @registry.tool("slow", shared=True)
        def slow(at: int) -> int:
            """Take a moment."""
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            with lock:
                now[0] -= 1
            return at

        model = fake_model([("slow", {"at": at}) for at in range(1_000)], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model, max_calls=None, max_parallel=4))

        assert list(range(1_000)) == [one.result for one in ended.results]
        assert 4 >= most[0]
        assert 1_000 == sum(one["role"] == "tool" for one in model.requests[1].messages)

    def test_a_thousand_with_the_usual_limit(self, registry: ToolRegistry) -> None:
        """A hundred of them are made."""
        ended = ToolLoop(registry.agent("ann"), fake_model([("add", {"x": at}) for at in range(1_000)])).run("Go.")

        assert (StopReason.CALL_LIMIT, 100) == (ended.reason, len(RAN))

    def test_ids_that_a_model_repeats(self, registry: ToolRegistry, run: Run) -> None:
        """A model that calls every call `call_0`, in one reply or turn after turn, gets each its own result."""
        call = lambda at: ToolCall("call_0", "add", {"x": at})
        ended = run(ToolLoop(registry.agent("ann"), fake_model([call(1), call(2)], [call(1)], "Done.")))

        assert [1, 2, 1] == [one.result for one in ended.results]
        assert 3 == len(RAN) == len({one.tool_call_id for one in ended.results})

    def test_the_reason_of_a_call_is_asked_and_kept(self, registry: ToolRegistry) -> None:
        """With `think_augment` the journal knows why, and the tool does not."""
        message = {"content": None, "tool_calls": [{"id": "1", "function": {
            "name": "add", "arguments": '{"toolcall_reason": "To know.", "x": 1}'}}]}  # fmt: skip
        model = fake_model({"choices": [{"message": message, "finish_reason": "tool_calls"}]}, "One.")
        ended = ToolLoop(registry.agent("ann"), model, think_augment=True).run("Go.")
        (event,) = registry.journal.events(type="agent_tool_call")

        assert (1, "To know.", {"x": 1}) == (ended.results[0].result, event.toolcall_reason, event.arguments)

    @pytest.mark.parametrize("arguments", ["x" * (2 << 20), '{"x": ' + "[" * 5_000, "\ud800", b"\xff", 7, None])
    def test_arguments_of_any_kind(self, arguments: Any, registry: ToolRegistry, run: Run) -> None:
        """Huge, deep, half a letter, no text at all: the model reads what is wrong, and goes on."""
        model = fake_model(ToolCall("1", "add", arguments), "Sorry.")
        ended = run(ToolLoop(registry.agent("ann"), model), "Go.", "r")

        assert (Outcome.INVALID_ARGUMENTS, "Sorry.") == (ended.results[0].outcome, ended.text)
        again = run(ToolLoop(registry.agent("ann"), fake_model()), "Go.", "r")
        assert "Sorry." == again.text

    @pytest.mark.parametrize("name", ["", "x" * 10_000, "../../etc", "add\n", "\x00", "\ud800", "Add", "add.x"])
    def test_names_of_any_kind(self, name: str, registry: ToolRegistry, run: Run) -> None:
        """A name that no tool has is told to the model; the run can be gone on with."""
        ended = run(ToolLoop(registry.agent("ann"), fake_model((name,), "Sorry.")), "Go.", "r")

        assert (Outcome.UNKNOWN_TOOL, "Sorry.") == (ended.results[0].outcome, ended.text)
        assert run(ToolLoop(registry.agent("ann"), fake_model()), None, "r").results[0].replayed


def _flat(messages: Any) -> list[Any]:
    """Return the blocks of messages, and items as they are."""
    return [block for one in messages for block in (one["content"] if "content" in one else [one])]


class TestGoingOn:
    def test_nothing_recorded_is_asked_for_again(self, registry: ToolRegistry, run: Run) -> None:
        """A run that ended gives its answer back without a model; one that broke off goes on from there."""
        script = [("add", {"x": 1}), ("add", {"x": 2})]
        with pytest.raises(KeyboardInterrupt):
            run(ToolLoop(registry.agent("ann"), fake_model(*script, KeyboardInterrupt())), "Go.", "r")
        model = fake_model("Three.")
        first = run(ToolLoop(registry.agent("ann"), model), "Go.", "r")
        again = run(ToolLoop(registry.agent("ann"), fake_model()), "Go.", "r")

        assert [(1, 0), (2, 0)] == RAN
        assert 1 == len(model.requests)
        assert first.messages == again.messages == (*model.requests[0].messages, {
            "role": "assistant", "content": "Three."})  # fmt: skip
        assert all(one.replayed for one in again.results)

    @pytest.mark.parametrize("answer", ["allow", "deny", "edit"])
    def test_an_approval(self, answer: str, registry: ToolRegistry, run: Run) -> None:
        """The loop pauses, a person answers by the call's id, and it goes on by the id of the run."""
        model = fake_model([("post", {"text": "a"}), ("add", {"x": 1})], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model), "Go.", "r")
        assert StopReason.APPROVAL_REQUIRED is ended.reason
        assert [(1, 0)] == RAN
        assert [one.tool_call_id for one in registry.approvals.pending()] == list(ended.waiting)

        said = {"allow": Allow(), "edit": Allow(arguments={"text": "b"}), "deny": Deny("no")}
        registry.approvals.answer(ended.waiting[0], said[answer])
        ended = run(ToolLoop(registry.agent("ann"), model), None, "r")

        assert "Done." == ended.text
        expected = {"allow": "posted a", "edit": "posted b", "deny": None}[answer]
        assert expected == ended.results[0].result
        assert 1 == sum(one == (1, 0) for one in RAN)
        assert 2 == len(model.requests)

    def test_a_handler_answers_at_once(self, registry: ToolRegistry, run: Run) -> None:
        """With an approval handler there is no pause."""
        registry.set_approval_handler(lambda asked: Allow() if asked.arguments["text"] == "a" else Deny("no"))
        model = fake_model([("post", {"text": "a"}), ("post", {"text": "b"})], "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model))

        assert [Outcome.OK, Outcome.APPROVAL_DENIED] == [one.outcome for one in ended.results]
        assert ended.answered

    def test_a_call_in_doubt_waits_for_a_person(self, registry: ToolRegistry, run: Run) -> None:
        """A call that was stopped in the middle is not run again, and no model is told of it, until somebody says."""

        @registry.tool("stop", shared=True)
        async def stop() -> str:
            """Stop whoever calls."""
            RAN.append("stop")
            raise KeyboardInterrupt

        script = fake_model(("stop",), "Done.")
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(ToolLoop(registry.agent("ann"), script).arun("Go.", "r"))
        ended = run(ToolLoop(registry.agent("ann"), script), None, "r")
        assert (StopReason.IN_DOUBT, ["stop"]) == (ended.reason, RAN)

        with registry.run("r") as opened:
            opened.resolve(ended.waiting[0], result="it did")
        ended = run(ToolLoop(registry.agent("ann"), script), None, "r")
        assert ("Done.", "it did", ["stop"]) == (ended.text, ended.results[0].result, RAN)

    def test_by_the_id_alone(self, registry: ToolRegistry) -> None:
        """`resume` knows what the conversation began with, instructions among it."""
        stopped = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1, instructions="Hush.")
        assert not stopped.run("Go.", "r").answered
        model = fake_model("Done.", "Done.")
        assert "Done." == ToolLoop(registry.agent("ann"), model).resume("r").text
        assert ("Hush.", "Go.") == (model.requests[0].instructions, model.requests[0].messages[0]["content"])
        with pytest.raises(ToolUsageError, match="has no loop"):
            ToolLoop(registry.agent("ann"), model).resume("other")
        with pytest.raises(ToolUsageError, match="has no loop"):
            asyncio.run(ToolLoop(registry.agent("bob"), model).aresume("r"))

    def test_another_conversation_under_the_same_id_is_refused(self, registry: ToolRegistry, run: Run) -> None:
        """The run is not continued with what it did not begin with."""
        run(ToolLoop(registry.agent("ann"), fake_model("One.")), "Go.", "r")
        with pytest.raises(ReplayMismatchError, match="begins with"):
            run(ToolLoop(registry.agent("ann"), fake_model("Two.")), "Stay.", "r")

    @pytest.mark.parametrize("api_format", ["openai-responses", "anthropic"])
    def test_another_provider_takes_over(self, api_format: str, registry: ToolRegistry, run: Run) -> None:
        """What one model said in its format is told to the next in the next one's."""
        stopped = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1)
        stopped.run("Go.", "r")
        model = fake_model("One.", api_format=api_format)
        ended = run(ToolLoop(registry.agent("ann"), model), None, "r")
        said = model.requests[0].messages

        assert ("One.", [(1, 0)]) == (ended.text, RAN)
        assert ["call_1"] == [one.tool_call_id for one in parse_tool_calls(api_format, _flat(said[1:]))]
        assert result_messages(api_format, [ToolResult("call_1", "add", result=1)]) == said[-1:]

    def test_after_a_tool_is_gone(self, registry: ToolRegistry, run: Run) -> None:
        """What it did is recorded, so the conversation goes on without it."""
        ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1).run("Go.", "r")
        registry.unregister_tool("add")
        model = fake_model(("add", {"x": 2}), "Done.")
        ended = run(ToolLoop(registry.agent("ann"), model), None, "r")

        assert [Outcome.OK, Outcome.UNKNOWN_TOOL] == [one.outcome for one in ended.results]
        assert ["post"] == [one["function"]["name"] for one in model.requests[0].tools]
        assert [(1, 0)] == RAN

    def test_many_tasks_at_once(self, registry: ToolRegistry) -> None:
        """Sixty-four loops at the same time, in one run, get their own results, and get them again."""

        async def one(at: int, *script: Any) -> tuple[str, Any]:
            ended = await ToolLoop(registry.agent("ann"), fake_model(*script)).arun(f"Go {at}.")
            return ended.text, ended.results[0].result

        async def all_of(scripts: list[Any]) -> list[Any]:
            with registry.run("r"):
                return await asyncio.gather(*(one(at, *script) for at, script in enumerate(scripts)))

        first = asyncio.run(all_of([(("add", {"x": at}), f"It is {at}.") for at in range(64)]))
        again = asyncio.run(all_of([()] * 64))

        assert [(f"It is {at}.", at) for at in range(64)] == first == again
        assert 64 == len(RAN)

    def test_two_at_once_in_one_run_are_refused(self, registry: ToolRegistry) -> None:
        """A run is open in one place at a time."""
        events = ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).stream("Go.", "r")
        next(events)
        with pytest.raises(RunBusyError):
            ToolLoop(registry.agent("ann"), fake_model("One.")).run("Go.", "r")
        events.close()
        assert ToolLoop(registry.agent("ann"), fake_model("One.")).run("Go.", "r").answered

    def test_what_the_caller_does_between_two_events_is_no_part_of_the_run(self, registry: ToolRegistry) -> None:
        """Calls that are made while a stream is read are not recorded in its run."""
        for event in ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).stream("Go.", "r"):
            if isinstance(event, ModelAnswered | CallsEnded | TextPiece):
                registry.agent("bob").execute(ToolCall(None, "add", {"x": 9}))

        assert ["ann"] == [one.agent for one in registry.journal.calls("r")]

    def test_several_loops_in_one_run(self, registry: ToolRegistry) -> None:
        """In an open run each loop finds its own record, equal ones in their order."""

        def program(*models: Any) -> list[str]:
            with registry.run("r"):
                return [ToolLoop(registry.agent(name), model).run(prompt).text for name, prompt, model in zip(
                    ["ann", "ann", "bob", "ann"], ["Go.", "Go.", "Go.", "Stay."], models, strict=True)]  # fmt: skip

        first = program(*(fake_model(("add", {"x": at}), f"Answer {at}.") for at in range(4)))
        again = program(*(fake_model() for _ in range(4)))

        assert ["Answer 0.", "Answer 1.", "Answer 2.", "Answer 3."] == first == again
        assert 4 == len(RAN)

    def test_a_loop_inside_of_a_tool(self, registry: ToolRegistry) -> None:
        """An agent whose tool is another agent: the inner loop is of the same run, below the call."""
        inner = fake_model(("add", {"x": 2}), "Two.")

        @registry.tool("ask_bob", owned_by="ann")
        def ask_bob(question: str) -> str:
            """Ask Bob."""
            return ToolLoop(registry.agent("bob"), inner).run(question).text

        outer = lambda: fake_model(("ask_bob", {"question": "What?"}), "Bob says two.")
        first = ToolLoop(registry.agent("ann"), outer()).run("Go.", "r")
        calls = {one.tool_name: one for one in registry.journal.calls("r")}

        assert ("Bob says two.", [(2, 0)]) == (first.text, RAN)
        assert calls["add"].parent_id == calls["ask_bob"].tool_call_id
        assert 1 == len(list(registry.journal.runs()))
        assert "Bob says two." == ToolLoop(registry.agent("ann"), fake_model()).run("Go.", "r").text
        assert 2 == len(inner.requests)

    def test_delegated_agents_keep_their_chain(self, registry: ToolRegistry) -> None:
        """A loop of a sub-agent calls on behalf of whom it acts for."""
        helper = Agent("boss", registry=registry).delegate("helper")
        ToolLoop(helper, fake_model(("add", {"x": 1}), "One.")).run("Go.", "r")
        (event,) = registry.journal.events(type="agent_tool_call")

        assert ("helper", ("boss",)) == (event.agent, event.chain)


class TestJournal:
    def test_it_tells_the_conversation(self, registry: ToolRegistry) -> None:
        """The beginning, each reply and each call are events of the run, in order."""
        ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")).run("Go.", "r")
        kinds = [one.type for one in registry.journal.events(run_id="r")]
        began, *_, answered = registry.journal.events(run_id="r")

        assert [EventType.LOOP_BEGAN, EventType.MODEL_REPLIED, EventType.AGENT_TOOL_CALL, EventType.AGENT_TOOL_RESULT,
                EventType.MODEL_REPLIED] == kinds  # fmt: skip
        assert ("ann", "fake", "Go.") == (began.agent, began.model, began.input["messages"][0]["content"])
        assert (2, "One.", began.id) == (answered.step, answered.reply["text"], answered.loop_id)

    def test_secrets_are_not_in_it_and_the_tool_gets_them(self, tmp_path: Path, run: Run) -> None:
        """
        What a tool's schema or a key's name marks as secret is hidden in replies, too.

        A run that ended is given back all the same; one that was stopped before the call asks the model again,
        since the secret is nowhere else.
        """

        def registry_here() -> ToolRegistry:
            made = ToolRegistry(journal=tmp_path / "runs.db")

            @made.tool("log_in", shared=True)
            def log_in(user: str, word: Annotated[str, Secret]) -> str:
                """Log in."""
                RAN.append(word)
                return f"hello {user}"

            return made

        RAN.clear()
        reply = [("log_in", {"user": "ann", "word": "open-sesame"})]
        with registry_here() as registry:
            with pytest.raises(ZeroDivisionError):

                class Stopped(ToolLoop):
                    """One whose driver dies between the reply and the call."""

                events = Stopped(registry.agent("ann"), fake_model(reply)).stream("Go.", "r")
                for event in events:
                    if isinstance(event, ModelAnswered):
                        events.throw(ZeroDivisionError)
            model = fake_model(reply, "In.")
            assert "In." == run(ToolLoop(registry.agent("ann"), model), "Go.", "r").text
            assert 2 == len(model.requests)
        with registry_here() as registry:
            again = run(ToolLoop(registry.agent("ann"), fake_model()), "Go.", "r")

        assert ["open-sesame"] == RAN
        assert ("In.", "hello ann") == (again.text, again.results[0].result)
        assert b"open-sesame" not in b"".join(one.read_bytes() for one in tmp_path.glob("runs.db*") if one.is_file())

    @pytest.mark.parametrize("api_format", ["openai-chat", "anthropic"])
    @pytest.mark.parametrize("pin", ["~7~", 42, ["~7~", "a-long-secret"], 'q"~ü~\\'])
    def test_secrets_of_any_size_are_not_in_a_reply(self, pin: Any, api_format: str, registry: ToolRegistry) -> None:
        """A number of two digits is one, too; what the provider sent around it is left out then."""

        def unlock(pin: Annotated[Any, Secret]) -> str:
            """Unlock."""
            RAN.append(pin)
            return "open"

        unlock.__annotations__["pin"] = Annotated[{str: str, int: int, list: list[str]}[type(pin)], Secret]
        registry.tool("unlock", shared=True)(unlock)
        call = ToolCall("1", "unlock", json.dumps({"pin": pin}))
        message = assistant_message(api_format, [call])
        reply = message if api_format == "anthropic" else {"choices": [{"message": message}]}
        ToolLoop(registry.agent("ann"), fake_model(reply, "In.", api_format=api_format)).run("Go.", "r")
        kept = re.sub(r"\[secret [0-9a-f]{32}\]", "", repr([one.reply for one in registry.journal.events(
            type="model_replied")]))  # fmt: skip
        again = ToolLoop(registry.agent("ann"), fake_model(api_format=api_format)).run("Go.", "r")

        assert [pin] == RAN
        assert "In." == again.text
        assert not [one for one in ("~7~", "42", "a-long-secret", "~ü~", "~\\u00fc~") if one in kept]

    def test_a_secret_call_that_waits_for_a_person(self, registry: ToolRegistry, run: Run) -> None:
        """
        The model is asked once more for what the journal does not keep; the approval holds for the same call.

        Once the call is made, its reply is as good as any other.
        """

        @registry.tool("wire", shared=True, requires_approval=True)
        def wire(to: str, pin: Annotated[str, Secret]) -> str:
            """Send money."""
            RAN.append(to)
            return "sent"

        call = lambda name, to: ToolCall(name, "wire", {"to": to, "pin": "99887766"})
        model = fake_model(call("a", "ann"), call("b", "ann"), call("c", "bob"), call("d", "bob"), "Done.")
        loop = ToolLoop(registry.agent("ann"), model)
        ended = run(loop, "Go.", "r")
        for _ in range(2):
            assert StopReason.APPROVAL_REQUIRED is ended.reason
            registry.approvals.answer(ended.waiting[0], Allow())
            ended = run(loop, None, "r")

        assert ("Done.", ["ann", "bob"], 5) == (ended.text, RAN, len(model.requests))

    def test_a_prompt_with_secrets_is_asked_for_again(self, registry: ToolRegistry) -> None:
        """It is not kept, so the id alone is not enough; with the prompt it goes on."""
        prompt = "Use password=hunter2hunter2 for it."
        ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1})), max_steps=1).run(prompt, "r")
        with pytest.raises(ToolUsageError, match="holds secrets"):
            ToolLoop(registry.agent("ann"), fake_model("Done.")).resume("r")

        assert ToolLoop(registry.agent("ann"), fake_model("Done.")).run(prompt, "r").answered
        assert "hunter2" not in str(list(registry.journal.events()))

    def test_a_reply_that_cannot_be_written_stops_the_loop(self, registry: ToolRegistry, run: Run) -> None:
        """Nothing is called that the journal does not know of."""
        store, broken = registry.journal.store, [True]
        append, aappend = store.append, store.aappend

        def refuse(items: Any) -> None:
            if broken[0] and items[0].records[0].type == "model_replied":
                raise JournalError("memory", "it is full", "Make room.")

        store.append = lambda items: (refuse(items), append(items))[1]
        store.aappend = lambda items: (refuse(items), aappend(items))[1]
        with pytest.raises(JournalError):
            run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}))), "Go.", "r")
        assert [] == RAN

        broken[0] = False
        assert run(ToolLoop(registry.agent("ann"), fake_model(("add", {"x": 1}), "One.")), "Go.", "r").answered

    def test_replies_are_not_asked_of_a_model_that_is_gone(self, registry: ToolRegistry) -> None:
        """A thousand replies are replayed without one request, and quickly found."""
        script = [("add", {"x": at}) for at in range(200)]
        ToolLoop(registry.agent("ann"), fake_model(*script, "Done."), 300, None).run("Go.", "r")
        started = time.process_time()
        ended = ToolLoop(registry.agent("ann"), fake_model(), 300, None).run("Go.", "r")

        assert (201, "Done.") == (ended.steps, ended.text)
        assert time.process_time() - started < 30
        assert 200 == len(RAN)


class TestCancelling:
    def test_cancelling_cancels_the_calls(self, registry: ToolRegistry) -> None:
        """The task is cancelled, so are the tools that it waits for, and the run is left."""
        state: list[str] = []

        @registry.tool("wait", shared=True)
        async def wait() -> None:
            """Wait for ever."""
            state.append("begun")
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                state.append("cancelled")
                raise

        async def main() -> None:
            loop = ToolLoop(registry.agent("ann"), fake_model([("wait",), ("wait",)]))
            task = asyncio.create_task(loop.arun("Go.", "r"))
            while state.count("begun") < 2:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert ["begun", "begun", "cancelled", "cancelled"] == state
        with registry.run("r") as opened:
            assert 2 == len(opened.in_doubt)

    @pytest.mark.parametrize("turns", range(20))
    def test_cancelled_at_any_point_it_goes_on(self, turns: int) -> None:
        """Wherever the task stops, the run goes on from there: each reply recorded once, each call made, none lost."""

        class Own:
            async def reply(self, request: Any) -> Any:
                async def pieces() -> Any:
                    await asyncio.sleep(0)
                    if request.step == 3:
                        yield "Done."
                    else:
                        yield ModelReply(calls=tuple(ToolCall(name, "grow", {"x": request.step}) for name in "ab"))

                return pieces()

        async def main() -> None:
            with ToolRegistry(journal="memory") as registry:

                @registry.tool("grow", shared=True)
                async def grow(x: int) -> int:
                    """Grow."""
                    await asyncio.sleep(0)
                    return x + 1

                loop = ToolLoop(registry.agent("ann"), Own())
                task = asyncio.create_task(loop.arun("Go.", "r"))
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                with registry.run("r") as opened:
                    for call in opened.in_doubt:
                        opened.resolve(call.tool_call_id, rerun=True)
                ended = await loop.arun("Go.", "r")

                assert ("Done.", [2, 2, 3, 3]) == (ended.text, [one.result for one in ended.results])
                assert [1, 2, 3] == [one.step for one in registry.journal.events(type="model_replied")]

        asyncio.run(main())

    def test_a_closed_registry_ends_a_wait(self) -> None:
        """Closing the registry does not wait for a provider's pause."""
        registry = ToolRegistry()
        model = fake_model(ModelError("busy", True, 50.0), "Yes.")
        errors: list[BaseException] = []

        def talk() -> None:
            try:
                ToolLoop(registry.agent("ann"), model).run("Go.")
            except Exception as error:
                errors.append(error)

        thread = threading.Thread(target=talk)
        thread.start()
        while not model.requests:
            time.sleep(0.001)
        registry.close()
        thread.join(20)

        assert not thread.is_alive()
        assert "RegistryClosedError" == type(errors[0]).__name__
