"""What is done at run time survives: kills, restarts, other processes, stores that fail."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from survivors import Started, begun, declare, killed, look, open_to_all, spend

from praval_tools import (
    AccessWarning,
    Agent,
    NotOwnerError,
    Outcome,
    ToolCall,
    ToolError,
    ToolRegistry,
    ToolResult,
    UnknownToolWarning,
)
from praval_tools.access.events import AnyStateEvent
from praval_tools.clock import SystemClock
from praval_tools.errors import JournalError, JournalWarning, UnknownGrantError
from praval_tools.journal.storage.memory import MemoryStore
from praval_tools.tools.source import Source

START = datetime(2030, 1, 1, tzinfo=UTC)


class Hand(SystemClock):
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> datetime:
        """Return the moment to which it was moved."""
        return self.at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store is."""
    return tmp_path / "runs.db"


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, path: Path) -> Any:
    """Where a journal of each kind is; what holds for one holds for the other."""
    return path if request.param == "sqlite" else MemoryStore()


def call(registry: ToolRegistry, tool: str, agent: str = "clerk", **arguments: Any) -> ToolResult:
    """Return what comes of a call."""
    return registry.execute(ToolCall(None, tool, arguments, agent))


def outcome(registry: ToolRegistry, tool: str, agent: str = "clerk", **arguments: Any) -> str:
    """Return how a call ends."""
    return str(call(registry, tool, agent, **arguments).outcome)


def grew(registry: ToolRegistry) -> int:
    """Return how many events the journal has."""
    assert registry.journal is not None
    return sum(1 for _ in registry.journal.read())


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
            with pytest.raises(NotOwnerError):
                registry.share_tool("spend", by="treasurer")

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
        """Every overridden field has its value, of several acts the last."""
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
            with pytest.warns(AccessWarning, match="taken from"):
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
            second.tool("spend", owned_by="treasurer")(_renamed())
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


def _renamed() -> Any:
    """Return another `spend`, from the same place, whose parameter has another name."""

    def made(sum: int) -> int:
        """Spend."""
        return sum

    made.__module__, made.__qualname__ = spend.__module__, spend.__qualname__
    return made


def _elsewhere(name: str = "other") -> Any:
    """Return a function from another module."""

    def made(amount: int = 0) -> int:
        """Spend."""
        return amount

    made.__module__, made.__qualname__ = name, "spend"
    return made


PROGRAM = """
import sys
from praval_tools import ToolRegistry
registry = ToolRegistry(journal="runs.db")
@registry.tool("look")
def look() -> str:
    \"\"\"Look.\"\"\"
    return "seen"
if sys.argv[1:] == ["assign"]:
    registry.assign_tool_to_agent("look", "clerk")
print(registry.toolset("clerk").call("look"), *registry.problems())
"""


