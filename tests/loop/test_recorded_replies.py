"""What a model of one's own replies, of whatever types, is recorded so that a resumed loop makes the same calls."""

# Tests of: runs/model_log, replies

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_strategies import values
from loop_rig import RAN, Run, add, post, registry, run  # noqa: F401
from pydantic import BaseModel, SecretStr

from praval_tools import Allow, ModelError, Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.loop import LoopResult, ModelAnswered, ModelReply, StopReason, ToolLoop
from praval_tools.testing import fake_model
from praval_tools.tools.value_codec import pack_value

FORMAT_NAMES = ["openai-chat", "openai-responses", "anthropic", "gemini"]


@dataclass(frozen=True)
class Point:
    x: int = 1


@attrs.frozen
class Login:
    name: str = "ann"
    card: Annotated[str, Secret] = "zq7x91kk"


class Model(BaseModel):
    x: int = 1
    card: SecretStr = SecretStr("zq7x91kk")


class Kind(StrEnum):
    ANN = "ann"


class Text(str):
    """A text that says something else of itself."""

    def __str__(self) -> str:
        raise AssertionError("code of a text ran")

    def __repr__(self) -> str:
        return "Text"

    __eq__ = __hash__ = __add__ = __radd__ = __str__  # type: ignore[assignment]
    replace = lower = encode = strip = __str__  # type: ignore[assignment]


OBJECTS: list[Any] = [
    Point(), Login(), Model(), Kind.ANN, object(), int, MappingProxyType({"to": "ann"}), OrderedDict(to="ann"),
    bytearray(b'{"to": "ann"}'), bytearray(b"\xff"), b'{"to": "ann"}', b"\xff", '{"to": NaN}', '{"to": 1', " {} ",
    Text('{"to": "ann"}'), iter([1]), Text("ann"), Decimal("sNaN"), float("nan"), float("inf"), -0.0,
    {"praval:float": "nan"}, {"praval:opaque": "x"}, {"to": {"praval:set": [1]}}, f"[secret {32 * '0'}]",
]  # fmt: skip
odd_values = st.recursive(
    values | st.floats(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["to", "x"]), inner, max_size=2),
    max_leaves=4,
)
odd_arguments = odd_values | st.fixed_dictionaries({}, optional={"to": odd_values, "amount": odd_values})


