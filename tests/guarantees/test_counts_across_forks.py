"""A grant of so many calls is that many, also over processes that were forked."""

# Tests of: access/grants, journal/journal

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from praval_tools import ToolCall, ToolRegistry

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def count_in_child(registry: ToolRegistry, start_pipe: int) -> int:
    """Fork a child that makes 20 calls once a byte is in the pipe; its exit code is how many ran. Return its id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the journal beside a fork, from 3.12 on
        child = os.fork()
    if child:
        return child
    code = 255
    try:
        os.read(start_pipe, 1)
        calls = [registry.execute(ToolCall(f"{os.getpid()}-{index}", "note", {}, "bob")) for index in range(20)]
        code = [call.outcome.value for call in calls].count("ok")
        registry.close()
    finally:
        os._exit(code)


def test_children_and_parent_share_one_count(tmp_path: Path) -> None:
    """Four children and their parent call at once; 25 calls run, and 75 are refused."""
    with ToolRegistry(journal=tmp_path / "runs.db") as registry:

        @registry.tool(owned_by="clerk")
        def note() -> str:
            """Note."""
            return "noted"

        registry.grant("note", "bob", max_calls=25)
        reading, writing = os.pipe()
        children = [count_in_child(registry, reading) for _ in range(4)]
        os.close(reading)
        for _ in children:
            os.write(writing, b"x")
        own = [registry.execute(ToolCall(str(index), "note", {}, "bob")).outcome.value for index in range(20)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        os.close(writing)

        assert 25 == own.count("ok") + sum(codes), (own, codes)
        assert not registry.explain("bob", "note").allowed
