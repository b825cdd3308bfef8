"""Calls out of providers' replies, and results back: real shapes, as dicts and as objects of the SDKs."""

from __future__ import annotations

import base64
import json
from typing import Any

import attrs
import pytest
from format_rig import fits, sdk
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Content, Outcome, ToolCall, ToolRegistry, ToolResult, ToolUsageError
from praval_tools.formats import FORMATS, assistant_message, parse_tool_calls, result_message, result_messages

NAMES = ["openai-chat", "openai-responses", "anthropic", "gemini", "mcp"]
WEATHER, TIME = '{"city": "Oslo"}', '{"zone": "CET"}'

CHAT = {
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{
        "index": 0, "finish_reason": "tool_calls",
        "message": {
            "role": "assistant", "content": None, "refusal": None,
            "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": WEATHER}},
                {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": TIME}},
            ],
        },
    }],
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": "completed", "error": None,
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None, "instructions": None,
    "metadata": {}, "temperature": 1.0, "top_p": 1.0,
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "weather", "arguments": WEATHER,
         "status": "completed"},
        {"type": "function_call", "id": "fc_2", "call_id": "call_b", "name": "time", "arguments": TIME,
         "status": "completed"},
    ],
}  # fmt: skip
MESSAGE = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
    "content": [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call_a", "name": "weather", "input": {"city": "Oslo"}},
        {"type": "tool_use", "id": "call_b", "name": "time", "input": {"zone": "CET"}},
    ],
}  # fmt: skip
GEMINI = {
    "candidates": [{
        "content": {
            "role": "model",
            "parts": [
                {"functionCall": {"id": "call_a", "name": "weather", "args": {"city": "Oslo"}}},
                {"functionCall": {"id": "call_b", "name": "time", "args": {"zone": "CET"}}},
            ],
        },
    }],
}  # fmt: skip
REQUESTS = [
    {"jsonrpc": "2.0", "id": "call_a", "method": "tools/call",
     "params": {"name": "weather", "arguments": {"city": "Oslo"}}},
    {"jsonrpc": "2.0", "id": "call_b", "method": "tools/call",
     "params": {"name": "time", "arguments": {"zone": "CET"}}},
]  # fmt: skip
REPLIES: dict[str, Any] = {
    "openai-chat": CHAT, "openai-responses": RESPONSE, "anthropic": MESSAGE, "gemini": GEMINI, "mcp": REQUESTS,
}  # fmt: skip


def told(calls: list[ToolCall]) -> list[tuple[Any, str, Any]]:
    """Return calls as plain values, arguments that are JSON text as what they spell."""
    return [
        (one.tool_call_id, one.name, json.loads(one.arguments) if isinstance(one.arguments, str) else one.arguments)
        for one in calls
    ]


BOTH = [("call_a", "weather", {"city": "Oslo"}), ("call_b", "time", {"zone": "CET"})]


def as_object(api_format: str) -> Any:
    """Return the reply as the provider's SDK gives it."""
    match api_format:
        case "openai-chat":
            return sdk("openai").types.chat.ChatCompletion.model_validate(CHAT)
        case "openai-responses":
            return sdk("openai").types.responses.Response.model_validate(RESPONSE)
        case "anthropic":
            return sdk("anthropic").types.Message.model_validate(MESSAGE)
        case "gemini":
            return sdk("google.genai.types").GenerateContentResponse.model_validate(GEMINI)
        case _:
            kind = sdk("mcp.types").CallToolRequest
            return [kind.model_validate({key: one[key] for key in ("method", "params")}) for one in REQUESTS]


