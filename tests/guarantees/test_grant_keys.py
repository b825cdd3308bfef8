"""The keys of grants belong to who makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from praval_tools import GrantError, ToolCall, ToolRegistry


def declare(journal: Path | None = None) -> ToolRegistry:
    """Return a registry in which `mal` owns `other`, and `bank` owns `victim`, which `lender` may lend."""
    registry = ToolRegistry(journal=None if journal is None else str(journal))
    for name, owner in (("other", "mal"), ("victim", "bank")):

        @registry.tool(name, owned_by=owner)
        def work(times: int = 1) -> str:
            """Work."""
            return "done"

    registry.grant("victim", "lender", delegable=True, key="to-lend")
    return registry


class TestKeys:
    def test_of_others_are_not_taken(self) -> None:
        """A key that somebody else used stands for nothing of the operator's."""
        registry = declare()
        registry.grant("other", "eve", key="startup", by="mal")
        lent = registry.grant("victim", "ann", key="k2", max_calls=1, by="lender")
        granted = [registry.grant("victim", "ann", key=key) for key in ("startup", "k2")]
        assert ["operator", "operator"] == [grant.by for grant in granted]
        assert [None, None] == [grant.max_calls for grant in granted]
        assert lent == registry.grant("victim", "ann", key="k2", max_calls=1, by="lender")
        with pytest.raises(GrantError, match="'startup' stands for the grant of 'other'"):
            registry.grant("other", "ann", by="mal", key="startup")

    @pytest.mark.parametrize("by", [None, "lender"])
    def test_of_files_are_theirs(self, by: str | None) -> None:
        """Who makes up the key of an entry of a file makes no grant with it."""
        registry = declare()
        before = registry.grants()
        for make in (registry.grant, registry.assign_tool_to_agent):
            with pytest.raises(GrantError, match="keys that begin with 'config:' are those of configuration files"):
                make("victim", "ann", key="config:c.yml:0123", by=by)
        assert before == registry.grants()

    def test_are_found_again_in_a_journal(self, tmp_path: Path) -> None:
        """Each finds its own grant again after a restart."""
        made = []
        for _ in range(2):
            with declare(tmp_path / "runs.db") as registry:
                made.append(
                    [registry.grant("victim", "ann", key="k", max_calls=2, by=by).id for by in ("operator", "lender")]
                )
        assert made[0] == made[1]
        assert 2 == len(set(made[0]))

    @pytest.mark.parametrize("is_stored", [False, True])
    def test_of_a_lender_and_of_its_own_grant_may_be_equal(self, tmp_path: Path, *, is_stored: bool) -> None:
        """
        A grant takes the place of the one that its maker made with the same key, and of no other.

        A lender that used the key of the grant it held lost that: its calls were bounded by what it had lent, and
        recorded as decided by that, and it could call nothing any more once that was taken back.
        """
        journal = tmp_path / "runs.db" if is_stored else None
        registry = declare(journal)
        where = {"times": {"maximum": 2}}
        lent = registry.grant("victim", "ann", key="to-lend", max_calls=3, where=where, by="lender")
        if is_stored:
            registry.close()
            registry = declare(journal)

        decision = registry.explain("lender", "victim", {"times": 5})
        assert ("granted", "lender") == (decision.rule, getattr(decision.source, "agent", None))
        assert ["lender", "ann"] == [grant.agent for grant in registry.grants()]
        assert registry.execute(ToolCall(None, "victim", {"times": 5}, "lender")).success
        assert 3 == registry.uses_left(lent)

        registry.remove_tool_from_agent("victim", "ann")
        assert ["lender"] == [grant.agent for grant in registry.grants()]
        assert registry.execute(ToolCall(None, "victim", {}, "lender")).success
        registry.close()

    def test_still_narrow_the_grant_that_was_made_with_them(self) -> None:
        """What a lender declares again by its own key, with less, counts in the place of what it lent before."""
        registry = declare()
        made = registry.grant("victim", "ann", key="to-lend", max_calls=3, by="lender")
        narrowed = registry.grant("victim", "ann", key="to-lend", max_calls=1, by="lender")

        assert made.id == narrowed.parent
        assert ["lender", "ann"] == [grant.agent for grant in registry.grants()]
        assert registry.execute(ToolCall(None, "victim", {}, "ann")).success
        assert not registry.execute(ToolCall(None, "victim", {}, "ann")).success
        assert registry.execute(ToolCall(None, "victim", {}, "lender")).success
