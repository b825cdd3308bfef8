"""
The process of the tests that kill a loop: `python loop_driver.py URL FOLDER API MODE WINDOW PASSING [SEARCH]`.

It calls the server at URL in a journaled run, has its effects in FOLDER, and kills itself with SIGKILL when it
comes to WINDOW for the PASSING-th time. A call in doubt it settles by looking whether the effect is there.
With SEARCH, the model has to find its tools; a later process has one more, which a search would find first.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack, closing
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from praval_tools import ToolContext, ToolRegistry
from praval_tools.journal import open_journal
from praval_tools.loop import (
    AnthropicMessages,
    LoopResult,
    OpenAIChat,
    OpenAIResponses,
    StopReason,
    ToolLoop,
    ToolSearch,
)

WINDOWS = (
    "before a request", "reply to its record", "record to calls", "before the effect", "effect to record",
    "result to the next request", "answer to its record", "after the answer",
)  # fmt: skip
KINDS = {"chat": OpenAIChat, "responses": OpenAIResponses, "messages": AnthropicMessages}


class Killer:
    """Kills this process at the *passing*-th time that something comes to *window*."""

    def __init__(self, window: str, passing: int) -> None:
        self._window, self._left, self._lock = window, passing, threading.Lock()

    def at(self, window: str) -> None:
        """Say that the loop has come to *window*."""
        with self._lock:
            self._left -= window == self._window
            if window == self._window and not self._left:
                os.kill(os.getpid(), signal.SIGKILL)


class Watched:
    """A store that tells the killer what was written."""

    def __init__(self, store: Any, killer: Killer) -> None:
        self._store, self._killer = store, killer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append(self, items: Sequence[Any]) -> Any:
        self._before(items)
        answers = self._store.append(items)
        self._after(items)
        return answers

    async def aappend(self, items: Sequence[Any]) -> Any:
        self._before(items)
        answers = await self._store.aappend(items)
        self._after(items)
        return answers

    def _before(self, items: Sequence[Any]) -> None:
        for body in _replies(items):
            self._killer.at("reply to its record" if body["reply"]["calls"] else "answer to its record")
        if _types(items) & {"agent_tool_result"}:
            self._killer.at("effect to record")

    def _after(self, items: Sequence[Any]) -> None:
        for body in _replies(items):
            self._killer.at("record to calls" if body["reply"]["calls"] else "after the answer")
        if _types(items) & {"agent_tool_result"}:
            self._killer.at("result to the next request")


def _types(items: Sequence[Any]) -> set[str]:
    return {one.type for item in items for one in item.records}


def _replies(items: Sequence[Any]) -> list[Any]:
    return [json.loads(one.body) for item in items for one in item.records if one.type == "model_replied"]


class SearchedRegistry(ToolRegistry):
    """A registry that writes its searches to a file."""

    searches: Path

    def search(self, words: str, *args: Any, **options: Any) -> list[Any]:
        with self.searches.open("a") as file:
            file.write(words + "\n")
        return super().search(words, *args, **options)


def registry_in(folder: Path, killer: Killer) -> SearchedRegistry:
    """Return the registry of the program: two tools with effects, of which one honours its key."""
    registry = SearchedRegistry(journal=Watched(open_journal(folder / "runs.db").store, killer))
    registry.searches = folder / "searches"

    def effect(line: str) -> None:
        killer.at("before the effect")
        with (folder / "effects").open("a") as file:
            file.write(line + "\n")

    @registry.tool("post", shared=True)
    def post(number: int) -> str:
        """Post it."""
        effect(f"post {number}")
        return f"posted {number}"

    @registry.tool("pay", shared=True, idempotent=True)
    async def pay(number: int, context: ToolContext) -> str:
        """Pay it, once for each key."""
        effect(f"pay {number} {context.idempotency_key}")
        return f"paid {number}"

    if registry.searches.exists():

        @registry.tool("post_number", shared=True)
        def post_number(number: int) -> str:
            """Post it, post a number."""
            return f"posted {number} elsewhere"

    return registry


class Model:
    """The ready-made model, with a killer before each request."""

    def __init__(self, inner: Any, killer: Killer) -> None:
        self._inner, self._killer = inner, killer
        self.format, self.name, self.is_async = inner.format, inner.name, inner.is_async

    def reply(self, request: Any) -> Any:
        self._killer.at("before a request")
        return self._inner.reply(request)


class PlainModel:
    """A model without an SDK, which takes seconds to import: a program of one's own, in a few lines."""

    format, name, is_async = "openai-chat", "m", False

    def __init__(self, url: str) -> None:
        self._url = f"{url}/v1/chat/completions"

    def reply(self, request: Any) -> Any:
        body = json.dumps({"model": self.name, "messages": request.messages, "tools": request.tools}).encode()
        with urlopen(Request(self._url, body, {"content-type": "application/json"}), timeout=20) as answer:
            return json.load(answer)

    def close(self) -> None:
        """Nothing is open."""


def model_for(api: str, client: Any) -> Any:
    """Return the model behind a client."""
    return client if api == "plain" else KINDS[api](client, "m")


def client_for(api: str, url: str, *, is_async: bool) -> Any:
    """Return the SDK's client, or what stands for it."""
    if api == "plain":
        return PlainModel(url)
    module: Any = import_module("anthropic" if api == "messages" else "openai")
    kind = ("Async" if is_async else "") + ("Anthropic" if api == "messages" else "OpenAI")
    return getattr(module, kind)(api_key="none", base_url=url if api == "messages" else f"{url}/v1", timeout=20)


def settled(registry: ToolRegistry, folder: Path) -> None:
    """Say of each call in doubt what came of it, by looking."""
    effects = (folder / "effects").read_text().split("\n") if (folder / "effects").exists() else []
    with registry.run("r") as run:
        for call in run.in_doubt:
            number = call.arguments["number"]
            if f"post {number}" in effects:
                run.resolve(call.tool_call_id, result=f"posted {number}")
            else:
                run.resolve(call.tool_call_id, rerun=True)


def converse(
    registry: ToolRegistry, folder: Path, api: str, mode: str, url: str, killer: Killer, search: ToolSearch | None
) -> LoopResult:
    """Run the loop to its end, over calls in doubt."""

    def loop(client: Any) -> ToolLoop:
        return ToolLoop(registry.agent("ann"), Model(model_for(api, client), killer), retries=0, tool_search=search)

    async def awaited() -> LoopResult:
        async with AsyncExitStack() as stack:
            client = client_for(api, url, is_async=True)
            if api != "plain":
                await stack.enter_async_context(client)
            if mode == "async":
                return await loop(client).arun("Go.", "r")
            last: Any = None
            async for event in loop(client).astream("Go.", "r"):
                last = event
            return last.result

    while True:
        if mode == "sync":
            with closing(client_for(api, url, is_async=False)) as client:
                result = loop(client).run("Go.", "r")
        else:
            result = asyncio.run(awaited())
        if result.reason is not StopReason.IN_DOUBT:
            return result
        settled(registry, folder)


def main() -> None:
    """Run the loop, and print how it ended."""
    url, folder, api, mode, window, passing, *more = sys.argv[1:]
    killer = Killer(window, int(passing))
    registry = registry_in(Path(folder), killer)
    search = ToolSearch(registry) if more else None
    result = converse(registry, Path(folder), api, mode, url, killer, search)
    print(json.dumps([result.reason, result.text, [one.result for one in result.results]]))
    registry.close()


if __name__ == "__main__":
    main()