class TestSource:
    """A tool of the same name from another source is another tool."""

    ACTS = (
        ("grant", lambda one: one.assign_tool_to_agent("spend", "clerk")),
        ("sharing", lambda one: one.share_tool("spend")),
        ("owner", lambda one: one.transfer_ownership("spend", "clerk")),
    )

    @pytest.mark.parametrize(("what", "act"), ACTS, ids=[what for what, _ in ACTS])
    def test_it_inherits_nothing_that_widens(self, store: Any, what: str, act: Any) -> None:
        """Neither grants nor sharing nor ownership; for the first tool they are still there."""
        with Started(store) as first:
            act(first)
            assert "ok" == outcome(first, "spend", amount=1)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(_elsewhere())
            assert "forbidden" == outcome(second, "spend", amount=1)
            assert ["act-waits"] == [one.kind for one in second.problems() if one.kind.startswith("act")]
        with Started(store) as third:
            assert "ok" == outcome(third, "spend", amount=1)

    def test_a_distribution_is_a_source(self, store: Any) -> None:
        """One distribution's tool may move between its modules; another's of the same name is another tool."""

        def start(distribution: str, module: str) -> ToolRegistry:
            made = ToolRegistry(journal=store)
            made.tool("spend", owned_by="treasurer", source=Source(distribution=distribution))(_elsewhere(module))
            return made

        with start("money", "one") as first:
            first.assign_tool_to_agent("spend", "clerk")
        with start("money", "two") as moved:
            assert "ok" == outcome(moved, "spend", amount=1)
        with start("evil", "one") as other:
            assert "forbidden" == outcome(other, "spend", amount=1)

    def test_a_program_and_its_module(self, tmp_path: Path) -> None:
        """A file is one source, however it is run: as a program, by `-m`, or imported by the command line."""
        (tmp_path / "house").mkdir()
        (tmp_path / "house" / "__init__.py").touch()
        (tmp_path / "house" / "app.py").write_text(PROGRAM)
        by_path, whole = ["house/app.py"], [f"{tmp_path}/house/app.py"]
        for arguments in (["-c", "import house.app", "assign"], by_path, whole, ["-m", "house.app"]):
            done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(tmp_path)})  # fmt: skip
            assert "seen\n" == done.stdout, done.stderr

    def test_configuration(self, store: Any) -> None:
        """It does not inherit what was configured, save that calls need an approval."""
        with Started(store) as first:
            first.configure("spend", timeout=9, requires_approval=True)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="clerk")(_elsewhere())
            assert second.get_tool("spend").metadata.timeout is None  # type: ignore[union-attr]
            assert "approval_required" == outcome(second, "spend", amount=1)

    def test_configured_to_need_none(self, store: Any) -> None:
        """That the first tool needs no approval says nothing of the other."""
        with Started(store) as first:
            first.configure("spend", requires_approval=False)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="clerk", requires_approval=True)(_elsewhere())
            assert "approval_required" == outcome(second, "spend", amount=1)

    def test_what_narrows_counts_for_every_tool(self, store: Any) -> None:
        """Blocks, removals, disabling and the end of sharing are about the name."""
        with Started(store) as first:
            first.block("spend", "clerk")
            first.remove_tool_from_agent("spend", "treasurer")
            first.disable("look")
            first.unshare_tool("open")
        with ToolRegistry(journal=store) as second:
            second.tool("open", shared=True)(_elsewhere("fourth"))
            assert "forbidden" == outcome(second, "open")
            assert [] == [one for one in second.problems() if one.kind == "act-waits"]
            second.share_tool("open")
            second.block("look", "intern")
            assert "ok" == outcome(second, "open")
            second.tool("spend", owned_by="treasurer", shared=True)(_elsewhere())
            second.tool("look", shared=True)(_elsewhere("third"))
            results = [outcome(second, "spend", who, amount=1) for who in ("clerk", "treasurer", "intern")]
            assert ["forbidden", "forbidden", "ok"] == results
            assert "disabled" == outcome(second, "look")

    def test_a_tool_in_the_place_of_another_while_the_process_runs(self, store: Any) -> None:
        """Unregistered and declared from elsewhere, it inherits nothing configured but the approval."""
        with Started(store) as registry:
            registry.configure("spend", timeout=9, requires_approval=True)
            registry.unregister_tool("spend")
            registry.tool("spend", owned_by="clerk")(_elsewhere())
            assert registry.get_tool("spend").metadata.timeout is None  # type: ignore[union-attr]
            assert "approval_required" == outcome(registry, "spend", amount=1)
            registry.unregister_tool("spend")
            registry.tool("spend", owned_by="clerk")(spend)
            assert 9 == registry.get_tool("spend").metadata.timeout  # type: ignore[union-attr]

    def test_the_operator_gives_it_anew(self, store: Any) -> None:
        """An assignment counts for the tool that is there; both grants live beside each other."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", max_calls=1)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(_elsewhere())
            assert second.assign_tool_to_agent("spend", "clerk", max_calls=2)
            assert ["ok", "ok", "forbidden"] == [outcome(second, "spend", amount=1) for _ in range(3)]
        with Started(store) as third:
            assert ["ok", "forbidden"] == [outcome(third, "spend", amount=1) for _ in range(2)]

    def test_one_that_waits_is_revoked(self, store: Any) -> None:
        """The operator ends a grant that waits, with what was lent on from it; its tool comes back without it."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", max_calls=3, delegable=True)
            first.grant("spend", "intern", by="clerk", max_calls=1)
            grant = first.grants(tool="spend", agent="clerk")[0]
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(_elsewhere())
            assert 2 == len(_waiting(second))
            assert any(grant.id in str(one) and "or revoke it" in str(one) for one in _waiting(second))
            with pytest.raises(UnknownGrantError):
                second.revoke(grant.id, by="treasurer")
            assert second.revoke(grant.id, reason="not any more")
            assert not second.revoke(grant.id)
            assert [] == _waiting(second)
        with ToolRegistry(journal=store) as third:
            assert [] == _waiting(third)
            declare(third)
            assert ["forbidden"] * 2 == [outcome(third, "spend", agent, amount=1) for agent in ("clerk", "intern")]
            assert not third.revoke(grant.id)
            (ended,) = third.grants(tool="spend", agent="clerk", ended=True)
            assert grant.id == ended.id
            assert [("operator", "not any more")] == [
                (one.event.by, one.event.reason) for one in third.journal.read(type="grant_revoked")
            ]

    @pytest.mark.parametrize("what", ["revoke", "remove", "remove again", "retire"])
    def test_one_that_waits_is_ended_here(self, store: Any, what: str) -> None:
        """A removal, and the agent's retirement, end what waits as a revocation does: in this process, and later."""
        with Started(store) as first:
            if what == "remove again":
                first.remove_tool_from_agent("spend", "clerk")
            first.assign_tool_to_agent("spend", "clerk")
            grant = first.grants(tool="spend", agent="clerk")[0]
        with ToolRegistry(journal=store) as second:
            Agent("clerk", registry=second)
            if what == "revoke":
                second.revoke(grant)
            elif what.startswith("remove"):
                with pytest.warns(UnknownToolWarning, match="is taken from the agent once there is one"):
                    second.remove_tool_from_agent("spend", "clerk")
            else:
                second.retire_agent("clerk")
            assert [] == _waiting(second)
            second.tool("spend", owned_by="treasurer")(spend)
            assert "forbidden" == outcome(second, "spend", amount=1)
        with Started(store) as third:
            assert "forbidden" == outcome(third, "spend", amount=1)
            assert [] == third.grants(tool="spend", agent="clerk")