def make_registry() -> ToolRegistry:
    """Return a registry with a journal, a tool that takes anything, and one that waits for a person."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("pay", shared=True)
    def pay(to: Any = "bob", amount: float = 100) -> str:
        """Pay."""
        RAN.append(pack_value([to, amount]))
        return "paid"

    registry.tool("post", shared=True, requires_approval=True)(post)
    return registry


def begin_and_kill(registry: ToolRegistry, model: Any, run_id: str) -> None:
    """Run a loop as far as the record of its first reply."""
    with closing(ToolLoop(registry.agent("ann"), model).stream("Go.", run_id)) as events:
        assert any(isinstance(event, ModelAnswered) for event in events)


def list_results(result: LoopResult) -> list[tuple[str, Outcome, str]]:
    """Return how each call ended."""
    return [(one.name, one.outcome, one.for_model()) for one in result.results]


def check_resumed_calls(arguments: Any, api_format: str) -> None:
    """Check that a reply with these arguments leads to the same calls at once, after a kill and after an approval."""
    RAN.clear()
    reply = ModelReply(calls=(ToolCall("a", "pay", arguments), ToolCall("b", "post", {"text": "hi"})))
    with make_registry() as registry:
        begin_and_kill(registry, fake_model(reply, api_format=api_format), "killed")
        assert [] == RAN
        resumed = ToolLoop(registry.agent("ann"), fake_model(api_format=api_format)).resume("killed")
        ran_after_kill, _ = list(RAN), RAN.clear()
        whole = ToolLoop(registry.agent("ann"), fake_model(reply, api_format=api_format)).run("Go.", "whole")

        assert list_results(whole) == list_results(resumed)
        assert ran_after_kill == RAN
        registry.approvals.answer(whole.waiting[0], Allow(by="eve"))
        answered = ToolLoop(registry.agent("ann"), fake_model("Done.", api_format=api_format)).resume("whole")
        assert [*ran_after_kill, "hi"] == RAN
        assert (StopReason.ANSWER, list_results(whole)[0]) == (answered.reason, list_results(answered)[0])
        assert answered.results[0].replayed


class TestArguments:
    """
    Broken promise: NaN was recorded as null, and became the tool's default after a kill.

    After an approval, the run was refused for ever, since it asked for another call than the one recorded.
    """

    @given(odd_arguments, st.sampled_from(FORMAT_NAMES))
    def test_of_any_kind_are_the_same_in_a_resumed_loop(self, arguments: Any, api_format: str) -> None:
        """Whatever values are in them."""
        check_resumed_calls(arguments, api_format)

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    @pytest.mark.parametrize("number", range(len(OBJECTS) + 1))
    def test_that_are_no_json_are_the_same_in_a_resumed_loop(self, number: int, api_format: str) -> None:
        """As all arguments, and as one of them."""
        value = [*OBJECTS, 10**5_000][number]
        check_resumed_calls(value, api_format)
        check_resumed_calls({"to": value}, api_format)
        check_resumed_calls({"amount": value, "to": "ann"}, api_format)

    @pytest.mark.parametrize("api_format", FORMAT_NAMES)
    @pytest.mark.parametrize("depth", [62, 65, *range(195, 203), 800])
    def test_that_are_deep_are_the_same_in_a_resumed_loop(self, depth: int, api_format: str) -> None:
        """Broken promise: a loop whose model writes arguments deeper than a record shows could not be resumed."""
        value: Any = 1
        for level in range(depth):
            value = [value] if level % 2 else {"to": value}
        check_resumed_calls({"to": value}, api_format)
        check_resumed_calls(json.dumps({"to": value}), api_format)

    @pytest.mark.parametrize("secret", [Login(), Model()])
    def test_of_objects_are_named_by_their_class(self, secret: Any, registry: ToolRegistry) -> None:
        """The journal has nothing of what is in them, and no tool takes them, before and after a kill."""
        begin_and_kill(registry, fake_model(ToolCall("a", "add", {"x": secret})), "r")
        result = ToolLoop(registry.agent("ann"), fake_model("Sorry.")).resume("r")

        assert [Outcome.INVALID_ARGUMENTS] == [one.outcome for one in result.results]
        written = "".join(map(str, registry.journal.events()))
        assert type(secret).__name__ in written and "zq7x" not in written

    def test_that_hide_nothing_do_not_count_as_secret(self, registry: ToolRegistry) -> None:
        """NaN is no NaN's equal: its reply was taken for one with a secret, and asked for again."""
        begin_and_kill(registry, fake_model(ToolCall("a", "add", {"x": float("nan")})), "r")
        (replied,) = registry.journal.events(type="model_replied")

        assert not replied.masked
        assert "nan" == repr(replied.reply["calls"][0]["arguments"]["x"])

    def test_that_hide_nothing_leave_the_messages_of_a_provider(self, registry: ToolRegistry) -> None:
        """What it signed goes back to it once the loop is resumed."""
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
        use = {"type": "tool_use", "id": "a", "name": "add", "input": {"x": float("nan")}}
        reply = {"role": "assistant", "stop_reason": "tool_use", "content": [thought, use]}
        begin_and_kill(registry, fake_model(reply, api_format="anthropic"), "r")
        result = ToolLoop(registry.agent("ann"), fake_model("Sorry.", api_format="anthropic")).resume("r")

        assert thought == result.messages[1]["content"][0]
        assert Outcome.INVALID_ARGUMENTS is result.results[0].outcome

    def test_that_hide_something(self, registry: ToolRegistry) -> None:
        """They need not be JSON."""
        arguments = {"password": "open-sesame", "x": Decimal("sNaN"), "y": [float("nan"), Login()]}
        replies = fake_model(ToolCall("a", "add", arguments), "Sorry, open-sesame.")
        result = ToolLoop(registry.agent("ann"), replies).run("Go.", "r")

        assert Outcome.INVALID_ARGUMENTS is result.results[0].outcome
        assert "sesame" not in "".join(map(str, registry.journal.events()))

    @pytest.mark.parametrize(
        "field", [{"engine": "process"}, {"on_behalf_of": ("boss",)}, {"parent_id": "b"}, {"run_id": "s"}]
    )
    def test_what_a_model_does_not_say(self, field: dict[str, Any], registry: ToolRegistry) -> None:
        """Of a call in a reply, id, name, arguments and reason count, at first and resumed."""
        reply = ModelReply(calls=(ToolCall("a", "add", {"x": 1}, **field), ToolCall("b", "post", {"text": "hi"})))
        waiting = ToolLoop(registry.agent("ann"), fake_model(reply)).run("Go.", "r")
        registry.approvals.answer(waiting.waiting[0], Allow(by="eve"))
        result = ToolLoop(registry.agent("ann"), fake_model("Done.")).resume("r")

        assert ("Done.", [(1, 0), "hi"]) == (result.text, RAN)
        assert {()} == {one.chain for one in registry.journal.events(type="agent_tool_call")}


WRONG_TEXTS = [5, None, b"add", object(), True, ["add"], {"add": 1}, Text("add"), Kind.ANN, "\ud800", 1.5, int]