class TestCalls:
    @pytest.mark.parametrize("api_format", NAMES)
    def test_parallel_calls_of_a_reply(self, api_format: str) -> None:
        """Both calls of a real reply are found, in order, with ids, names and arguments."""
        assert BOTH == told(parse_tool_calls(api_format, REPLIES[api_format]))

    @pytest.mark.parametrize("api_format", NAMES)
    def test_objects_of_the_sdk(self, api_format: str) -> None:
        """The SDK's objects say the same as dicts; an MCP request as object has no id, and gets one."""
        expected = BOTH if api_format != "mcp" else [(f"call_{at}", *one[1:]) for at, one in enumerate(BOTH, 1)]
        assert expected == told(parse_tool_calls(api_format, as_object(api_format)))

    @pytest.mark.parametrize(("api_format", "part"), [
        ("openai-chat", CHAT["choices"][0]["message"]), ("openai-chat", CHAT["choices"][0]["message"]["tool_calls"]),
        ("openai-responses", RESPONSE["output"]), ("anthropic", MESSAGE["content"]),
        ("gemini", GEMINI["candidates"][0]["content"]), ("gemini", GEMINI["candidates"][0]["content"]["parts"]),
    ])  # fmt: skip
    def test_parts_of_a_reply(self, api_format: str, part: Any) -> None:
        """A message, its calls, items, blocks or parts do as well as the whole."""
        assert BOTH == told(parse_tool_calls(api_format, part))

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

        assert ("call_1", "weather", WEATHER) == (call.tool_call_id, call.name, call.arguments)


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


class TestStreams:
    @pytest.mark.parametrize(("api_format", "chunks"), [
        ("openai-chat", CHAT_CHUNKS), ("openai-responses", EVENTS), ("anthropic", BLOCKS),
        ("gemini", [{"candidates": [{"content": {"parts": [part]}}]}
                    for part in GEMINI["candidates"][0]["content"]["parts"]]),
    ], ids=["openai-chat", "openai-responses", "anthropic", "gemini"])  # fmt: skip
    def test_pieces_are_put_together(self, api_format: str, chunks: list[Any]) -> None:
        """The chunks of a stream, arguments of parallel calls in pieces and mixed, give the same calls."""
        assert BOTH == told(parse_tool_calls(api_format, chunks))

    def test_servers_without_an_index(self) -> None:
        """Servers that leave out the index, or send each call whole, are understood."""
        pieces = [[{"id": "call_a", "function": {"name": "weather", "arguments": '{"city": '}}],
                  [{"function": {"arguments": '"Oslo"}'}}],
                  [{"id": "call_b", "function": {"name": "time", "arguments": TIME}}]]  # fmt: skip
        chunks = [{"choices": [{"delta": {"tool_calls": one}}]} for one in pieces]

        assert BOTH == told(parse_tool_calls("openai-chat", chunks))

    def test_servers_that_number_each_call_zero(self) -> None:
        """A call with an id and a name of its own is another call, whatever its index."""
        pieces = [{"index": 0, "id": "call_a", "function": {"name": "weather", "arguments": '{"city": '}},
                  {"index": 0, "function": {"arguments": '"Oslo"}'}},
                  {"index": 0, "id": "call_b", "function": {"name": "time", "arguments": ""}},
                  {"index": 0, "id": "call_b", "function": {"name": "time", "arguments": TIME}}]  # fmt: skip
        chunks = [{"choices": [{"delta": {"tool_calls": [one]}}]} for one in pieces]

        assert BOTH == told(parse_tool_calls("openai-chat", chunks))

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

        assert BOTH == told(parse_tool_calls("openai-responses", [*EVENTS[:3], last]))


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
        """What is no null is what the model said."""
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


PNG = b"\x89PNG\r\n"
BLOCKS_OF = [
    Content.of_text("Here."), Content.image(PNG, "image/png"), Content.audio(b"RIFF", "audio/wav"),
    Content.resource("file:///a.txt", text="hello", mime_type="text/plain"),
    Content.resource("file:///a.pdf", data=b"%PDF", mime_type="application/pdf", name="a.pdf"),
    Content.link("https://example.org/b", "b"),
]  # fmt: skip


def result_fits(api_format: str, made: dict[str, Any]) -> None:
    """Fail unless the provider's SDK takes a result."""
    match api_format:
        case "openai-chat":
            fits(sdk("openai").types.chat.ChatCompletionToolMessageParam, made)
        case "openai-responses":
            fits(sdk("openai").types.responses.response_input_param.FunctionCallOutput, made)
        case "anthropic":
            fits(sdk("anthropic").types.ToolResultBlockParam, made)
        case "gemini":
            sdk("google.genai.types").Part.model_validate(made)
        case "mcp":
            sdk("mcp.types").CallToolResult.model_validate(made)


