"""A key of a grant that is declared again with other terms: what is narrower counts, and what differs is said."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from state_rig import Hand, outcome, path, store  # noqa: F401  # fixtures
from survivors import Started

from praval_tools import AccessWarning, GrantError, ToolRegistry

pytestmark = pytest.mark.filterwarnings("error::praval_tools.AccessWarning")

AMOUNT = {"amount": {"maximum": 100}}


def spend(registry: ToolRegistry, agent: str = "clerk", amount: int = 1) -> str:
    """Return how a call ends."""
    return outcome(registry, "spend", agent, amount=amount)


def find_differences(registry: ToolRegistry) -> list[str]:
    """Return what is reported of declarations that differ."""
    return [str(problem) for problem in registry.problems() if problem.kind == "grant-differs"]


class TestNarrower:
    """
    A release that lowers a limit in its start-up code lowers it.

    The key was the same, so that the old grant stood, and nothing said so.
    """

    def test_a_lower_count_counts(self, store: Any) -> None:
        """Calls that were made before count against the lower number; the new release says what it found, once."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", key="k", max_calls=10)
            assert ["ok"] * 3 == [spend(first) for _ in range(3)]
        with Started(store) as second:
            assert second.assign_tool_to_agent("spend", "clerk", key="k", max_calls=5)
            assert "max_calls=10" in find_differences(second)[0] and "max_calls=5" in find_differences(second)[0]
            (grant,) = second.grants()
            assert 2 == second.uses_left(grant)
            assert ["ok"] * 1 == [spend(second)]
        with Started(store) as third:
            assert third.assign_tool_to_agent("spend", "clerk", key="k", max_calls=5)
            assert [] == find_differences(third)
            assert ["ok", "forbidden"] == [spend(third) for _ in range(2)]

    def test_a_count_that_is_used_up_ends_it(self, store: Any) -> None:
        """Lowered below what was used, the grant is spent."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", key="k", max_calls=10)
            assert ["ok"] * 3 == [spend(first) for _ in range(3)]
        with Started(store) as second:
            assert not second.assign_tool_to_agent("spend", "clerk", key="k", max_calls=2)
            assert "forbidden" == spend(second)

    def test_a_shorter_time_counts(self, store: Any) -> None:
        """A duration counts from when the grant was made, however often it is declared."""
        clock = Hand()
        for hours, at in ((24, 0), (2, 1), (2, 1)):
            clock.at = Hand().at + timedelta(hours=at)
            with Started(store, clock=clock) as registry:
                assert registry.assign_tool_to_agent("spend", "clerk", key="k", expires=timedelta(hours=hours))
                assert "ok" == spend(registry)
        clock.at = Hand().at + timedelta(hours=2)
        with Started(store, clock=clock) as registry:
            assert not registry.assign_tool_to_agent("spend", "clerk", key="k", expires=timedelta(hours=2))
            assert "forbidden" == spend(registry)

    def test_bounds_count(self, store: Any) -> None:
        """Bounds that come, and bounds beside older ones: all of them hold."""
        steps = (
            (None, ["ok"] * 3),
            (AMOUNT, ["ok", "ok", "forbidden"]),
            ({"amount": {"maximum": 10}}, ["ok", "forbidden", "forbidden"]),
        )
        for where, expected in steps:
            with Started(store) as registry:
                assert registry.assign_tool_to_agent("spend", "clerk", key="k", where=where)
                assert expected == [spend(registry, amount=amount) for amount in (5, 50, 500)]
                assert 1 == len(registry.grants())

    def test_what_was_lent_from_it_is_narrowed(self, store: Any) -> None:
        """A grant that came from the wider one stays within the narrower one."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", key="k", delegable=True)
            first.assign_tool_to_agent("spend", "intern", by="clerk")
            assert "ok" == spend(first, "intern", 500)
        with Started(store) as second:
            assert second.assign_tool_to_agent("spend", "clerk", key="k", where=AMOUNT, max_calls=2, delegable=True)
            results = [spend(second, who, amount) for who, amount in (("intern", 500), ("intern", 5), ("clerk", 5))]
            assert ["forbidden", "ok", "ok"] == results
            assert ["forbidden"] * 2 == [spend(second, who) for who in ("intern", "clerk")]

    def test_it_ends_as_a_whole(self, store: Any) -> None:
        """Revoked or removed, neither the narrower nor the wider grant is left, here and at the next start."""
        for end in ("revoke", "remove"):
            with Started(store) as first:
                first.assign_tool_to_agent("spend", end, key=end, delegable=True)
                first.assign_tool_to_agent("spend", f"{end}-intern", by=end)
                first.assign_tool_to_agent("spend", end, key=end, max_calls=5, delegable=True)
                if end == "revoke":
                    first.revoke(first.grants(agent=end)[0])
                else:
                    first.remove_tool_from_agent("spend", end)
                assert ["forbidden"] * 2 == [spend(first, who) for who in (end, f"{end}-intern")]
            with Started(store) as second:
                assert ["forbidden"] * 2 == [spend(second, who) for who in (end, f"{end}-intern")]
                assert not second.assign_tool_to_agent("spend", end, key=end)
                assert [] == find_differences(second)

    def test_an_identical_grant_is_not_the_wider_one(self, store: Any) -> None:
        """A grant without a key that asks for what the wider one gave is a grant of its own."""
        with Started(store) as registry:
            wide = registry.grant("spend", "clerk", key="k", max_calls=5)
            registry.grant("spend", "clerk", key="k", max_calls=1)
            assert wide.id != registry.grant("spend", "clerk", max_calls=5).id
            assert ["ok"] * 6 + ["forbidden"] == [spend(registry) for _ in range(7)]


