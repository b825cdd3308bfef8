"""Grants: their limits, their keys, and how they are lent on."""

# Tests of: grants, permissions

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from access_cases import declare, outcome, pay
from clocks import HandClock

from praval_tools import (
    AccessWarning,
    GrantError,
    Tool,
    ToolRegistry,
    UnknownGrantError,
    UnknownToolError,
    UnknownToolWarning,
)  # fmt: skip


class TestGrants:
    """A grant admits calls within its end, its count and its bounds."""

    def test_it_ends_at_its_moment(self, registry: ToolRegistry, clock: HandClock) -> None:
        """Up to the moment it is a way, from it on it is none."""
        registry.grant("pay", "ann", expires=timedelta(seconds=10))
        found = []
        for seconds in (0, 9, 1):
            clock.moment += timedelta(seconds=seconds)
            found.append((outcome(registry, "ann"), list(registry.toolset("ann"))))

        assert [("ok", ["pay"]), ("ok", ["pay"]), ("forbidden", [])] == found

    def test_it_admits_as_many_calls_as_it_says(self, registry: ToolRegistry) -> None:
        """The count is spent by calls that run, and by nothing else."""
        grant = registry.grant("pay", "ann", max_calls=2, where={"amount": {"maximum": 10}})
        found = [outcome(registry, "ann", amount=amount) for amount in (5, 50, "none", 5, 5)]

        assert ["ok", "forbidden", "invalid_arguments", "ok", "forbidden"] == found
        assert 0 == registry.uses_left(grant)

    @pytest.mark.parametrize(
        "terms",
        [
            {"expires": datetime(2040, 1, 1)}, {"expires": timedelta(seconds=-1)}, {"expires": 10},
            {"expires": datetime(9999, 12, 31, 12, tzinfo=timezone(timedelta(hours=-14)))},
            {"max_calls": 0}, {"max_calls": True}, {"where": {"amuont": {"maximum": 1}}},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_makes_no_sense_is_an_error(self, registry: ToolRegistry, terms: dict[str, Any]) -> None:
        """A naive or past moment, one without a date in UTC, a count of none and unknown parameters are refused."""
        before = registry.state
        with pytest.raises(GrantError):
            registry.assign_tool_to_agent("pay", "ann", **terms)
        assert before == registry.state

    def test_an_identical_one_is_not_recorded_twice(self, registry: ToolRegistry) -> None:
        """The same request in the same name is the grant that is recorded; another bound is another grant."""
        bounds = [{"amount": {"maximum": most}} for most in (9, 99, 9)]
        made = [registry.grant("pay", "ann", where=one).id for one in bounds]

        assert (made[0], 2) == (made[2], len(registry.grants()))

    def test_the_oldest_count_is_spent_and_only_where_it_must_be(self, registry: ToolRegistry) -> None:
        """An uncounted way that admits the call spends nothing; of counted ones the oldest is spent."""
        first, second = (registry.grant("pay", "ann", max_calls=calls) for calls in (2, 3))
        registry.grant("pay", "ann", where={"amount": {"minimum": 40}})
        outcome(registry, "ann", amount=50)
        assert [2, 3] == [registry.uses_left(one) for one in (first, second)]
        outcome(registry, "ann", amount=5)
        assert [1, 3] == [registry.uses_left(one) for one in (first, second)]

    def test_a_grant_that_narrows_nothing_warns(self, registry: ToolRegistry) -> None:
        """Bounds beside an open way bound nothing, and the warning says to remove first."""
        with pytest.warns(AccessWarning, match="remove_tool_from_agent"):
            registry.assign_tool_to_agent("pay", "bank", max_calls=1)

    def test_a_key_is_one_grant_for_ever(self, registry: ToolRegistry) -> None:
        """Start-up code gets the same grant again, with what is left of it, revoked or not."""
        made = [registry.grant("pay", "ann", key="k", max_calls=2)]
        outcome(registry, "ann")
        made.append(registry.grant("pay", "ann", key="k", max_calls=2))
        assert (made[0].id, 1) == (made[1].id, registry.uses_left(made[1]))

        registry.revoke(made[0])
        assert registry.assign_tool_to_agent("pay", "ann", key="k", max_calls=2) is False
        assert "forbidden" == outcome(registry, "ann")

    def test_an_unknown_grant_is_said(self, registry: ToolRegistry) -> None:
        """Revoking an unknown grant is an error that names the id as it was given."""
        with pytest.raises(UnknownGrantError, match="no grant 'g-7';") as caught:
            registry.revoke("g-7")

        assert "g-7" == caught.value.args[0]

    def test_an_unknown_tool_is_said(self, registry: ToolRegistry) -> None:
        """The form of the seeds warns with near names and says False, the other raises."""
        with pytest.warns(UnknownToolWarning, match="'pay'"):
            assert registry.assign_tool_to_agent("pai", "ann") is False
        with pytest.raises(UnknownToolError, match="'pay'"):
            registry.grant("pai", "ann")

    @pytest.mark.parametrize("end", ["unregister", "retire"])
    def test_the_end_of_tool_or_agent_ends_grants(self, registry: ToolRegistry, end: str) -> None:
        """A tool or an agent that comes back starts without the old grants."""
        registry.grant("pay", "ann")
        registry.unregister_tool("pay") if end == "unregister" else registry.retire_agent("ann")
        registry.register_tool(Tool.from_function(pay)) if end == "unregister" else declare(registry, "ann")

        assert ([], "no-way") == (registry.grants(), registry.explain("ann", "pay").rule)


class TestLending:
    """Who holds a delegable grant lends it on, only narrower."""

    @pytest.mark.parametrize(
        "terms", [{"max_calls": 4}, {"expires": timedelta(hours=2)}, {"where": {"to": {"const": "x"}}}]
    )
    def test_a_wider_one_is_refused(self, registry: ToolRegistry, terms: dict[str, Any]) -> None:
        """More calls, a later end, or bounds beside those of the source are an error."""
        registry.grant(
            "pay", "ann", delegable=True, max_calls=3, expires=timedelta(hours=1), where={"to": {"const": "shop"}}
        )
        with pytest.raises(GrantError):
            registry.grant("pay", "cid", by="ann", **terms)

    def test_a_call_spends_the_whole_line(self, registry: ToolRegistry) -> None:
        """A call under a derived grant spends every grant that it came from, and obeys all their bounds."""
        line = [registry.grant("pay", "ann", delegable=True, max_calls=3, where={"amount": {"maximum": 10}})]
        line.append(
            registry.grant("pay", "cid", by="ann", max_calls=2, delegable=True, where={"amount": {"minimum": 3}})
        )
        line.append(registry.grant("pay", "dot", by="cid", max_calls=1))

        assert ["forbidden", "forbidden", "ok", "forbidden"] == [
            outcome(registry, "dot", amount=amount) for amount in (1, 50, 5, 5)
        ]
        assert [2, 1, 0] == [registry.uses_left(one) for one in line]

    def test_revoking_reaches_all_that_came_from_it(self, registry: ToolRegistry) -> None:
        """The holder takes back what it lent; revoking the source takes everything."""
        source = registry.grant("pay", "ann", delegable=True)
        lent = [registry.grant("pay", to, by="ann") for to in ("cid", "dot")]
        assert registry.remove_tool_from_agent("pay", "cid", by="ann")
        assert ["forbidden", "ok"] == [outcome(registry, one.agent) for one in lent]

        registry.revoke(source)
        assert [] == registry.grants()

    def test_any_of_several_grants_may_be_lent_from(self, registry: ToolRegistry) -> None:
        """Grants add up: a later, narrower one does not keep its holder from lending from the wider."""
        wide = registry.grant("pay", "ann", delegable=True, max_calls=5)
        registry.grant("pay", "ann", delegable=True, max_calls=1)

        assert wide.id == registry.grant("pay", "cid", by="ann", max_calls=3).parent
