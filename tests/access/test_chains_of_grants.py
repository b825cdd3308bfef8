"""Chains of agents that hold many grants: each member is permitted by any of its own."""

# Tests of: rules

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Tool, ToolCall, ToolRegistry
from praval_tools.access.bounds.bounds import Bounds

MEMBERS = ("boss", "h", "k")


def look(x: int) -> int:
    """Look at x."""
    return x


def build_chain(length: int = 3, mode: Any = "intersect") -> tuple[ToolRegistry, Any]:
    """Return a registry with the tool `look`, and the last agent of a chain of delegates."""
    registry = ToolRegistry()
    registry.register_tool(Tool.from_function(look, owned_by="bank"))
    agent: Any = registry.agent("boss")
    for name in MEMBERS[1:length]:
        agent = agent.delegate(name, mode=mode)
    return registry, agent


def call(registry: ToolRegistry, agent: Any, x: int) -> str:
    """Return the outcome of a call."""
    return str(registry.toolset(agent).execute(ToolCall("c1", "look", {"x": x})).outcome)


class TestChainsOfGrants:
    """Grants add up for each member of a chain, however many there are."""

    @pytest.mark.parametrize(("length", "count"), [(3, 12), (2, 40)])
    def test_what_all_members_may_do_is_allowed(self, monkeypatch: pytest.MonkeyPatch, length: int, count: int) -> None:
        """Calls that every member may make were refused; each bound is checked once a call, not once a combination."""
        registry, agent = build_chain(length)
        for name, one in product(MEMBERS[:length], range(count)):
            registry.grant("look", name, where={"x": {"const": one}})
        checked: list[Bounds] = []
        find_violations = Bounds.find_violations
        monkeypatch.setattr(
            Bounds, "find_violations", lambda self, *args: (checked.append(self), find_violations(self, *args))[1]
        )

        for x in range(count):
            checked.clear()
            assert "ok" == call(registry, agent, x), x
            assert len(checked) <= length * count
        assert "forbidden" == call(registry, agent, count)
        assert "out-of-bounds" == agent.explain("look", {"x": count}).rule

    def test_members_without_arguments_in_common_are_refused(self) -> None:
        """Members whose bounds have nothing in common may not call the tool, nor is it listed."""
        registry, agent = build_chain(2)
        for one in range(8):
            registry.grant("look", "boss", where={"x": {"const": one}})
            registry.grant("look", "h", where={"x": {"const": one + 8}})

        assert ([], "forbidden") == (agent.list_tools(), call(registry, agent, 3))
        assert "delegation" == agent.explain("look").rule

    @given(
        st.lists(
            st.lists(st.tuples(st.none() | st.sets(st.integers(0, 3), min_size=1), st.none() | st.just(2)), max_size=3),
            min_size=2,
            max_size=3,
        ),
        st.lists(st.integers(0, 3), max_size=3),
    )
    def test_the_best_combination_decides(
        self, grants: list[list[tuple[set[int] | None, int | None]]], calls: list[int]
    ) -> None:
        """The same calls are allowed, and the same grants are spent, as by the best of all combinations."""
        registry, agent = build_chain(len(grants))
        made: list[list[tuple[set[int] | None, int | None, Any]]] = []
        for name, limits in zip(MEMBERS, grants, strict=False):
            member: dict[Any, tuple[set[int] | None, int | None, Any]] = {}
            for allowed, count in limits:
                where = None if allowed is None else {"x": {"enum": sorted(allowed)}}
                grant = registry.grant("look", name, where=where, max_calls=count)
                member[grant.id] = (allowed, count, grant)
            made.insert(0, list(member.values()))
        left = {one[2].id: one[1] for member in made for one in member}

        for x in calls:
            combinations = [
                chosen
                for chosen in product(*made)
                if all((one[0] is None or x in one[0]) and left[one[2].id] != 0 for one in chosen)
            ]
            # what spends nothing comes first; then, member by member, what is not counted, and the oldest
            best = min(
                combinations,
                key=lambda chosen: (
                    any(one[1] is not None for one in chosen),
                    [(one[1] is not None, member.index(one)) for one, member in zip(chosen, made, strict=True)],
                ),
                default=None,
            )
            for one in best or ():
                if one[1] is not None:
                    left[one[2].id] = (left[one[2].id] or 0) - 1
            assert ("forbidden" if best is None else "ok") == call(registry, agent, x)
            assert left == {one[2].id: registry.uses_left(one[2]) for member in made for one in member}
