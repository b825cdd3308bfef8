"""Changes of access made at run time survive: kills, restarts and start-up code that runs again."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from state_rig import START, Hand, call, grew, make_renamed_spend, outcome, path, store  # noqa: F401  # fixtures
from survivors import Started, declare, killed

from praval_tools import (
    AccessWarning,
    Agent,
    NotOwnerError,
    Outcome,
    ToolRegistry,
    UnknownToolWarning,
)


class TestKilled:
    """A process is killed by SIGKILL directly after a verb returned; the next one starts with the change."""

    def test_after_assign(self, path: Path) -> None:
        """The grant is there, with its bounds, expiry, reason and key."""
        killed(
            path,
            "from datetime import timedelta\n"
            "registry.assign_tool_to_agent('spend', 'clerk', key='k', reason='for tea', max_calls=5,\n"
            "    expires=timedelta(days=1), where={'amount': {'maximum': 10}})",
        )

        with Started(path) as registry:
            (grant,) = registry.grants()
            assert ("spend", "clerk", "k", "for tea", 5) == (
                grant.tool,
                grant.agent,
                grant.key,
                grant.reason,
                grant.max_calls,
            )
            assert grant.expires is not None and grant.expires - grant.made == timedelta(days=1)
            assert ["ok", "forbidden"] == [outcome(registry, "spend", amount=amount) for amount in (10, 11)]
            assert 4 == registry.uses_left(grant)

    @pytest.mark.parametrize("spent", range(4))
    def test_after_a_counted_call(self, path: Path, spent: int) -> None:
        """The count goes on where it was: of three calls as many as were not made."""
        killed(
            path,
            "registry.assign_tool_to_agent('spend', 'clerk', max_calls=3)\n"
            f"for at in range({spent}): registry.agent('clerk').call('spend', amount=at)",
        )

        with Started(path) as registry:
            results = [outcome(registry, "spend", amount=1) for _ in range(4)]
            assert ["ok"] * (3 - spent) + ["forbidden"] * (1 + spent) == results

    def test_after_block(self, path: Path) -> None:
        """The block is there, with its reason, and lifted by who set it or the operator alone."""
        killed(path, "registry.block('open', 'clerk', reason='no')\nregistry.block('look', 'clerk', by='treasurer')")

        with Started(path) as registry:
            assert ["forbidden", "forbidden"] == [outcome(registry, one) for one in ("open", "look")]
            assert "no" in registry.explain("clerk", "open").reason
            with pytest.raises(NotOwnerError):
                registry.unblock("open", "clerk", by="treasurer")
            assert registry.unblock("look", "clerk", by="treasurer")
            assert registry.unblock("open", "clerk")

    def test_after_unblock(self, path: Path) -> None:
        """A block that was lifted does not come back."""
        killed(path, "registry.block('open', 'clerk')\nregistry.unblock('open', 'clerk')")

        with Started(path) as registry:
            assert "ok" == outcome(registry, "open")

    def test_after_transfer(self, path: Path) -> None:
        """The new owner owns it, whatever the declaration says."""
        killed(path, "registry.transfer_ownership('spend', 'clerk')")

        with Started(path) as registry:
            assert "clerk" == registry.get_tool("spend").metadata.owned_by  # type: ignore[union-attr]
            results = [outcome(registry, "spend", who, amount=1) for who in ("clerk", "treasurer")]
            assert ["ok", "forbidden"] == results
            with pytest.warns(AccessWarning, match="was transferred"):
                registry.share_tool("spend", by="treasurer")
            assert not registry.get_tool("spend").metadata.shared  # type: ignore[union-attr]

    @pytest.mark.parametrize("target", ["tool='open'", "category='text'", "tag='slow'"])
    def test_after_disable(self, path: Path, target: str) -> None:
        """What is off stays off, with its reason."""
        killed(path, f"registry.disable({target}, reason='broken')")

        with Started(path) as registry:
            assert Outcome.DISABLED is call(registry, "open", "treasurer").outcome
            assert "broken" in registry.explain("treasurer", "open").reason

    def test_after_enable(self, path: Path) -> None:
        """What was switched on again stays on."""
        killed(path, "registry.disable('open')\nregistry.enable('open')")

        with Started(path) as registry:
            assert "ok" == outcome(registry, "open")

    def test_after_configure(self, path: Path) -> None:
        """Every overridden field has its value, of several changes the last."""
        killed(
            path,
            "registry.configure('open', timeout=2, risk_level='high')\n"
            "registry.configure('open', timeout=3, requires_approval=True)",
        )

        with Started(path) as registry:
            meta = registry.get_tool("open").metadata  # type: ignore[union-attr]
            assert (3, "high", True) == (meta.timeout, meta.risk_level, meta.requires_approval)
            assert "approval_required" == outcome(registry, "open")

    def test_after_share(self, path: Path) -> None:
        """What was shared is shared."""
        killed(path, "registry.share_tool('look')")

        with Started(path) as registry:
            assert ["look", "open"] == [one.name for one in registry.get_shared_tools()]
            assert "ok" == outcome(registry, "look", "anybody")

    def test_after_unshare(self, path: Path) -> None:
        """What is shared no more is not shared by its declaration."""
        killed(path, "registry.unshare_tool('open')")

        with Started(path) as registry:
            assert [] == registry.get_shared_tools()
            assert "forbidden" == outcome(registry, "open")

    def test_after_unassign(self, path: Path) -> None:
        """A removal ends grants and all other ways, and a plain assignment of start-up code does not undo it."""
        killed(
            path,
            "registry.assign_tool_to_agent('open', 'clerk', max_calls=2)\n"
            "registry.remove_tool_from_agent('open', 'clerk')",
        )

        with Started(path) as registry:
            assert "forbidden" == outcome(registry, "open")
            with pytest.warns(AccessWarning, match="removed from"):
                assert not registry.assign_tool_to_agent("open", "clerk")
            assert "forbidden" == outcome(registry, "open")
            assert registry.assign_tool_to_agent("open", "clerk", key="given back")
            assert "ok" == outcome(registry, "open")

    def test_after_revoke(self, path: Path) -> None:
        """A grant that was revoked is over, and so is what came from it."""
        killed(
            path,
            "grant = registry.grant('spend', 'clerk', delegable=True)\n"
            "registry.assign_tool_to_agent('spend', 'intern', by='clerk')\nregistry.revoke(grant)",
        )

        with Started(path) as registry:
            assert [] == registry.grants()
            results = [outcome(registry, "spend", who, amount=1) for who in ("clerk", "intern")]
            assert ["forbidden", "forbidden"] == results

    def test_after_several_at_once(self, path: Path) -> None:
        """All of a `change()` is there, or, killed inside of it, none."""
        killed(
            path,
            "with registry.change():\n registry.share_tool('look')\n registry.block('open', 'clerk')\n"
            "with registry.change():\n registry.share_tool('spend')\n os.kill(os.getpid(), 9)",
        )

        with Started(path) as registry:
            assert ["look", "open"] == [one.name for one in registry.get_shared_tools()]
            assert ["ok", "forbidden"] == [outcome(registry, one) for one in ("look", "open")]

    def test_start_after_start(self, path: Path) -> None:
        """Five processes, each killed: what each did adds up, and counts are exact."""
        killed(path, "registry.assign_tool_to_agent('spend', 'clerk', key='k', max_calls=5)")
        for _ in range(4):
            killed(
                path,
                "registry.assign_tool_to_agent('spend', 'clerk', key='k', max_calls=5)\n"
                "registry.agent('clerk').call('spend', amount=1)",
            )

        with Started(path) as registry:
            assert ["ok", "forbidden"] == [outcome(registry, "spend", amount=1) for _ in range(2)]


class TestGrantsSurvive:
    def test_a_line_of_grants(self, store: Any) -> None:
        """A grant that was lent on spends those that it came from, keeps all their bounds, and ends with them."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", delegable=True, max_calls=3, where={"amount": {"maximum": 10}})
            first.grant("spend", "intern", by="clerk", where={"amount": {"minimum": 5}}, max_calls=2)

        with Started(store) as registry:
            above, lent = registry.grants()
            assert above.id == lent.parent
            results = [outcome(registry, "spend", "intern", amount=amount) for amount in (4, 11, 5)]
            assert ["forbidden", "forbidden", "ok"] == results
            assert (2, 1) == (registry.uses_left(above), registry.uses_left(lent))

        with Started(store) as registry:
            above, lent = registry.grants()
            assert (2, 1) == (registry.uses_left(above), registry.uses_left(lent))
            assert ["ok", "ok", "forbidden"] == [outcome(registry, "spend", amount=amount) for amount in (1, 2, 3)]
            assert "forbidden" == outcome(registry, "spend", "intern", amount=5)

    def test_an_end_reaches_what_came_from_it(self, store: Any) -> None:
        """Revoked after a restart, by the operator, a grant takes the lent one along, and that lasts."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", delegable=True)
            first.assign_tool_to_agent("spend", "intern", by="clerk")
        with Started(store) as second:
            assert second.revoke(second.grants(agent="clerk")[0])
            assert "forbidden" == outcome(second, "spend", "intern", amount=1)
        with Started(store) as third:
            assert [] == third.grants()
            assert "forbidden" == outcome(third, "spend", "intern", amount=1)

    def test_expiry(self, store: Any) -> None:
        """A grant ends at its moment, not so long after the last start."""
        clock = Hand()
        with Started(store, clock=clock) as first:
            first.assign_tool_to_agent("spend", "clerk", expires=timedelta(hours=1))
        clock.at += timedelta(minutes=59)
        with Started(store, clock=clock) as second:
            assert "ok" == outcome(second, "spend", amount=1)
            clock.at += timedelta(minutes=2)
            assert "forbidden" == outcome(second, "spend", amount=1)

    def test_a_whole_schema_as_bounds(self, store: Any) -> None:
        """Bounds over all arguments count after a restart, too."""
        whole = {"type": "object", "properties": {"amount": {"enum": [1, 2]}}, "required": ["amount"]}
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", where=whole)
        with Started(store) as second:
            assert ["ok", "forbidden"] == [outcome(second, "spend", amount=amount) for amount in (2, 3)]
            assert whole == second.grants()[0].where

    def test_bounds_that_fit_no_more(self, store: Any) -> None:
        """A grant with bounds on a parameter that is gone admits nothing, and `problems()` says so."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", where={"amount": {"maximum": 1}})
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(make_renamed_spend())
            assert "forbidden" == outcome(second, "spend", sum=1)
            assert "act-waits" in [one.kind for one in second.problems()]

    def test_unregistering_ends_them(self, store: Any) -> None:
        """A tool that was unregistered comes back without its grants, owner and sharing."""
        with Started(store) as first:
            first.assign_tool_to_agent("look", "clerk")
            first.share_tool("look")
            first.transfer_ownership("look", "clerk")
            first.unregister_tool("look")
        with Started(store) as second:
            meta = second.get_tool("look").metadata  # type: ignore[union-attr]
            assert ("treasurer", False) == (meta.owned_by, meta.shared)
            assert [] == second.grants()

    def test_retiring_ends_them(self, store: Any) -> None:
        """An agent that was retired comes back without its grants."""
        with Started(store) as first:
            first.assign_tool_to_agent("look", "clerk", max_calls=3)
            first.retire_agent("clerk")
        with Started(store) as second:
            assert [] == second.grants()
            assert "forbidden" == outcome(second, "look")

    def test_a_retired_name_stays_retired(self, store: Any) -> None:
        """A name that was retired can call nothing at the next start either, until it is declared again."""
        with Started(store) as first:
            assert "ok" == outcome(first, "open", "temp")
            first.grant("spend", "temp")
            first.retire_agent("temp")

        with Started(store) as second:
            before = outcome(second, "open", "temp")
            temp = Agent("temp", registry=second)

            assert ("forbidden", "ok") == (before, outcome(second, "open", "temp"))
            assert "forbidden" == outcome(second, "spend", temp.name, amount=1)

    def test_a_retirement_counts_in_the_other_process(self, path: Path) -> None:
        """What one process retires can call nothing in another that runs."""
        with Started(path) as one, Started(path) as other:
            assert "ok" == outcome(other, "open")
            one.retire_agent("clerk")

            assert "forbidden" == outcome(other, "open")


