# Tests of: conversion, strict_nulls, response_fields
"""Calls out of providers' replies, and results back: real shapes, as dicts and as objects of the SDKs."""

from __future__ import annotations

import json
from typing import Any

import attrs
import jsonschema_rs
import pytest
from format_rig import fits, sdk
from hypothesis import given
from hypothesis import strategies as st
from provider_replies import BOTH, CHAT, GEMINI, MESSAGE, NAMES, REPLIES, RESPONSE, TIME, WEATHER, as_object, read_calls

from praval_tools import Outcome, Tool, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.formats import parse_tool_calls, result_message


class _Pretender:
    """An object that says it is of another class."""

    def __init__(self, kind: type) -> None:
        self._kind = kind

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return self._kind


class TestCalls:
    @pytest.mark.parametrize("api_format", NAMES)
    def test_parallel_calls_of_a_reply(self, api_format: str) -> None:
        """Both calls of a real reply are found, in order, with ids, names and arguments."""
        assert BOTH == read_calls(parse_tool_calls(api_format, REPLIES[api_format]))

    @pytest.mark.parametrize("api_format", NAMES)
    def test_objects_of_the_sdk(self, api_format: str) -> None:
        """The SDK's objects say the same as dicts; an MCP request as object has no id, and gets one."""
        expected = BOTH if api_format != "mcp" else [(f"call_{at}", *one[1:]) for at, one in enumerate(BOTH, 1)]
        assert expected == read_calls(parse_tool_calls(api_format, as_object(api_format)))

    @pytest.mark.parametrize(("api_format", "part"), [
        ("openai-chat", CHAT["choices"][0]["message"]), ("openai-chat", CHAT["choices"][0]["message"]["tool_calls"]),
        ("openai-responses", RESPONSE["output"]), ("anthropic", MESSAGE["content"]),
        ("gemini", GEMINI["candidates"][0]["content"]), ("gemini", GEMINI["candidates"][0]["content"]["parts"]),
    ])  # fmt: skip
    def test_parts_of_a_reply(self, api_format: str, part: Any) -> None:
        """A message, its calls, items, blocks or parts do as well as the whole."""
        assert BOTH == read_calls(parse_tool_calls(api_format, part))

    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses", "anthropic", "gemini"])
    def test_ids_can_be_sent_back(self, api_format: str) -> None:
        """Halves of surrogate pairs in ids are replaced; ids that differed in them only still are two."""
        text = json.dumps(REPLIES[api_format])
        for number, (call_id, *_) in enumerate(BOTH):
            text = text.replace(json.dumps(call_id), f'"\\ud80{number}"')
        ids = [call.tool_call_id for call in parse_tool_calls(api_format, json.loads(text))]

        assert 2 == len(set(ids))
        assert "".join(map(str, ids)).encode()

    @pytest.mark.parametrize("api_format", NAMES)
    @pytest.mark.parametrize("reply", [
        None, {}, [], "text", 7, {"choices": []}, {"choices": None}, {"choices": [None]}, {"choices": [{"message": 3}]},
        {"output": "x"}, {"content": {"type": "tool_use"}}, {"candidates": [{}]}, {"tool_calls": [None, 5, {}]},
        {"candidates": [{"content": {"parts": [None, {"function_call": 3}]}}]}, [None, 3, "x"], object(),
        {"params": None, "method": "tools/call"}, {"output": [{"type": "function_call"}]}, {"content": [{"type": 3}]},
    ], ids=lambda one: repr(one).partition(" at 0x")[0])  # fmt: skip
    def test_no_malformed_reply_raises(self, api_format: str, reply: Any) -> None:
        """A reply that is neither text nor calls, or nothing at all, gives no exception."""
        for call in parse_tool_calls(api_format, reply):
            assert call.tool_call_id and isinstance(call.name, str)

    @pytest.mark.parametrize("api_format", NAMES)
    @given(reply=st.recursive(
        st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["tool_use", "function_call"]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([
            "choices", "message", "delta", "tool_calls", "function", "name", "arguments", "id", "index", "output",
            "type", "content", "input", "candidates", "parts", "function_call", "args", "params", "method", "item",
            "content_block", "output_index", "response",
        ]), inner, max_size=4), max_leaves=12))  # fmt: skip
    def test_nothing_that_a_provider_sends_raises(self, api_format: str, reply: Any) -> None:
        """Whatever comes, the calls in it have ids, all different, and names that are text."""
        calls = parse_tool_calls(api_format, reply, think_augment=True)

        assert all(isinstance(one.name, str) and one.tool_call_id for one in calls)
        assert len(calls) == len({one.tool_call_id for one in calls})

    def test_arguments_that_are_no_json_become_a_result(self) -> None:
        """They are kept as the model wrote them, and the call ends as `invalid_arguments`, which the model can read."""
        broken = {"tool_calls": [{"id": "1", "function": {"name": "weather", "arguments": '{"city": "Os'}}]}
        (call,) = parse_tool_calls("openai-chat", broken)
        with ToolRegistry() as registry:
            registry.tool("weather", shared=True)(_weather)
            result = registry.agent("ann").execute(call)

        assert '{"city": "Os' == call.arguments
        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert "1" == result_message("openai-chat", result)["tool_call_id"]

    @pytest.mark.parametrize("api_format", NAMES)
    def test_huge_arguments_become_a_result(self, api_format: str) -> None:
        """Two megabytes of arguments are refused as arguments, not with an exception."""
        reply = json.loads(json.dumps(REPLIES[api_format]).replace("Oslo", "x" * (2 << 20)))
        call = parse_tool_calls(api_format, reply)[0]
        with ToolRegistry() as registry:
            registry.tool("weather", shared=True)(_weather)
            result = registry.agent("ann").execute(call)

        expected = Outcome.INVALID_ARGUMENTS if api_format.startswith("openai") else Outcome.OK
        assert expected is result.outcome

    def test_ids_that_are_missing_or_twice(self) -> None:
        """Each call has an id of its own; the first holder of an id keeps it, and a reply gives the same ids again."""
        parts = [{"function_call": {"name": "a", "args": {}}}, {"function_call": {"id": "x", "name": "b"}},
                 {"function_call": {"id": "x", "name": "c"}}, {"function_call": {"id": "", "name": "d"}},
                 {"function_call": {"id": "call_4", "name": "e"}}]  # fmt: skip
        once, again = (parse_tool_calls("gemini", parts) for _ in range(2))

        assert ["call_1", "x", "x_3", "call_4_", "call_4"] == [one.tool_call_id for one in once]
        assert once == again

    def test_an_object_that_says_it_is_a_call(self) -> None:
        """Broken promise: it, or an object that says it is the text of an id, raised an `AttributeError`."""
        with ToolRegistry() as registry:
            for calls in ([_Pretender(ToolCall)], [ToolCall("1", "weather", {}), _Pretender(ToolCall)]):
                with pytest.raises(ToolUsageError, match="none of the formats"):
                    registry.execute_tool_calls(calls, "ann")
            texts = registry.execute_tool_calls([ToolCall(_Pretender(str), "weather", {})], "ann")  # type: ignore[arg-type]

        assert ["call_1"] == list(texts)

    def test_unknown_names_stay_as_they_are(self) -> None:
        """The call says what the model said, and its result that there is no such tool."""
        reply = {"content": [{"type": "tool_use", "id": "1", "name": "rm -rf /", "input": {}}]}
        with ToolRegistry() as registry:
            registry.tool("weather", shared=True)(_weather)
            (call,) = parse_tool_calls("anthropic", reply, tools=registry.toolset("ann"))
            result = registry.agent("ann").execute(call)

        assert "rm -rf /" == call.name
        assert Outcome.UNKNOWN_TOOL is result.outcome
        fits(sdk("anthropic").types.ToolResultBlockParam, result_message("anthropic", result))

    def test_the_old_function_call_of_chat(self) -> None:
        """What servers sent before parallel calls is read, too."""
        (call,) = parse_tool_calls("openai-chat", {"function_call": {"name": "weather", "arguments": WEATHER}})

        assert ("call_1", "weather", {"city": "Oslo"}) == (call.tool_call_id, call.name, call.arguments)


