"""Loops that are killed with SIGKILL go on: no effect happens twice, and no recorded reply is asked for again."""

# Tests of: runs/model_log, tool_search

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import loop_driver
import pytest
from format_rig import sdk
from loop_driver import WINDOWS
from model_server import ModelServer

SCRIPT = [
    {"text": "First two.", "calls": [("post", {"number": 1}, "a"), ("pay", {"number": 2}, "b")]},
    {"calls": [("post", {"number": 3}, "a")]},
    {"text": "All done."},
]
ONCE_MORE = {"reply to its record", "answer to its record"}
"""Windows in which a reply has come and is not recorded: that one request is sent again."""
MANY = os.environ.get("HYPOTHESIS_PROFILE") in ("ci", "fuzz")
SCENARIOS = [
    (api, mode, window, passing)
    for api, mode in (("plain", "sync"), ("plain", "astream"))
    for window in WINDOWS
    for passing in ((1,) if "answer" in window else (1, 2) if MANY else (2 if mode == "sync" else 1,))
] + [("chat", "sync", WINDOWS[3], 2), ("responses", "async", WINDOWS[4], 1), ("messages", "astream", WINDOWS[2], 2)]
"""Every window with a program of few imports, and each SDK once."""


def step_of(body: Any) -> int:
    """Return which request of the conversation it is, by the replies that it holds."""
    items = body.get("messages") or body["input"]
    said = [one for one in items if one.get("role") == "assistant" and "type" not in one]
    said += [one for one in items if one.get("type") == "reasoning"]
    return len(said)


def reply_to(body: Any) -> Any:
    """Return the reply to a request, the same each time that it is sent."""
    return SCRIPT[step_of(body)]


def life(server: ModelServer, folder: Path, *how: object) -> subprocess.CompletedProcess[str]:
    """Let a driver live, to its end or until it kills itself."""
    command = [sys.executable, loop_driver.__file__, server.url, str(folder), *map(str, how)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ})


@pytest.mark.parametrize(("api", "mode", "window", "passing"), SCENARIOS)
def test_a_killed_loop_goes_on(api: str, mode: str, window: str, passing: int, tmp_path: Path) -> None:
    """
    Killed in each window, once and for the second time, a loop ends as one that was never killed.

    Each effect is there once, the one with a key once for its key; a request is sent again only where its reply
    had not been recorded.
    """
    if api != "plain":
        sdk("anthropic" if api == "messages" else "openai")
    with ModelServer([reply_to] * 20) as server:
        killed = life(server, tmp_path, api, mode, window, passing)
        after = len(server.requests)
        done = life(server, tmp_path, api, mode, "never", 0)
        asked = Counter(map(step_of, server.requests))

    assert -signal.SIGKILL == killed.returncode, killed.stderr
    assert 0 == done.returncode, done.stderr
    assert ["answer", "All done.", ["posted 1", "paid 2", "posted 3"]] == json.loads(done.stdout)
    effects = (tmp_path / "effects").read_text().split("\n")[:-1]
    assert ["post 1", "post 3"] == sorted(one for one in effects if one.startswith("post"))
    paid = {one for one in effects if one.startswith("pay")}
    assert 1 == len(paid)
    assert {0: 1, 1: 1, 2: 1} == dict.fromkeys(asked, 1)
    assert len(SCRIPT) + (window in ONCE_MORE) == sum(asked.values()), (after, asked)


SEARCHING = [
    {"calls": [("search_tools", {"query": "post"}, "a")]},
    {"calls": [("post", {"number": 1}, "b")]},
    {"text": "All done."},
]
RECORDED_SEARCHES = [
    ("sync", "result to the next request", 1), ("sync", "record to calls", 2),
    ("sync", "before the effect", 1), ("astream", "effect to record", 2), ("astream", "before a request", 3),
    ("astream", "after the answer", 1),
]  # fmt: skip
"""The ways to run, and the windows that come once the search is recorded."""


@pytest.mark.parametrize(("mode", "window", "passing"), RECORDED_SEARCHES)
def test_a_killed_loop_sends_what_it_found(mode: str, window: str, passing: int, tmp_path: Path) -> None:
    """
    Killed once a search is recorded, a loop goes on with the tools that it found.

    It searches no second time, though a search would find another tool by now, and has no effect twice.
    """
    with ModelServer([lambda body: SEARCHING[step_of(body)]] * 20) as server:
        killed = life(server, tmp_path, "plain", mode, window, passing, "search")
        done = life(server, tmp_path, "plain", mode, "never", 0, "search")
        sent = {(step_of(body), *(tool["function"]["name"] for tool in body["tools"])) for body in server.requests}
        tools = {json.dumps([body["tools"], step_of(body) == 0]) for body in server.requests}

    assert -signal.SIGKILL == killed.returncode, killed.stderr
    assert 0 == done.returncode, done.stderr
    reason, text, (found, posted) = json.loads(done.stdout)
    assert ("answer", "All done.", ["post"], "posted 1") == (reason, text, [one["name"] for one in found], posted)
    assert {(0, "search_tools"), (1, "search_tools", "post"), (2, "search_tools", "post")} == sent
    assert 2 == len(tools), "a tool's definition differs"
    assert "post\n" == (tmp_path / "searches").read_text()
    assert "post 1\n" == (tmp_path / "effects").read_text()
