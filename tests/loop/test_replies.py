"""Replies of providers that are cut, refused or odd: no call of such a reply is made, and none is answered wrongly."""

# Tests of: replies, streams

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rig import sdk
from loop_rig import RAN, Run, registry, run  # noqa: F401

from praval_tools import ModelError, Outcome, ToolRegistry
from praval_tools.formats import FORMATS, parse_tool_calls
from praval_tools.loop import ModelReply, StopReason, ToolLoop
from praval_tools.testing import fake_model


def chat(finish: Any, *calls: Any, **message: Any) -> Any:
    """Return a chat completion with calls to `add`, or as given."""
    made = [{"id": str(x), "function": {"name": "add", "arguments": json.dumps({"x": x})}} for x in calls]
    return {"choices": [{"message": {"content": None, "tool_calls": made, **message}, "finish_reason": finish}]}


def responses(finish: Any, *calls: int) -> Any:
    """Return a response with calls to `add`; *finish* is the reason why it is incomplete, or a status."""
    made = [{"type": "function_call", "call_id": str(x), "name": "add", "arguments": json.dumps({"x": x})}
            for x in calls]  # fmt: skip
    if finish in ("max_output_tokens", "max_messages", "content_filter", "steered"):
        return {"status": "incomplete", "incomplete_details": {"reason": finish}, "output": made}
    return {"status": finish, "output": made}


def message(finish: Any, *calls: int) -> Any:
    """Return an Anthropic message with calls to `add`."""
    made = [{"type": "tool_use", "id": str(x), "name": "add", "input": {"x": x}} for x in calls]
    return {"role": "assistant", "content": made, "stop_reason": finish}


def gemini(finish: Any, *calls: int) -> Any:
    """Return a Gemini response with calls to `add`."""
    made = [{"function_call": {"id": str(x), "name": "add", "args": {"x": x}}} for x in calls]
    return {"candidates": [{"content": {"role": "model", "parts": made}, "finish_reason": finish}]}


BUILDERS: dict[str, Any] = {
    "openai-chat": chat, "openai-responses": responses, "anthropic": message, "gemini": gemini,
}  # fmt: skip
WHOLE: dict[str, set[Any]] = {
    "openai-chat": {"stop", "tool_calls", "function_call", None},
    "openai-responses": {"completed", None},
    "anthropic": {"end_turn", "tool_use", "stop_sequence", None},
    "gemini": {"STOP", None},
}


def reasons_of(api_format: str) -> set[Any]:
    """Return every reason that the types of the provider's SDK know, and some that they do not."""
    made_up = {"weird", "error", "model_length", "abort"}
    match api_format:
        case "openai-chat":
            choice = sdk("openai.types.chat.chat_completion").Choice
            return made_up | set(choice.model_fields["finish_reason"].annotation.__args__)
        case "openai-responses":
            response = sdk("openai.types.responses.response")
            statuses = set(response.ResponseStatus.__args__) - {"failed"}
            details = response.IncompleteDetails.model_fields["reason"].annotation.__args__[0].__args__
            return made_up | statuses | set(details)
        case "anthropic":
            return made_up | set(sdk("anthropic.types").StopReason.__args__)
        case _:
            return made_up | {one.value for one in sdk("google.genai.types").FinishReason}


@pytest.mark.parametrize("api_format", BUILDERS)
class TestEveryReason:
    def test_calls_of_a_reply_that_is_not_whole_are_not_made(self, api_format: str, registry: ToolRegistry) -> None:
        """
        Calls are run of whole replies only; the promise was broken for reasons that nobody had thought of.

        Every reason of the SDK's types is tried, and some of no type: those that do not say "whole" run nothing.
        """
        for reason in reasons_of(api_format) - WHOLE[api_format]:
            model = fake_model(BUILDERS[api_format](reason, 1, 2), api_format=api_format)
            ended = ToolLoop(registry.agent("ann"), model).run("Go.")

            assert ended.reason in (StopReason.TRUNCATED, StopReason.REFUSED), reason
            assert ([], ()) == (RAN, ended.results), reason

    def test_calls_of_a_whole_reply_are_made(self, api_format: str, registry: ToolRegistry) -> None:
        """The reasons of whole replies, and none at all, run the calls."""
        for reason in WHOLE[api_format]:
            model = fake_model(BUILDERS[api_format](reason, 1, 2), "Done.", api_format=api_format)

            assert ToolLoop(registry.agent("ann"), model).run("Go.").answered, reason
            assert 2 == len(RAN), reason
            RAN.clear()