class TestOtherFields:
    @pytest.mark.parametrize("messages", [(), ({"role": "assistant", "content": "Hm."},)])
    @pytest.mark.parametrize("field", ["tool_call_id", "name", "reason"])
    @pytest.mark.parametrize("value", WRONG_TEXTS, ids=[type(value).__name__ for value in WRONG_TEXTS])
    def test_of_a_call(
        self, value: Any, field: str, messages: tuple[Any, ...], registry: ToolRegistry, run: Run
    ) -> None:
        """Broken promise: a name of another type ended the loop with an `AttributeError`, now and when resumed."""
        fields = {"tool_call_id": "a", "name": "add", "arguments": {"x": 1}, field: value}
        reply = ModelReply(calls=(ToolCall(**fields), ToolCall("b", "post", {"text": "hi"})), messages=messages)
        waiting = run(ToolLoop(registry.agent("ann"), fake_model(reply)), "Go.", "r")
        is_named = field != "name" or type(value) is Text
        registry.approvals.answer(waiting.waiting[0], Allow(by="eve"))
        result = run(ToolLoop(registry.agent("ann"), fake_model("Done.")), None, "r")

        assert [Outcome.OK if is_named else Outcome.UNKNOWN_TOOL, Outcome.OK] == [one.outcome for one in result.results]
        assert ("Done.", [(1, 0)] * is_named + ["hi"]) == (result.text, RAN)
        assert list_results(waiting)[0] == list_results(result)[0]
        assert {str} == {type(one.name) for one in result.results}

    @pytest.mark.parametrize(
        "fields",
        [
            {"calls": None}, {"calls": 5}, {"text": None}, {"text": b"Hm."}, {"stop": Point()}, {"stop": ["refused"]},
            {"messages": 5}, {"calls": [ToolCall("a", "add"), None]},
        ],
        ids=str,
    )  # fmt: skip
    @pytest.mark.parametrize("streamed", [False, True])
    def test_that_make_no_reply(
        self, fields: dict[str, Any], *, streamed: bool, registry: ToolRegistry, run: Run
    ) -> None:
        """They are a `ModelError`, also at the end of what a model streams, which was not checked."""
        model = _Streaming(ModelReply(**fields)) if streamed else fake_model(ModelReply(**fields))

        with pytest.raises(ModelError):
            run(ToolLoop(registry.agent("ann"), model))

    def test_of_classes_of_their_own(self, registry: ToolRegistry, run: Run) -> None:
        """Texts with code are the texts that they hold, and what can be read once is read once."""
        message = {"role": "assistant", "content": "Hm."}
        reply = ModelReply(text=Text("Hm."), calls=iter([ToolCall("a", "add", {"x": 1})]), messages=iter([message]))
        result = run(ToolLoop(registry.agent("ann"), fake_model(reply, Text("Done."))))

        assert ([(1, 0)], str, "Done.") == (RAN, type(result.text), result.text)
        assert message == result.messages[1]

    @pytest.mark.parametrize(
        ("usage", "expected"),
        [
            (None, 1),
            (5, 1),
            ({"input_tokens": "7"}, 1),
            ({"input_tokens": None, 5: 6}, 1),
            (Counter(input_tokens=2), 3),
        ],
        ids=str,
    )
    def test_of_the_usage(self, usage: Any, expected: int, registry: ToolRegistry, run: Run) -> None:
        """Only whole numbers of tokens count."""
        replies = ModelReply(calls=(ToolCall("a", "add", {"x": 1}),), usage={"input_tokens": 1}), "Done."
        last = ModelReply(text="Done.", usage=usage)
        result = run(ToolLoop(registry.agent("ann"), fake_model(replies[0], last)))

        assert {"input_tokens": expected} == result.usage


class _Streaming:
    """A model that streams a text and ends it with a reply."""

    def __init__(self, reply: ModelReply) -> None:
        self._reply = reply

    def reply(self, request: object) -> Iterator[object]:
        """Stream."""
        yield "Hm."
        yield self._reply


class TestReasons:
    @pytest.mark.parametrize("needs_approval", [False, True])
    @pytest.mark.parametrize("name", ["use", "gone"])
    def test_quote_no_secret_of_the_conversation(
        self, name: str, *, needs_approval: bool, registry: ToolRegistry
    ) -> None:
        """Broken promise: they were hidden in the recorded reply, and stood in the record of the call."""

        @registry.tool("issue", shared=True)
        def issue() -> dict[str, str]:
            """Issue."""
            return {"token": "hunter2-abc"}

        @registry.tool("use", shared=True, requires_approval=needs_approval)
        def use(x: int) -> str:
            """Use."""
            return "used"

        calls = [ToolCall("1", "issue", {})], [ToolCall("2", name, {"x": 1}, reason="I got hunter2-abc.")]
        loop = ToolLoop(registry.agent("ann"), fake_model(*calls, "Done."), think_augment=True)
        result = loop.run("Go.", "r")
        if result.waiting:
            registry.approvals.answer(result.waiting[0], Allow(by="eve"))
            result = loop.resume("r")

        events = list(registry.journal.events())
        assert "Done." == result.text
        assert "hunter2" not in "".join(map(str, events))
        reasons = [getattr(event, "toolcall_reason", "") for event in events]
        assert {"I got [secret "} == {reason[:14] for reason in reasons if reason}