def _waiting(registry: ToolRegistry) -> list[Any]:
    """Return the problems with acts that wait."""
    return [one for one in registry.problems() if one.kind == "act-waits"]


class TestProblems:
    def of(self, registry: ToolRegistry) -> list[tuple[str, str]]:
        """Return kind and subject of the problems with acts."""
        return [(one.kind, one.subject) for one in registry.problems() if one.kind.startswith("act")]

    def test_an_act_that_beats_a_declaration(self, store: Any) -> None:
        """Owner, sharing and configured fields that are not as declared are told, with both values; then not."""
        with Started(store) as first:
            first.transfer_ownership("spend", "clerk")
            first.unshare_tool("open")
            first.configure("look", timeout=3)
        with Started(store) as second:
            assert [("act-beats-declaration", name) for name in ("spend", "look", "open")] == self.of(second)
            texts = [str(one) for one in second.problems()]
            assert any("'treasurer'" in text and "'clerk'" in text for text in texts)
            second.transfer_ownership("spend", "treasurer")
            second.share_tool("open")
            second.configure("look", timeout=None)
            assert [] == self.of(second)
        with Started(store) as third:
            assert [] == self.of(third)

    def test_a_removal_of_what_is_listed(self, store: Any) -> None:
        """An agent that lists a tool which was taken from it, or from which it is blocked, is told."""
        with Started(store) as first:
            first.remove_tool_from_agent("open", "reader")
            first.block("look", "reader")
        with Started(store) as second:
            reader = Agent("reader", tools=["open", "look", "spend"], registry=second)
            assert [("act-beats-declaration", "reader")] * 2 == self.of(second)
            assert ["spend"] == reader.list_tools()

    def test_an_act_that_waits(self, store: Any) -> None:
        """Acts on a tool of another source, or of none that is there, wait; an ended one does not."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk")
            first.revoke(first.grant("look", "clerk"))
            first.share_tool("look")
        with ToolRegistry(journal=store) as second:
            assert [("act-waits", "look"), ("act-waits", "spend")] == sorted(self.of(second))
            declare(second)
            assert [("act-beats-declaration", "look")] == self.of(second)

    def test_nothing_without_a_journal(self) -> None:
        """Without a journal what is done now is the present will, and no problem."""
        registry = ToolRegistry()
        declare(registry)
        registry.transfer_ownership("spend", "clerk")
        registry.unshare_tool("open")

        assert [] == self.of(registry)


class TestStartUpCode:
    """Code that says the same at every start changes nothing by it."""

    def begin(self, registry: ToolRegistry) -> list[bool]:
        """Assign as start-up code does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccessWarning)
            return [
                registry.assign_tool_to_agent("spend", "clerk", key="tea", max_calls=2),
                registry.assign_tool_to_agent("look", "clerk"),
            ]

    def test_a_spent_count_is_not_filled_again(self, store: Any) -> None:
        """The grant of a key is the one that was spent."""
        for expected in ("ok", "ok", "forbidden", "forbidden"):
            with Started(store) as registry:
                self.begin(registry)
                assert expected == outcome(registry, "spend", amount=1)

    def test_a_revocation_is_not_undone(self, store: Any) -> None:
        """Neither with a key nor without."""
        with Started(store) as first:
            assert [True, True] == self.begin(first)
            for grant in first.grants():
                first.revoke(grant)
        for _ in range(2):
            with Started(store) as second:
                assert [False, False] == self.begin(second)
                assert [] == second.grants()
                assert ["forbidden"] * 2 == [outcome(second, "spend", amount=1), outcome(second, "look")]

    def test_nor_is_one_that_lasts_an_hour_from_the_start_on(self, store: Any) -> None:
        """A revoked grant does not come back because its hour would begin anew."""
        with Started(store) as first:
            assert first.assign_tool_to_agent("look", "clerk", expires=timedelta(hours=1))
            first.revoke(first.grants()[0])
        with Started(store) as second:
            with pytest.warns(AccessWarning, match="was taken"):
                assert not second.assign_tool_to_agent("look", "clerk", expires=timedelta(hours=1))
            assert second.assign_tool_to_agent("look", "clerk", expires=timedelta(hours=2))

    def test_a_removal_is_not_undone(self, store: Any) -> None:
        """Nor is a removal, with or without a key."""
        with Started(store) as first:
            self.begin(first)
            for tool in ("spend", "look"):
                first.remove_tool_from_agent(tool, "clerk")
        with Started(store) as second:
            assert [False, False] == self.begin(second)
            assert ["forbidden"] * 2 == [outcome(second, "spend", amount=1), outcome(second, "look")]

    def test_a_block_is_no_crash(self, store: Any) -> None:
        """A blocked agent gets nothing, and the start goes on with a warning."""
        with Started(store) as first:
            first.block("spend", "clerk")
            first.block("look", "clerk")
        with Started(store) as second:
            with pytest.warns(AccessWarning, match="blocked"):
                assert not second.assign_tool_to_agent("spend", "clerk", key="tea", max_calls=2)
            assert [False, False] == self.begin(second)
            second.unblock("spend", "clerk")
            assert second.assign_tool_to_agent("spend", "clerk", key="tea", max_calls=2)

    def test_the_journal_does_not_grow(self, store: Any) -> None:
        """All verbs that a start repeats write once."""

        def begin() -> int:
            with Started(store) as registry:
                self.begin(registry)
                registry.share_tool("look")
                registry.unshare_tool("open")
                registry.transfer_ownership("spend", "clerk")
                registry.configure("spend", timeout=2, retry_on=ConnectionError, tags=["a", "b"])
                registry.disable("look", reason="broken")
                registry.enable("spend") if ("tool", "spend") in registry.state.disabled else None
                registry.block("open", "clerk", reason="no")
                registry.remove_tool_from_agent("open", "treasurer")
                return grew(registry)

        assert begin() == begin() == begin()

    def test_grants_in_a_loop(self, store: Any) -> None:
        """An identical grant is not recorded twice, not even by the next process."""
        for _ in range(3):
            with Started(store) as registry:
                assert registry.assign_tool_to_agent("look", "clerk", reason="see")
                assert 1 == grew(registry) == len(registry.grants())


