"""Secrets that a model puts in the wrong place are hidden as those in the right one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from praval_tools import Outcome, Secret, ToolCall, ToolRegistry

SECRET = "kT7#vQ2/xW9+zR"
MISPLACED: list[Any] = [
    [SECRET], (SECRET,), {SECRET}, [["password", SECRET]], json.dumps([SECRET]), json.dumps(SECRET), SECRET,
    f'["{SECRET}"', SECRET.encode(), b"\xff " + SECRET.encode(), bytearray(json.dumps(SECRET).encode()),
    {"passwort": SECRET}, {"input": SECRET}, {"args": [SECRET]}, {"kwargs": {"deep": [SECRET]}}, {1: SECRET},
    {None: SECRET}, json.dumps({"q": {"r": SECRET}}),
]  # fmt: skip


def login_marked(user: str, pin: Annotated[str, Secret]) -> str:
    """Log in."""
    return user


def login_named(user: str, password: str) -> str:
    """Log in."""
    return user


def login_several(user: str, credentials: dict[str, str]) -> str:
    """Log in."""
    return user


@pytest.fixture(params=[login_marked, login_named, login_several])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry with a journal, and a tool that takes a secret by its mark, or by its name."""
    registry = ToolRegistry(journal="memory")
    function: Callable[..., str] = request.param
    registry.tool("login", owned_by="ann")(function)
    return registry


def read_store(registry: ToolRegistry) -> str:
    """Return all that was written down."""
    assert registry.journal is not None
    return "\n".join(str(record.body) for record in registry.journal.read_records())


@pytest.mark.parametrize("agent", ["ann", "eve"])
@pytest.mark.parametrize("arguments", MISPLACED, ids=repr)
def test_are_hidden(registry: ToolRegistry, arguments: Any, agent: str) -> None:
    """Broken promise: only the tools' marks hid what has the wrong place, not the names of their parameters."""
    result = registry.execute(ToolCall("1", "login", arguments, agent))

    assert result.outcome in (Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN)
    assert SECRET not in read_store(registry)


def test_what_has_its_place_is_shown(registry: ToolRegistry) -> None:
    """The other arguments of such a call are readable."""
    registry.execute(ToolCall("1", "login", {"user": "bob", "pass": SECRET}, "ann"))

    assert "bob" in read_store(registry)


def test_amounts_are_no_secrets() -> None:
    """A number such as `max_tokens` hides nothing of the call."""
    registry = ToolRegistry(journal="memory")

    @registry.tool("ask", owned_by="ann")
    def ask(prompt: str, max_tokens: int = 5) -> str:
        """Ask."""
        return prompt

    registry.execute(ToolCall("1", "ask", {"promt": "hello"}, "ann"))

    assert "hello" in read_store(registry)
