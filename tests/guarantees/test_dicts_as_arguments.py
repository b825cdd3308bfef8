"""The names of a dict that is passed on as all arguments, or is an approver's answer, run no code as the operator."""

# Tests of: tools/argument_copies, schema/codegen, execution/approvals

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from plugin_rig import Site, loaded, site  # noqa: F401
from watchers import Odd, actors, make_watcher

from praval_tools import Allow, Outcome, ToolCall, ToolDefinition, ToolRegistry

PLUGIN = """
from praval_tools import hookimpl
@hookimpl
def praval_tools_after_call(call, tool, result):
    pass
"""


Word = make_watcher(str)
Name = make_watcher(str, ("__eq__",))
Name.__hash__ = str.__hash__


WAYS = ("execute", "aexecute", "batch", "in a run", "bounds", "approval", "extra", "hook", "supplied", "by nobody")
KEYS = {"name": Name("x"), "word": Word("x"), "object": Odd("x")}


def save(x: int, y: Any = None) -> int:
    """Save."""
    return x


def save_more(x: int, **more: Any) -> int:
    """Save more."""
    return x


def make_registry(journal: str | None, way: str) -> ToolRegistry:
    """Return a registry in which `mal` may call `save` in this way."""
    registry = ToolRegistry(journal=journal)
    if way == "supplied":
        schema = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {}}, "required": ["x"]}
        registry.register("save", save, ToolDefinition("save", "Save.", schema))
        registry.share_tool("save")
    else:
        function = save_more if way == "extra" else save
        registry.tool("save", shared=way != "bounds", owned_by="ann", requires_approval=way == "approval")(function)
    registry.set_approval_handler(lambda request: Allow())
    if way == "bounds":
        registry.grant("save", "mal", where={"x": {"maximum": 5}})
    return registry


@pytest.mark.parametrize(
    ("journal", "way"), [(journal, way) for journal in (None, "memory") for way in WAYS if journal or way != "in a run"]
)
@pytest.mark.parametrize("more", [{}, {"y": 2}, {"y": [1]}], ids=["alone", "number", "list"])
@pytest.mark.parametrize("key", KEYS)
def test_dicts_that_are_passed_on(journal: str | None, key: str, more: Any, way: str, site: Site) -> None:
    """Their keys never run their code as the operator; those that are not texts make the arguments invalid."""
    with make_registry(journal, way) as registry:
        if way == "hook":
            site.install("acme", PLUGIN)
            loaded(registry)
        found = {KEYS[key]: 1, **more}
        call = ToolCall("1", "save", found, "mal")
        actors.clear()
        with registry.run("R") if way == "in a run" else nullcontext():
            if way == "aexecute":
                result = asyncio.run(registry.aexecute(call))
            elif way == "batch":
                result = registry.execute_batch([call, ToolCall("2", "save", found, "mal")])[1]
            elif way == "by nobody":
                result = registry.execute("1", "save", found)
            else:
                result = registry.execute(call)
        assert "operator" not in actors
        assert result.outcome is (Outcome.INVALID_ARGUMENTS if key == "object" else Outcome.OK)


@pytest.mark.parametrize("place", ["names", "inside"])
@pytest.mark.parametrize("key", KEYS)
def test_dicts_that_an_approver_answers_with(key: str, place: str) -> None:
    """Broken promise: keys inside of what an approver wrote were hashed as the operator."""
    edited: Any = {KEYS[key]: 1, "y": [1]} if place == "names" else {"x": 1, "y": {KEYS[key]: [1]}}
    with make_registry(None, "approval") as registry:
        registry.set_approval_handler(lambda request: Allow(edited))
        actors.clear()
        result = registry.execute(ToolCall("1", "save", {"x": 2}, "mal"))

    assert "operator" not in actors
    is_plain = key != "object" and place == "names"
    assert result.outcome is (Outcome.OK if is_plain else Outcome.INVALID_ARGUMENTS)


class Failing:
    """An object that is hashed once."""

    def __init__(self) -> None:
        self.is_hashed = False

    def __hash__(self) -> int:
        if self.is_hashed:
            raise OSError("no hash")
        self.is_hashed = True
        return 1


def test_answers_that_cannot_be_read_are_denials() -> None:
    """Broken promise: `execute` returns a result. What a key of an answer raised was raised by the call."""
    with make_registry(None, "approval") as registry:
        registry.set_approval_handler(lambda request: Allow({"x": 1, "y": {Failing(): [1]}}))
        result = registry.execute(ToolCall("1", "save", {"x": 2}, "mal"))

    assert result.outcome is Outcome.APPROVAL_DENIED
    assert "cannot be read (no hash)" in str(result.error)


class Unequal(str):
    """A text that equals no other."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return False


@pytest.mark.parametrize("found", [{Unequal("x"): 1, "x": 2}, {"x": 1, Unequal("x"): 2}], ids=["before", "after"])
def test_two_keys_of_one_text(found: Any) -> None:
    """Nobody can say which one is meant, so that the arguments are invalid."""
    with make_registry(None, "execute") as registry:
        result = registry.execute(ToolCall("1", "save", found, "mal"))
    assert result.outcome is Outcome.INVALID_ARGUMENTS
    assert "which is not text" in str(result.error)
