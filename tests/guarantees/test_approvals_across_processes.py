"""A call is asked for in one process, approved in a second, and run once, whoever is killed in between."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_rig import ENV

DRIVER = Path(__file__).parents[1] / "support" / "approval_driver.py"
WAIT = 120
"""Seconds after which a process of these tests has failed."""


class Site:
    """A folder with a journal, and the processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[subprocess.Popen[str]]()

    def start(self, mode: str, run: str = "-") -> subprocess.Popen[str]:
        """Start a driver."""
        command = [sys.executable, str(DRIVER), mode, str(self.folder), run]
        self.processes.append(subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, text=True))
        return self.processes[-1]

    def ask(self, mode: str, run: str = "-") -> tuple[subprocess.Popen[str], str]:
        """Start a driver, and return it once its call waits, with the id of its request."""
        process = self.start(mode, run)
        assert process.stdout is not None
        word, _, approval_id = process.stdout.readline().strip().partition(" ")
        assert "asked" == word
        return process, approval_id

    def command(self, *arguments: str) -> Any:
        """Run `praval-tools approvals` in a process of its own, and return its JSON."""
        command = [sys.executable, "-m", "praval_tools", "approvals", *arguments, "--json", "--journal", "runs.db"]
        done = subprocess.run(command, cwd=self.folder, env=ENV, capture_output=True, text=True, timeout=WAIT)
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout)

    def end(self, process: subprocess.Popen[str]) -> list[str]:
        """Return what a driver prints to its end."""
        return process.communicate(timeout=WAIT)[0].splitlines()

    @property
    def effects(self) -> list[str]:
        """What was done."""
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site whose processes are gone afterwards."""
    site = Site(tmp_path)
    yield site
    for process in site.processes:
        process.kill()
        process.communicate()


class TestAcrossProcesses:
    @pytest.mark.parametrize(
        ("mode", "run"), [("wait", "-"), ("wait", "r"), ("wait_async", "-"), ("wait_async", "r")], ids="-".join
    )
    def test_a_waiting_process_is_woken(self, site: Site, mode: str, run: str) -> None:
        """
        Broken was: an approval that one process asks for is listed and answered by another.

        The second process saw nothing, and its answer was not heard by the first.
        """
        process, approval_id = site.ask(mode, run)
        (listed,) = site.command("list")
        assert (approval_id, "clerk", "pay", {"to": "bob", "amount": 5}, None if run == "-" else run) == (
            listed["id"], listed["agent"], listed["tool"], listed["arguments"], listed["run_id"]
        )  # fmt: skip
        assert [] == site.effects
        site.command("approve", approval_id, "--by", "eve")

        assert ["answered by eve", "ok"] == site.end(process)
        assert (["5 to bob"], []) == (site.effects, site.command("list"))

    def test_one_of_two_waiting_processes_runs(self, site: Site) -> None:
        """Broken was: exactly one process uses an answer, also where several wait for it."""
        asked = [site.ask(mode) for mode in ("wait", "wait_async")]
        assert 1 == len({approval_id for _, approval_id in asked})
        site.command("approve", "call_0", "--by", "eve")
        ended = [site.end(process) for process, _ in asked]

        assert ["answered by eve"] * 2 == [lines[0] for lines in ended]
        assert ["approval_required", "ok"] == sorted(lines[1] for lines in ended)
        assert ["5 to bob"] == site.effects

    @pytest.mark.parametrize("run", ["-", "r"])
    @pytest.mark.parametrize("killed", ["before the answer", "after the answer"])
    def test_a_kill(self, site: Site, run: str, killed: str) -> None:
        """Broken was: request and answer survive a kill; the process that comes next uses the answer, once."""
        process, approval_id = site.ask("wait", run)
        if killed == "after the answer":
            process.send_signal(signal.SIGSTOP)
            site.command("approve", approval_id)
        process.kill()
        process.wait()
        if killed == "before the answer":
            site.command("approve", approval_id)

        assert ["ok"] == site.end(site.start("send", run))
        assert ["approval_required" if run == "-" else "ok"] == site.end(site.start("send", run))
        assert ["5 to bob"] == site.effects

    def test_a_loop(self, site: Site) -> None:
        """A loop that paused goes on with the answer of another process."""
        process, approval_id = site.ask("loop", "r")
        site.command("approve", approval_id, "--edit", '{"amount": 3}', "--by", "eve")
        assert (["answered by eve", "Paid."], ["3 to bob"]) == (site.end(process), site.effects)

    def test_a_denial(self, site: Site) -> None:
        """A denial is heard as well."""
        process, approval_id = site.ask("wait")
        site.command("deny", approval_id, "--by", "eve")
        assert (["answered by eve", "approval_denied"], []) == (site.end(process), site.effects)
