"""The format of a reply is found by its shape, and where it is not clear, an error says what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from provider_replies import BOTH, NAMES, REPLIES, as_object

from praval_tools import ToolUsageError
from praval_tools.formats import FORMATS, parse_tool_calls
from praval_tools.formats.conversion import detect_format

STREAMS: dict[str, list[Any]] = {
    "openai-chat": [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}, {"choices": []}],
    "openai-responses": [{"type": "response.created", "response": {}}],
    "anthropic": [{"type": "message_start", "message": {}}, {"type": "message_stop"}],
    "gemini": [{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}],
}


class TestWhatIsFound:
    @pytest.mark.parametrize("api_format", NAMES)
    def test_whole_replies_and_objects_of_the_sdks(self, api_format: str) -> None:
        """A reply is read without its format being named, as dicts and as the SDK gives it."""
        assert BOTH == [(one.tool_call_id, one.name, one.arguments) for one in parse_tool_calls(REPLIES[api_format])]
        assert api_format == detect_format(as_object(api_format)).name

    @pytest.mark.parametrize("api_format", STREAMS)
    def test_streams(self, api_format: str) -> None:
        """The chunks of a stream tell their format, too."""
        assert api_format == detect_format(STREAMS[api_format]).name

    @pytest.mark.parametrize(("part", "api_format"), [
        (lambda: REPLIES["openai-chat"]["choices"][0]["message"], "openai-chat"),
        (lambda: REPLIES["openai-chat"]["choices"][0]["message"]["tool_calls"], "openai-chat"),
        (lambda: REPLIES["openai-responses"]["output"], "openai-responses"),
        (lambda: REPLIES["anthropic"]["content"], "anthropic"),
        (lambda: REPLIES["gemini"]["candidates"][0]["content"], "gemini"),
        (lambda: REPLIES["gemini"]["candidates"][0]["content"]["parts"], "gemini"),
        (lambda: {"role": "assistant", "function_call": {"name": "a", "arguments": "{}"}}, "openai-chat"),
        (lambda: {"function_call": {"name": "a", "args": {}}}, "gemini"),
    ])  # fmt: skip
    def test_parts(self, part: Any, api_format: str) -> None:
        """A message, its blocks, items, parts or calls do as well."""
        assert api_format == detect_format(part()).name

    @pytest.mark.parametrize("reply", [
        [], {"role": "assistant", "content": "Hello."}, [{"type": "text", "text": "Hello."}],
        {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
    ])  # fmt: skip
    def test_a_message_that_calls_nothing(self, reply: Any) -> None:
        """Where it could be in several formats, and no format reads a call in it, there is none."""
        assert [] == parse_tool_calls(reply)
        assert [] == parse_tool_calls(None, reply)


class TestWhatIsNotClear:
    @pytest.mark.parametrize("reply", [
        None, {}, "openai-chat", 3, object(), {"name": "weather"}, [{"name": "weather", "arguments": {}}],
        {"content": "Hi.", "tool_calls": [{"name": "weather", "args": {}, "id": "1"}]},
    ], ids=lambda one: repr(one).partition(" at 0x")[0])  # fmt: skip
    def test_no_known_shape(self, reply: Any) -> None:
        """It is an error that lists the formats, never an empty list: calls may be in it."""
        with pytest.raises(ToolUsageError, match="none of the formats: openai-chat, openai-responses") as caught:
            parse_tool_calls(reply)

        assert "unknown-reply-format" == caught.value.code

    def test_several_shapes_that_say_different_things(self) -> None:
        """It is an error that says which formats it may be in, and what to do."""
        reply = {**REPLIES["openai-chat"], **REPLIES["anthropic"]}
        with pytest.raises(ToolUsageError, match="openai-chat, anthropic.* Name its format"):
            parse_tool_calls({**reply, "content": [{"type": "tool_use", "id": "1", "name": "b", "input": {}}]})


class TestArguments:
    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses"])
    def test_text_is_parsed(self, api_format: str) -> None:
        """Arguments that a provider sends as JSON text are the values that it spells."""
        assert [{"city": "Oslo"}, {"zone": "CET"}] == [
            one.arguments for one in parse_tool_calls(api_format, REPLIES[api_format])]  # fmt: skip

    @pytest.mark.parametrize("text", ['{"city": "Os', "[1]", "7", '{"a": 1, "a": 2}', '{"a": NaN}'])
    def test_what_is_not_an_object_stays_as_it_is(self, text: str) -> None:
        """It is the call's business to say what is wrong with it."""
        reply = json.loads(json.dumps(REPLIES["openai-chat"]))
        reply["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = text

        assert text == parse_tool_calls(reply)[0].arguments


def test_every_format_is_tried() -> None:
    """A format that is added is found by its shape, or this test says that it is not."""
    assert set(NAMES) == {form.name for form in FORMATS.values()}
