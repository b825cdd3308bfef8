"""What is of a wrong type is refused with an error that says so."""

# Tests of: registry/catalogue, access/grants, access/queries

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from praval_tools import ToolRegistry, ToolUsageError


class Pair(NamedTuple):
    """A record without a name."""

    x: int


WRONG: Any = [object(), 5, Pair(1), None]


@pytest.mark.parametrize("value", WRONG)
def test_of_a_grant(value: Any) -> None:
    """An error named an attribute that the value lacks."""
    registry = ToolRegistry()
    with pytest.raises(ToolUsageError, match="neither a grant nor the id of one"):
        registry.revoke(value)
    with pytest.raises(ToolUsageError, match="neither a grant nor the id of one"):
        registry.uses_left(value)


@pytest.mark.parametrize("value", WRONG[:-1])
def test_of_a_part_of_a_name(value: Any) -> None:
    """An error named an attribute that the value lacks."""
    with pytest.raises(ToolUsageError, match="name_pattern=.* is not a text"):
        ToolRegistry().search_tools(name_pattern=value)


@pytest.mark.parametrize("value", [*WRONG, "pay"])
def test_of_a_tool_of_a_source(value: Any) -> None:
    """An error named an attribute that the value lacks; it is that of `register_tool`."""
    with pytest.raises(TypeError, match="Expected Tool object"):
        ToolRegistry().replace_source("acme", [value])
