"""What the pages about many machines say: the tables of the simulation, and the six commands on a real database."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from store_rig import SERVER, execute, find_server_problem
from worker_rig import find_broker_problem, get_broker

ROOT = Path(__file__).parents[2]
SCALE = ROOT / "docs" / "explanation" / "scale.md"
COMMANDS = ROOT / "docs" / "how-to" / "go-beyond-one-machine.md"
DATABASE = "praval_tools_test_six_commands"
_PROGRAMS = {"python": 'exec "$PYTHON" "$@"', "praval-tools": 'exec "$PYTHON" -m praval_tools "$@"'}
"""The programs of the page, which are those of the tests."""
_ASK = """
trap 'kill $worker 2>/dev/null; wait' EXIT
for _ in $(seq 300); do grep -q ' ready\\.' worker.log && break; kill -0 $worker; sleep 0.2; done
python ask.py
python ask.py
python ask.py 2>errors && echo run >last || echo refused >last
praval-tools stats --journal "$SHOP_JOURNAL" >counts
"""
"""What the page says of the time after the commands; the worker is ended with the shell."""
COUNT_EVENTS = """
import heapq, runpy, sys

def count_and_push(heap, item):
    global pushed
    pushed += 1
    push(heap, item)

pushed, push, heapq.heappush = 0, heapq.heappush, count_and_push
sys.argv, sys.path[0] = ["scale.py"], "benchmarks"
runpy.run_path("benchmarks/scale.py", run_name="__main__")
print(pushed, file=sys.stderr)
"""
_ID = re.compile(r"^tea: 3 EUR, says process (\d+)$", re.MULTILINE)


def run_script(name: str) -> str:
    """Return what a script of the benchmarks prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / name)]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def read_tables(page: str) -> dict[str, str]:
    """Return the tables of the page, by name."""
    return dict(re.findall(r"<!-- table: ([\w-]+) -->\n\n(.*?)\n<!-- end -->", page, re.DOTALL))


class TestScalePage:
    """The page about scale shows what the simulation prints."""

    def test_the_tables_are_those_of_the_simulation(self) -> None:
        """
        Each table is on the page as it is printed, and the page has no other.

        If not, `python benchmarks/scale.py --docs` writes the tables again.
        """
        printed = run_script("scale.py")
        tables = read_tables(SCALE.read_text(encoding="utf-8"))

        assert "\n".join(f"{name}\n\n{table}" for name, table in tables.items()) == printed.rstrip("\n") + "\n"

    def test_the_simulation_is_small(self) -> None:
        """It takes some seconds on any machine: it simulates less than a million events."""
        done = subprocess.run(
            [sys.executable, "-c", COUNT_EVENTS], check=True, capture_output=True, text=True, cwd=ROOT
        )

        assert 100_000 < int(done.stderr) < 1_000_000

    def test_the_simulation_prints_the_same_each_time(self) -> None:
        """It is seeded: nothing depends on the moment, nor on the order of sets."""
        assert run_script("scale.py") == run_script("scale.py")

    def test_a_changed_table_is_seen(self) -> None:
        """A figure that somebody changes by hand differs from what is printed."""
        page = "<!-- table: one -->\n\n| a |\n\n<!-- end -->\n"

        assert {"one": "| a |\n"} == read_tables(page)
        assert {"one": "| b |\n"} != read_tables(page)


class TestSixCommands:
    """Somebody who types in what the page says goes from a file to a database."""

    @pytest.fixture
    def url(self) -> Iterator[str]:
        """The URL of a database that is not there yet, and is dropped afterwards."""
        if problem := find_server_problem():
            pytest.skip(problem)
        if shutil.which("createdb") is None:
            pytest.skip("createdb is not installed: it comes with PostgreSQL's client")
        name = f"{DATABASE}_{os.getpid()}"
        yield f"{SERVER}/{name}"
        execute(f"{SERVER}/postgres", "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    @pytest.fixture
    def environment(self, tmp_path: Path) -> Mapping[str, str]:
        """The variables of a shell in the folder of the page's program, without a key."""
        page = COMMANDS.read_text(encoding="utf-8")
        for name, text in re.findall(r'```python title="([\w.]+)"\n(.*?)```', page, re.DOTALL):
            (tmp_path / name).write_text(text, encoding="utf-8")
        programs = tmp_path / "programs"
        programs.mkdir()
        for name, text in _PROGRAMS.items():
            (programs / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PRAVAL_TOOLS_")}
        path = os.pathsep.join(part for part in (str(ROOT), variables.get("PYTHONPATH")) if part)
        found = f"{programs}{os.pathsep}{variables['PATH']}"
        return variables | {"PYTHON": sys.executable, "PYTHONPATH": path, "PATH": found, "COLUMNS": "200"}

    def test_they_move_the_journal(self, url: str, tmp_path: Path, environment: Mapping[str, str]) -> None:
        """The call of the file is there, the next ones are run by a worker, and the count goes on."""
        if problem := find_broker_problem("redis"):
            pytest.skip(problem)
        first = self._type("python ask.py", tmp_path, environment)
        *commands, last = self._read_commands(url)
        assert "praval-tools worker --app shop:registry --owner analyst" == last
        shell = "\n".join([*commands, f"{last} >worker.log 2>&1 & worker=$!", _ASK])

        ids = [*_ID.findall(first), *_ID.findall(self._type(shell, tmp_path, environment))]

        assert 3 == len(ids)
        assert ids[0] not in ids[1:]
        assert "refused" in (tmp_path / "last").read_text()
        assert "its grant is spent" in (tmp_path / "errors").read_text()
        counts = (tmp_path / "counts").read_text().splitlines()[-1]
        assert ["price", "4", "3", "1"] == counts.split()[:4]

    def test_there_are_six(self) -> None:
        """The page has as many commands as it says, and explains each."""
        page = COMMANDS.read_text(encoding="utf-8")

        assert 6 == len(self._read_commands("URL"))
        assert [*"123456"] == re.findall(r"^(\d)\. ", page, re.MULTILINE)

    def _read_commands(self, url: str) -> list[str]:
        """Return the commands of the page, for the database of the tests."""
        block = re.search(r"<!-- six commands -->\n\n```sh\n(.*?)```", COMMANDS.read_text(encoding="utf-8"), re.DOTALL)
        assert block is not None
        place = f"--maintenance-db {SERVER}/postgres {url.rpartition('/')[2]}"
        text = block[1].replace("postgresql://ann@db.example/agents", url)
        text = text.replace("redis://broker.example", get_broker("redis"))
        return text.replace("--host db.example --username ann agents", place).splitlines()

    def _type(self, commands: str, folder: Path, environment: Mapping[str, str]) -> str:
        """Return what commands print; fails where one of them does."""
        process = subprocess.Popen(
            ["bash", "-ec", commands], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
            text=True, cwd=folder, env=environment, process_group=0,
        )  # fmt: skip
        try:
            out, errors = process.communicate(timeout=150)
        finally:  # what a shell that failed has left
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        assert 0 == process.returncode, out + errors
        return out