class Broken:
    """A table that cannot give its rows."""

    def tolist(self) -> Any:
        """Fail."""
        raise RuntimeError("bad")


class TestResults:
    @pytest.mark.parametrize("api_format", NAMES)
    @pytest.mark.parametrize("result", [
        ToolResult("1", "with.dot", "ann", result={"a": [1, None]}),
        ToolResult("1", "weather", "ann", result="Rain."),
        ToolResult("1", "weather", "ann", result=None),
        ToolResult("1", "weather", "ann", result=object()),
        ToolResult("1", "weather", "ann", result=[Broken()]),
        ToolResult("1", "weather", "ann", result=BLOCKS_OF),
        ToolResult("1", "weather", "ann", result=BLOCKS_OF[1]),
        ToolResult("1", "weather", "ann", result=["see", BLOCKS_OF[1]]),
        ToolResult("1", "weather", "ann", result={"rows": [0] * 1000}, max_size=50),
        ToolResult("1", "weather", "ann", Outcome.TOOL_ERROR, error="no", error_type="ValueError"),
        ToolResult("1", "rm -rf", "ann", Outcome.UNKNOWN_TOOL, error="Tool 'rm -rf' not found"),
        ToolResult("1", "weather", "ann", result="half \ud800"),
    ], ids=lambda one: repr(one).partition(" at 0x")[0])  # fmt: skip
    def test_the_sdk_takes_it(self, api_format: str, result: ToolResult) -> None:
        """Whatever a tool gave, its result is one that the provider takes, and JSON."""
        made = result_message(api_format, result)
        json.dumps(made).encode()
        result_fits(api_format, made)

    def test_a_limited_result_that_fits_is_a_value(self) -> None:
        """A tool whose result may be cut promises no schema of it; what is short enough is not cut into text."""
        with ToolRegistry() as registry:

            @registry.tool("rows", shared=True, max_result_size=40)
            def rows(count: int) -> dict[str, list[int]]:
                """Give rows."""
                return {"rows": [0] * count}

            (shown,) = registry.schemas("ann", "mcp")
            short, long = (
                result_message("mcp", registry.agent("ann").execute(ToolCall("1", "rows", {"count": count})))
                for count in (2, 100)
            )

        assert "outputSchema" not in shown
        assert {"rows": [0, 0]} == short["structuredContent"]
        assert "structuredContent" not in long and len(long["content"][0]["text"]) <= 40

    def test_errors_are_marked(self) -> None:
        """Where the format can say that a call failed, it does."""
        bad = ToolResult("1", "weather", "ann", Outcome.FORBIDDEN, error="Tool 'weather' is forbidden.")

        assert result_message("anthropic", bad)["is_error"] is True
        assert result_message("mcp", bad)["isError"] is True
        part = result_message("gemini", bad)["function_response"]
        assert {"error": "Tool 'weather' is forbidden."} == part["response"]

    def test_media_travel_where_the_format_carries_them(self) -> None:
        """Images, sounds and files are there as such, and in words where there is no place for them."""
        result = ToolResult("1", "look", "ann", result=BLOCKS_OF)
        data = base64.b64encode(PNG).decode()

        chat = result_message("openai-chat", result)["content"]
        assert "Here.\n[image/png, 6 bytes]\n[audio/wav, 4 bytes]\nhello" == chat[:53]
        assert f"data:image/png;base64,{data}" == result_message("openai-responses", result)["output"][1]["image_url"]
        assert data == result_message("anthropic", result)["content"][1]["source"]["data"]
        assert ["text", "image", "text", "text", "document", "text"] == [
            one["type"] for one in result_message("anthropic", result)["content"]]  # fmt: skip
        assert 3 == len(result_message("gemini", result)["function_response"]["parts"])
        assert ["text", "image", "audio", "resource", "resource", "resource_link"] == [
            one["type"] for one in result_message("mcp", result)["content"]]  # fmt: skip

    def test_a_tool_returns_media_and_a_replay_gives_them_back(self) -> None:
        """`Content` is a type like others: it has a schema, is journaled, and comes back equal."""
        ran = []
        with ToolRegistry(journal="memory") as registry:

            @registry.tool("look", shared=True)
            def look() -> list[Content | str]:
                """Look."""
                ran.append(1)
                return ["Here.", *BLOCKS_OF]

            results = []
            for _ in range(2):
                with registry.run("r"):
                    results.append(registry.agent("ann").execute(ToolCall("1", "look", {})))

        assert [1] == ran
        assert results[0].result == results[1].result == ["Here.", *BLOCKS_OF]
        assert results[1].replayed
        assert result_message("mcp", results[0]) == result_message("mcp", results[1])

    @pytest.mark.parametrize("wrong", [
        {"type": "text"}, {"type": "image", "data": b"x"}, {"type": "resource", "uri": "x"}, {"type": "video"},
        {"type": "resource_link", "uri": "x"},
    ])  # fmt: skip
    def test_content_is_checked_when_it_is_made(self, wrong: dict[str, Any]) -> None:
        """A block without what makes it one is a ValueError."""
        with pytest.raises(ValueError, match="Content of type"):
            Content(**wrong)

    @pytest.mark.parametrize("api_format", ["openai-chat", "openai-responses", "anthropic"])
    def test_a_result_without_an_id_is_refused(self, api_format: str) -> None:
        """A format that ties results to calls by id says so; it is no tool's failure."""
        with pytest.raises(ToolUsageError, match="has no id"):
            result_message(api_format, ToolResult(None, "weather", "ann", result="Rain."))

    @pytest.mark.parametrize("api_format", NAMES)
    def test_all_results_of_a_reply(self, api_format: str) -> None:
        """Results come in call order, in one message where the provider wants one."""
        made = result_messages(api_format, [ToolResult(one[0], one[1], "ann", result="x") for one in BOTH])

        assert (1 if api_format in ("anthropic", "gemini") else 2) == len(made)
        text = json.dumps(made)
        assert api_format == "mcp" or text.index("call_a") < text.index("call_b")


