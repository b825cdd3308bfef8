"""Hiding secrets costs work in proportion to what is searched."""

# Tests of: journal/redactor, schema/written_secrets

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from work_counter import count_steps

from praval_tools import Secret, ToolCall, ToolRegistry
from praval_tools.schema.written_secrets import read_written_secrets


@dataclass(frozen=True)
class Account:
    """Marks a field."""

    owner: int
    pin: Annotated[str, Secret]


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


@pytest.mark.parametrize("is_marked", [False, True])
def test_of_sets_in_sets(*, is_marked: bool) -> None:
    """Broken promise: a set of 40 sets of 40 items took minutes, each item beside all that was written."""

    def write(item: object) -> object:
        return {"owner": item.owner, "pin": f"pin-{item.owner}"} if isinstance(item, Account) else item

    def count(size: int) -> int:
        inner = [
            [Account(number, f"pin-{number}") if is_marked else number for number in range(start, start + size)]
            for start in range(0, size * size, size)
        ]
        value, written = frozenset(map(frozenset, inner)), [[write(item) for item in items] for items in inner]
        found: list[object] = []
        steps = count_steps(lambda: found.extend(read_written_secrets(value, written)))
        assert all(f"'pin-{number}'" in str(found) for number in range(size * size)) is is_marked
        return steps

    assert count(40) < 10 * count(14)
