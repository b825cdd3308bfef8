"""Searching a journal by its index: filters, pages, time limits, exports."""

# Tests of: search

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from index_rig import IndexRig, open_index_rig

from praval_tools import ToolCall
from praval_tools.journal import Record
from praval_tools.journal.index import search
from praval_tools.journal.index.search import EventQuery, iter_events, list_values, search_events


@pytest.fixture(params=["sqlite", "postgres"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IndexRig]:
    """A rig with calls of two agents, over each kind of SQL store."""
    with open_index_rig(request.param, tmp_path) as rig:
        with rig.registry.run("r"):
            for number in range(5):
                rig.call(number=number, call_id=f"c{number}")
            rig.call("fail", call_id="f")
            rig.call(agent="bob", call_id="b")
        rig.call("double", number="many", call_id="outside")
        rig.index.catch_up()
        yield rig


def _find(rig: IndexRig, **filters: str) -> list[tuple[str, str | None]]:
    page = search_events(rig.index, rig.store, EventQuery(**filters))  # type: ignore[arg-type]
    return [(event.type, event.call_id) for event in page.records]


class TestFilters:
    def test_each_filter_selects(self, rig: IndexRig) -> None:
        """Agent, tool, outcome, rule and type, alone and together, the latest first."""
        assert [("call_refused", "b")] == _find(rig, agent="bob")
        assert [("agent_tool_result", "f")] == _find(rig, outcome="tool_error")
        assert [("agent_tool_result", "f"), ("agent_tool_call", "f")] == _find(rig, tool="fail")
        assert [("call_refused", "outside")] == _find(rig, outcome="invalid_arguments", agent="ann")
        assert [] == _find(rig, agent="bob", outcome="ok")
        assert [] == _find(rig, agent="' OR 1=1 --")

    def test_changes_of_access_and_approvals_are_found_whatever_their_types(self, rig: IndexRig) -> None:
        """Every change that a journal keeps; not that a call used up a grant, and no calls."""
        rig.registry.grant("double", "bob", max_calls=1)
        rig.call(agent="bob", call_id="spends")
        rig.registry.block("double", "bob")
        rig.registry.retire_agent("bob")
        rig.registry.execute(ToolCall("asks", "pay", {"to": "eve", "amount": 1}, "ann"))
        rig.index.catch_up()
        kinds = ["agent_retired", "tool_blocked", "tool_assigned"]
        assert kinds == [kind for kind, _ in _find(rig, type="access_changes")]
        assert [("approval_asked", "asks")] == _find(rig, type="approvals")

    def test_a_result_is_found_by_the_rule_that_decided_on_its_call(self, rig: IndexRig) -> None:
        """Rule and outcome are of two events of one call, and are searched together."""
        found = _find(rig, rule="owner", outcome="ok")
        assert [("agent_tool_result", f"c{number}") for number in (4, 3, 2, 1, 0)] == found

    def test_calls_of_the_host_program_are_those_of_the_operator(self, rig: IndexRig) -> None:
        """`operator` finds the calls that name no agent, and no changes of access."""
        rig.registry.execute(ToolCall("nobody", "double", {"number": 1}))
        rig.index.catch_up()
        assert [("call_refused", "nobody")] == _find(rig, agent="operator")

    def test_a_span_of_time_includes_its_begin_and_not_its_end(self, rig: IndexRig) -> None:
        """From then on, before then."""
        events = list(rig.store.read())
        third = events[2].time
        until = search_events(rig.index, rig.store, EventQuery(until=third)).records
        since = search_events(rig.index, rig.store, EventQuery(since=third)).records
        assert len(events) == len(since) + len(until)
        assert all(event.time < third for event in until)
        later = EventQuery(since=events[-1].time + timedelta(days=1))
        assert () == search_events(rig.index, rig.store, later).records

    def test_the_outcomes_and_rules_that_occur_are_listed(self, rig: IndexRig) -> None:
        """For a choice; anything but these two columns is refused."""
        assert ["forbidden", "invalid_arguments", "ok", "tool_error"] == list_values(rig.index, "outcome")
        assert "owner" in list_values(rig.index, "rule")
        with pytest.raises(ValueError, match="neither"):
            list_values(rig.index, "tool; DROP TABLE events")


class TestPages:
    def test_pages_go_on_where_the_last_one_ended(self, rig: IndexRig) -> None:
        """Together they hold every event once, in order."""
        numbers, before = list[int](), None
        for _ in range(100):
            page = search_events(rig.index, rig.store, EventQuery(), before=before, limit=3)
            numbers += [event.seq or 0 for event in page.records]
            before = page.before
            if before is None:
                break
        assert [event.seq for event in rig.store.read()] == numbers[::-1]

    def test_a_search_that_takes_too_long_says_where_to_go_on(
        self, rig: IndexRig, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A step is always made, so that going on ends."""
        monkeypatch.setattr(search, "_FIRST_STEP", 2)
        monkeypatch.setattr(search, "_MAX_STEP", 2)
        seconds = iter(range(1_000))
        found, before, pages = list[Record](), None, 0
        query = EventQuery(outcome="tool_error")
        while True:
            page = search_events(rig.index, rig.store, query, before=before, clock=lambda: float(next(seconds)))
            found, before, pages = [*found, *page.records], page.before, pages + 1
            if before is None:
                break
            assert page.is_partial
        assert pages > 2
        assert ["f"] == [event.call_id for event in found]

    def test_an_event_that_was_deleted_meanwhile_is_left_out(self, rig: IndexRig) -> None:
        """The index may be behind a prune."""
        last = list(rig.store.read())[-1]
        assert last.time
        rig.store.prune(last.time + timedelta(days=1))
        assert () == search_events(rig.index, rig.store, EventQuery()).records


class TestExport:
    def test_all_events_that_fit_are_read_in_order(self, rig: IndexRig, monkeypatch: pytest.MonkeyPatch) -> None:
        """In pages, the oldest first."""
        monkeypatch.setattr(search, "_EXPORT_PAGE", 2)
        found = list(iter_events(rig.index, rig.store, EventQuery(agent="ann")))
        assert [event.id for event in rig.store.read(agent="ann")] == [event.id for event in found]
        assert len(found) > 4
