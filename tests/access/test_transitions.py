"""What a change of the state leaves behind, and what it costs however much was changed before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from access_rig import FakeClock
from hypothesis import given
from hypothesis import strategies as st
from work_counter import count_steps

from praval_tools import Agent, ToolCall, ToolRegistry


class Renewals:
    """A registry whose clerk gets a tool for five minutes, again and again."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.registry = ToolRegistry(clock=self.clock)
        self.registry.tool("look", owned_by="owner")(_look)
        for name in ("owner", "clerk"):
            Agent(name, registry=self.registry)

    def renew(self, times: int, seconds: int, **terms: object) -> None:
        """Grant the tool so often, with so many seconds in between."""
        for _ in range(times):
            self.clock.seconds += seconds
            self.registry.grant("look", "clerk", expires=timedelta(minutes=5), **terms)  # type: ignore[arg-type]

    def call(self) -> str:
        """Return how a call of the clerk ends."""
        return str(self.registry.execute(ToolCall(None, "look", {}, "clerk")).outcome)


def _look(x: int = 1) -> int:
    """Look."""
    return x


MANNERS = {
    "each after the last one ended": (301, {}),
    "each before the last one ends": (240, {}),
    "all at once": (0, {}),
    "all with a count": (240, {"max_calls": 3}),
    "all with bounds": (301, {"where": {"x": {"maximum": 5}}}),
}


class TestRenewal:
    """
    A grant that is renewed a thousand times costs what it cost the first time.

    Grants that had expired were never dropped: a call looked at all of them, and so did the next grant.
    """

    @pytest.mark.parametrize(("seconds", "terms"), MANNERS.values(), ids=MANNERS)
    def test_a_call_and_a_grant_cost_the_same(self, seconds: int, terms: dict[str, object]) -> None:
        """After 1,000 renewals a call, a list and a further renewal take no more steps than after 20."""
        actions: dict[str, Callable[[Renewals], object]] = {
            "call": lambda rig: rig.call(),
            "list": lambda rig: list(rig.registry.toolset("clerk")),
            "explain": lambda rig: rig.registry.explain("clerk", "look").allowed,
            "grant": lambda rig: rig.renew(3, seconds, **terms),
        }
        few, many = Renewals(), Renewals()
        few.renew(20, seconds, **terms)
        many.renew(1_000, seconds, **terms)
        for name, action in actions.items():
            assert "ok" == few.call() == many.call()
            steps = [count_steps(lambda rig=rig: action(rig)) for rig in (few, many)]  # type: ignore[misc]
            assert steps[1] <= 2 * steps[0] + 100, (name, steps)

    def test_all_of_them_end_in_one_go(self) -> None:
        """Taking a tool costs steps in proportion to the grants that end, not to their square."""
        steps = []
        for times in (200, 1_600):
            rig = Renewals()
            rig.renew(times, 0)
            steps.append(count_steps(lambda rig=rig: rig.registry.remove_tool_from_agent("look", "clerk")))
            assert "forbidden" == rig.call()
        assert steps[1] <= 12 * steps[0]

    def test_ended_grants_are_still_listed(self) -> None:
        """What has expired is dropped from what a call looks at, and stays in the list of all grants."""
        rig = Renewals()
        rig.renew(50, 301)
        assert 50 == len(rig.registry.grants(ended=True))
        assert 1 == len(rig.registry.grants())

    def test_an_identical_grant_is_recorded_once(self) -> None:
        """Of a thousand identical grants there is one, and once it ended there is a second."""
        rig = Renewals()
        first = rig.registry.grant("look", "clerk")
        assert {first.id} == {rig.registry.grant("look", "clerk").id for _ in range(1_000)}
        rig.registry.revoke(first)
        assert first.id != rig.registry.grant("look", "clerk").id

    @given(st.lists(st.tuples(st.integers(0, 200), st.sampled_from([None, 60, 300]), st.sampled_from([None, 1, 2]))))
    def test_what_is_dropped_permits_nothing(self, grants: list[tuple[int, int | None, int | None]]) -> None:
        """Whatever ends and when: a call is admitted exactly if one of all the grants is live."""
        rig = Renewals()
        for at, (seconds, expires, max_calls) in enumerate(grants):
            rig.clock.seconds += seconds
            rig.registry.grant(
                "look", "clerk", expires=None if expires is None else timedelta(seconds=expires), max_calls=max_calls,
                reason=str(at),
            )  # fmt: skip
            if at % 2:
                live = rig.registry.grants(agent="clerk")
                assert ("ok" if live else "forbidden") == rig.call()
        live = rig.registry.grants(agent="clerk")
        assert (["look"] if live else []) == list(rig.registry.toolset("clerk"))