class TestClearing:
    def test_the_store_is_not_touched(self, store: Any) -> None:
        """`clear_registry()` forgets what this process knows; what the store holds counts for what is declared next."""
        with Started(store) as registry:
            registry.assign_tool_to_agent("spend", "clerk", max_calls=2)
            registry.block("open", "clerk")
            registry.disable("look")
            call(registry, "spend", amount=1)
            before = grew(registry)

            registry.clear_registry()

            assert before == grew(registry)
            assert "unknown_tool" == outcome(registry, "open")
            declare(registry)
            assert ["forbidden", "disabled"] == [outcome(registry, one) for one in ("open", "look")]
            assert ["ok", "forbidden"] == [outcome(registry, "spend", amount=1) for _ in range(2)]
        with Started(store) as second:
            assert "forbidden" == outcome(second, "open")


class TestOrder:
    def test_changes_before_their_tools(self, store: Any) -> None:
        """A block counts when its tool comes; a removal of a tool that is not there is none."""
        with ToolRegistry(journal=store) as first:
            first.block("open", "clerk")
            with pytest.warns(UnknownToolWarning):
                first.remove_tool_from_agent("look", "treasurer")
            declare(first)
            assert ["forbidden", "ok"] == [outcome(first, "open"), outcome(first, "look", "treasurer")]
        with Started(store) as second:
            assert ["forbidden", "ok"] == [outcome(second, "open"), outcome(second, "look", "treasurer")]

    def test_the_journal_comes_late(self, store: Any) -> None:
        """Set after tools and agents are declared, it brings what was done before, and keeps what is done from then."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", max_calls=2)
            first.unshare_tool("open")
            call(first, "spend", amount=1)
        with ToolRegistry() as second:
            declare(second)
            second.assign_tool_to_agent("look", "clerk")
            assert "forbidden" == outcome(second, "spend", amount=1)
            second.journal = store
            assert ["ok", "forbidden"] == [outcome(second, "spend", amount=1) for _ in range(2)]
            assert ["forbidden", "ok"] == [outcome(second, "open"), outcome(second, "look")]
            second.block("spend", "treasurer")
        with Started(store) as third:
            assert "forbidden" == outcome(third, "spend", "treasurer", amount=1)

    def test_the_journal_is_taken_away(self, store: Any) -> None:
        """Without it what is done stays in this process."""
        with Started(store) as first:
            first.share_tool("look")
            first.journal = None
            first.share_tool("spend")
            assert "ok" == outcome(first, "spend", amount=1)
        with Started(store) as second:
            assert ["look", "open"] == [one.name for one in second.get_shared_tools()]
