"""Schemas that are supplied with tools are checked before they are used, whatever is in them."""

from __future__ import annotations

from typing import Any

import pytest

from praval_tools.schema.supplied_schema import check_supplied_schema


def make_chain(length: int) -> dict[str, Any]:
    """Return a schema whose references lead on, one into the other."""
    chain = {f"S{number}": {"items": {"$ref": f"#/$defs/S{number + 1}"}} for number in range(length)}
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/S0"}}, "$defs": {**chain, f"S{length}": {}}}


class TestReferences:
    @pytest.mark.parametrize(
        ("length", "problems"),
        [(50, ()), (5_000, ("parameters: its references lead too deep into each other",))],
    )
    def test_chains_are_bounded(self, length: int, problems: tuple[str, ...]) -> None:
        """A chain of references that is too long is a problem like any other."""
        assert problems == check_supplied_schema(make_chain(length))[1]
