# Tests of: execution/hooks
"""What hooks do to what they are shown changes nothing for anybody else."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hook_rig import HEAD, log
from plugin_rig import Site, site  # noqa: F401
from pydantic import BaseModel

from praval_tools import NotOwnerError, ToolArgumentsError, ToolCall, ToolRegistry, load_plugins


@dataclass
class Plain:
    rows: list[int]


class Model(BaseModel):
    rows: list[int]


VALUES: dict[str, tuple[Callable[[], Any], str]] = {
    "dataclass": (lambda: Plain([1]), "result.result.rows.append(99)"),
    "model": (lambda: Model(rows=[1]), "result.result.rows.append(99)"),
    "ordered": (lambda: OrderedDict(rows=[1]), "result.result['rows'].append(99)"),
    "deque": (lambda: deque([[1]]), "result.result[0].append(99)"),
    "tuple": (lambda: ([1],), "result.result[0].append(99)"),
    "inside": (lambda: {"rows": [Plain([1])]}, "result.result['rows'][0].rows.append(99)"),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_hook_changes_a_result(site: Site, name: str) -> None:
    """Broken promise: hooks take note and change nothing; they were shown the objects themselves."""
    make, change = VALUES[name]
    registry = ToolRegistry()
    registry.tool("get", shared=True)(annotate(make))
    site.install("acme", HEAD + f"@hookimpl\ndef praval_tools_after_call(result):\n    {change}\n    log.append(1)\n")
    load_plugins(registry)

    for run in (
        lambda: registry.execute(ToolCall("1", "get", {}, "ann")).result,
        lambda: registry.agent("ann").call("get"),
    ):
        assert make() == run()
    assert [1, 1] == log()


def annotate(function: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function with hints and a docstring."""

    def get() -> Any:
        """Get."""
        return function()

    return get


def test_what_cannot_be_copied_is_named(site: Site) -> None:
    """A value whose class refuses to be copied is shown as a text; its code runs in nobody's name."""
    registry, denied = ToolRegistry(), []

    class Refuses:
        def __deepcopy__(self, memo: object) -> object:
            try:
                registry.grant("get", "eve")
            except NotOwnerError as error:
                denied.append(error)
            raise ValueError("no copies")

    @registry.tool(owned_by="ann")
    def get() -> Any:
        """Get."""
        return {"one": Refuses(), "two": 2}

    site.install("acme", HEAD + "@hookimpl\ndef praval_tools_after_call(result):\n    log.append(result.result)\n")
    load_plugins(registry)

    assert isinstance(registry.execute(ToolCall("1", "get", {}, "ann")).result["one"], Refuses)
    (shown,) = log()
    assert "cannot be copied" in shown["one"] and 2 == shown["two"] and denied


def test_what_is_copied_calls_for_nobody(site: Site) -> None:
    """The code of a value that is copied makes no calls, neither as an agent nor without those that it acts for."""
    registry, denied = ToolRegistry(), []

    @registry.tool(owned_by="eve")
    def pay() -> str:
        """Pay."""
        return "paid"

    class Calls:
        def __deepcopy__(self, memo: object) -> object:
            try:
                return registry.agent("eve").call("pay")
            except NotOwnerError as error:
                denied.append(error)
                return "none"

    @registry.tool(shared=True)
    def get() -> Any:
        """Get."""
        return Calls()

    site.install("acme", HEAD + "@hookimpl\ndef praval_tools_after_call(result):\n    log.append(result.result)\n")
    load_plugins(registry)
    registry.agent("ann").delegate("eve").call("get")

    assert ["none"] == log() and denied


def test_no_hook_changes_arguments(site: Site) -> None:
    """What a hook does to the call that it is shown does not reach the tool."""
    registry = ToolRegistry()

    @registry.tool(shared=True)
    def count(rows: list[list[int]]) -> int:
        """Count."""
        return len(rows[0])

    body = "    call.arguments['rows'][0].append(99)\n    log.append(1)\n"
    site.install("acme", HEAD + f"@hookimpl\ndef praval_tools_before_call(call):\n{body}")
    load_plugins(registry)
    sent: dict[str, Any] = {"rows": ([1],)}

    assert 1 == registry.execute(ToolCall("1", "count", sent, "ann")).result
    assert ([1],) == sent["rows"] and [1] == log()


def test_no_hook_has_the_exception_of_a_tool(site: Site) -> None:
    """Broken promise: what a tool raised is for the host program alone; hooks were shown it, and could change it."""
    registry = ToolRegistry()

    @registry.tool(shared=True)
    def fail(x: int) -> int:
        """Fail."""
        raise ValueError("no such row")

    body = "    log.append((result.exception, result.error_type, result.error))\n"
    site.install("acme", HEAD + f"@hookimpl\ndef praval_tools_after_call(result):\n{body}")
    load_plugins(registry)
    results = [registry.execute(ToolCall("1", "fail", {"x": x}, "ann")) for x in (1, "one")]

    assert [ValueError, ToolArgumentsError] == [type(result.exception) for result in results]
    assert [(None, result.error_type, result.error) for result in results] == log()


def test_a_value_that_shares_its_parts_is_copied_once(site: Site) -> None:
    """Copies cost time in proportion to the value, also of tuples whose members are one object."""
    registry = ToolRegistry()

    @registry.tool(shared=True)
    def get() -> Any:
        """Get."""
        value: tuple[Any, ...] = ([1],)
        for _ in range(50):
            value = (value, value)
        return value

    body = "    value = result.result\n    log.append(value[0] is value[1])\n"
    site.install("acme", HEAD + f"@hookimpl\ndef praval_tools_after_call(result):\n{body}")
    load_plugins(registry)
    registry.execute(ToolCall("1", "get", {}, "ann"))

    assert [True] == log()
