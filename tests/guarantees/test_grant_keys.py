"""The keys of grants belong to who makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from praval_tools import GrantError, ToolRegistry


def declare(journal: Path | None = None) -> ToolRegistry:
    """Return a registry in which `mal` owns `other`, and `bank` owns `victim`, which `lender` may lend."""
    registry = ToolRegistry(journal=None if journal is None else str(journal))
    for name, owner in (("other", "mal"), ("victim", "bank")):

        @registry.tool(name, owned_by=owner)
        def work() -> str:
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
