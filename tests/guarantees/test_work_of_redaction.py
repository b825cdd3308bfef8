"""Hiding secrets costs work in proportion to what is searched."""

# Tests of: journal/redactor

from __future__ import annotations

import pytest
from work_counter import count_steps

from praval_tools import ToolCall, ToolRegistry


@pytest.mark.parametrize("agent", ["clerk", "stranger"])
@pytest.mark.parametrize("kind", ["words", "text"])
def test_of_many_words_of_one_argument(agent: str, kind: str) -> None:
    """Broken promise: 4,000 words of a parameter named `tokens` took 29 seconds, also in calls that are refused."""

    def count(number: int) -> int:
        tokens = [f"word-{index}" for index in range(number)]
        with ToolRegistry(journal="memory") as registry:

            @registry.tool(owned_by="clerk")
            def note(tokens: list[str] | str, text: str) -> str:
                """Note."""
                return text

            given = {"tokens": tokens if kind == "words" else " ".join(tokens), "text": " ".join(tokens)}
            registry.execute(ToolCall("0", "note", {"tokens": "a", "text": "b"}, agent))
            return count_steps(lambda: registry.execute(ToolCall("1", "note", given, agent)))

    assert count(2_000) < 6 * count(500)
