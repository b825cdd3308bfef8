"""The demo's registry on its own, for those who want to look at it."""

from __future__ import annotations

from praval_tools import ToolRegistry
from praval_tools.demo.agents import build_app, lend_rows
from praval_tools.demo.question import load_flights_question
from praval_tools.demo.tools import declare_fair_comparison


def registry() -> ToolRegistry:
    """Return a new registry with the demo's tools and agents, all tools declared and the raw rows lent."""
    house = build_app(load_flights_question())
    declare_fair_comparison(house.registry, house.workspace)
    lend_rows(house.registry, by="librarian")
    return house.registry