class TestIncompleteReplies:
    def test_a_call_that_is_incomplete_in_a_whole_response(self, registry: ToolRegistry, run: Run) -> None:
        """A response may be complete and a call in it not; then none of its calls is made."""
        reply = responses("completed", 1, 2)
        reply["output"][1]["status"] = "incomplete"
        ended = run(ToolLoop(registry.agent("ann"), fake_model(reply, api_format="openai-responses")))

        assert (StopReason.TRUNCATED, []) == (ended.reason, RAN)

    def test_a_prompt_that_gemini_blocks(self, registry: ToolRegistry, run: Run) -> None:
        """Without candidates, and with the reason, it is a refusal and not a malformed reply."""
        reply = {"promptFeedback": {"blockReason": "SAFETY"}}
        ended = run(ToolLoop(registry.agent("ann"), fake_model(reply, api_format="gemini")))

        assert StopReason.REFUSED is ended.reason

    def test_a_call_that_gemini_wrote_badly(self, registry: ToolRegistry, run: Run) -> None:
        """A candidate without content that says why it ended is half a reply."""
        reply = {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]}
        ended = run(ToolLoop(registry.agent("ann"), fake_model(reply, api_format="gemini")))

        assert StopReason.TRUNCATED is ended.reason

    def test_parts_of_streamed_arguments_are_no_arguments(self) -> None:
        """Gemini may stream the arguments of a call: a part of them must not run as the whole."""
        part = {"function_call": {"name": "add", "will_continue": True}}
        (call,) = parse_tool_calls("gemini", [part])

        assert isinstance(call.arguments, str)

    @pytest.mark.parametrize("stop", ["length", "stop", 3, [], None])
    def test_a_model_of_ones_own_with_an_unknown_stop(self, stop: Any, registry: ToolRegistry) -> None:
        """A reply that says why it stopped in other words than ours is an error that lists ours; nothing runs."""
        reply = ModelReply(calls=tuple(parse_tool_calls("openai-chat", chat(None, 1))), stop=stop)
        with pytest.raises(ModelError, match="truncated"):
            ToolLoop(registry.agent("ann"), fake_model(reply)).run("Go.")
        assert [] == RAN


class TestSeveralAnswers:
    @pytest.mark.parametrize("indexes", [(0, 1), (1, 0)])
    def test_only_the_calls_of_the_first_are_made(self, indexes: tuple[int, int], registry: ToolRegistry) -> None:
        """Of several candidates the first counts, whatever their order in the reply."""
        parts = [{**chat("tool_calls", 10 + at)["choices"][0], "index": at} for at in indexes]
        ToolLoop(registry.agent("ann"), fake_model({"choices": parts}, "Done.")).run("Go.")
        candidates = [{**gemini("STOP", 10 + at)["candidates"][0], "index": at} for at in indexes]
        model = fake_model({"candidates": candidates}, "Done.", api_format="gemini")
        ToolLoop(registry.agent("ann"), model).run("Go.")

        assert [(10, 0), (10, 0)] == RAN

    @pytest.mark.parametrize("way", ["loop", "formats"])
    def test_streams_of_two_answers_are_not_mixed(self, way: str, registry: ToolRegistry) -> None:
        """In a stream the candidates come by turns; the promise was broken: the calls of the second one ran, too."""
        chunks = []
        for at in (1, 0, 1, 0):
            piece = {"index": 0, "id": f"c{at}", "function": {"name": "add", "arguments": json.dumps({"x": at})}}
            delta = {"tool_calls": [piece]} if len(chunks) < 2 else {}
            finish = None if len(chunks) < 2 else "tool_calls"
            chunks.append({"choices": [{"index": at, "delta": delta, "finish_reason": finish}]})
        if way == "formats":
            assert ['{"x": 0}'] == [json.dumps(one.arguments) if isinstance(one.arguments, dict) else one.arguments
                                    for one in parse_tool_calls("openai-chat", chunks)]  # fmt: skip
            return
        ToolLoop(registry.agent("ann"), fake_model(lambda _: _Chunks(chunks), "Done.")).run("Go.")

        assert [(0, 0)] == RAN


