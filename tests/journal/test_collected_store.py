"""Stores that nobody closed: what was submitted is written, and the collector waits for nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from textwrap import dedent

from journal_rig import note
from store_rig import open_sql_store


def test_waits_for_nobody(tmp_path: Path) -> None:
    """It is collected in a thread that holds a lock for which its writer waits."""
    lock, ended = threading.Lock(), threading.Event()

    def leave_lock(_: object) -> None:
        with lock:
            pass
        ended.set()

    def drop_store() -> None:
        store = open_sql_store(tmp_path / "journal.db")
        with lock:
            store.submit([note("n")]).add_done_callback(leave_lock)
            del store

    thread = threading.Thread(target=drop_store, daemon=True)
    thread.start()
    thread.join(60)

    assert not thread.is_alive()
    assert ended.wait(60)


def test_at_the_end_of_the_program(tmp_path: Path) -> None:
    """The interpreter waits for its writer."""
    path, support = tmp_path / "journal.db", Path(__file__).parents[1] / "support"
    program = f"""
        import sys
        from pathlib import Path
        sys.path.insert(0, {str(support)!r})
        from journal_rig import note
        from praval_tools.journal.storage.sql_store import SqlStore

        store = SqlStore(Path({str(path)!r}))
        for number in range(20):
            store.submit([note(f"{{number}}-{{index}}", body=b"x" * 100_000) for index in range(50)])
        del store
    """
    done = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=60)

    assert (0, "") == (done.returncode, done.stderr)
    with closing(open_sql_store(path)) as store:
        assert 1_000 == store.count()
