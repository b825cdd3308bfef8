"""The demo's registry on its own, for those who want to look at it."""

from __future__ import annotations

from praval_tools import ToolRegistry
from praval_tools.demo.agents import lend_rows, open_house
from praval_tools.demo.question import flights
from praval_tools.demo.tools import declare_fair_comparison


def registry() -> ToolRegistry:
    """Return a new registry with the demo's tools and agents, all tools declared and the raw rows lent."""
    house = open_house(flights())
    declare_fair_comparison(house.registry, house.desk)
    lend_rows(house.registry, by="librarian")
    return house.registry
