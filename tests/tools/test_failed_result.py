"""A result that a program makes itself, with an error and nothing else, is a failure everywhere."""

# Tests of: call

from __future__ import annotations

import json
from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolResult
from praval_tools.formats import FORMATS, result_message
from praval_tools.loop import ModelReply, ToolLoop
from praval_tools.testing import fake_model


def test_its_outcome_is_a_tool_error() -> None:
    """
    `ToolResult(…, error="x")` is a failure.

    The promise was broken: it counted as one, and the model read `null`.
    """
    result = ToolResult("1", "pay", error="no money")

    assert (False, Outcome.TOOL_ERROR, "no money") == (result.success, result.outcome, result.for_model())
    assert Outcome.TIMEOUT is ToolResult("1", "pay", outcome=Outcome.TIMEOUT, error="late").outcome
    assert ToolResult("1", "pay", result=3).success


@pytest.mark.parametrize("api_format", FORMATS)
def test_the_error_reaches_the_model_in_every_format(api_format: str) -> None:
    """Each format writes the error, and marks it as one where it can."""
    message: Any = result_message(api_format, ToolResult("1", "pay", error="no money"))

    assert "no money" in json.dumps(message)
    assert "null" not in json.dumps(message)
    if api_format in ("anthropic", "mcp"):
        assert message["is_error" if api_format == "anthropic" else "isError"] is True


def test_replies_of_a_model_stay_as_they_are(tool_registry: Any) -> None:
    """Results of the package itself are what they were."""

    @tool_registry.tool("pay", shared=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    model = fake_model(ModelReply(calls=(ToolCall("1", "pay"),)), "Done.")
    assert [Outcome.OK] == [one.outcome for one in ToolLoop(tool_registry.agent("ann"), model).run("Go.").results]
