"""Whichever engine runs a tool: what it reports or raises stops no call, has no rights, and arrives as it was said."""

# Tests of: execution/messages, tools/reports

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
from engine_rig import Home, file, home  # noqa: F401
from odd_tools import HALF, REPORTED

from praval_tools import Outcome, ToolArgumentsError, ToolLog, ToolProgress, ToolResult
from praval_tools.execution.engines.messages import FunctionEnded, read_message, write_message

PLACES = ("done", "total", "message", "text")
"""Where a report may hold a value."""


def execute_and_hear(home: Home, name: str, **arguments: Any) -> tuple[ToolResult, list[Any]]:
    """Run a call of ann's; return its result, and what was reported."""
    heard: list[Any] = []
    end = home.registry.subscribe(heard.append)
    result = home.execute(name, **arguments)
    end()
    return result, [one for one in heard if isinstance(one, ToolProgress | ToolLog)]


def simplify(value: Any) -> Any:
    """Return a value so that the same numbers are equal."""
    if isinstance(value, int | float):
        return "nan" if math.isnan(value) else float(value)
    return value


class TestReports:
    @pytest.mark.parametrize("kind", REPORTED)
    def test_of_any_type_stop_no_call(self, home: Home, file: Path, kind: str) -> None:
        """
        Broken promise: the result of a call that has done its work is there, whatever it reported.

        Processes and workers lost it where a report was no plain number or text, and where JSON has no such number.
        """
        made: dict[str, Any] = {"tool": "t", "agent": "a", "tool_call_id": "c"}
        for marks, place in enumerate(PLACES, 1):
            result, reports = execute_and_hear(home, "report_any", place=place, kind=kind, path=str(file))
            assert (Outcome.OK, marks) == (result.outcome, result.result), place
            values = {"done": 1, place: REPORTED[kind]} | made
            expected = ToolLog(text=REPORTED[kind], **made) if place == "text" else ToolProgress(**values)
            assert [simplify(getattr(expected, place))] == [simplify(getattr(report, place)) for report in reports]

    @pytest.mark.parametrize("place", PLACES)
    def test_have_no_rights(self, home: Home, file: Path, place: str) -> None:
        """
        Broken promise: code of an agent makes no change in the name of the operator, whatever it reports.

        A worker wrote what was reported as the operator, which ran properties of the tool's own classes.
        """
        result, reports = execute_and_hear(home, "report_any", place=place, kind="object", path=str(file))
        assert (Outcome.OK, 1) == (result.outcome, len(reports))
        assert "operator" not in file.read_text()


class TestProblems:
    @pytest.mark.parametrize("kind", ["number", "half", "error", "object", "none"])
    def test_with_fields_of_any_type(self, home: Home, file: Path, kind: str) -> None:
        """Broken promise: the same for the problems of a `ToolArgumentsError` that a tool raises."""
        result = home.execute("fail_by_problem", kind=kind, path=str(file))
        assert (Outcome.TOOL_ERROR, "ToolArgumentsError") == (result.outcome, result.error_type)
        assert isinstance(result.exception, ToolArgumentsError)
        (problem,) = result.exception.problems
        assert "$" == problem.path
        assert "operator" not in file.read_text()


class TestTexts:
    """Half of a surrogate pair, which UTF-8 cannot carry, is in names of files, and in what models send."""

    def test_of_errors(self, home: Home) -> None:
        """An error says the same, and its file can be opened."""
        result = home.execute("fail_by_half")
        assert (Outcome.TOOL_ERROR, HALF) == (result.outcome, getattr(result.exception, "filename", None))
        assert f"no {HALF}" in str(result.error)

    @pytest.mark.parametrize(
        ("kind", "error", "text"),
        [
            ("fail_by_half", "ToolExecutionError", "no caf\\udce9"),
            ("fail_by_own_class", "ToolExecutionError", "own"),
            ("argument", "ToolArgumentsError", "$.value[0]: holds half of a surrogate pair"),
            ("name", "UnknownToolCallError", "not found"),
        ],
    )
    def test_of_calls_from_inside(self, home: Home, kind: str, error: str, text: str) -> None:
        """
        Broken promise: nothing hangs.

        A tool in a process waited for ever where the answer to its call could not be written, and its own requests
        could not be sent.
        """
        result = home.execute("catch_odd", kind=kind)
        assert (Outcome.OK, error) == (result.outcome, result.result[0])
        assert text in result.result[1]
        assert kind != "fail_by_half" or ascii(HALF) == result.result[2]

    def test_of_a_class_of_the_tool(self, home: Home) -> None:
        """The text of an error is plain, whatever class it has where it was raised."""
        result = home.execute("fail_by_own_text")
        assert (Outcome.TOOL_ERROR, "own", str) == (result.outcome, result.error, type(result.error))


@pytest.mark.parametrize("texts", [["plain"], ["\ud800"]], ids=["plain", "half of a pair"])
def test_messages_that_are_nested_too_deeply(texts: list[Any]) -> None:
    """They are refused like whatever cannot be sent, so that the other end is answered."""
    for _ in range(100_000):
        texts = [texts]
    with pytest.raises(ValueError, match="it is nested too deeply"):
        write_message(FunctionEnded(1, texts))


def test_texts_that_are_nested_too_deeply() -> None:
    """They are no valid messages, like any other text that is none."""
    text = b'{"number":1,"value":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(ValueError, match="it is nested too deeply"):
        read_message(text, msgspec.json.Decoder(FunctionEnded))
