"""Several processes over one journal: what one changes counts in the others, and neither undoes the other unawares."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from state_rig import Hand, outcome, path, shared, store  # noqa: F401  # fixtures
from survivors import Started, begun

from praval_tools import AccessWarning, GrantError, NotOwnerError, ToolCall, ToolRegistry
from praval_tools.errors import JournalError, JournalWarning
from praval_tools.journal.storage.memory import MemoryStore

RUNNING = """
import sys
from survivors import *
from praval_tools import ToolCall
with Started(sys.argv[1]) as registry:
    print("ready", flush=True)
    for line in sys.stdin:
        print(repr(eval(line)), flush=True)
"""


class Process:
    """Another process with a registry over the same journal, which evaluates expressions."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        assert "ready\n" == self._read()

    def _read(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline()

    def evaluate(self, expression: str) -> str:
        """Return the text of what *expression* is there, once it has been evaluated."""
        assert self._child.stdin is not None
        self._child.stdin.write(f"{expression}\n")
        self._child.stdin.flush()
        return self._read().rstrip("\n")


@contextmanager
def started(where: Path) -> Iterator[Process]:
    """Return another process over the journal at *where*; it ends afterwards."""
    with begun(RUNNING, where) as child:
        try:
            yield Process(child)
        finally:
            child.kill()


class Hesitant(MemoryStore):
    """A store that lets something else happen before it answers which revision it has, or before it writes."""

    def __init__(self) -> None:
        super().__init__()
        self.before_answer: Any = None
        self.before_write: Any = None

    def revision(self) -> int:
        """Return the revision, after what happens meanwhile."""
        meanwhile, self.before_answer = self.before_answer, None
        if meanwhile is not None:
            meanwhile()
        return super().revision()

    def append(self, items: Any) -> Any:
        """Write *items*, after what happens meanwhile."""
        meanwhile, self.before_write = self.before_write, None
        if meanwhile is not None:
            meanwhile()
        return super().append(items)


class TestWhatWasPermittedElsewhere:
    """A call that is requested after another process permitted it is not refused."""

    @pytest.mark.parametrize(
        "permit",
        [
            lambda registry: registry.assign_tool_to_agent("look", "clerk"),
            lambda registry: registry.share_tool("look"),
            lambda registry: registry.transfer_ownership("look", "clerk"),
        ],
        ids=["grant", "share", "transfer"],
    )
    def test_it_counts_when_another_thread_learns_of_it_first(self, permit: Any) -> None:
        """
        What was permitted before the call counts for it, whichever thread takes in the news.

        The decision was taken by the old state and compared with the new one, which another thread had loaded.
        """
        store = Hesitant()
        with Started(store) as here, Started(store) as there, ThreadPoolExecutor(1) as pool:
            permit(here)
            store.before_answer = lambda: pool.submit(outcome, there, "spend", "nobody", amount=1).result()

            assert "ok" == outcome(there, "look")

    def test_it_counts_in_eight_threads(self, path: Path) -> None:
        """Of the calls that eight threads make after a process returned from a grant, none is refused."""
        with Started(path) as registry, started(path) as other, ThreadPoolExecutor(8) as pool:
            for at in range(15):
                assert "True" == other.evaluate(f"registry.assign_tool_to_agent('look', 'agent{at}')")
                outcomes = list(pool.map(lambda _, at=at: outcome(registry, "look", f"agent{at}"), range(8)))
                assert ["ok"] * 8 == outcomes


class Stopwatch(Hand):
    """A clock whose seconds stand still, too, until they are moved."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def monotonic(self) -> float:  # type: ignore[override]
        """Return the seconds to which it was moved."""
        return self.seconds


VIEWS: dict[str, Callable[[ToolRegistry], bool]] = {
    "toolset": lambda registry: "look" in registry.toolset("clerk"),
    "list": lambda registry: "look" in list(registry.toolset("clerk")),
    "schemas": lambda registry: b'"look"' in registry.schemas_json("clerk"),
    "tools": lambda registry: "look" in [tool.name for tool in registry.get_tools_for_agent("clerk")],
    "explain": lambda registry: registry.explain("clerk", "look").allowed,
    "grants": lambda registry: bool(registry.grants(agent="clerk")),
}


class TestWhatIsListed:
    """
    Lists and explanations show within a second what other processes changed.

    They stayed as they were until the process called something.
    """

    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    def test_each_view_is_fresh(self, view: Callable[[ToolRegistry], bool]) -> None:
        """Whatever is asked first, it knows what was changed more than a second ago."""
        store, clock = MemoryStore(), Stopwatch()
        with Started(store) as here, Started(store, clock=clock) as there:
            assert not view(there)
            here.assign_tool_to_agent("look", "clerk")
            clock.seconds += 1

            assert view(there)

    @pytest.mark.parametrize("view", [name for name in VIEWS if name != "grants"])
    def test_a_grant_that_was_spent_elsewhere_is_listed_nowhere(self, view: str, store: Any) -> None:
        """Whatever is asked, it knows of calls that other processes made more than a second ago."""
        clock = Stopwatch()
        with Started(store) as here:
            here.grant("look", "clerk", max_calls=2)
            with Started(store, clock=clock) as there:
                for expected in (True, True, False):
                    clock.seconds += 1
                    assert expected is VIEWS[view](there)
                    outcome(here, "look")

    def test_what_is_left_of_a_grant_is_exact(self, store: Any) -> None:
        """Calls of both processes are counted in both, also after changes of their own, and each call is let in."""
        clocks = Stopwatch(), Stopwatch()
        with Started(store, clock=clocks[0]) as here, Started(store, clock=clocks[1]) as there:
            grants = [here.grant("look", "clerk", max_calls=8), here.grant("spend", "clerk", max_calls=2)]
            for left in range(7, -1, -1):
                assert "ok" == outcome((here, there)[left % 3 == 0], "look")
                if left % 2:
                    there.block("look", f"nobody {left}")
                for clock, registry in zip(clocks, (here, there), strict=True):
                    clock.seconds += 1
                    assert [left, 2] == [registry.uses_left(grant) for grant in grants]
            assert ["forbidden"] * 2 == [outcome(registry, "look") for registry in (here, there)]

    def test_looking_costs_no_call_that_is_under_way(self, store: Any) -> None:
        """A call that is counted in the store and not here yet is not counted twice because somebody looks."""
        clock = Stopwatch()
        with Started(store, clock=clock) as here, Started(store) as there, ThreadPoolExecutor(8) as pool:
            grant = here.grant("look", "clerk", max_calls=40)

            def call_and_look(at: int) -> str:
                clock.seconds += 1
                here.uses_left(grant)
                return outcome((here, there)[at % 2], "look")

            assert ["ok"] * 40 == list(pool.map(call_and_look, range(40)))
            clock.seconds += 1
            assert 0 == here.uses_left(grant)

    def test_a_process_that_calls_nothing_learns_of_changes(self, path: Path) -> None:
        """A real process lists what another one granted, and no more what it took."""
        with Started(path) as registry, started(path) as other:
            for verb, expected in (("assign_tool_to_agent", True), ("remove_tool_from_agent", False)):
                other.evaluate(f"registry.{verb}('look', 'clerk')")
                end = monotonic() + 30
                while ("look" in registry.toolset("clerk")) is not expected:
                    assert monotonic() < end

    def test_many_calls_that_a_change_made_old_read_it_once(self, shared: Path | str) -> None:
        """Of thirty calls that began before they knew of a change, one reads it, and all are decided by it."""
        with Started(shared) as here, Started(shared) as there:
            assert here.journal is not None
            here.assign_tool_to_agent("look", "clerk")
            store, read = here.journal.store, list[int]()
            here.journal.store.state = lambda since=0: read.append(since) or type(store).state(store, since)  # type: ignore[method-assign, func-returns-value]
            there.block("look", "clerk")

            async def call_all() -> list[str]:
                calls = [here.aexecute(ToolCall(None, "look", {}, "clerk")) for _ in range(30)]
                return [str(result.outcome) for result in await asyncio.gather(*calls)]

            assert ["forbidden"] * 30 == asyncio.run(call_all())
            assert 3 > len(read)

    def test_the_store_is_asked_a_few_times_a_second_at_most(self) -> None:
        """Of a hundred lists within a moment one asks the store."""
        asked = list[None]()

        class Counted(MemoryStore):
            def revision(self) -> int:
                asked.append(None)
                return super().revision()

        clock = Stopwatch()
        with Started(Counted(), clock=clock) as registry:
            for at in range(1, 4):
                clock.seconds += 1
                for _ in range(100):
                    list(registry.toolset("clerk"))
                assert at == len(asked)

    def test_a_reader_does_not_wait_for_a_change(self) -> None:
        """While a thread changes something, others list what there was before."""
        store = MemoryStore()
        with Started(store) as here, Started(store) as there, ThreadPoolExecutor(1) as pool, there.change():
            there.share_tool("look")
            here.share_tool("spend")
            assert ["open"] == pool.submit(lambda: list(there.toolset("nobody"))).result(timeout=60)

    def test_a_store_that_fails_is_reported(self) -> None:
        """A list that may be out of date is an error, and a warning where the operator goes on without the journal."""

        class Broken(MemoryStore):
            broken = False

            def revision(self) -> int:
                if self.broken:
                    raise JournalError("runs.db", "the disk is gone", "Mount it.")
                return super().revision()

        for errors in ("raise", "continue"):
            store = Broken()
            with Started(store, journal_errors=errors) as registry:
                store.broken = True
                if errors == "raise":
                    with pytest.raises(JournalError, match="disk is gone"):
                        list(registry.toolset("clerk"))
                else:
                    with pytest.warns(JournalWarning, match="disk is gone"):
                        assert ["open"] == list(registry.toolset("clerk"))


class TestGivingBack:
    """What another process took away is given back by who knows that it was taken, and by nobody else."""

    TAKE = (
        "registry.remove_tool_from_agent('look', 'clerk')",
        "[registry.revoke(grant) for grant in registry.grants(agent='clerk')]",
    )

    @pytest.mark.parametrize("take", TAKE, ids=["removal", "revocation"])
    def test_who_knows_of_it_gives_it_back(self, path: Path, take: str) -> None:
        """
        A plain assignment undoes what another process took away while this one ran.

        It was held for a removal of before the start, which only a new key undoes.
        """
        with Started(path) as registry, started(path) as other:
            registry.assign_tool_to_agent("look", "clerk")
            other.evaluate(take)
            assert "forbidden" == outcome(registry, "look")

            assert registry.assign_tool_to_agent("look", "clerk")
            assert "ok" == outcome(registry, "look")
            assert "'ok'" == other.evaluate("str(registry.execute(ToolCall(None, 'look', {}, 'clerk')).outcome)")

    @pytest.mark.parametrize("take", TAKE, ids=["removal", "revocation"])
    def test_who_does_not_know_gives_nothing_back(self, path: Path, take: str) -> None:
        """An assignment that was under way when another process took the tool changes nothing, and says so."""
        with Started(path) as registry, started(path) as other:
            registry.assign_tool_to_agent("look", "clerk", reason="before")
            assert "ok" == outcome(registry, "look")
            other.evaluate(take)

            with pytest.warns(AccessWarning, match="Another process has just taken"):
                assert not registry.assign_tool_to_agent("look", "clerk", reason="before")
            assert "forbidden" == outcome(registry, "look")
            assert registry.assign_tool_to_agent("look", "clerk", reason="before")
            assert "ok" == outcome(registry, "look")

    @pytest.mark.parametrize("take", TAKE, ids=["removal", "revocation"])
    def test_what_was_taken_before_the_start_stays_taken(self, path: Path, take: str) -> None:
        """Start-up code does not undo what an earlier process did, also where it learns of it."""
        with Started(path) as first, started(path) as other:
            first.assign_tool_to_agent("look", "clerk")
            other.evaluate(take)
        with Started(path) as registry:
            assert "forbidden" == outcome(registry, "look")
            with pytest.raises(GrantError, match="before this process looked"):
                registry.grant("look", "clerk")
            assert "forbidden" == outcome(registry, "look")


NARROWING: dict[str, Callable[[ToolRegistry], object]] = {
    "remove": lambda registry: registry.remove_tool_from_agent("look", "clerk"),
    "remove by owner": lambda registry: registry.remove_tool_from_agent("look", "clerk", by="treasurer"),
    "retire": lambda registry: registry.retire_agent("clerk"),
    "unregister": lambda registry: registry.unregister_tool("look"),
}


class TestTakingWhatIsNotKnown:
    """
    Whoever takes a tool away takes what other processes granted before, too.

    A process that did not know of the grant left it alone: it counted again at the next start.
    """

    @pytest.mark.parametrize("take", NARROWING.values(), ids=NARROWING)
    def test_a_grant_of_before_ends(self, store: Any, take: Callable[[ToolRegistry], object]) -> None:
        """A grant that was made before the removal is over in every process and at the next start."""
        with Started(store) as here, Started(store) as there:
            here.assign_tool_to_agent("look", "clerk")
            take(there)

            assert "ok" not in [outcome(registry, "look") for registry in (here, there)]
        with Started(store) as third:
            assert "ok" != outcome(third, "look")

    @pytest.mark.parametrize("what", ["remove", "retire"])
    def test_a_grant_of_the_same_moment_ends(self, what: str) -> None:
        """So is one that was written between the look at the store and the writing of the removal."""
        store = Hesitant()
        with Started(store) as here, Started(store) as there:
            store.before_write = lambda: here.assign_tool_to_agent("look", "clerk")
            NARROWING[what](there)

            assert "ok" not in [outcome(registry, "look") for registry in (there, here)]
        with Started(store) as third:
            assert "ok" != outcome(third, "look")


class TestWhatTheJournalSays:
    def test_the_end_of_a_grant_is_found_by_its_tool(self, store: Any) -> None:
        """
        `journal.read(tool=…)` gives the revocation of a grant of that tool, `agent=` that of one to the agent.

        The event names neither, and was left out.
        """
        with Started(store) as registry:
            for tool in ("look", "spend"):
                registry.revoke(registry.grant(tool, "clerk"))
            journal = registry.journal
            assert journal is not None
            kinds = [type(entry.event).__name__ for entry in journal.read(tool="look")]
            assert ["ToolAssigned", "GrantRevoked"] == kinds
            assert 4 == sum(1 for _ in journal.read(agent="clerk"))

    def test_so_is_that_of_a_grant_that_waits_for_its_tool(self, store: Any) -> None:
        """The same where the tool is not registered here."""
        with Started(store) as registry:
            grant = registry.grant("look", "clerk")
        with ToolRegistry(journal=store) as registry:
            registry.revoke(grant.id)
            journal = registry.journal
            assert journal is not None
            assert ["GrantRevoked"] == [
                type(entry.event).__name__ for entry in journal.read(tool="look", type="grant_revoked")
            ]


class TestChangesThatAreOpen:
    """Several changes made one know what other processes did until they count."""

    def test_an_assignment_in_it_undoes_no_removal(self, store: Any) -> None:
        """What another registry takes away meanwhile stays away: the change is refused where it ends, all of it."""
        with Started(store) as one, Started(store) as other:
            one.assign_tool_to_agent("spend", "clerk")
            with pytest.raises(GrantError, match="Another process has just taken 'spend' from 'clerk'"):
                with one.change():
                    one.share_tool("look")
                    one.assign_tool_to_agent("spend", "clerk", reason="for tea")
                    other.remove_tool_from_agent("spend", "clerk")
            assert ["forbidden"] * 2 == [outcome(registry, "spend", amount=1) for registry in (one, other)]
            assert ["forbidden"] * 2 == [outcome(registry, "look") for registry in (one, other)]

    def test_it_is_planned_again(self, store: Any) -> None:
        """What another registry did besides does not hinder it, and what it did already is not done twice."""
        with Started(store) as one, Started(store) as other:
            with one.change():
                grant = one.grant("spend", "clerk", key="tea")
                one.share_tool("look")
                other.share_tool("look")
            assert ["ok"] * 2 == [outcome(registry, "spend", amount=1) for registry in (one, other)]
            assert [grant] == other.grants()
            assert 1 == sum(1 for _ in one.journal.read(type="tool_shared"))


class TestRefusedChanges:
    """A change is refused by what holds now, not by what this process saw at its last call."""

    def test_are_decided_by_what_other_processes_did(self, store: Any) -> None:
        """Broken promise: a program that made no calls could not revoke what another one had granted."""

        def start() -> ToolRegistry:
            registry = ToolRegistry(journal=store)

            @registry.tool("lend_book", owned_by="ann")
            def lend_book() -> str:
                """Lend a book."""
                return "lent"

            return registry

        with start() as first:
            first.block("lend_book", "zoe")
            with start() as second:
                grant = first.grant("lend_book", "eve", delegable=True)
                assert second.revoke(grant.id)
                first.grant("lend_book", "bob", delegable=True)
                assert "bob" == second.grant("lend_book", "kim", by="bob").by
                first.unblock("lend_book", "zoe")
                assert "zoe" == second.grant("lend_book", "zoe").agent
                first.transfer_ownership("lend_book", "max")
                assert "max" == second.grant("lend_book", "joe", by="max").by
                with pytest.raises(NotOwnerError, match="'eve' may not lend"):
                    second.grant("lend_book", "joe", by="eve")