class TestConfigured:
    VALUES: dict[str, Any] = {
        "description": "Spends.",
        "category": "money",
        "tags": ["a", "b"],
        "requires_approval": True,
        "risk_level": "high",
        "timeout": 2,
        "retries": 3,
        "retry_on": (ConnectionError, TimeoutError),
        "idempotent": True,
        "read_only": False,
        "concurrency_safe": False,
        "max_result_size": 99,
        "errors": "masked",
        "engine": "thread",
        "private": True,
        "strict_arguments": True,
        "extra": {"a": [1, {"b": 2}]},
    }

    @pytest.mark.parametrize("name", VALUES)
    def test_every_field(self, path: Path, name: str) -> None:
        """Each field that can be configured has the same value after a restart."""
        with Started(path) as first:
            first.configure("spend", **{name: self.VALUES[name]})
            expected = getattr(first.get_tool("spend").metadata, name)  # type: ignore[union-attr]
        with Started(path) as second:
            assert expected == getattr(second.get_tool("spend").metadata, name)  # type: ignore[union-attr]

    def test_a_class_that_is_gone(self, path: Path) -> None:
        """An exception type that no module has any more is left out; the start goes on."""

        class GoneError(Exception):
            """Only here."""

        with Started(path) as first:
            first.configure("spend", retry_on=(GoneError, ConnectionError), retries=2)
        with Started(path) as second:
            meta = second.get_tool("spend").metadata  # type: ignore[union-attr]
            assert ((ConnectionError,), 2) == (meta.retry_on, meta.retries)


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
    def test_acts_before_their_tools(self, store: Any) -> None:
        """Blocks, removals and a category's switch before any tool is there count when it comes."""
        with ToolRegistry(journal=store) as first:
            first.block("open", "clerk")
            with pytest.warns(UnknownToolWarning):
                first.remove_tool_from_agent("look", "treasurer")
            declare(first)
            assert ["forbidden"] * 2 == [outcome(first, "open"), outcome(first, "look", "treasurer")]
        with Started(store) as second:
            assert ["forbidden"] * 2 == [outcome(second, "open"), outcome(second, "look", "treasurer")]

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


class Failing(MemoryStore):
    """A store that takes nothing as long as it is told so."""

    def __init__(self) -> None:
        super().__init__()
        self.full = False

    def append(self, items: Any) -> Any:
        """Write *items*, or fail."""
        if self.full:
            raise JournalError("runs.db", "the disk is full", "Make room.")
        return super().append(items)


WIDENING: tuple[tuple[str, Any, str, str], ...] = (
    ("assign", lambda one: one.assign_tool_to_agent("spend", "clerk"), "spend", "clerk"),
    ("share", lambda one: one.share_tool("look"), "look", "clerk"),
    ("transfer", lambda one: one.transfer_ownership("look", "clerk"), "look", "clerk"),
    ("unblock", lambda one: one.unblock("open", "blocked"), "open", "blocked"),
    ("enable", lambda one: one.enable(tag="off"), "switched", "treasurer"),
    ("configure", lambda one: one.configure("careful", requires_approval=False), "careful", "treasurer"),
)
NARROWING: tuple[tuple[str, Any, str, str], ...] = (
    ("block", lambda one: one.block("open", "clerk"), "open", "clerk"),
    ("remove", lambda one: one.remove_tool_from_agent("open", "clerk"), "open", "clerk"),
    ("revoke", lambda one: one.revoke(one.grants(agent="granted")[0]), "look", "granted"),
    ("unshare", lambda one: one.unshare_tool("open"), "open", "clerk"),
    ("disable", lambda one: one.disable("open"), "open", "clerk"),
    ("unregister", lambda one: one.unregister_tool("look"), "look", "granted"),
    ("retire", lambda one: one.retire_agent("granted"), "look", "granted"),
)


