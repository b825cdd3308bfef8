# Tests of: schema/json_input, execution/pipeline, execution/executor
"""Arguments that another thread changes while a call is made: judged, run and recorded is one moment of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
from plugin_rig import Site, loaded, site  # noqa: F401

from praval_tools import Allow, Outcome, ToolCall, ToolRegistry

ACME = """
from praval_tools import hookimpl
log = []
@hookimpl
def praval_tools_after_call(call, tool, result):
    log.append(call.arguments)
"""
"""A plugin that notes the arguments of calls."""


@contextmanager
def changing(rows: dict[str, int]) -> Iterator[None]:
    """Change *rows* in another thread, all the time, and let it run often."""
    is_over, interval = threading.Event(), sys.getswitchinterval()

    def change() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            rows[f"key {number % 50}"] = number
            rows.pop(f"key {(number + 25) % 50}", None)

    thread = threading.Thread(target=change)
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        sys.setswitchinterval(interval)


@contextmanager
def changing_at_each_line(rows: dict[str, int]) -> Iterator[None]:
    """Change *rows* before each line of the package that runs in this thread."""
    numbers = iter(range(1_000_000))

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if "praval_tools" not in frame.f_code.co_filename:
            return None
        rows[f"key {next(numbers)}"] = 1  # another size each time: Python notices that alone
        if len(rows) > 300:
            rows.clear()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def build_registry(options: str) -> tuple[ToolRegistry, list[Any], list[Any]]:
    """Return a registry, what its policy is shown, and what its tool gets."""
    registry, shown, got = ToolRegistry(journal="memory" if "journal" in options else None), list[Any](), list[Any]()

    @registry.tool(shared=True)
    def take(rows: dict[str, Any], more: Any = None) -> int:
        """Take."""
        got.append(dict(rows))
        return 1

    if "policy" in options:
        registry.add_policy(lambda agent, tool, arguments: shown.append(arguments["rows"]))
    return registry, shown, got


WAYS = ["execute", "in a run", "call", "bound", "function", "batch"]


@pytest.mark.parametrize("options", ["", "policy", "journal", "policy, journal"])
@pytest.mark.parametrize("way", WAYS)
def test_one_moment_counts(way: str, options: str) -> None:
    """Broken promise: the call was said to have failed in a tool that had not run, or raised `RuntimeError`."""
    registry, shown, got = build_registry(options)
    rows, toolset = {f"row {number}": number for number in range(1_000)}, registry.toolset("ann")
    call = ToolCall("1", "take", {"rows": rows, "more": {"rows": rows}}, "ann")

    with changing(rows):
        for number in range(8):
            if way == "execute":
                assert Outcome.OK is registry.execute(call).outcome
            elif way == "batch":
                assert [Outcome.OK] == [result.outcome for result in registry.execute_batch([call])]
            elif way == "in a run" and "journal" in options:
                with registry.run(f"run {number}"):
                    assert Outcome.OK is registry.execute(call).outcome
            elif way == "call":
                toolset.call("take", rows=rows)
            elif way == "bound":
                toolset["take"](rows=rows, more={"rows": rows})
            else:
                toolset.functions()[0](rows=rows)

    assert 8 == len(got)
    assert not shown or shown == got


@pytest.mark.parametrize("options", ["", "policy", "journal", "policy, journal"])
@pytest.mark.parametrize("way", WAYS)
def test_no_two_lines_read_what_changes(way: str, options: str) -> None:
    """Broken promise: `RuntimeError` where the arguments changed while what is secret in them was looked for."""
    registry, shown, got = build_registry(options)
    rows, toolset = {f"row {number}": number for number in range(100)}, registry.toolset("ann")
    call = ToolCall("1", "take", {"rows": rows, "more": {"rows": rows}}, "ann")
    make_call: dict[str, Callable[[], object]] = {
        "execute": lambda: registry.execute(call),
        "in a run": lambda: registry.execute(call),
        "call": lambda: toolset.call("take", rows=rows),
        "bound": lambda: toolset["take"](rows=rows, more={"rows": rows}),
        "function": lambda: toolset.functions()[0](rows=rows),
        "batch": lambda: registry.execute_batch([call])[0],
    }

    for number in range(2):  # the second time, what the first one built is there
        run = registry.run(f"run {number}") if way == "in a run" and "journal" in options else nullcontext()
        with run, changing_at_each_line(rows):
            made = make_call[way]()
        assert 1 == getattr(made, "result", made)

    assert 2 == len(got)
    assert not shown or shown == got


def test_an_approver_changes_what_was_edited() -> None:
    """Edits of an approver, too, are those of one moment."""
    registry, _, got = build_registry("journal")
    registry.configure("take", requires_approval=True)
    rows = {f"row {number}": number for number in range(100)}
    result = registry.execute(ToolCall("1", "take", {"rows": {}}, "ann"))
    assert result.approval_id

    with changing_at_each_line(rows):
        registry.approvals.answer(result.approval_id, Allow({"rows": rows}))
    rows.clear()

    assert registry.execute(ToolCall("1", "take", {"rows": {}}, "ann")).success
    assert got[0]


@pytest.mark.parametrize("options", ["", "journal"])
def test_hooks_are_shown_the_same(options: str, site: Site) -> None:
    """Broken promise: hooks were shown what the caller had made of the arguments by then, or the call raised."""
    site.install("acme", ACME)
    registry, _, got = build_registry(options)
    loaded(registry)
    rows = {f"row {number}": number for number in range(1_000)}

    with changing(rows):
        for _ in range(8):
            assert registry.execute(ToolCall("1", "take", {"rows": rows}, "ann")).success

    assert got == [arguments["rows"] for arguments in sys.modules["acme"].log]


@pytest.mark.parametrize("agent", ["ann", "eve"])
def test_refusals_record_one_moment(agent: str) -> None:
    """A refused call is recorded as it was made, and does not raise."""
    registry, _, _ = build_registry("journal")
    registry.block("take", "eve")
    rows = {f"row {number}": number for number in range(1_000)}

    with changing(rows):
        for _ in range(8):
            call = ToolCall("1", "take", {"rows": rows, "wrong": rows}, agent)
            assert registry.execute(call).outcome in (Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN)