def _weather(city: str) -> str:
    """Tell the weather."""
    return f"Rain in {city[:10]}."


CHAT_CHUNKS = [
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 0, "id": "call_a", "type": "function", "function": {"name": "weather", "arguments": ""}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"ci'}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [
        {"index": 1, "id": "call_b", "type": "function", "function": {"name": "time", "arguments": TIME}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": 'ty": "Oslo"}'}}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"total_tokens": 3}},
]  # fmt: skip
EVENTS = [
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {
        "type": "function_call", "call_id": "call_a", "name": "weather", "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"ci'},
    {"type": "response.output_item.added", "output_index": 1, "item": {
        "type": "function_call", "call_id": "call_b", "name": "time", "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": 'ty": "Oslo"}'},
    {"type": "response.function_call_arguments.done", "output_index": 1, "arguments": TIME},
]  # fmt: skip
BLOCKS = [
    {"type": "message_start", "message": {"content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Let me"}},
    {"type": "content_block_start", "index": 1, "content_block": {
        "type": "tool_use", "id": "call_a", "name": "weather", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"ci'}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": 'ty": "Oslo"}'}},
    {"type": "content_block_start", "index": 2, "content_block": {
        "type": "tool_use", "id": "call_b", "name": "time", "input": {"zone": "CET"}}},
    {"type": "message_stop"},
]  # fmt: skip


OBJECTS: dict[str, tuple[Any, Any, Any]] = {
    "openai-chat": (
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather"}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": {"city": "Oslo"}}}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    ),
    "openai-responses": (
        {"type": "response.output_item.added", "output_index": 0,
         "item": {"type": "function_call", "call_id": "a", "name": "weather", "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": {"city": "Oslo"}},
        {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": {}},
    ),
    "anthropic": (
        {"type": "content_block_start", "index": 0,
         "content_block": {"type": "tool_use", "id": "a", "name": "weather", "input": {}}},
        {"type": "content_block_delta", "index": 0,
         "delta": {"type": "input_json_delta", "partial_json": {"city": "Oslo"}}},
        {"type": "content_block_stop", "index": 0},
    ),
}  # fmt: skip
"""Of each format, the start of a streamed call, its arguments as an object, and its end."""


class TestStreams:
    @pytest.mark.parametrize(("api_format", "chunks"), [
        ("openai-chat", CHAT_CHUNKS), ("openai-responses", EVENTS), ("anthropic", BLOCKS),
        ("gemini", [{"candidates": [{"content": {"parts": [part]}}]}
                    for part in GEMINI["candidates"][0]["content"]["parts"]]),
    ], ids=["openai-chat", "openai-responses", "anthropic", "gemini"])  # fmt: skip
    def test_pieces_are_put_together(self, api_format: str, chunks: list[Any]) -> None:
        """The chunks of a stream, arguments of parallel calls in pieces and mixed, give the same calls."""
        assert BOTH == read_calls(parse_tool_calls(api_format, chunks))

    def test_servers_without_an_index(self) -> None:
        """Servers that leave out the index, or send each call whole, are understood."""
        pieces = [[{"id": "call_a", "function": {"name": "weather", "arguments": '{"city": '}}],
                  [{"function": {"arguments": '"Oslo"}'}}],
                  [{"id": "call_b", "function": {"name": "time", "arguments": TIME}}]]  # fmt: skip
        chunks = [{"choices": [{"delta": {"tool_calls": one}}]} for one in pieces]

        assert BOTH == read_calls(parse_tool_calls("openai-chat", chunks))

    def test_servers_that_number_each_call_zero(self) -> None:
        """A call with an id and a name of its own is another call, whatever its index."""
        pieces = [{"index": 0, "id": "call_a", "function": {"name": "weather", "arguments": '{"city": '}},
                  {"index": 0, "function": {"arguments": '"Oslo"}'}},
                  {"index": 0, "id": "call_b", "function": {"name": "time", "arguments": ""}},
                  {"index": 0, "id": "call_b", "function": {"name": "time", "arguments": TIME}}]  # fmt: skip
        chunks = [{"choices": [{"delta": {"tool_calls": [one]}}]} for one in pieces]

        assert BOTH == read_calls(parse_tool_calls("openai-chat", chunks))

    @pytest.mark.parametrize("api_format", OBJECTS)
    def test_arguments_that_are_objects(self, api_format: str) -> None:
        """
        Some servers send an object instead of its text; beside text, or another object, it is refused.

        The promise was broken: the call was read as one without arguments, and ran with the defaults of its tool.
        """
        start, piece, end = OBJECTS[api_format]

        (call,) = parse_tool_calls(api_format, [start, piece, end])
        (empty,) = parse_tool_calls(api_format, [start, end])
        (twice,) = parse_tool_calls(api_format, [start, piece, piece, end])

        assert [("weather", {"city": "Oslo"})] == [(call.name, call.arguments)]
        assert empty.arguments in ("", {})
        assert isinstance(twice.arguments, str) and twice.arguments.startswith("{'city'")

    @pytest.mark.parametrize("piece", [0, False, 1, [], [1]], ids=str)
    def test_arguments_that_are_neither_text_nor_object(self, piece: Any) -> None:
        """They are no arguments, alone or between texts."""
        for texts in (["", piece], ['{"city": 1', piece, "}"]):
            pieces = [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": text}} for text in texts]
            (call,) = parse_tool_calls(
                "openai-chat", [{"choices": [{"delta": {"tool_calls": [one]}}]} for one in pieces]
            )

            assert call.arguments not in ("", {}) and (piece == 1 or not str(call.arguments).endswith(": 1}"))

    @pytest.mark.parametrize("function", [{}, {"name": "", "arguments": ""}], ids=str)
    @pytest.mark.parametrize("where", ["delta", "message"])
    def test_an_empty_call_of_an_older_server_is_none(self, where: str, function: Any) -> None:
        """Some servers send one with each text."""
        reply = {"choices": [{where: {"content": "Hello", "function_call": function}}]}

        assert [] == parse_tool_calls("openai-chat", [reply] if where == "delta" else reply)

    def test_a_call_of_an_older_server(self) -> None:
        """It streams its only call as `function_call`; the promise was broken: the call was lost."""
        pieces = [{"name": "weather", "arguments": ""}, {"arguments": '{"city": '}, {"arguments": '"Oslo"}'}]
        chunks = [{"choices": [{"delta": {"function_call": piece}}]} for piece in pieces]

        assert [("weather", {"city": "Oslo"})] == [
            one[1:] for one in read_calls(parse_tool_calls("openai-chat", chunks))
        ]

    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses", "anthropic"])
    @given(chunks=st.lists(st.fixed_dictionaries({
        "type": st.sampled_from(["content_block_start", "content_block_delta", "response.output_item.added",
                                 "response.function_call_arguments.delta", "response.completed", "message_stop"]),
        "index": st.sampled_from([0, None, [], {}, "0", 1.5]),
        "output_index": st.sampled_from([0, None, [], {}]),
        "content_block": st.sampled_from([{"type": "tool_use", "id": "1", "name": "x", "input": {}}, [], "x", None]),
        "item": st.sampled_from([{"type": "function_call", "call_id": [], "name": 3}, {}, 3]),
        "delta": st.sampled_from(["x", {"partial_json": 3}, {"partial_json": "{"}, [], None]),
        "choices": st.sampled_from([None, 3, [{"delta": {"tool_calls": [{"index": [], "id": {}, "function": 3}]}}]]),
    }), max_size=4))  # fmt: skip
    def test_no_malformed_stream_raises(self, api_format: str, chunks: list[Any]) -> None:
        """Chunks with places that are no numbers, and parts of other types, give calls or none."""
        assert all(isinstance(one, ToolCall) for one in parse_tool_calls(api_format, chunks))

    def test_a_stream_that_was_cut(self) -> None:
        """What arrived is kept; arguments that end in the middle are arguments that do not fit."""
        call = parse_tool_calls("openai-chat", CHAT_CHUNKS[:3])[0]

        assert '{"ci' == call.arguments

    def test_a_finished_response_counts_more_than_its_pieces(self) -> None:
        """Where the last event has the whole response, that is what is read."""
        last = {"type": "response.completed", "response": RESPONSE}

        assert BOTH == read_calls(parse_tool_calls("openai-responses", [*EVENTS[:3], last]))


class TestStrictNulls:
    """A null of a strict mode that stands for a default is left out; one that the tool takes stays."""

    @staticmethod
    def parsed(strict: bool = True, **arguments: Any) -> Any:
        with ToolRegistry(strict_arguments=True) as registry:
            registry.tool("probe", shared=True)(_probe)
            reply = {"tool_calls": [{"id": "1", "function": {"name": "probe", "arguments": json.dumps(arguments)}}]}
            (call,) = parse_tool_calls("openai-chat", reply, tools=registry.toolset("ann"), strict=strict)
            result = registry.agent("ann").execute(call)
        return result.result if result.success else result.outcome

    def test_a_null_means_the_default(self) -> None:
        """At the top, in an object, in a list and behind a union, of nullable and of other properties."""
        assert "3 5 [(1, 'none', 2.0)] (7, 'none', 2.0) None" == self.parsed(
            count=None, limit=None, many=[{"width": 1, "label": None, "depth": None}],
            one={"width": 7, "label": None, "depth": None}, must=None,
        )  # fmt: skip

    def test_other_values_stay(self) -> None:
        """A value that is not null is what the model said."""
        assert "1 None2 [] None None" == self.parsed(count=1, limit=-2, many=[], one=None, must=None).replace(
            "-2", "None2"
        )

    def test_without_strict_a_null_is_a_null(self) -> None:
        """A tool that was not exported strictly gets null where it takes null, and refuses it elsewhere."""
        assert "3 None [] None None" == self.parsed(False, limit=None, must=None)
        assert Outcome.INVALID_ARGUMENTS is self.parsed(False, count=None, must=None)


@attrs.frozen
class Part:
    width: int
    label: str | None = "none"
    depth: float = 2.0


def _probe(
    must: int | None, count: int = 3, limit: int | None = 5, many: list[Part] = [], one: Part | None = None
) -> str:
    """Say what came."""
    shown = [attrs.astuple(part) for part in many]
    return f"{count} {limit} {shown} {None if one is None else attrs.astuple(one)} {must}"


class TestReason:
    """A model is asked why; the tool never learns it, the journal does."""

    def test_it_is_asked_for_taken_out_and_kept(self) -> None:
        """The parameter is in the schema, the reason beside the arguments and in the journal, not in the tool."""
        with ToolRegistry(journal="memory") as registry:
            registry.tool("weather", shared=True)(_weather)
            for strict in (False, True):
                schema = registry.schemas("ann", think_augment=True, strict=strict)[0]["function"]["parameters"]
                assert ["toolcall_reason", "city"] == schema["required"]
            assert "toolcall_reason" not in registry.schemas_json("ann").decode()
            text = json.dumps({"toolcall_reason": "They asked.", "city": "Oslo"})
            reply = {"tool_calls": [{"id": "1", "function": {"name": "weather", "arguments": text}}]}
            (call,) = parse_tool_calls("openai-chat", reply, think_augment=True)
            result = registry.agent("ann").execute(call)
            refused = registry.agent("ann").execute(
                parse_tool_calls("openai-chat", {"tool_calls": [{"id": "2", "function": {
                    "name": "weather", "arguments": '{"toolcall_reason": "Why not."}'}}]}, think_augment=True)[0]
            )  # fmt: skip
            events = [one for one in registry.journal.events() if hasattr(one, "toolcall_reason")]

        assert ({"city": "Oslo"}, "They asked.") == (call.arguments, call.reason)
        assert "Rain in Oslo." == result.result
        assert Outcome.INVALID_ARGUMENTS is refused.outcome
        assert ["They asked.", "Why not."] == [one.toolcall_reason for one in events]

    def test_a_tool_with_that_parameter_keeps_it(self) -> None:
        """It is the tool's own then."""
        with ToolRegistry() as registry:

            @registry.tool("own", shared=True)
            def own(toolcall_reason: int) -> int:
                """Give it back."""
                return toolcall_reason

            assert registry.schemas("ann") == registry.schemas("ann", think_augment=True)
            reply = {"content": [{"type": "tool_use", "id": "1", "name": "own", "input": {"toolcall_reason": 3}}]}
            (call,) = parse_tool_calls("anthropic", reply, tools=registry.toolset("ann"), think_augment=True)

        assert {"toolcall_reason": 3} == call.arguments

    @pytest.mark.parametrize("strict", [False, True])
    def test_what_refers_to_the_whole_schema_has_no_reason(self, strict: bool) -> None:
        """An object inside of the arguments that looks as they do is given no reason of its own."""
        properties = {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#"}}}
        schema = {"type": "object", "properties": properties, "required": ["name"], "additionalProperties": False}
        with ToolRegistry() as registry:
            registry.register(Tool("build", "Build.", schema, lambda **given: given))
            registry.grant("build", "ann")
            (shown,) = registry.schemas("ann", think_augment=True, strict=strict)
        parameters = shown["function"]["parameters"]
        inner = {"name": "wheel", "parts": []} if strict else {"name": "wheel"}

        assert jsonschema_rs.is_valid(parameters, {"toolcall_reason": "", "name": "car", "parts": [inner]})
        wrong = {"toolcall_reason": "", **inner}
        assert not jsonschema_rs.is_valid(parameters, {"toolcall_reason": "", "name": "car", "parts": [wrong]})

    @pytest.mark.parametrize(
        "limit",
        [
            {"maxProperties": 1},
            {"propertyNames": {"maxLength": 5}},
            {"patternProperties": {"^tool": {"type": "integer"}, "^n": {"minLength": 1}}},
            {"patternProperties": {"": {"minLength": 1}}, "additionalProperties": False},
        ],
        ids=str,
    )
    def test_limits_of_all_members_leave_room_for_it(self, limit: dict[str, Any]) -> None:
        """Broken promise: a model was shown a schema that no call fulfils."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"], **limit}
        with ToolRegistry() as registry:
            registry.register(Tool("build", "Build.", schema, lambda **given: given))
            registry.grant("build", "ann")
            (shown,) = registry.schemas("ann", think_augment=True)
            refused = registry.execute(ToolCall(None, "build", {"name": "", "toolcall": "", "no": ""}, "ann"))

        call = {"toolcall_reason": "why", "name": "car"}
        assert jsonschema_rs.is_valid(shown["function"]["parameters"], call)
        assert "patternProperties" not in limit or jsonschema_rs.is_valid(
            shown["function"]["parameters"], {**call, "lot": "x"}
        )
        assert Outcome.INVALID_ARGUMENTS is refused.outcome