@pytest.mark.parametrize("way", ["loop", "formats"])
@pytest.mark.parametrize("has_index", [True, False])
def test_calls_that_the_last_event_leaves_out_are_made(way: str, registry: ToolRegistry, *, has_index: bool) -> None:
    """Broken promise: gateways end a Responses stream with an empty output, and each call was lost."""
    events: list[dict[str, Any]] = []
    for at in range(2):
        place = {"output_index": at} if has_index else {}
        item = {"type": "function_call", "id": f"i{at}", "call_id": f"c{at}", "name": "add"}
        text = json.dumps({"x": at})
        events += [
            {"type": "response.output_item.added", **place, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **place, "item_id": f"i{at}", "delta": text},
            {"type": "response.output_item.done", **place, "item": {**item, "arguments": text}},
        ]
    events.append({"type": "response.completed", "response": {"status": "completed", "output": []}})
    if way == "formats":
        assert ["c0", "c1"] == [call.tool_call_id for call in parse_tool_calls("openai-responses", events)]
        return
    end = {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Done."}]}],
    }
    model = fake_model(lambda _: _Chunks(events), end, api_format="openai-responses")
    ToolLoop(registry.agent("ann"), model).run("Go.")

    assert [(0, 0), (1, 0)] == sorted(RAN)


@pytest.mark.parametrize("own_id", ["", "c1", None])
@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("first", ["", "{}", '{"y": 1}'])
def test_calls_that_share_an_index_stay_apart(first: str, index: Any, own_id: Any) -> None:
    """Broken promise: `wipe()` and `add(x=1)` were joined as `wipe(x=1)`, and the other call was lost."""
    names = ("wipe", "add")
    pieces = [
        {"index": index, "id": own_id, "function": {"name": name, "arguments": text}}
        for name, text in zip(names, (first, '{"x"'), strict=True)
    ]
    rest = {"index": index, "function": {"arguments": ": 1}"}}
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in (*pieces, rest)]
    calls = parse_tool_calls("openai-chat", chunks)

    assert [(names[0], json.loads(first or "{}")), (names[1], {"x": 1})] == [
        (call.name, json.loads(call.arguments or "{}") if isinstance(call.arguments, str) else call.arguments)
        for call in calls
    ]
    assert 2 == len({call.tool_call_id for call in calls})


@pytest.mark.parametrize("index", [0, None])
def test_pieces_with_the_id_of_a_call_belong_to_it(index: Any) -> None:
    """Broken promise: they were given to the last call, whose tool got the arguments of the other."""
    pieces = [
        {"index": index, "id": own_id, "function": function}
        for own_id, function in (
            ("c1", {"name": "wipe", "arguments": ""}),
            ("c2", {"name": "add", "arguments": '{"x"'}),
            ("c1", {"arguments": "{}"}),
            ("c2", {"arguments": ": 1}"}),
        )
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]

    assert {"c1": ("wipe", {}), "c2": ("add", {"x": 1})} == {
        call.tool_call_id: (
            call.name,
            json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments,
        )
        for call in parse_tool_calls("openai-chat", chunks)
    }


@pytest.mark.parametrize("other", ["wipe", "add"])
def test_an_id_that_all_calls_have_says_nothing(other: str) -> None:
    """There are servers that number each call by its index, and give each the same id."""
    pieces = [
        {"index": index, "id": "c", "function": function}
        for index, function in enumerate(({"name": other, "arguments": "{"}, {"name": "add", "arguments": '{"x"'}))
    ]
    pieces += [{"index": index, "id": "c", "function": {"arguments": text}} for index, text in ((0, "}"), (1, ": 1}"))]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]

    assert [(other, {}), ("add", {"x": 1})] == [
        (call.name, json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments)
        for call in parse_tool_calls("openai-chat", chunks)
    ]


@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize("first", ["{}", '{"x": 1}'])
def test_a_call_that_is_sent_whole_once_more_is_no_other_call(first: str, index: Any) -> None:
    """Servers that repeat id and name end a call so, or begin it with `{}`: it must not be made twice."""
    function = {"name": "add", "arguments": first}
    pieces = [
        {"index": index, "id": "c1", "function": one} for one in (function, {**function, "arguments": '{"x": 1}'})
    ]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]} for piece in pieces]
    (call,) = parse_tool_calls("openai-chat", chunks)

    assert isinstance(call.arguments, str)