class TestAssistant:
    @pytest.mark.parametrize("api_format", NAMES)
    @pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}', "", None, '{"a', b'{"a": 1}', b"\xff", 7])
    def test_what_the_model_said_comes_back(self, api_format: str, arguments: Any) -> None:
        """Calls that are written into a conversation are those that are read out of it."""
        calls = [ToolCall("1", "weather", arguments), ToolCall("2", "time", {})]
        made = assistant_message(api_format, calls, "Let me see.")
        json.dumps(made)
        found = parse_tool_calls(api_format, made)

        assert [("1", "weather"), ("2", "time")] == [(one.tool_call_id, one.name) for one in found]
        if arguments == {"a": 1}:
            assert {"a": 1} == told(found)[0][2]

    def test_the_sdks_take_it(self) -> None:
        """Messages of calls are of the SDKs' own types."""
        calls = [ToolCall("1", "weather", {"city": "Oslo"}), ToolCall("2", "time", '{"zo')]
        openai, responses = sdk("openai").types.chat, sdk("openai").types.responses
        fits(openai.ChatCompletionAssistantMessageParam, assistant_message("openai-chat", calls))
        for one in assistant_message("openai-responses", calls):
            fits(responses.ResponseFunctionToolCallParam, one)
        fits(sdk("anthropic").types.MessageParam, assistant_message("anthropic", calls, "Hm."))
        sdk("google.genai.types").Content.model_validate(assistant_message("gemini", calls, "Hm."))

    @pytest.mark.parametrize("api_format", FORMATS)
    def test_a_person_speaks(self, api_format: str) -> None:
        """Each format has a way to say what a person says."""
        assert "Hello" in json.dumps(FORMATS[api_format].user("Hello"))
