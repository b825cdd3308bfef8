# Tests of: format
"""Results and the calls of a model as messages of the conversation, in each format."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from format_rig import fits, sdk

from praval_tools import Content, Outcome, ToolCall, ToolRegistry, ToolResult, ToolUsageError
from praval_tools.formats import FORMATS, assistant_message, parse_tool_calls, result_message, result_messages
from praval_tools.schema.json_input import parse_arguments

NAMES = ["openai-chat", "openai-responses", "anthropic", "gemini", "mcp"]


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

    @pytest.mark.parametrize("api_format", NAMES)
    def test_can_be_sent_whatever_a_model_put_into_ids_and_names(self, api_format: str) -> None:
        """Halves of surrogate pairs in ids, names, texts and arguments are replaced: a request is UTF-8."""
        calls = [ToolCall("\ud800", "n\udc00", {"a\ud800": "\ud800"}), ToolCall("b", "\ud800" * 70, "\ud800")]
        results = [ToolResult(call.tool_call_id, call.name, error="no \ud800") for call in calls]
        messages = [*result_messages(api_format, results), assistant_message(api_format, calls, "\ud800")]

        assert json.dumps(messages, ensure_ascii=False).encode()

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

    @pytest.mark.parametrize("api_format", NAMES)
    def test_texts_of_blocks_are_cut(self, api_format: str) -> None:
        """A `max_result_size` cuts what a model reads: promised of every result, and not kept for content blocks."""
        with ToolRegistry() as registry:

            @registry.tool("look", shared=True, max_result_size=100)
            def look(size: int) -> list[Content | str]:
                """Look."""
                page = Content.resource("file:///a.txt", text="b" * size, mime_type="text/plain")
                return ["a" * size, Content.image(PNG, "image/png"), page]

            results = [registry.agent("ann").execute(ToolCall("1", "look", {"size": size})) for size in (30, 5000)]
        short, long = (result_message(api_format, result) for result in results)

        result_fits(api_format, long)
        whole, cut = json.dumps(short), json.dumps(long, ensure_ascii=False)
        assert "a" * 30 in whole and "b" * 30 in whole and "left out" not in whole
        assert cut.count("left out") == 1 and cut.count("aa") + cut.count("bb") < 40
        if api_format != "openai-chat":  # which carries no images
            assert base64.b64encode(PNG).decode() in cut

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
        """A format that ties results to calls by id says so; it is not a failure of the tool."""
        with pytest.raises(ToolUsageError, match="has no id"):
            result_message(api_format, ToolResult(None, "weather", "ann", result="Rain."))

    @pytest.mark.parametrize("api_format", NAMES)
    def test_all_results_of_a_reply(self, api_format: str) -> None:
        """Results come in call order, in one message where the provider wants one."""
        made = result_messages(
            api_format,
            [ToolResult(one[0], one[1], "ann", result="x") for one in (("call_a", "weather"), ("call_b", "time"))],
        )

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
            assert {"a": 1} == parse_arguments(found[0].arguments)

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