def _names(cases: Any) -> list[str]:
    return [one[0] for one in cases]


class TestStoresThatFail:
    def begin(self, store: Failing, **options: Any) -> Started:
        """Return a registry in which every act has something to do; its store has failed since."""
        registry = Started(store, **options)
        registry.tool("switched", owned_by="treasurer", tags=["off"])(_elsewhere("a"))
        registry.tool("careful", owned_by="treasurer", requires_approval=True)(_elsewhere("b"))
        registry.block("open", "blocked")
        registry.disable(tag="off")
        registry.assign_tool_to_agent("look", "granted")
        store.full = True
        return registry

    @pytest.mark.parametrize(("what", "act", "tool", "agent"), WIDENING, ids=_names(WIDENING))
    def test_a_widening_changes_nothing(self, what: str, act: Any, tool: str, agent: str) -> None:
        """It raises, the state is as before, and it can be done once the store works again."""
        store = Failing()
        registry = self.begin(store)
        before, told = registry.state, list[AnyStateEvent]()
        registry.subscribe(told.append)

        with pytest.raises(JournalError, match="disk is full"):
            act(registry)

        assert before == registry.state and [] == told
        store.full = False
        given = {"amount": 1} if tool == "spend" else {}
        assert "ok" != outcome(registry, tool, agent, **given)
        act(registry)
        assert "ok" == outcome(registry, tool, agent, **given)

    @pytest.mark.parametrize(("what", "act", "tool", "agent"), NARROWING, ids=_names(NARROWING))
    def test_a_narrowing_counts_all_the_same(self, what: str, act: Any, tool: str, agent: str) -> None:
        """It counts from then on, and raises: it is not durable."""
        store = Failing()
        registry = self.begin(store)

        with pytest.raises(JournalError, match="disk is full"):
            act(registry)

        store.full = False
        assert "ok" != outcome(registry, tool, agent)
        assert not registry.explain(agent, tool).allowed

    @pytest.mark.parametrize("again", ["the same act", "another act"])
    @pytest.mark.parametrize(("what", "act", "tool", "agent"), NARROWING, ids=_names(NARROWING))
    def test_a_narrowing_is_made_up_for(self, what: str, act: Any, tool: str, agent: str, again: str) -> None:
        """Done again, or followed by another act, it raises until it is durable; then it is there at the next start."""
        store = Failing()
        registry = self.begin(store)
        grants = registry.grants(agent="granted")
        with pytest.raises(JournalError):
            act(registry)

        def once_more() -> None:
            if again == "another act":
                registry.disable("careful")
            elif what == "revoke":
                registry.revoke(grants[0])
            else:
                act(registry)

        with pytest.raises(JournalError, match="disk is full"):
            once_more()
        store.full = False
        once_more()

        assert "ok" != outcome(Started(store), tool, agent)

    def test_what_narrows_in_a_change_is_made_up_for(self) -> None:
        """The same of a change of which only a part counts."""
        store = Failing()
        registry = self.begin(store)
        with pytest.raises(JournalError), registry.change():
            registry.block("open", "clerk")
            registry.share_tool("look")
        store.full = False
        registry.block("open", "clerk")

        assert ["forbidden"] * 2 == [outcome(Started(store), one) for one in ("open", "look")]

    @pytest.mark.parametrize("more", [{}, {"description": "Open."}])
    def test_an_approval_is_asked_for_all_the_same(self, more: dict[str, Any]) -> None:
        """That a tool needs an approval narrows, whatever else is configured with it; the rest is as before."""
        store = Failing()
        registry = self.begin(store)
        before = registry.get_tool("open").description

        with pytest.raises(JournalError, match="disk is full"):
            registry.configure("open", requires_approval=True, **more)

        assert before == registry.get_tool("open").description
        store.full = False
        assert "approval_required" == outcome(registry, "open")
        registry.configure("open", requires_approval=True, **more)
        again = Started(store)
        assert "approval_required" == outcome(again, "open")
        assert more.get("description", before) == again.get_tool("open").description

    def test_both_in_one_change(self) -> None:
        """Of a change that does both, what narrows counts, what widens does not, and it raises."""
        store = Failing()
        registry = self.begin(store)

        with pytest.raises(JournalError), registry.change():
            registry.assign_tool_to_agent("spend", "clerk")
            registry.block("open", "clerk")
            registry.share_tool("look")

        store.full = False
        assert ["forbidden"] * 3 == [
            outcome(registry, "spend", amount=1),
            outcome(registry, "open"),
            outcome(registry, "look"),
        ]

    def test_a_change_that_was_left(self) -> None:
        """A change that an exception leaves writes nothing and changes nothing, on a good store too."""
        store = Failing()
        registry = self.begin(store)
        store.full = False
        before, events = registry.state, grew(registry)

        with pytest.raises(KeyError), registry.change():
            registry.assign_tool_to_agent("spend", "clerk")
            registry.block("open", "clerk")
            raise KeyError

        assert (before, events) == (registry.state, grew(registry))

    def test_the_operator_may_go_on(self) -> None:
        """With `journal_errors="continue"` all acts count in this process, with a warning, and no call crashes."""
        store = Failing()
        registry = self.begin(store, journal_errors="continue")

        with pytest.warns(JournalWarning, match="disk is full"):
            assert registry.assign_tool_to_agent("spend", "clerk", max_calls=2)
        with pytest.warns(JournalWarning, match="disk is full"):
            registry.block("open", "clerk")
        store.full = False
        results = [outcome(registry, "spend", amount=1) for _ in range(3)]

        assert ["ok", "ok", "forbidden"] == results
        assert "forbidden" == outcome(registry, "open")

    def test_declarations_need_no_store(self) -> None:
        """Code that declares tools and agents writes nothing."""
        store = Failing()
        store.full = True
        with Started(store) as registry:
            assert 3 == len(registry)


