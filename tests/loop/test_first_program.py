"""`examples/first_program.py` is killed while a person is asked, and goes on: nothing is done twice."""

# Tests of: loop/loop

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from format_rig import sdk
from model_server import ModelServer
from plugin_rig import Site, site  # noqa: F401  # fixtures

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "examples" / "first_program.py"
PLUGIN = ROOT / "examples" / "first_plugin" / "first_plugin.py"
SCRIPT = [
    {"calls": [("first_rent", {"month": "May"}, "a")]},
    {"calls": [("book", {"text": "rent of May"}, "b"), ("pay", {"to": "landlord", "amount": 5000}, "c")]},
    {"calls": [("pay", {"to": "landlord", "amount": 500}, "d")]},
    {"text": "The rent of May is paid."},
]


def reply_to(body: Any) -> Any:
    """Return the reply to a request, the same each time that it is sent."""
    return SCRIPT[sum(message["role"] == "assistant" for message in body["messages"])]


def command(*words: str) -> Any:
    """Run a command of the command line on the program's journal, and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "praval_tools", *words, "--json", "--journal", "home.db"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


class TestFirstProgram:
    def test_is_short(self) -> None:
        """It is what a page of the docs shows: at most 60 lines."""
        assert len(PROGRAM.read_text("utf-8").splitlines()) <= 60

    def test_is_killed_and_goes_on(self, site: Site) -> None:
        """Killed by SIGKILL while it waits, approved by another process, started again: each effect is there once."""
        sdk("openai")
        site.install("first-plugin", PLUGIN.read_text("utf-8"))
        with ModelServer([reply_to] * 20) as server:
            env = {**os.environ, "PYTHONPATH": f"{site.folder}{os.pathsep}{ROOT}", "OPENAI_MODEL": "m",
                   "OPENAI_BASE_URL": f"{server.url}/v1", "OPENAI_API_KEY": "k"}  # fmt: skip
            first = subprocess.Popen([sys.executable, str(PROGRAM)], env=env, stdout=subprocess.PIPE, text=True)
            with first:
                assert first.stdout is not None
                assert "waiting for an approval\n" == first.stdout.readline()
                first.send_signal(signal.SIGKILL)
            asked = len(server.requests)
            (request,) = command("approvals")
            assert ("clerk", "pay", {"to": "landlord", "amount": 500}) == (
                request["agent"], request["tool"], request["arguments"]
            )  # fmt: skip
            command("approvals", "approve", request["id"], "--by", "eve")

            second = subprocess.run([sys.executable, str(PROGRAM)], env=env, capture_output=True, text=True, timeout=60)

        assert (0, "The rent of May is paid.\n") == (second.returncode, second.stdout), second.stderr
        assert -signal.SIGKILL == first.returncode
        assert "booked rent of May\npaid 500 to landlord\n" == Path("done.txt").read_text()
        assert 1 == len(server.requests) - asked
