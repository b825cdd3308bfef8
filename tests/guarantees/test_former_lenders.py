"""Start-up code that lends is not stopped by what happened since it last ran: the program starts, with a warning."""

# Tests of: registry/access_changes, access/grants

from __future__ import annotations

import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from clocks import HandClock

from praval_tools import AccessWarning, Agent, GrantError, NotOwnerError, ToolCall, ToolRegistry, agent

HOUR = timedelta(hours=1)
LOSSES: dict[str, Callable[[ToolRegistry], object]] = {
    "spent": lambda registry: [registry.agent(name).call("pay", amount=1) for name in ("helper", "crew")],
    "expired": lambda registry: None,
    "lender blocked": lambda registry: registry.block("pay", "crew"),
    "removed": lambda registry: registry.remove_tool_from_agent("pay", "crew"),
    "retired": lambda registry: registry.retire_agent("crew"),
    "borrower blocked": lambda registry: registry.block("pay", "helper"),
}


def start(journal: Path, clock: HandClock, key: str | None = "lent", *, lent_calls: int = 1) -> ToolRegistry:
    """Return the registry of a program that grants and lends at each start."""
    registry = ToolRegistry(journal=journal, clock=clock)
    for name in ("boss", "crew", "helper"):
        Agent(name, registry=registry)

    @registry.tool("pay", owned_by="boss")
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    registry.assign_tool_to_agent("pay", "crew", key="own", max_calls=2, expires=HOUR, delegable=True)
    registry.assign_tool_to_agent("pay", "helper", by="crew", key=key, max_calls=lent_calls)
    return registry


@pytest.mark.parametrize("key", ["lent", None])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_program_starts_again(loss: str, key: str | None, tmp_path: Path) -> None:
    """Broken promise: start-up code makes its grants again at every start. It ended with a `NotOwnerError`."""
    clock = HandClock()
    with start(tmp_path / "runs.db", clock, key) as first:
        LOSSES[loss](first)
    clock.moment += 2 * HOUR if loss == "expired" else timedelta()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", AccessWarning)
        second = start(tmp_path / "runs.db", clock, key)
    with second:
        outcome = second.execute(ToolCall(name="pay", arguments={"amount": 1}, agent="helper")).outcome
        assert ("ok" if loss == "lender blocked" else "forbidden") == outcome
        if key is None or "blocked" in loss:
            assert any("'crew' cannot lend 'pay' to 'helper' any more: " in str(warning.message) for warning in caught)


def test_a_grant_with_a_key_is_returned(tmp_path: Path) -> None:
    """It is the one that was made, and what it permits is as it was."""
    clock = HandClock()
    with start(tmp_path / "runs.db", clock) as first:
        lent = next(grant for grant in first.grants() if grant.key == "lent")
        first.agent("helper").call("pay", amount=1)
    with start(tmp_path / "runs.db", clock) as second:
        second.agent("crew").call("pay", amount=2)
    with start(tmp_path / "runs.db", clock) as third:
        assert lent.id == third.grant("pay", "helper", by="crew", key="lent", max_calls=1).id
        with pytest.raises(GrantError, match="what it could lend from has ended"):
            third.grant("pay", "helper", by="crew", key="new")


@pytest.mark.parametrize("key", ["lent", None])
def test_what_is_partly_used_stays_lent(key: str | None, tmp_path: Path) -> None:
    """Broken promise: an identical grant is not made twice. Lent anew, it asked for more than its lender had left."""
    clock = HandClock()
    for left in (1, 0):
        with start(tmp_path / "runs.db", clock, key, lent_calls=2) as registry:
            registry.agent("helper").call("pay", amount=1)
            lent = [grant for grant in registry.grants(ended=True) if grant.agent == "helper"]
            assert [left] == [registry.uses_left(grant) for grant in lent]


def test_who_could_never_lend_is_refused(tmp_path: Path) -> None:
    """Nothing has changed for it: that is a mistake of the program."""
    with start(tmp_path / "runs.db", HandClock()) as registry:
        with pytest.raises(NotOwnerError, match="'helper' may not lend tool 'pay'"):
            registry.assign_tool_to_agent("pay", "boss", by="helper")


def test_agents_are_refused() -> None:
    """They run, and get an error that says why."""
    registry = ToolRegistry()

    @registry.tool("pay", owned_by="boss")
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    @agent("crew", registry=registry)
    def crew() -> None:
        """Lend."""
        registry.assign_tool_to_agent("pay", "helper", key="lent", max_calls=1)

    registry.grant("pay", "crew", delegable=True)
    crew()
    registry.block("pay", "crew")
    with pytest.raises(NotOwnerError, match="a block names it"):
        crew()