class TestTwoAtOnce:
    """Two registries, as of two processes, over one store."""

    def test_a_change_counts_for_the_next_call(self, store: Any) -> None:
        """Whatever one does, the next journaled call of the other is decided by it."""
        with Started(store) as here, Started(store) as there:
            assert "ok" == outcome(there, "open")
            for act, expected in (
                (lambda: here.block("open", "clerk"), "forbidden"),
                (lambda: here.unblock("open", "clerk"), "ok"),
                (lambda: here.disable(category="text"), "disabled"),
                (lambda: here.enable(category="text"), "ok"),
                (lambda: here.unshare_tool("open"), "forbidden"),
                (lambda: here.assign_tool_to_agent("open", "clerk", max_calls=2), "ok"),
                (lambda: outcome(here, "open"), "forbidden"),
                (lambda: here.transfer_ownership("open", "clerk"), "ok"),
                (lambda: here.configure("open", requires_approval=True), "approval_required"),
                (lambda: here.configure("open", requires_approval=False), "ok"),
                (lambda: here.remove_tool_from_agent("open", "clerk"), "forbidden"),
            ):
                act()
                assert expected == outcome(there, "open")

    def test_both_change(self, store: Any) -> None:
        """A change that was planned before somebody else's is planned anew; both stand."""
        with Started(store) as here, Started(store) as there:
            here.share_tool("look")
            there.share_tool("spend")
            here.block("open", "clerk")
            assert ["spend", "look", "open"] == [one.name for one in there.get_shared_tools()]
            assert "forbidden" == outcome(there, "open")
        with Started(store) as third:
            assert ["spend", "look", "open"] == [one.name for one in third.get_shared_tools()]

    @pytest.mark.parametrize("count", [1, 3])
    def test_what_is_left_is_had_by_somebody(self, store: Any, count: int) -> None:
        """Of many calls at once as many run as a grant has left, however they meet."""
        with Started(store) as here, ThreadPoolExecutor(8) as pool:
            for at in range(20):
                here.assign_tool_to_agent("look", f"agent{at}", max_calls=count)
                results = list(pool.map(lambda one: outcome(here, "look", one), [f"agent{at}"] * 8))
                assert ["forbidden"] * (8 - count) + ["ok"] * count == sorted(results)

    def test_one_key_in_both(self, store: Any) -> None:
        """Two that grant by one key make one grant, and its count is that of both."""
        with Started(store) as here, Started(store) as there:
            for one in (here, there):
                one.assign_tool_to_agent("spend", "clerk", key="k", max_calls=3)
            results = [outcome(one, "spend", amount=1) for one in (here, there, here, there)]
            assert ["ok", "ok", "ok", "forbidden"] == results
            assert 1 == len(here.grants(ended=True)) == len(there.grants(ended=True))

    def test_the_latest_act_stays(self, store: Any) -> None:
        """An act of another process on a tool brings nothing back that was undone here since."""
        with Started(store) as here, Started(store) as there:
            for act in (
                lambda one: one.share_tool("spend"),
                lambda one: one.configure("spend", requires_approval=False, retry_on=[ValueError]),
                lambda one: one.transfer_ownership("spend", "clerk"),
            ):
                act(there)
                outcome(here, "spend", amount=1)
            here.unshare_tool("spend")
            here.configure("spend", requires_approval=True)
            here.transfer_ownership("spend", "treasurer")
            there.assign_tool_to_agent("spend", "intern")

            results = [outcome(here, "spend", who, amount=1) for who in ("nobody", "clerk", "treasurer", "intern")]
            assert ["forbidden", "forbidden", "approval_required", "approval_required"] == results
            assert (ValueError,) == here.get_tool("spend").metadata.retry_on  # type: ignore[union-attr]

    def test_the_latest_act_stays_when_a_tool_is_declared_again(self, store: Any) -> None:
        """A module that runs again brings nothing back that an earlier process did and this one undid."""
        with Started(store) as first:
            first.share_tool("spend")
        with Started(store) as second:
            second.unshare_tool("spend")
            second.tool("spend", owned_by="treasurer", replace=True)(spend)
            assert "forbidden" == outcome(second, "spend", "nobody", amount=1)

    def test_a_revocation_elsewhere(self, store: Any) -> None:
        """A grant that another process ended admits nothing here, and the lent one neither."""
        with Started(store) as here, Started(store) as there:
            here.assign_tool_to_agent("spend", "clerk", delegable=True)
            assert "ok" == outcome(there, "spend", amount=1)
            there.assign_tool_to_agent("spend", "intern", by="clerk")
            assert "ok" == outcome(here, "spend", "intern", amount=1)
            here.revoke(here.grants(agent="clerk")[0])
            assert ["forbidden"] * 2 == [outcome(there, "spend", who, amount=1) for who in ("clerk", "intern")]


