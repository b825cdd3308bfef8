"""Options of the ready-made models: none replaces what the loop decides; and when a provider is asked again."""

# Tests of: models

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from format_rig import sdk
from loop_rig import RAN, registry  # noqa: F401
from model_server import ModelServer

from praval_tools import ModelError, ToolRegistry, ToolUsageError
from praval_tools.loop import AnthropicMessages, ModelRetried, OpenAIChat, OpenAIResponses, ToolLoop
from praval_tools.loop.models import _RESERVED, SdkModel

KINDS: list[type[SdkModel]] = [OpenAIChat, OpenAIResponses, AnthropicMessages]
HIDDEN: Any = {
    OpenAIChat: {"type": "function", "function": {"name": "vault"}},
    OpenAIResponses: {"type": "function", "name": "vault"},
    AnthropicMessages: {"type": "tool", "name": "vault"},
}
ALLOWED: Any = {
    OpenAIChat: {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [HIDDEN[OpenAIChat]]}},
    OpenAIResponses: {"type": "allowed_tools", "mode": "auto", "tools": [HIDDEN[OpenAIResponses]]},
}


def make_model(kind: type[SdkModel], server: ModelServer | None = None, **options: Any) -> SdkModel:
    """Return a ready-made model; without a server one that cannot be asked."""
    if server is None:
        create = SimpleNamespace(create=print)
        client = SimpleNamespace(chat=SimpleNamespace(completions=create), responses=create, messages=create)
        return kind(client, "m", **options)
    if kind is AnthropicMessages:
        client = sdk("anthropic").Anthropic(api_key="none", base_url=server.url)
    else:
        client = sdk("openai").OpenAI(api_key="none", base_url=f"{server.url}/v1")
    return kind(server.close_at_end(client), "m", **options)


class TestReserved:
    @pytest.mark.parametrize("where", ["option", "extra_body"])
    @pytest.mark.parametrize("name", ["tools", "stream", "messages", "input", "functions", "function_call",
                                      "instructions", "system", "previous_response_id", "conversation", "prompt",
                                      "background", "mcp_servers", "n"])  # fmt: skip
    def test_options_that_replace_what_the_loop_sends_are_refused(self, name: str, where: str) -> None:
        """
        Neither an option nor `extra_body`, which the SDKs write over the request, replaces tools or conversation.

        The promise was broken: `tools=` was offered in place of the agent's tools, and `n=2` ran two answers' calls.
        """
        refused = []
        for kind in KINDS:
            options: Any = {name: 2} if where == "option" else {"extra_body": {name: 2}}
            try:
                make_model(kind, **options)
            except ToolUsageError as error:
                refused.append(kind)
                assert "reserved-option" == error.code
                assert name in str(error) and kind.__name__ in str(error)

        only = {
            **dict.fromkeys(("tools", "stream", "n"), KINDS),
            **dict.fromkeys(("functions", "function_call"), [OpenAIChat]),
            **dict.fromkeys(("system", "mcp_servers"), [AnthropicMessages]),
            "messages": [OpenAIChat, AnthropicMessages],
        }
        assert refused == only.get(name, [OpenAIResponses])

    def test_one_answer_may_be_asked_for(self) -> None:
        """`n=1` says what the loop wants anyway."""
        make_model(OpenAIChat, n=1, temperature=0.5)

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_a_request_holds_is_reserved(self, kind: type[SdkModel], registry: ToolRegistry) -> None:
        """No member that the loop itself writes, but the number of tokens, can be given as an option."""
        with ModelServer([{"text": "Done."}]) as server:
            ToolLoop(registry.agent("ann"), make_model(kind, server), instructions="Be kind.").run("Go.")
            written = server.requests[0].keys() - {"max_tokens", "model"}
        for name in written:
            if name == "messages" or name in kind.reserved | {"tools", "stream"}:
                with pytest.raises(ToolUsageError):
                    make_model(kind, **{name: None})
            else:
                raise AssertionError(f"{name} can be replaced")


def test_the_page_lists_what_is_refused() -> None:
    """The table of the reference names each reserved option of each model, and `n`, and no other."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "loop.md").read_text(encoding="utf-8")
    rows = page.partition("| option | instead |\n")[2].partition("\n\n")[0].splitlines()[1:]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])}

    assert {"n", *_RESERVED, *(name for kind in KINDS for name in kind.reserved)} == named


class TestToolChoice:
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_hidden_tool_cannot_be_forced(self, kind: type[SdkModel], registry: ToolRegistry) -> None:
        """A choice names only tools that the agent is offered, refused before anything is sent."""

        @registry.tool("vault", owned_by="bob")
        def vault() -> str:
            """Open the vault."""
            raise AssertionError("nobody may")

        for choice in filter(None, (HIDDEN[kind], ALLOWED.get(kind))):
            for options in ({"tool_choice": choice}, {"extra_body": {"tool_choice": choice}}):
                with ModelServer([{"text": "Done."}]) as server:
                    loop = ToolLoop(registry.agent("ann"), make_model(kind, server, **options))
                    with pytest.raises(ToolUsageError, match="'vault', which 'ann' is not offered"):
                        loop.run("Go.")
                    assert [] == server.requests

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_offered_tool_can(self, kind: type[SdkModel], registry: ToolRegistry) -> None:
        """A choice of an offered tool is sent as it is."""

        @registry.tool("vault", shared=True)
        def vault() -> str:
            """Open the vault."""
            return "open"

        with ModelServer([{"text": "Done."}]) as server:
            ToolLoop(registry.agent("ann"), make_model(kind, server, tool_choice=HIDDEN[kind])).run("Go.")

        assert HIDDEN[kind] == server.requests[0]["tool_choice"]

    def test_without_tools_there_is_no_choice(self, registry: ToolRegistry) -> None:
        """Providers refuse a choice among no tools; an agent may have none today."""
        with ModelServer([{"text": "Done."}]) as server:
            model = make_model(OpenAIChat, server, tool_choice="auto", parallel_tool_calls=False)
            ToolLoop(registry.agent("ann"), model, tags=["none"]).run("Go.")

        assert not {"tools", "tool_choice", "parallel_tool_calls"} & server.requests[0].keys()


class TestRetryAfter:
    def test_a_date_is_honoured(self, registry: ToolRegistry) -> None:
        """
        A provider may say when to come again as a date; it is measured by the provider's own clock.

        The promise was broken: the date was ignored, and the provider asked again at once.
        """
        headers = {"date": "Wed, 21 Oct 2015 07:28:00 GMT", "retry-after": "Wed, 21 Oct 2015 07:30:00 GMT"}
        with ModelServer([{"status": 429, "headers": headers}] * 2) as server:
            loop = ToolLoop(registry.agent("ann"), make_model(OpenAIChat, server))
            with pytest.raises(ModelError) as caught:
                loop.run("Go.")

        assert 120.0 == caught.value.retry_after

    def test_a_date_that_is_near_is_waited_for(self, registry: ToolRegistry) -> None:
        """When the moment has come, the loop does not wait."""
        same = "Wed, 21 Oct 2015 07:28:00 GMT"
        script = [{"status": 429, "headers": {"date": same, "retry-after": same}}, {"text": "Here."}]
        with ModelServer(script) as server:
            events = list(ToolLoop(registry.agent("ann"), make_model(OpenAIChat, server)).stream("Well?"))

        assert [0.0] == [one.wait for one in events if isinstance(one, ModelRetried)]
