# Tests of: journal/equal_calls, journal/recorded_tasks, journal/task_paths
"""Each task finds the equal calls again that it made itself; where the program has changed, those of nobody."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from praval_tools.journal.codec import build_record
from praval_tools.journal.digests import compute_digest
from praval_tools.journal.equal_calls import EqualCalls
from praval_tools.journal.events import AgentToolResult, ApprovalAsked, CallMoved
from praval_tools.journal.recorded_tasks import RecordedTasks
from praval_tools.journal.replay import Recording
from praval_tools.journal.replay_entry import ReplayEntry


class Task:
    """A task that makes calls; `a.b` was begun by `a`, and the one without a name by nobody."""

    def __init__(self, name: str, others: dict[str, Task]) -> None:
        self.has_record, self.is_new, self.has_ended = not name, False, False
        self.path: str | None = None if name else ""
        self._name, self._others = name, others

    @property
    def outer_path(self) -> str:
        """The path of the task that began it."""
        outer = self._others.get(self._name.rpartition(".")[0])
        return "" if outer is None or outer.path is None else outer.path

    def iter_paths_beside(self) -> Iterator[str | None]:
        """Yield the paths of the tasks beside it."""
        outer = self._name.rpartition(".")[0]
        for name, task in reversed(self._others.items()):
            if name and name.rpartition(".")[0] == outer and task is not self and not task.has_ended:
                yield task.path


def record(calls: list[str]) -> list[ReplayEntry]:
    """Return recorded calls: of the tasks of these paths, with what is called behind a colon, if it is not equal."""
    entries = list[ReplayEntry]()
    for position, call in enumerate(calls, 1):
        path, _, content = call.partition("=")
        digest = compute_digest({"what": content} if content else {})
        entries.append(ReplayEntry(f"c{position}", "ann", content, position=position, task=path, digest=digest))
    return entries


def replay(recorded: list[str], calls: list[str]) -> tuple[list[str | None], dict[str, str | None]]:
    """
    Return the ids of the calls that those of these tasks repeat, None for a new one; and the paths of the tasks.

    Args:
        recorded: The recorded calls, as in `record`.
        calls: The calls now: `a=look` is another one than that of `a`; `-a` ends a task.
    """
    entries = record(recorded)
    tasks, live, contents = RecordedTasks(entries, {}), dict[str, Task](), dict[str, EqualCalls]()
    for entry in entries:
        contents.setdefault(entry.tool, EqualCalls(tasks)).add(entry)
    found = list[str | None]()
    for call in calls:
        name, _, content = call.partition("=")
        if name.startswith("-"):
            live.pop(name[1:]).has_ended = True
            continue
        task = live.setdefault(name, Task(name, live))
        equal_calls = contents.setdefault(content, EqualCalls(tasks))
        entry = next(equal_calls.iter_entries(task), None)
        found.append(None if entry is None else entry.call_id)
        tasks.note_call(task, None if entry is None else entry.task)
        if entry is not None:
            entry.is_matched = True
    return found, {name: task.path for name, task in live.items()}


@pytest.mark.parametrize(
    ("recorded", "calls", "found"),
    [
        pytest.param(["", "", ""], ["", "", "", ""], ["c1", "c2", "c3", None], id="one task"),
        pytest.param(["1:1", "2:1", "1:1", "2:1"], ["a", "a", "b", "a", "b", "b"],
                     ["c1", "c3", "c2", None, "c4", None], id="two tasks, in another order"),
        pytest.param(["=x", "", "1:1", "1:1", ""], ["=x", "a", "a", "", "a", "", ""],
                     ["c1", "c3", "c4", "c2", None, "c5", None], id="a task and the one that began it"),
        pytest.param(["1:1=x", "2:1=y", "1:1.1:1", "2:1.1:1", "1:1.2:1", "2:1.2:1"],
                     ["b=y", "b.1", "a=x", "a.1", "b.2", "a.2", "a.3"], ["c2", "c4", "c1", "c3", "c6", "c5", None],
                     id="tasks inside of tasks"),
        pytest.param(["1:1=x", "2:1=y", "2:1", "1:1"], ["a=x", "b=y", "a", "b"], ["c1", "c2", "c4", "c3"],
                     id="known by other calls, in another order"),
        pytest.param(["1:1=x", "2:1=y", "2:1"], ["b=y", "a=x", "b", "a"], ["c2", "c1", "c3", None],
                     id="known by other calls, one without a record"),
        pytest.param(["1:1=x", "1:1", "2:1", "2:1"], ["b", "a=x", "a", "b"], ["c3", "c1", "c2", "c4"],
                     id="a task that made another call first"),
        pytest.param(["1:1", "2:1", "3:1", "4:1"], ["a", "-a", "b", "-b", "c", "-c", "d"], ["c1", "c2", "c3", "c4"],
                     id="one after another, which overlapped"),
        pytest.param(["1:1", "2:2", "3:3", "4:4"], ["a", "b", "c", "d", "e"], ["c1", "c2", "c3", "c4", None],
                     id="beside each other, which came one after another"),
        pytest.param(["1:1=x", "2:1=x", "1:1=y", "2:1=z"], ["a=x", "b=x", "a=z", "b=y"], ["c1", "c2", "c4", "c3"],
                     id="calls that were made once, of tasks that get from a queue what they do"),
        pytest.param(["1:1", "1:1", "2:1", "2:1"], ["", "", "", "", ""], ["c1", "c2", "c3", "c4", None],
                     id="a program that is sequential now"),
        pytest.param(["", "", ""], ["a", "b", "c", "d"], ["c1", "c2", "c3", None], id="a program that has tasks now"),
        pytest.param(["1:1", "1:1"], ["a=x", "a.1", "-a.1", "a.2", "a.3"], [None, "c1", "c2", None],
                     id="with tasks inside of the task now"),
        pytest.param(["1:1", "1:1", "1:1"], ["a", "-a", "b", "b", "b"], ["c1", "c2", "c3", None],
                     id="a task that is begun again"),
        pytest.param(["1:1", "1:1", "2:2", "2:2"], ["a", "a", "a", "-a", "b", "b"],
                     ["c1", "c2", "c3", "c4", None], id="a task that was begun again later"),
        pytest.param(["1:1", "2:1", "3:2", "4:2"], ["a", "b", "a", "-a", "-b", "c", "d"],
                     ["c1", "c2", None, "c3", "c4"], id="tasks that were begun again later"),
        pytest.param(["1:1=x", "1:1", "1:1"], ["b=y", "b", "a=x", "a", "a"], [None, None, "c1", "c2", "c3"],
                     id="a new task, before another one has begun"),
        pytest.param(["1:1=x", "2:1=y", "1:1", "1:1"], ["b=y", "b", "a=x", "a", "a"],
                     ["c2", None, "c1", "c3", "c4"], id="a known task without such calls, first"),
        pytest.param(["1:1", "2:1", "1:1", "2:1"], ["a=x", "b=x", "a", "b", "b", "a"],
                     [None, None, "c1", "c2", "c4", "c3"], id="a call more in front of the first ones"),
        pytest.param(["1:1=x", "2:1=x", "1:1", "2:1"], ["a", "b"], ["c3", "c4"], id="a call less in front"),
        pytest.param(["1:1", "1:1", "2:1", "2:1", "2:1"], ["a", "-a", "b", "b", "b", "c"],
                     ["c1", "c3", "c4", "c5", None], id="a new task, after one that ended sooner"),
        pytest.param(["", "", "1:1", "1:1"], ["a", "a", "a", "a", "a"], ["c1", "c2", "c3", "c4", None],
                     id="a program that got tasks in the life before"),
        pytest.param(["=x", "1:1=y", ""], ["=x", "a=y", "a", ""], ["c1", "c2", None, "c3"],
                     id="a task without such calls, before the one that began it"),
        pytest.param(["1:1=x", "2:1=y", "1:1.1:1", "2:1.1:1"], ["a=x", "b=y", "b.1", "b.2", "a.1"],
                     ["c1", "c2", "c4", None, "c3"], id="tasks inside of tasks, one more"),
        pytest.param(["1:1=x", "2:1=y", "1:1.1:1"], ["a=x", "b=y", "b.1", "a.1"], ["c1", "c2", None, "c3"],
                     id="tasks inside of tasks, of which one has no record"),
        pytest.param(["=x", "1:1=y", "1:1"], ["=x", "", "a=y", "a"], ["c1", None, "c2", "c3"],
                     id="a task, before one has begun that it begins"),
        pytest.param(["=x", "", ""], ["=x", "b=y", "b", "", ""], ["c1", None, None, "c2", "c3"],
                     id="a new task beside the one that began it"),
        pytest.param(["=x", "", ""], ["=x", "b=y", "b.1", "", ""], ["c1", None, None, "c2", "c3"],
                     id="a task of a new one, beside the first one"),
        pytest.param(["=x", "1:1=y", "", ""], ["=x", "b=y", "b.1", "", ""], ["c1", "c2", None, "c3", "c4"],
                     id="a task of a known one, beside the first one"),
        pytest.param(["=x", "", ""], ["b=y", "b", "b.1", "=x", "", ""], [None, None, None, "c1", "c2", "c3"],
                     id="a new task, and one that it begins, before the first one"),
        pytest.param(["=x", "1:1=y", "", ""], ["b=y", "b.1", "=x", "", ""], ["c2", None, "c1", "c3", "c4"],
                     id="a task of a known one, before the first one"),
        pytest.param(["1:1=x", "1:1.1:1", "1:1.2:2"], ["b=y", "b.1", "a=x", "a.1", "-a.1", "a.2"],
                     [None, None, "c1", "c2", "c3"], id="a task of a new one, before another one has begun"),
        pytest.param(["1:1=x", "1:1", "2:2=y"], ["b=y", "b"], ["c3", None], id="a task after one that does not come"),
        pytest.param(["1:1", "1:1", "2:1", "2:1"], ["a", "a", "a", "b", "b"], ["c1", "c2", None, "c3", "c4"],
                     id="a task that begins later"),
    ],
)  # fmt: skip
def test_are_found_by_their_tasks(recorded: list[str], calls: list[str], found: list[str | None]) -> None:
    """A task that has found all of its own makes new calls, though another one has not come to its own yet."""
    assert found == replay(recorded, calls)[0]


@pytest.mark.parametrize(
    ("recorded", "calls", "paths"),
    [
        pytest.param([], ["a", "b", "a.1", "-a.1", "a.2", ""],
                     {"a": "1:1", "b": "2:1", "a.2": "1:1.2:2", "": ""}, id="new tasks"),
        pytest.param(["1:1=x", "2:1=y"], ["b=y", "a=x", "c"], {"a": "1:1", "b": "2:1", "c": "3:1"}, id="a new task"),
        pytest.param(["1:1", "2:1", "3:2"], ["a", "-a", "b", "-b", "c", "-c", "d"], {"d": "4:3"}, id="a new group"),
        pytest.param(["1:1", "2:2"], ["a", "a"], {"a": "2:2"}, id="a task that goes on with the one after it"),
        pytest.param(["1:1"], ["a=new", "a"], {"a": "1:1"}, id="a new call first"),
        pytest.param(["1:1.1:1", "2:1"], ["a=new", "a.1"], {"a": "3:2", "a.1": "2:1"}, id="a new task around it"),
        pytest.param([""], ["a", "b"], {"a": "1:1", "b": "2:1"}, id="one that found a call of the one that began it"),
    ],
)  # fmt: skip
def test_a_task_keeps_the_path_of_its_record(
    recorded: list[str], calls: list[str], paths: dict[str, str | None]
) -> None:
    """Its new calls are recorded under the path under which it is found; a new task gets one that nobody had."""
    assert paths == replay(recorded, calls)[1]


def test_a_call_that_was_left_is_for_any_task() -> None:
    """Who makes an equal call next goes on with it, after its own."""
    own, left = record(["1:1", "2:1"])
    task = Task("a", {})
    task.path, task.has_record = "1:1", True
    calls = EqualCalls(RecordedTasks([own], {}))
    calls.add(own)
    calls.add_again(left, first=True)

    assert [own, left] == list(dict.fromkeys(calls.iter_entries(task)))
    calls.remove(left)
    calls.add_last(left)
    assert [own, left] == list(calls.iter_entries(task))
    calls.remove(left)
    assert [own] == list(calls.iter_entries(task))


def test_long_paths_are_cut() -> None:
    """They are recorded with each call: tasks that begin the next one each have paths of twenty numbers at most."""
    names = ["a" + ".b" * depth for depth in range(60)]

    paths = replay([], names)[1]
    assert 60 == len(set(paths.values()))
    assert 20 == max((path or "").count(":") for path in paths.values())


def test_a_call_that_was_only_asked_about_has_not_begun_by_a_move() -> None:
    """It is as if new, whichever task made it again."""
    head: dict[str, Any] = {
        "time": datetime(2030, 1, 1, tzinfo=UTC), "tool_call_id": "c1", "tool_name": "pay", "agent": "ann",
        "run_id": "r",
    }  # fmt: skip
    asked = ApprovalAsked(**head, id="e1", arguments={}, call_digest=compute_digest({}), position=1, task="1:1")
    moved = CallMoved(**head, id="e2", position=2, task="2:1")
    ended = AgentToolResult(**head, id="e3", outcome="ok", result=1)

    assert {} == Recording("r", "content", [build_record(asked), build_record(moved)]).entries
    (entry,) = Recording("r", "content", map(build_record, (asked, moved, ended))).entries.values()
    assert ("2:1", 2, 1) == (entry.task, entry.position, entry.first_position)