ADMITTING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from survivors import *
from praval_tools import ToolCall
with Started(sys.argv[1]) as registry:
    print("ready", flush=True)
    sys.stdin.readline()
    one = lambda at: registry.execute(ToolCall(None, "spend", {"amount": at}, "clerk")).outcome
    with ThreadPoolExecutor(4) as pool:
        for outcome in pool.map(one, range(int(sys.argv[2]))):
            print(outcome)
"""
ANSWERING = """
import sys
from survivors import *
from praval_tools import ToolCall
with Started(sys.argv[1]) as registry:
    print("ready", flush=True)
    for line in sys.stdin:
        print(registry.execute(ToolCall(None, "open", {}, "clerk")).outcome, flush=True)
"""


class TestProcesses:
    def test_a_count_is_exact(self, path: Path) -> None:
        """Of 160 calls that four processes of four threads make under a grant of 100, exactly 100 run."""
        with Started(path) as registry, ExitStack() as stack:
            registry.assign_tool_to_agent("spend", "clerk", max_calls=100)
            children = [stack.enter_context(begun(ADMITTING, path, 40)) for _ in range(4)]
            for one in children:
                assert one.stdout is not None
                assert "ready\n" == one.stdout.readline()
            outcomes = [
                line for one in [_let_go(one) for one in children] for line in one.communicate(timeout=120)[0].split()
            ]

            assert (100, 60) == (outcomes.count("ok"), outcomes.count("forbidden"))
            assert registry.journal is not None
            assert 100 == sum(1 for _ in registry.journal.read(type="agent_tool_call"))
            assert "forbidden" == outcome(registry, "spend", amount=1)

    def test_a_block_counts_at_once_in_another_process(self, path: Path) -> None:
        """Directly after `block` returned here, the next call there is refused; after `unblock` it runs."""
        with Started(path) as registry, begun(ANSWERING, path) as other:
            assert other.stdin is not None and other.stdout is not None
            assert "ready\n" == other.stdout.readline()
            for act, expected in ((registry.block, "forbidden"), (registry.unblock, "ok")) * 3:
                act("open", "clerk")
                other.stdin.write("call\n")
                other.stdin.flush()
                assert f"{expected}\n" == other.stdout.readline()
            other.communicate(timeout=60)


def _let_go(process: Any) -> Any:
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


TOOLS = ("spend", "look", "open", "later")
AGENTS = ("treasurer", "clerk", "reader")
tools, agents = st.sampled_from(TOOLS), st.sampled_from(AGENTS)
ACTS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "assign": st.tuples(
        tools, agents, st.sampled_from((None, 1, 2)), st.booleans(), st.sampled_from((None, "k1", "k2"))
    ),
    "lend": st.tuples(tools, agents, agents),
    "remove": st.tuples(tools, agents),
    "revoke": st.tuples(st.integers(0, 5)),
    "block": st.tuples(tools, agents, st.sampled_from((None, "treasurer"))),
    "unblock": st.tuples(tools, agents),
    "transfer": st.tuples(tools, agents),
    "share": st.tuples(tools),
    "unshare": st.tuples(tools),
    "disable": st.tuples(st.sampled_from((("tool", "look"), ("category", "text"), ("tag", "slow")))),
    "enable": st.tuples(st.sampled_from((("tool", "look"), ("category", "text"), ("tag", "slow")))),
    "configure": st.tuples(tools, st.sampled_from(({"timeout": 3}, {"requires_approval": True}, {"private": True}))),
    "unregister": st.tuples(tools),
    "retire": st.tuples(agents),
    "clear": st.just(()),
    "call": st.tuples(tools, agents),
    "restart": st.just(()),
}
histories = st.lists(st.one_of(*(st.tuples(st.just(name), one) for name, one in ACTS.items())), min_size=3, max_size=25)


class House:
    """A registry over a store, started anew when the history says so."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.start()

    def start(self) -> None:
        """Begin as a process does."""
        self.registry = Started(self.store)
        self.declare()

    def declare(self) -> None:
        """Declare what is not there."""
        self.registry.tool("later", category="text")(_elsewhere("later"))
        self.reader = Agent("reader", tools=["open"], tool_categories=["text"], registry=self.registry)

    def act(self, name: str, given: tuple[Any, ...]) -> None:
        """Do one thing; what is refused changes nothing."""
        try:
            getattr(self, name)(*given)
        except (ToolError, ValueError):
            pass

    def assign(self, tool: str, agent: str, count: int | None, delegable: bool, key: str | None) -> None:
        """Give a tool."""
        self.registry.assign_tool_to_agent(tool, agent, max_calls=count, delegable=delegable, key=key)

    def lend(self, tool: str, by: str, agent: str) -> None:
        """Lend a tool on."""
        self.registry.assign_tool_to_agent(tool, agent, by=by)

    def remove(self, tool: str, agent: str) -> None:
        """Take a tool."""
        self.registry.remove_tool_from_agent(tool, agent)

    def revoke(self, at: int) -> None:
        """End a grant."""
        found = self.registry.grants()
        self.registry.revoke(found[at % len(found)].id if found else "none")

    def block(self, tool: str, agent: str, by: str | None) -> None:
        """Block an agent."""
        self.registry.block(tool, agent, by=by)

    def unblock(self, tool: str, agent: str) -> None:
        """Lift the blocks."""
        self.registry.unblock(tool, agent)

    def transfer(self, tool: str, agent: str) -> None:
        """Hand a tool over."""
        self.registry.transfer_ownership(tool, agent)

    def share(self, tool: str) -> None:
        """Share a tool."""
        self.registry.share_tool(tool)

    def unshare(self, tool: str) -> None:
        """Share it no more."""
        self.registry.unshare_tool(tool)

    def disable(self, what: tuple[str, str]) -> None:
        """Switch something off."""
        self.registry.disable(**{what[0]: what[1]})  # type: ignore[misc]

    def enable(self, what: tuple[str, str]) -> None:
        """Switch it on."""
        self.registry.enable(**{what[0]: what[1]})  # type: ignore[misc]

    def configure(self, tool: str, changes: dict[str, Any]) -> None:
        """Override something."""
        self.registry.configure(tool, **changes)

    def unregister(self, tool: str) -> None:
        """Take a tool out, and declare it again as code does that runs again."""
        old = self.registry.get_tool(tool)
        if old is not None and self.registry.unregister_tool(tool):
            declared = {"owned_by": None if tool == "later" else "treasurer", "shared": tool == "open"}
            fresh = {"spend": spend, "look": look, "open": open_to_all}.get(tool) or _elsewhere("later")
            more = {"open": {"category": "text", "tags": ("slow",)}, "later": {"category": "text"}}.get(tool, {})
            self.registry.tool(tool, **declared, **more)(fresh)

    def retire(self, agent: str) -> None:
        """Retire an agent, and declare it again."""
        before = self.registry.state.get_profile(agent)
        self.registry.retire_agent(agent)
        self.kept = Agent(
            agent, tools=list(before.tools), tool_categories=list(before.tool_categories), registry=self.registry
        )

    def clear(self) -> None:
        """Forget everything, and declare it again."""
        self.registry.clear_registry()
        self.registry.mine = declare(self.registry)
        self.declare()

    def call(self, tool: str, agent: str) -> None:
        """Call a tool."""
        given = {"amount": 1} if tool == "spend" else {}
        self.registry.execute(ToolCall(None, tool, given, agent))

    def restart(self) -> None:
        """Let the process end, and another start."""
        self.registry.close()
        self.start()

    def answers(self) -> dict[str, Any]:
        """Return everything that the registry says."""
        one = self.registry
        grants = one.grants()
        return {
            "explained": {(agent, tool): self.explained(agent, tool) for agent in AGENTS for tool in TOOLS},
            "listed": {agent: sorted(tool.name for tool in one.get_tools_for_agent(agent)) for agent in AGENTS},
            "grants": {grant.id: (grant, one.uses_left(grant)) for grant in grants},
            "metadata": {tool.name: tool.metadata.to_dict() for tool in one},
            "configured": {name: dict(one.state.tools[name].overrides) for name in TOOLS},
            "disabled": one.state.disabled,
            "problems": sorted(map(str, one.problems())),
        }

    def explained(self, agent: str, tool: str) -> tuple[Any, ...]:
        """Return the decision about one agent and tool, and its reason."""
        found = self.registry.explain(agent, tool)
        return found.outcome, found.rule, found.reason


class TestAnyHistory:
    @given(histories)
    @settings(suppress_health_check=[HealthCheck.too_slow])
    def test_a_new_start_gives_the_same_answers(self, history: list[tuple[str, tuple[Any, ...]]]) -> None:
        """Whatever was done: a registry that starts over the same store answers as the one before it."""
        house = House(MemoryStore())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, given_to in history:
                house.act(name, given_to)
            expected = house.answers()
            events = grew(house.registry)
            house.restart()

        assert expected == house.answers()
        assert events == grew(house.registry)
        house.registry.close()