class TestWider:
    """What is declared wider than the grant that was made does not count, and is said with both sides."""

    @pytest.mark.parametrize(
        ("made", "declared", "texts"),
        [
            ({"max_calls": 5}, {"max_calls": 9}, ("max_calls=5", "max_calls=9")),
            ({"max_calls": 5}, {}, ("max_calls=5", "max_calls=None")),
            ({"where": AMOUNT}, {}, ("where={'amount'", "where=None")),
            ({"expires": timedelta(hours=1)}, {}, ("expires=20", "expires=None")),
            ({}, {"delegable": True}, ("delegable=False", "delegable=True")),
            ({"where": AMOUNT}, {"where": {"amount": {"minimum": 200}}}, ("100", "200")),
        ],
    )
    def test_it_is_said(self, store: Any, made: dict[str, Any], declared: dict[str, Any], texts: Any) -> None:
        """A warning and a problem name what was made and what is declared, at every start."""
        with Started(store) as first:
            first.grant("spend", "clerk", key="k", **made)
        for _ in range(2):
            with Started(store) as registry:
                with pytest.warns(AccessWarning, match="Key 'k' stands for the grant of 'spend' to 'clerk'"):
                    registry.grant("spend", "clerk", key="k", **declared)
                (problem,) = find_differences(registry)
                assert all(text in problem for text in texts)
                assert 1 == len(registry.grants())
        with Started(store) as registry:
            registry.grant("spend", "clerk", key="k", **made)
            assert [] == find_differences(registry)

    def test_what_is_narrower_of_it_counts(self, store: Any) -> None:
        """A lower count counts although the time is longer."""
        with Started(store) as registry:
            registry.grant("spend", "clerk", key="k", max_calls=5, expires=timedelta(hours=1))
            with pytest.warns(AccessWarning):
                registry.grant("spend", "clerk", key="k", max_calls=1)
            assert ["ok", "forbidden"] == [spend(registry) for _ in range(2)]

    def test_nobody_narrows_for_another(self, store: Any) -> None:
        """The owner's key is another one than the operator's, and does not narrow what the operator granted."""
        with Started(store) as registry:
            granted = registry.grant("spend", "clerk", key="k")
            assert granted != registry.grant("spend", "clerk", key="k", max_calls=1, by="treasurer")
            assert ["ok"] * 3 == [spend(registry) for _ in range(3)]

    def test_terms_that_make_no_sense_are_refused(self, store: Any) -> None:
        """A declaration with a bad count is an error, as it is the first time."""
        with Started(store) as registry:
            registry.grant("spend", "clerk", key="k")
            with pytest.raises(GrantError, match="max_calls=0"):
                registry.grant("spend", "clerk", key="k", max_calls=0)

    def test_what_is_inherited_does_not_differ(self, store: Any) -> None:
        """A grant that was lent on has the limits of the one that it came from: declared again it is the same."""
        with Started(store) as registry:
            registry.grant("spend", "clerk", max_calls=5, expires=timedelta(hours=1), delegable=True)
            for _ in range(2):
                registry.grant("spend", "intern", key="lent", by="clerk")
            assert [] == find_differences(registry)
