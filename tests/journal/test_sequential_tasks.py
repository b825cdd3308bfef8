"""Tasks that came one after another have one path; those beside each other stay apart."""

from __future__ import annotations

import pytest

from praval_tools.journal.replay_entry import ReplayEntry
from praval_tools.journal.sequential_tasks import merge_sequential_tasks


@pytest.mark.parametrize(
    ("paths", "merged"),
    [
        pytest.param(["", "", ""], ["", "", ""], id="no tasks"),
        pytest.param(["", "1:1", "1:2", "", "1:3"], ["", "*", "*", "", "*"], id="calls in tasks of their own"),
        pytest.param(["1:1", "1:1", "1:2", "1:2"], ["*", "*", "*", "*"], id="a task that was begun again"),
        pytest.param(["1:1", "2:1", "1:1", "2:1"], ["1:1", "2:1", "1:1", "2:1"], id="tasks beside each other"),
        pytest.param(["1:1", "2:1", "2:1", "1:2"], ["1:1", "2:1", "2:1", "*"], id="a group, and one after it"),
        pytest.param(["1:1", "", "1:1", ""], ["1:1", "", "1:1", ""], id="a task beside the one that began it"),
        pytest.param(["1:1", "1:1.1:1", "1:1", "1:1.1:2", "1:2"], ["*"] * 5, id="such tasks inside of such a task"),
        pytest.param(["1:1.1:1", "2:1.1:1", "1:1.1:2", "2:1.1:2"], ["1:1.*", "2:1.*", "1:1.*", "2:1.*"],
                     id="calls in tasks of their own, beside each other"),
        pytest.param(["1:1", "1:1.1:1", "1:1.2:1", "1:1.1:1", "1:1.2:1", "1:1"],
                     ["*", "1:1.1:1", "1:1.2:1", "1:1.1:1", "1:1.2:1", "*"], id="tasks inside of one"),
    ],
)  # fmt: skip
def test_tasks_without_others_beside_them(paths: list[str], merged: list[str]) -> None:
    """The calls of those that the same task began are in one order."""
    entries = [ReplayEntry(str(number), "ann", "pay", first_position=number, task=path)
               for number, path in enumerate(paths, 1)]  # fmt: skip
    merge_sequential_tasks(entries)

    assert merged == [entry.task for entry in entries]


def test_in_each_call_apart() -> None:
    """What tasks inside of one call do says nothing of those inside of another."""
    entries = [
        ReplayEntry(str(number), "ann", "pay", first_position=number, task="1:1", parent_id=f"p{number % 2}")
        for number in range(1, 5)
    ]
    merge_sequential_tasks(entries)

    assert {"*"} == {entry.task for entry in entries}
