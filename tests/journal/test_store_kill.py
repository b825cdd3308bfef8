"""A process that is killed at any moment loses nothing that was acknowledged, and leaves nothing half."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from journal_children import child, grant
from journal_rig import note
from store_rig import location, open_sql_store  # noqa: F401  # a fixture

from praval_tools.journal import Record
from praval_tools.journal.storage.sql_store import SqlStore

_KILLS = 32
_GRANTED = 10_000_000


def _killed(path: Path | str, name: str, after: int) -> list[tuple[str, int]]:
    """Let a child append until *after* acknowledgements were read, kill it, and return all that it had given."""
    with child("calls", path, name, 100_000) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after)]
        process.kill()
        lines += process.stdout.readlines()
    given = [line.split() for line in lines if line.endswith("\n")]
    assert {"done"} == {status for status, _, _ in given}
    return [(name, int(seq)) for _, name, seq in given]


def _see_whole(records: list[Record], revision: int, left: int | None) -> None:
    """Assert that no unit is torn and no place of a run is missing."""
    by_kind = Counter(one.type for one in records)
    whys = sum(one.id.endswith("-why") for one in records)
    assert by_kind["agent_tool_call"] == whys, "an intent without the record of its unit"
    assert by_kind["change"] == revision - 1, "a change without its event"
    assert by_kind["agent_tool_call"] == _GRANTED - (left or 0), "a call that was not counted"
    for run in {one.run_id for one in records} - {None}:
        places = [one.run_seq for one in records if one.run_id == run]
        assert list(range(1, len(places) + 1)) == places


class TestKill:
    def test_nothing_acknowledged_is_lost(self, location: Path | str) -> None:
        """Killed 32 times at random moments, over one store: all acknowledged records are there, in their places."""
        path, chance = location, random.Random(7)
        grant(path, _GRANTED)
        acknowledged: list[tuple[str, int]] = []
        for kill in range(_KILLS):
            acknowledged += _killed(path, f"k{kill}", chance.randrange(0, 120))

            with open_sql_store(path) as store:
                found, view = list(store.read()), store.state()
            there = {(one.id, one.seq) for one in found}
            assert [] == [one for one in acknowledged if one not in there]
            _see_whole(found, view.revision, view.uses[0].left)
        assert len({seq for _, seq in acknowledged}) == len(acknowledged) > _KILLS

    @pytest.mark.parametrize("sign", ["", "-journal", "-wal"])
    def test_killed_while_the_file_is_made(self, tmp_path: Path, sign: str) -> None:
        """However far the first opening got, the next one finds a journal or makes it."""
        for at in range(3):
            path = tmp_path / f"{at}.db"
            beside = path.with_name(path.name + sign)
            with child("calls", path, "k", 100_000) as process:
                while not beside.exists() and not path.with_name(f"{at}.db-wal").exists():
                    assert process.poll() is None
                process.kill()
                process.wait()
            with SqlStore(path) as store:
                assert "done" == store.append([note("after")])[0].status
