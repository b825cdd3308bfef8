# Tests of: schema/hint_keys
"""Hints share what was made of them only where the same is read of them, however their metadata write themselves."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Union

import annotated_types
import pytest

from praval_tools import Secret, ToolCall, ToolRegistry
from praval_tools.schema.hint_keys import make_hint_key


class Limit(annotated_types.Gt):
    """A limit that does not write its number."""

    __module__ = "annotated_types"

    def __repr__(self) -> str:
        return "Limit()"


class Number(int):
    """A number that does not write itself."""

    def __repr__(self) -> str:
        return "Number()"


PAIRS = [
    (Annotated[int, Limit(1)], Annotated[int, Limit(100)]),
    (Annotated[int, annotated_types.Gt(Number(1))], Annotated[int, annotated_types.Gt(Number(100))]),
    (list[Annotated[int, Limit(1)]], list[Annotated[int, Limit(100)]]),
    (Annotated[int, Limit(1)], Annotated[int, Limit(1), Secret]),
    (Annotated[str, re.compile("a" * 300 + "b")], Annotated[str, re.compile("a" * 300 + "c")]),
    (Literal[1], Literal[True]),
    (Union[int, str], Union[str, int]),  # noqa: UP007
]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids=range(len(PAIRS)))
def test_other_hints_have_other_keys(first: Any, second: Any) -> None:
    assert make_hint_key(first) != make_hint_key(second)


@pytest.mark.parametrize("hint", [hint for pair in PAIRS for hint in pair], ids=range(2 * len(PAIRS)))
def test_a_key_can_be_looked_up(hint: Any) -> None:
    assert {make_hint_key(hint): 1}[make_hint_key(hint)]


@pytest.mark.parametrize("kind", [Limit, lambda number: annotated_types.Gt(Number(number))], ids=["limit", "number"])
def test_each_parameter_is_checked_by_its_own_limit(kind: Any) -> None:
    """Broken promise: the second parameter was checked by the limit of the first, as both are written alike."""
    registry = ToolRegistry()

    def order(count: Any, cents: Any) -> None:
        """Order."""

    order.__annotations__ |= {"count": Annotated[int, kind(1)], "cents": Annotated[int, kind(100)]}
    registry.tool("order", owned_by="ann")(order)
    outcomes = [
        registry.execute(ToolCall("1", "order", {"count": 50, "cents": cents}, "ann")).outcome for cents in (500, 50)
    ]
    assert ["ok", "invalid_arguments"] == outcomes
