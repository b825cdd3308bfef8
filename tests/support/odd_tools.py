"""Functions that report, raise and send what no hint allows, for every engine; beside those of `engine_tools`."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from praval_tools import ToolArgumentsError, ToolCall, ToolContext, current_agent
from praval_tools.errors import Problem
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model
from praval_tools.tools.frames import get_current_actor

HALF = "caf\udce9"
"""A text with half of a surrogate pair, which UTF-8 cannot carry, as names of files have it."""

REPORTED: dict[str, Any] = {
    "decimal": Decimal("0.5"), "text": "1", "word": "half", "nan": float("nan"), "infinity": float("-inf"),
    "large": 2**70, "flag": True, "none": None, "error": ValueError("x"), "path": Path("a/b"), "half": HALF,
}  # fmt: skip
"""What a tool may report, though no hint allows it."""


class NotedField:
    """A field that notes in the file of its object whose code reads it."""

    def __get__(self, instance: Any, owner: type) -> float:
        if instance is not None:
            with open(instance.path, "a") as file:
                file.write(f"{get_current_actor()}\n")
        return 1.0

    def __set__(self, instance: object, value: float) -> None:
        pass


@dataclass
class Noted:
    """Notes in a file whose code reads its field."""

    path: str
    value: float = NotedField()  # type: ignore[assignment]  # its `__get__` gives a number


class OwnText(str):
    """A text of a class of its own."""


class Unnamed(type):
    """Makes classes that raise whatever somebody asks them for their module."""

    @property
    def __module__(cls) -> str:  # type: ignore[override]
        raise UnnamedError("no module")


class UnnamedError(Exception, metaclass=Unnamed):
    pass


def report_any(context: ToolContext, place: str, kind: str, path: str = "") -> int:
    """Leave a mark, and report a value somewhere."""
    with open(path, "a") as file:
        file.write("x")
    marks = os.stat(path).st_size
    value = Noted(path) if kind == "object" else REPORTED[kind]
    if place == "text":
        context.log(value)
    else:
        context.progress(**{"done": 1, place: value})
    return marks


def fail_by_half() -> None:
    """Fail with a text that UTF-8 cannot carry."""
    raise FileNotFoundError(2, f"no {HALF}", HALF)


def fail_by_own_text() -> None:
    """Fail with a text of a class of its own."""
    raise type("OwnError", (ValueError,), {"__str__": lambda self: OwnText("own")})


def fail_by_own_class() -> None:
    """Fail with an error whose class has code of its own, and whose attributes are not only texts."""
    error = UnnamedError("own")
    error.__dict__[5] = OwnText("five")  # type: ignore[index]
    raise error


def fail_by_problem(kind: str, path: str) -> None:
    """Fail with a problem whose fields hold anything."""
    given: Any = {"number": 5, "half": HALF, "error": ValueError("no"), "object": Noted(path), "none": None}[kind]
    raise ToolArgumentsError("wrong", [Problem(path="$", reason=given, given=given)])


def catch_odd(kind: str) -> list[str]:
    """Call a tool with what cannot be written somewhere, and tell what it raises."""
    try:
        if kind == "argument":
            current_agent().call("echo", value=[HALF])
        else:
            current_agent().call(HALF if kind == "name" else kind)
    except Exception as error:
        return [type(error).__name__, ascii(str(error)), ascii(getattr(error, "filename", None))]
    return []


def call_as_nobody(context: ToolContext, path: str, agent: str | None, chain: list[str]) -> list[str]:
    """Make a call of `note` that names nobody, or leaves out on whose behalf it is made."""
    result = context.registry.execute(ToolCall("inner", "note", {"path": path}, agent, on_behalf_of=tuple(chain)))
    return [str(result.outcome), str(result.error)]


def run_loop(path: str) -> list[str]:
    """Run a loop that does not offer `note`, and whose model calls it."""
    ended = ToolLoop(current_agent(), fake_model(("note", {"path": path}), "done"), tags=["other"]).run("go")
    return [str(ended.results[0].outcome), str(ended.results[0].error)]


def cancel_itself_now() -> None:
    """Raise what the result of a cancelled task raises, in sync code."""
    raise asyncio.CancelledError