@pytest.mark.parametrize("function", [{}, None, {"arguments": "{}"}, {"name": ""}], ids=str)
def test_a_streamed_call_of_no_function(function: Any, registry: ToolRegistry) -> None:
    """A call that names nothing, of which no more comes, runs nothing; the model reads that there is no such tool."""
    call = {"index": 0, "id": "1", "function": function}
    deltas = [({"tool_calls": [call]}, None), ({}, "tool_calls")]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in deltas]

    ended = ToolLoop(registry.agent("ann"), fake_model(lambda _: _Chunks(chunks), "Done.")).run("Go.")

    assert ([Outcome.UNKNOWN_TOOL], "Done.", []) == ([one.outcome for one in ended.results], ended.text, RAN)


@pytest.mark.parametrize("api_format", ["openai-chat", "anthropic"])
def test_streamed_arguments_that_are_an_object(api_format: str, registry: ToolRegistry) -> None:
    """Broken promise: the tool ran with its defaults, where the same reply sent whole ran it rightly."""
    if api_format == "openai-chat":
        call = {"index": 0, "id": "1", "function": {"name": "add", "arguments": {"x": 5}}}
        deltas: list[Any] = [({"tool_calls": [call]}, None), ({}, "tool_calls")]
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in deltas]
    else:
        block = {"type": "tool_use", "id": "1", "name": "add", "input": {}}
        chunks = [
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0,
             "delta": {"type": "input_json_delta", "partial_json": {"x": 5}}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"},
        ]  # fmt: skip
    last_messages([lambda _: _Chunks(chunks)], registry, api_format)

    assert [(5, 0)] == RAN


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_stream_that_was_cut_and_then_stops(reason: str, registry: ToolRegistry) -> None:
    """Broken promise: a reply that was cut off counted as whole where its stream said "stop" after that."""
    call = {"index": 0, "id": "1", "function": {"name": "add", "arguments": '{"x": 1}'}}
    deltas = [({"tool_calls": [call]}, None), ({}, reason), ({}, "stop")]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": why}]} for delta, why in deltas]

    ToolLoop(registry.agent("ann"), fake_model(lambda _: _Chunks(chunks), "Done.")).run("Go.")

    assert [] == RAN


class _Chunks:
    """The chunks of a stream."""

    def __init__(self, chunks: list[Any]) -> None:
        self._chunks = iter(chunks)

    def __iter__(self) -> _Chunks:
        return self

    def __next__(self) -> Any:
        return next(self._chunks)


def last_messages(replies: list[Any], registry: ToolRegistry, api_format: str = "openai-chat") -> list[Any]:
    """Return what a loop sent back after the first reply."""
    model = fake_model(*replies, "Done.", api_format=api_format)
    assert ToolLoop(registry.agent("ann"), model).run("Go.").answered
    messages: list[Any] = model.requests[1].messages
    return messages[1:]


