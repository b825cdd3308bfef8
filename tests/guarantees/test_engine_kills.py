"""Processes that are killed at any moment, those of tools and the program itself: no call has its effect twice."""

# Tests of: execution/processes, execution/remote_call

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "process_killer.py"
COUNT = 40
pytestmark = pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs POSIX")


def kill(process: int) -> None:
    """Kill a process, if there is one."""
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.parametrize("seed", range(2))
def test_no_effect_happens_twice(tmp_path: Path, seed: int) -> None:
    """After each kill the program is started again; what may have run is in doubt, and is not run a second time."""
    moments, folder = random.Random(seed), tmp_path / "marks"
    folder.mkdir()
    command = [sys.executable, str(PROGRAM), str(tmp_path / "runs.db"), str(folder), str(COUNT)]
    for attempt in range(30):
        (folder / "processes").write_text("")  # those of the program before are gone
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        ends_undisturbed = attempt >= 4
        while not ends_undisturbed and program.poll() is None:
            if not (folder / "processes").read_text():  # nothing has begun
                threading.Event().wait(0.01)
                continue
            threading.Event().wait(moments.uniform(0, 0.15))
            workers = (folder / "processes").read_text().split()[-2:]
            if moments.random() < 0.5:
                kill(program.pid)
            elif workers:
                kill(int(moments.choice(workers)))
        output, _ = program.communicate(timeout=60)
        if program.returncode == 0:
            break
    outcomes = output.split()
    marks = [len(path.read_text()) if (path := folder / str(at)).exists() else 0 for at in range(COUNT)]
    assert COUNT == len(outcomes)
    assert {"ok", "in_doubt", "engine_lost"} >= set(outcomes)
    assert max(marks) == 1
    assert all(mark == 1 for mark, outcome in zip(marks, outcomes, strict=True) if outcome == "ok")
