"""Each task finds the equal calls again that it made itself; where the program has changed, those of nobody."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from praval_tools.journal.equal_calls import EqualCalls
from praval_tools.journal.replay_entry import ReplayEntry, TaskAtWork


class Task:
    """A task at work."""

    has_ended = False


def record(*paths: str) -> list[ReplayEntry]:
    """Return recorded calls of the tasks of these paths."""
    return [ReplayEntry(f"c{number}", "ann", "pay", position=number, task=path) for number, path in enumerate(paths, 1)]


def replay(recorded: list[ReplayEntry], *paths: str, live: Iterable[str] = ()) -> list[str | None]:
    """Return the ids of the calls that those of the tasks of these paths repeat; None: it is a new one."""
    live_tasks: dict[str, TaskAtWork | None] = {path: Task() for path in live}
    calls = EqualCalls(live_tasks)
    for entry in recorded:
        calls.add(entry, first=False, is_for_any_task=False)
    found = list[str | None]()
    for path in paths:
        entry = next(calls.iter_entries(path), None)
        found.append(None if entry is None else entry.call_id)
        live_tasks[path] = Task() if entry is not None and entry.task == path else live_tasks.get(path)
        calls.add_caller(path, entry or ReplayEntry("new", "ann", "pay", task=path))
        if entry is not None:
            entry.is_matched = True
    return found


@pytest.mark.parametrize(
    ("recorded", "paths", "found"),
    [
        pytest.param(["", "", ""], ["", "", "", ""], ["c1", "c2", "c3", None], id="one task"),
        pytest.param(["1:1", "2:1", "1:1", "2:1"], ["2:1", "2:1", "1:1", "2:1", "1:1", "1:1"],
                     ["c2", "c4", "c1", None, "c3", None], id="tasks in another order"),
        pytest.param(["", "1:1", "1:1", ""], ["1:1", "1:1", "", "1:1", "", ""], ["c2", "c3", "c1", None, "c4", None],
                     id="a task and the one that began it"),
        pytest.param(["1:1.1:1", "1:1.2:1", "2:1.1:1", "2:1.2:1"], ["1:1.1:1", "2:1.1:1", "1:1.2:1", "1:1.3:1"],
                     ["c1", "c3", "c2", None], id="tasks inside of tasks"),
        pytest.param(["1:1", "1:1", "2:1", "2:1"], ["", "", "", "", ""], ["c1", "c2", "c3", "c4", None],
                     id="a program that is sequential now"),
        pytest.param(["", "", ""], ["1:1", "2:1", "3:1", "4:1"], ["c1", "c2", "c3", None],
                     id="a program that has tasks now"),
        pytest.param(["1:1", "1:1"], ["1:1.1:1", "1:1.1:2", "1:1.2:1"], ["c1", "c2", None],
                     id="with tasks inside of the task now"),
        pytest.param(["2:1", "2:1"], ["1:1", "2:1", "1:1"], ["c1", "c2", None], id="a task that comes sooner"),
        pytest.param(["1:1", "2:1", "1:1", "2:1"], ["1:1", "2:1", "1:2", "2:1", "1:2"], ["c1", "c2", "c3", "c4", None],
                     id="a task that is begun again"),
        pytest.param(["1:1", "2:1", "1:2", "2:2"], ["1:1", "2:1", "1:1", "1:2", "2:2"], ["c1", "c2", None, "c3", "c4"],
                     id="tasks that were begun again later"),
        pytest.param(["", "", "1:1", "1:1"], ["1:1", "1:1", "1:1", "1:1", "1:1"], ["c3", "c4", "c1", "c2", None],
                     id="a program that got tasks in the life before"),
        pytest.param(["1:1", "1:2", "2:2", "1:3"], ["1:4", "1:1", "1:2", "2:2"], ["c1", "c2", "c3", "c4"],
                     id="tasks of which others took their calls"),
        pytest.param(["1:1", "2:1", "3:1", "3:1"], ["1:1", "2:1", "2:1", "1:1", "1:1"], ["c1", "c2", "c3", "c4", None],
                     id="a program that has fewer tasks now"),
    ],
)  # fmt: skip
def test_are_found_by_their_tasks(recorded: list[str], paths: list[str], found: list[str | None]) -> None:
    """A task that has found all of its own makes new calls, though another one has not come to its own yet."""
    assert found == replay(record(*recorded), *paths)


def test_those_of_a_task_that_is_at_work_are_not_for_others() -> None:
    """It waits for something that is new, and comes to them later."""
    recorded = record("1:1", "1:1")

    assert [None, "c1", "c2"] == replay(recorded, "2:1", "1:1", "1:1", live=["1:1"])


def test_a_call_that_was_left_is_for_any_task() -> None:
    """Who makes an equal call next goes on with it, after its own."""
    own, left = record("1:1", "2:1")
    calls = EqualCalls({})
    calls.add(own, first=False, is_for_any_task=False)
    left.is_matched = False
    calls.add(left, first=True, is_for_any_task=True)

    assert [own, left] == list(dict.fromkeys(calls.iter_entries("1:1")))
    calls.remove(left)
    assert [own] == list(calls.iter_entries("1:1"))
