"""The loop with the real SDKs of OpenAI and Anthropic, against servers that speak their protocols."""

# Tests of: models, model_calls, replies, streams

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from format_rig import sdk
from model_server import ModelServer

from praval_tools import ModelError, Outcome, ToolRegistry, ToolUsageError
from praval_tools.loop import (
    AnthropicMessages,
    LoopEnded,
    LoopResult,
    ModelRetried,
    OpenAIChat,
    OpenAIResponses,
    StopReason,
    TextPiece,
    ToolLoop,
)

APIS = ["chat", "responses", "messages"]
MODES = ["sync", "async", "stream", "astream"]


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """Two tools that `ann` may call, one that she may not, and a journal."""
    with ToolRegistry(journal="memory") as made:

        @made.tool("weather", shared=True)
        def weather(city: str) -> str:
            """Tell the weather."""
            return f"Rain in {city}."

        @made.tool("time.of", shared=True)
        async def time(zone: str, minutes: int = 5) -> dict[str, Any]:
            """Tell the time."""
            return {"zone": zone, "minutes": minutes}

        @made.tool("wire_money", owned_by="bob")
        def wire_money(amount: int) -> str:
            """Send money."""
            raise AssertionError("nobody may")

        yield made


def model_for(api: str, server: ModelServer, *, is_async: bool = False, **options: Any) -> Any:
    """Return a ready-made model whose client, a sync one, is connected to the server."""
    client = client_for(api, server, is_async=is_async)
    return KINDS[api](client if is_async else server.close_at_end(client), "m", **options)


def client_for(api: str, server: ModelServer, *, is_async: bool) -> Any:
    """Return a client of the SDK that is connected to the server."""
    module = sdk("anthropic" if api == "messages" else "openai")
    name = ("Async" if is_async else "") + ("Anthropic" if api == "messages" else "OpenAI")
    url = server.url if api == "messages" else f"{server.url}/v1"
    return getattr(module, name)(api_key="none", base_url=url, timeout=20)


KINDS = {"chat": OpenAIChat, "responses": OpenAIResponses, "messages": AnthropicMessages}


def run_loop(mode: str, api: str, server: ModelServer, registry: ToolRegistry, **terms: Any) -> tuple[LoopResult, str]:
    """Run a loop in one of the four ways; returns how it ended, and the text of its stream."""
    run_id = terms.pop("run_id", None)
    agent, terms = registry.agent("ann"), {"retry_wait": 0.0, **terms}
    events: list[Any] = []
    if mode in ("sync", "stream"):
        loop = ToolLoop(agent, model_for(api, server), **terms)
        if mode == "sync":
            return loop.run("Well?", run_id), ""
        events += loop.stream("Well?", run_id)
    else:

        async def read() -> LoopResult | None:
            async with client_for(api, server, is_async=True) as client:
                loop = ToolLoop(agent, KINDS[api](client, "m"), **terms)
                if mode == "async":
                    return await loop.arun("Well?", run_id)
                async for event in loop.astream("Well?", run_id):
                    events.append(event)
            return None

        ended = asyncio.run(read())
        if ended is not None:
            return ended, ""
    last = events[-1]
    assert isinstance(last, LoopEnded)
    return last.result, "".join(one.text for one in events if isinstance(one, TextPiece))


