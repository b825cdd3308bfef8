"""The loop between a model and an agent's tools: what ends it, what the model is asked, and its calls."""

# Tests of: loop, values

from __future__ import annotations

import asyncio
import json
import threading
from typing import Annotated, Any

import attrs
import pytest
from loop_rig import RAN, Run, add, post, registry, run  # noqa: F401

from praval_tools import (
    Content,
    ModelError,
    Outcome,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
    UnknownFormatError,
    tool,
)
from praval_tools.formats import FORMATS
from praval_tools.journal import EventType
from praval_tools.loop import (
    ModelReply,
    StopReason,
    ToolLoop,
)
from praval_tools.testing import FakeModel, fake_model

DEEP: Any = {}
for _ in range(2_000):
    DEEP = {"a": DEEP}


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
    def test_a_malformed_reply_is_an_error(self, reply: Any, registry: ToolRegistry, run: Run) -> None:
        """A model of one's own that returns junk is a ModelError that says so."""

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
    def test_a_response_that_no_provider_sends_is_an_error(
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

    def test_an_exception_of_the_model_is_raised(self, registry: ToolRegistry, run: Run) -> None:
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

    def test_the_conversation_grows_in_order(self, registry: ToolRegistry, run: Run) -> None:
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
    def test_an_impossible_setting_is_refused(self, wrong: Any, registry: ToolRegistry) -> None:
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

    def test_the_reason_of_a_call_is_asked_for_and_recorded(self, registry: ToolRegistry) -> None:
        """With `think_augment` the journal knows why, and the tool does not."""
        message = {"content": None, "tool_calls": [{"id": "1", "function": {
            "name": "add", "arguments": '{"toolcall_reason": "To know.", "x": 1}'}}]}  # fmt: skip
        model = fake_model({"choices": [{"message": message, "finish_reason": "tool_calls"}]}, "One.")
        ended = ToolLoop(registry.agent("ann"), model, think_augment=True).run("Go.")
        (event,) = registry.journal.events(type="agent_tool_call")

        assert (1, "To know.", {"x": 1}) == (ended.results[0].result, event.toolcall_reason, event.arguments)

    @pytest.mark.parametrize("options", [{"think_augment": True}, {"strict": True}, {}])
    @pytest.mark.parametrize(("limit", "size"), [(1_000, 2_000), (4 << 20, 2 << 20), (4 << 20, 5 << 20)])
    def test_arguments_may_be_as_long_as_the_registry_says(
        self, options: dict[str, Any], limit: int, size: int
    ) -> None:
        """Also where a reason, or the nulls of strict mode, are taken out of them."""
        with ToolRegistry(max_argument_bytes=limit) as own:

            @own.tool("save", shared=True)
            def save(text: str, note: str = "") -> int:
                """Save."""
                return len(text)

            given = {"text": "x" * size} | ({"toolcall_reason": "Why."} if "think_augment" in options else {})
            given |= {"note": None} if "strict" in options else {}
            message = {"content": None, "tool_calls": [{"id": "1", "function": {
                "name": "save", "arguments": json.dumps(given)}}]}  # fmt: skip
            model = fake_model({"choices": [{"message": message, "finish_reason": "tool_calls"}]}, "Done.")
            (result,) = ToolLoop(own.agent("ann"), model, **options).run("Go.").results

        assert (result.result == size) is (size < limit) is (result.outcome is Outcome.OK)

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
        """A name that no tool has is reported to the model; the run can be gone on with."""
        ended = run(ToolLoop(registry.agent("ann"), fake_model((name,), "Sorry.")), "Go.", "r")

        assert (Outcome.UNKNOWN_TOOL, "Sorry.") == (ended.results[0].outcome, ended.text)
        assert run(ToolLoop(registry.agent("ann"), fake_model()), None, "r").results[0].replayed


class TestTexts:
    @pytest.mark.parametrize("api_format", FORMATS)
    def test_half_a_letter_in_the_description_of_a_parameter(self, api_format: str) -> None:
        """It is replaced where the model is shown the tool; the request is UTF-8, and the tool can be called."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("say", shared=True)
        def say(text: Annotated[str, "half \ud800 of one"]) -> str:
            """Say."""
            return text

        model = fake_model(ToolCall("1", "say", {"text": "hi"}), "Done.", api_format=api_format)
        ended = ToolLoop(registry.agent("ann"), model).run("Go.")

        assert ["hi"] == [one.result for one in ended.results]
        sent = json.dumps(model.requests[0].tools, ensure_ascii=False)
        assert sent.encode() and "half ? of one" in sent
