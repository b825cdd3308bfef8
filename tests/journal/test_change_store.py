"""Changes of access and the store: failures, lenient stores, and several processes at once."""

# Tests of: stored_changes

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from clocks import HandClock
from state_rig import START, Hand, call, grew, make_foreign_tool, outcome, path, shared, store  # noqa: F401  # fixtures
from survivors import Started, begun, spend

from praval_tools.access.events import AnyStateEvent
from praval_tools.errors import GrantError, JournalError, JournalWarning, NotOwnerError
from praval_tools.journal.storage.memory import MemoryStore


class Failing(MemoryStore):
    """A store that takes nothing while its switch is on."""

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
        """Return a registry in which every change has something to do; its store has failed since."""
        registry = Started(store, **options)
        registry.tool("switched", owned_by="treasurer", tags=["off"])(make_foreign_tool("a"))
        registry.tool("careful", owned_by="treasurer", requires_approval=True)(make_foreign_tool("b"))
        registry.block("open", "blocked")
        registry.disable(tag="off")
        registry.assign_tool_to_agent("look", "granted")
        store.full = True
        return registry

    @pytest.mark.parametrize(("what", "change", "tool", "agent"), WIDENING, ids=_names(WIDENING))
    def test_a_widening_changes_nothing(self, what: str, change: Any, tool: str, agent: str) -> None:
        """It raises, the state is as before, and it can be done once the store works again."""
        store = Failing()
        registry = self.begin(store)
        before, caught = registry.state, list[AnyStateEvent]()
        registry.subscribe(caught.append)

        with pytest.raises(JournalError, match="disk is full"):
            change(registry)

        assert before == registry.state and [] == caught
        store.full = False
        given = {"amount": 1} if tool == "spend" else {}
        assert "ok" != outcome(registry, tool, agent, **given)
        change(registry)
        assert "ok" == outcome(registry, tool, agent, **given)

    @pytest.mark.parametrize(("what", "change", "tool", "agent"), NARROWING, ids=_names(NARROWING))
    def test_a_narrowing_counts_all_the_same(self, what: str, change: Any, tool: str, agent: str) -> None:
        """It counts from then on, and raises: it is not durable."""
        store = Failing()
        registry = self.begin(store)

        with pytest.raises(JournalError, match="disk is full"):
            change(registry)

        store.full = False
        assert "ok" != outcome(registry, tool, agent)
        assert not registry.explain(agent, tool).allowed

    @pytest.mark.parametrize("again", ["the same change", "another change"])
    @pytest.mark.parametrize(("what", "change", "tool", "agent"), NARROWING, ids=_names(NARROWING))
    def test_a_narrowing_is_made_up_for(self, what: str, change: Any, tool: str, agent: str, again: str) -> None:
        """Done again, or followed by another change, it raises until it is durable, and is there at the next start."""
        store = Failing()
        registry = self.begin(store)
        grants = registry.grants(agent="granted")
        with pytest.raises(JournalError):
            change(registry)

        def once_more() -> None:
            if again == "another change":
                registry.disable("careful")
            elif what == "revoke":
                registry.revoke(grants[0])
            else:
                change(registry)

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
        """With `journal_errors="continue"` all changes count in this process, with a warning, and no call crashes."""
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
            for change, expected in (
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
                change()
                assert expected == outcome(there, "open")

    def test_what_one_has_spent_the_other_neither_lends_nor_takes_away(self, store: Any) -> None:
        """Changes know of the counts that lists and explanations show."""
        clock = HandClock()
        with Started(store, clock=clock) as here, Started(store) as there:
            here.grant("look", "clerk", max_calls=2, delegable=True)
            assert "ok" == outcome(there, "look")
            clock.seconds += 60.0
            assert here.explain("clerk", "look").allowed
            with pytest.raises(GrantError, match="1 left"):
                here.grant("look", "ann", by="clerk", max_calls=2)
            assert "ok" == outcome(there, "look")
            clock.seconds += 60.0
            assert not here.explain("clerk", "look").allowed
            with pytest.raises(NotOwnerError):
                here.grant("look", "ann", by="clerk", max_calls=1)
            assert not here.remove_tool_from_agent("look", "clerk")

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

    def test_the_latest_change_stays(self, store: Any) -> None:
        """A change of another process on a tool brings nothing back that was undone here since."""
        with Started(store) as here, Started(store) as there:
            for change in (
                lambda one: one.share_tool("spend"),
                lambda one: one.configure("spend", requires_approval=False, retry_on=[ValueError]),
                lambda one: one.transfer_ownership("spend", "clerk"),
            ):
                change(there)
                outcome(here, "spend", amount=1)
            here.unshare_tool("spend")
            here.configure("spend", requires_approval=True)
            here.transfer_ownership("spend", "treasurer")
            there.assign_tool_to_agent("spend", "intern")

            results = [outcome(here, "spend", who, amount=1) for who in ("nobody", "clerk", "treasurer", "intern")]
            assert ["forbidden", "forbidden", "approval_required", "approval_required"] == results
            assert (ValueError,) == here.get_tool("spend").metadata.retry_on  # type: ignore[union-attr]

    def test_the_latest_change_stays_when_a_tool_is_declared_again(self, store: Any) -> None:
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
    def test_a_count_is_exact(self, shared: Path | str) -> None:
        """Of 160 calls that four processes of four threads make under a grant of 100, exactly 100 run."""
        with Started(shared) as registry, ExitStack() as stack:
            registry.assign_tool_to_agent("spend", "clerk", max_calls=100)
            children = [stack.enter_context(begun(ADMITTING, shared, 40)) for _ in range(4)]
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

    def test_a_block_counts_at_once_in_another_process(self, shared: Path | str) -> None:
        """Directly after `block` returned here, the next call there is refused; after `unblock` it runs."""
        with Started(shared) as registry, begun(ANSWERING, shared) as other:
            assert other.stdin is not None and other.stdout is not None
            assert "ready\n" == other.stdout.readline()
            for change, expected in ((registry.block, "forbidden"), (registry.unblock, "ok")) * 3:
                change("open", "clerk")
                other.stdin.write("call\n")
                other.stdin.flush()
                assert f"{expected}\n" == other.stdout.readline()
            other.communicate(timeout=60)


def _let_go(process: Any) -> Any:
    process.stdin.write("go\n")
    process.stdin.flush()
    return process