def results_in(api: str, body: Any) -> list[str]:
    """Return the results that a request brings back, as text."""
    if api == "chat":
        return [one["content"] for one in body["messages"] if one["role"] == "tool"]
    if api == "responses":
        return [one["output"] for one in body["input"] if one.get("type") == "function_call_output"]
    blocks = [block for one in body["messages"] if isinstance(one["content"], list) for block in one["content"]]
    return [one["content"] for one in blocks if one["type"] == "tool_result"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("api", APIS)
class TestConversation:
    def test_parallel_calls_and_an_answer(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """Two calls of one reply run as a batch, both results go back, and the model answers."""
        script = [{"text": "Let me see.", "calls": [("weather", {"city": "Oslo"}), ("time_of", {"zone": "CET"})]},
                  {"text": "Rain at noon."}]  # fmt: skip
        with ModelServer(script) as server:
            ended, said = run_loop(mode, api, server, registry, instructions="Be kind.")

        assert (StopReason.ANSWER, "Rain at noon.", 2) == (ended.reason, ended.text, ended.steps)
        assert ["Rain in Oslo.", {"zone": "CET", "minutes": 5}] == [one.result for one in ended.results]
        assert ["Rain in Oslo.", '{"zone":"CET","minutes":5}'] == results_in(api, server.requests[1])
        assert "Be kind." in json.dumps(server.requests[0])
        assert ["time_of", "weather"] == sorted(
            one.get("name") or one["function"]["name"] for one in server.requests[0]["tools"])  # fmt: skip
        assert said == ("" if mode in ("sync", "async") else "Let me see.Rain at noon.")
        if mode in ("sync", "async") or api != "chat":
            assert {"input_tokens": 10, "output_tokens": 4} == ended.usage

    def test_refusals_and_bad_arguments_come_back(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """What is unknown, forbidden or does not fit is reported to the model, which corrects itself."""
        broken = '{"city": 3}' if api == "messages" else '{"city": "Os'
        script = [{"calls": [("nope", {}, "a"), ("wire_money", {"amount": 1}, "b"), ("weather", broken, "c")]},
                  {"calls": [("weather", {"city": "Oslo"}, "a")]}, {"text": "Rain."}]  # fmt: skip
        with ModelServer(script) as server:
            ended, _ = run_loop(mode, api, server, registry)
            errors = results_in(api, server.requests[1])

        assert [Outcome.UNKNOWN_TOOL, Outcome.FORBIDDEN, Outcome.INVALID_ARGUMENTS, Outcome.OK] == [
            one.outcome for one in ended.results]  # fmt: skip
        assert errors[0].startswith("Tool 'nope' not found")
        assert "forbidden" in errors[1]
        assert "city" in errors[2] or "JSON" in errors[2]
        assert ended.answered

    def test_provider_errors_are_tried_again(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """Overload, a failing server and a limit with a time are tried again, so often and no more."""
        script = [{"status": 429, "headers": {"retry-after": "0"}}, {"status": 503}, {"text": "Here."}]
        with ModelServer(script) as server:
            ended, _ = run_loop(mode, api, server, registry)
        assert "Here." == ended.text
        assert 3 == len(server.requests)

        with ModelServer([{"status": 500}] * 9) as server, pytest.raises(ModelError) as caught:
            run_loop(mode, api, server, registry, retries=2)
        assert 3 == len(server.requests)
        assert caught.value.retryable

    def test_a_permanent_error_is_not_retried(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """A wrong key, a wrong request, a spent account and a limit of an hour are errors at once."""
        spent = {"error": {"message": "You are out of credit.", "code": "insufficient_quota"}}
        for script in ({"status": 401}, {"status": 400}, {"status": 429, "body": spent},
                       {"status": 429, "headers": {"retry-after": "3600"}}):  # fmt: skip
            with ModelServer([script] * 5) as server, pytest.raises(ModelError):
                run_loop(mode, api, server, registry)
            assert 1 == len(server.requests)

    @pytest.mark.parametrize("raw", [b"", b"<html>", b"null", b"[]", b"{}", b'{"choices": []}', b'{"error": "x"}',
                                     b'{"content": 3}', b'{"output": null}'])  # fmt: skip
    def test_no_malformed_reply_is_taken_for_one(self, api: str, mode: str, raw: bytes, registry: ToolRegistry) -> None:
        """A malformed reply is a ModelError, never an answer or another exception."""
        kind = "text/event-stream" if "stream" in mode else "application/json"
        with ModelServer([{"raw": raw, "type": kind}] * 5) as server, pytest.raises(ModelError):
            run_loop(mode, api, server, registry, retries=1)

    @pytest.mark.parametrize(("raw", "kind"), [(b"<html>Welcome</html>", "text/html"), (b'"Welcome"', "")])
    def test_a_web_page_is_an_error(self, raw: bytes, kind: str, api: str, mode: str, registry: ToolRegistry) -> None:
        """A base URL that leads to some other server is an error, not what the model says."""
        with ModelServer([{"raw": raw, "type": kind or "application/json"}] * 5) as server:
            with pytest.raises(ModelError):
                run_loop(mode, api, server, registry, retries=0)

    def test_a_reply_that_is_neither_text_nor_calls(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """It ends the loop with a reason of its own."""
        with ModelServer([{"text": ""}]) as server:
            ended, _ = run_loop(mode, api, server, registry)

        assert StopReason.EMPTY is ended.reason

    def test_a_reply_that_was_cut_by_its_length(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """The text is there, and the reason says that it is not whole."""
        cut = {"chat": "length", "responses": "incomplete", "messages": "max_tokens"}[api]
        with ModelServer([{"text": "It was a", "finish": cut}]) as server:
            ended, _ = run_loop(mode, api, server, registry)

        assert (StopReason.TRUNCATED, "It was a") == (ended.reason, ended.text)

    def test_gone_on_with_it_asks_nothing_that_is_recorded(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """A run that is begun again repeats neither a request nor a call."""
        script = [{"calls": [("weather", {"city": "Oslo"})]}, {"text": "Rain."}]
        with ModelServer(script) as server:
            first, _ = run_loop(mode, api, server, registry, run_id="r")
            again, _ = run_loop(mode, api, server, registry, run_id="r")

        assert 2 == len(server.requests)
        assert (first.text, first.messages) == (again.text, again.messages)
        assert [False, True] == [first.results[0].replayed, again.results[0].replayed]


@pytest.mark.parametrize("api", APIS)
class TestStreams:
    @pytest.mark.parametrize("mode", ["stream", "astream"])
    def test_one_that_breaks_off_is_asked_for_again(self, api: str, mode: str, registry: ToolRegistry) -> None:
        """A stream without its end is not a reply: its text does not count, and no call of it is made."""
        calls = {"calls": [("weather", {"city": "Oslo"})]}
        with ModelServer([{**calls, "cut": 3}, calls, {"text": "Rain."}]) as server:
            ended, _ = run_loop(mode, api, server, registry)

        assert 3 == len(server.requests)
        assert (1, "Rain.") == (len(ended.results), ended.text)

    def test_one_that_is_left_is_closed(self, api: str, registry: ToolRegistry) -> None:
        """Whoever stops reading leaves nothing open: connection, run and loop end, and can be gone on with."""
        gate = threading.Event()
        with ModelServer([{"text": "One two", "wait": gate}, {"text": "Done."}]) as server:
            loop = ToolLoop(registry.agent("ann"), model_for(api, server))
            events = loop.stream("Well?", "r")
            if api == "chat":
                next(events)
            events.close()
            gate.set()
            assert "r" not in registry._runtime.recorder.open_runs
            loop.run("Well?", "r")

    def test_cancelled_it_ends(self, api: str, registry: ToolRegistry) -> None:
        """Cancelling the task that runs the loop ends the request; begun again, it is sent again."""
        gate, begun = threading.Event(), threading.Event()
        with ModelServer([{"text": "One two", "wait": gate}, {"text": "Done."}], lambda _: begun.set()) as server:

            async def main() -> None:
                async with client_for(api, server, is_async=True) as client:
                    loop = ToolLoop(registry.agent("ann"), KINDS[api](client, "m"))

                    async def read() -> None:
                        async for _ in loop.astream("Well?", "r"):
                            pass

                    task = asyncio.create_task(read())
                    await asyncio.to_thread(begun.wait, 10)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    gate.set()
                    assert "Done." == (await loop.arun("Well?", "r")).text

            asyncio.run(main())
        assert 2 == len(server.requests)


class TestClients:
    def test_a_sync_model_serves_async_code(self, registry: ToolRegistry) -> None:
        """A sync client is asked in a thread, so that the loop of the caller goes on."""
        with ModelServer([{"calls": [("weather", {"city": "Oslo"})]}, {"text": "Rain."}]) as server:
            loop = ToolLoop(registry.agent("ann"), model_for("chat", server))
            assert "Rain." == asyncio.run(loop.arun("Well?")).text

    @pytest.mark.parametrize("way", ["run", "stream"])
    def test_an_async_model_is_refused_in_sync_code(self, way: str, registry: ToolRegistry) -> None:
        """The error says what to do instead."""
        with ModelServer([]) as server, pytest.raises(ToolUsageError, match="arun") as caught:
            list(getattr(ToolLoop(registry.agent("ann"), model_for("chat", server, is_async=True)), way)("Well?"))

        assert "async-model" == caught.value.code
        assert [] == server.requests

    def test_options_go_into_each_request(self, registry: ToolRegistry) -> None:
        """What the host sets is sent, and beats what we would say."""
        with ModelServer([{"text": "Yes."}]) as server:
            model = model_for("messages", server, max_tokens=7, stop_sequences=["Stop"])
            ToolLoop(registry.agent("ann"), model).run("Well?")

        assert (7, ["Stop"]) == (server.requests[0]["max_tokens"], server.requests[0]["stop_sequences"])

    def test_no_tools_are_no_empty_list(self, registry: ToolRegistry) -> None:
        """Providers refuse an empty list of tools."""
        with ModelServer([{"text": "Yes."}]) as server:
            ToolLoop(registry.agent("ann"), model_for("chat", server), tags=["none"]).run("Well?")

        assert "tools" not in server.requests[0]

    @pytest.mark.parametrize("client", [object(), None, 3])
    def test_an_object_that_is_not_a_client_is_refused(self, client: Any) -> None:
        """At once, not at the first request."""
        with pytest.raises(ToolUsageError, match="is not a client"):
            OpenAIChat(client, "m")

    def test_a_wait_that_the_provider_asks_for(self, registry: ToolRegistry) -> None:
        """A stream says that it is asked again, why, and after how long."""
        script = [{"status": 429, "headers": {"retry-after-ms": "1"}}, {"text": "Here."}]
        with ModelServer(script) as server:
            events = list(ToolLoop(registry.agent("ann"), model_for("chat", server)).stream("Well?"))

        (retried,) = [one for one in events if isinstance(one, ModelRetried)]
        assert (1, 0.001) == (retried.step, retried.wait)
        assert "429" in retried.problem

    def test_a_server_that_is_not_there(self, registry: ToolRegistry) -> None:
        """No connection is an error that may pass."""
        with ModelServer([]) as server:
            client = client_for("chat", server, is_async=False)
        with client, pytest.raises(ModelError) as caught:
            ToolLoop(registry.agent("ann"), OpenAIChat(client, "m"), retries=1, retry_wait=0).run("Well?")

        assert caught.value.retryable

    @pytest.mark.parametrize(
        "retry_after", ["-5", "nan", "inf", "soon", "", "Wed, 21 Oct 2015 07:28:00 GMT", "1e999", "0x10"]
    )
    @pytest.mark.parametrize("api", APIS)
    def test_a_limit_with_an_odd_time(self, retry_after: str, api: str, registry: ToolRegistry) -> None:
        """A header that is not a number of seconds is ignored; the loop's own wait stands for it."""
        with ModelServer([{"status": 429, "headers": {"retry-after": retry_after}}, {"text": "Here."}]) as server:
            loop = ToolLoop(registry.agent("ann"), model_for(api, server), retry_wait=0.001)
            events = list(loop.stream("Well?"))

        assert [0.001] == [one.wait for one in events if isinstance(one, ModelRetried)]
        assert "Here." == events[-1].result.text

    @pytest.mark.parametrize("api", APIS)
    @pytest.mark.parametrize("way", ["run", "stream"])
    def test_a_server_that_hangs(self, api: str, way: str, registry: ToolRegistry) -> None:
        """The client's time-out ends the wait, the request is sent again, and then it is an error."""
        gate = threading.Event()
        hang = lambda body: {"text": "late" if gate.wait(30) else ""}
        with ModelServer([hang] * 3) as server:
            client = server.close_at_end(client_for(api, server, is_async=False).with_options(timeout=0.2))
            loop = ToolLoop(registry.agent("ann"), KINDS[api](client, "m"), retries=1, retry_wait=0)
            with pytest.raises(ModelError) as caught:
                list(getattr(loop, way)("Well?"))
            gate.set()

        assert caught.value.retryable
        assert 2 == len(server.requests)

    @pytest.mark.parametrize("api", APIS)
    @pytest.mark.parametrize("depth", [200, 600])
    def test_arguments_nested_without_end(self, depth: int, api: str, registry: ToolRegistry) -> None:
        """They come back to the model, or the reply is none; no other exception comes out."""
        deep = '{"city":' + '{"a":' * depth + "1" + "}" * depth + "}"
        with ModelServer([{"calls": [("weather", deep)]}, {"text": "Sorry."}]) as server:
            try:
                ended = ToolLoop(registry.agent("ann"), model_for(api, server)).run("Well?")
            except ModelError as error:
                assert "deep" in str(error)
                assert (api, depth) == ("messages", 600)
            else:
                assert ("Sorry.", Outcome.INVALID_ARGUMENTS) == (ended.text, ended.results[0].outcome)

    def test_strict_tools_and_their_nulls(self, registry: ToolRegistry) -> None:
        """A model in strict mode says null for what it leaves out, and the tool gets its default."""
        script = [{"calls": [("time_of", {"zone": "CET", "minutes": None})]}, {"text": "Noon."}]
        with ModelServer(script) as server:
            ended = ToolLoop(registry.agent("ann"), model_for("chat", server), strict=True).run("Well?")

        assert {"zone": "CET", "minutes": 5} == ended.results[0].result
        assert () == ended.results[0].repairs
        assert all(one["function"]["strict"] for one in server.requests[0]["tools"])

    @pytest.mark.parametrize("module", ["praval_tools", "praval_tools.loop", "praval_tools.formats"])
    def test_no_sdk_is_imported(self, module: str) -> None:
        """Neither the package nor the loop brings an SDK, or what it stands on."""
        script = (
            f"import sys, {module}\n"
            "print([one for one in sys.modules if one.partition('.')[0] in "
            "('openai', 'anthropic', 'google', 'mcp', 'httpx', 'pydantic')])"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

        assert "[]\n" == done.stdout, done.stderr


class TestExample:
    def test_the_example_calls_a_server(self) -> None:
        """`examples/loop_openai.py` asks, has the tool called, and prints the answer as it comes."""
        sdk("openai")
        path = Path(__file__).parents[2] / "examples" / "loop_openai.py"
        with ModelServer([{"calls": [("count_words", {"text": "to be or not to be"})]}, {"text": "Six."}]) as server:
            env = {**os.environ, "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}
            done = subprocess.run([sys.executable, str(path)], env=env, capture_output=True, text=True, timeout=60)

        assert (0, "Six.\n") == (done.returncode, done.stdout), done.stderr
        assert ["6"] == results_in("chat", server.requests[1])