class TestHistory:
    def test_a_call_without_a_function(self, registry: ToolRegistry) -> None:
        """
        An empty `function` is a call of its own, to no tool.

        The promise was broken: its id stood at the next call, whose result then answered another.
        """
        odd = {"id": "odd", "function": {}}
        fine = {"id": "fine", "extra_content": {"for": "fine"}, "function": {"name": "add", "arguments": '{"x": 1}'}}
        assistant, *results = last_messages([chat("tool_calls", tool_calls=[odd, {"id": "none"}, fine])], registry)

        assert [("odd", None), ("fine", {"for": "fine"})] == [
            (one["id"], one.get("extra_content")) for one in assistant["tool_calls"]]  # fmt: skip
        assert ["odd", "fine"] == [one["tool_call_id"] for one in results]
        assert "not found" in results[0]["content"] and "1" == results[1]["content"]

    def test_calls_in_places_where_no_reply_has_them(self, registry: ToolRegistry) -> None:
        """They are an error, since no place in the history would answer them."""
        nested = {"content": {"parts": [{"function_call": {"name": "add", "args": {"x": 1}}}]}}
        reply = {"function_call": {"name": "add", "args": {}}, "candidates": [
            {"content": {"parts": [nested, {"text": "Hm."}]}, "finish_reason": "STOP"}]}  # fmt: skip
        with pytest.raises(ModelError):
            ToolLoop(registry.agent("ann"), fake_model(reply, api_format="gemini")).run("Go.")
        assert [] == RAN

    @pytest.mark.parametrize("streamed", [False, True])
    def test_members_that_we_do_not_know_go_back(self, streamed: bool, registry: ToolRegistry) -> None:
        """
        What a provider adds to a message or a call, such as a thought signature, is in the next request.

        The promise was broken in streams: providers that need it refused the next request.
        """
        signed = {"google": {"thought_signature": "abc"}}
        call = {"id": "1", "extra_content": signed, "function": {"name": "add", "arguments": '{"x": 1}'}}
        if streamed:
            deltas: list[Any] = [
                {"role": "assistant", "content": "", "reasoning_content": "Let me"},
                {"reasoning_content": " see.", "reasoning_details": [{"text": "Let me"}]},
                {"reasoning_details": [{"text": " see."}]},
                {"tool_calls": [{**call, "index": 0, "type": "function",
                                 "function": {"name": "add", "arguments": '{"x"'}}]},
                {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
            ]  # fmt: skip
            chunks = [{"choices": [{"index": 0, "delta": one}]} for one in deltas]
            reply: Any = lambda _: _Chunks([*chunks, {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}])
        else:
            details = [{"text": "Let me"}, {"text": " see."}]
            reply = chat("tool_calls", tool_calls=[call], reasoning_content="Let me see.", reasoning_details=details)
        assistant, result = last_messages([reply], registry)

        assert "Let me see." == assistant["reasoning_content"]
        assert [{"text": "Let me"}, {"text": " see."}] == assistant["reasoning_details"]
        function = {"name": "add", "arguments": '{"x": 1}'}
        assert [{"id": "1", "type": "function", "function": function, "extra_content": signed}] == assistant[
            "tool_calls"
        ]
        assert {"role": "tool", "tool_call_id": "1", "content": "1"} == result

    def test_the_input_of_a_server_tool_goes_back_as_it_came(self, registry: ToolRegistry) -> None:
        """
        A streamed block of a server's own tool has an object as input, as the provider's types want.

        The promise was broken: the text of the stream went back, and the provider refused the next request.
        """
        blocks = [
            (
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                ['{"query"', ': "x"}'],
            ),
            ({"type": "tool_use", "id": "toolu_1", "name": "add", "input": {}}, ['{"x": 1}']),
            ({"type": "tool_use", "id": "toolu_2", "name": "add", "input": {}}, ['{"x": ']),
        ]
        events: list[Any] = [{"type": "message_start", "message": {"usage": {}}}]
        for at, (block, pieces) in enumerate(blocks):
            events.append({"type": "content_block_start", "index": at, "content_block": block})
            events += [{"type": "content_block_delta", "index": at,
                        "delta": {"type": "input_json_delta", "partial_json": piece}} for piece in pieces]  # fmt: skip
        events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
        assistant, result = last_messages([lambda _: _Chunks(events)], registry, "anthropic")

        assert [{"query": "x"}, {"x": 1}, {"INVALID_JSON": '{"x": '}] == [one["input"] for one in assistant["content"]]
        assert ["toolu_1", "toolu_2"] == [one["tool_use_id"] for one in result["content"]]
        sdk("pydantic").TypeAdapter(sdk("anthropic.types").MessageParam).validate_python(assistant)

    def test_a_stream_without_a_stop_reason_was_cut(self, registry: ToolRegistry) -> None:
        """Its calls may lack a part."""
        start = {"type": "content_block_start", "index": 0,
                 "content_block": {"type": "tool_use", "id": "1", "name": "add", "input": {"x": 1}}}  # fmt: skip
        model = fake_model(lambda _: _Chunks([start, {"type": "message_stop"}]), api_format="anthropic")
        with pytest.raises(ModelError, match="ended in the middle"):
            ToolLoop(registry.agent("ann"), model, retries=0).run("Go.")
        assert [] == RAN


def test_every_format_with_replies_is_tried() -> None:
    """A format whose replies a loop reads has its reasons in this file."""
    assert set(BUILDERS) == {form.name for form in FORMATS.values()} - {"mcp"}
