"""Standard streams that are closed, full, endless or not UTF-8: what a command did is never misreported."""

# Tests of: entry, call, common, output

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV, App, app  # noqa: F401

PAYING = """
from typing import Any
from praval_tools import Agent, ToolRegistry
registry = ToolRegistry()
Agent("clerk", registry=registry)
@registry.tool(owned_by="clerk")
def pay(to: str) -> str:
    "Pay somebody."
    with open("paid", "a") as file:
        file.write(to)
    return f"✓ paid {to} – 漢字"
@registry.tool(owned_by="clerk")
def draw() -> Any:
    "Return what has no JSON form."
    open("paid", "a").write("d")
    return object()
"""
CODECS = ("ascii", "cp1252")


def run_shell(line: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in which `$P` is `praval-tools`."""
    env = {**ENV, "PYTHONUNBUFFERED": "", "P": f"{sys.executable} -m praval_tools", **env}
    return subprocess.run(["bash", "-c", line], env=env, capture_output=True, timeout=60)


class TestOutput:
    @pytest.mark.parametrize("codec", CODECS)
    def test_every_encoding_takes_every_result(self, app: App, codec: str) -> None:
        """
        A result that stdout cannot encode arrives escaped, with exit code 0.

        Broken before: the tool ran, its result was lost, and exit code 1 said that the tool had failed.
        """
        done = run_shell(f"$P call clerk pay to=ann --app {app(PAYING)}:registry", PYTHONIOENCODING=codec)

        assert (done.returncode, done.stderr) == (0, b"")
        shown = "✓ paid ann – 漢字".encode(codec, "backslashreplace")
        assert done.stdout.rstrip(b"\n") == shown

    @pytest.mark.parametrize("command", ["list", "matrix", "why clerk pay", "assign pay clérk✓", "check", "--help"])
    def test_every_command_survives_ascii(self, app: App, command: str) -> None:
        """
        No command fails for names that stdout or stderr cannot encode.
        """
        name = app(PAYING.replace("clerk", "clérk✓").replace("Pay", "P✓y"))
        done = run_shell(f"$P {command} --app {name}:registry".replace(" clerk", " clérk✓"), PYTHONIOENCODING="ascii")

        assert b"Traceback" not in done.stderr and b"Unicode" not in done.stderr
        assert done.returncode == 0

    @pytest.mark.parametrize(
        ("flags", "redirection", "code"),
        [
            ("", "> /dev/full", 4),
            ("-u", "> /dev/full", 4),
            ("", "| true; exit ${PIPESTATUS[0]}", 141),
            ("", ">&-", 0),
        ],
    )
    def test_result_that_cannot_be_written(self, app: App, flags: str, redirection: str, code: int) -> None:
        """
        A full disk or a closed pipe after the effect has an exit code of its own, and stderr says what was done.
        """
        command = f"$P call clerk pay to=ann --app {app(PAYING)}:registry {redirection}"
        done = run_shell(command, P=f"{sys.executable} {flags} -m praval_tools")

        assert Path("paid").read_text() == "ann"
        assert done.returncode == code
        if code:
            assert b"pay was called as clerk and ended with ok. It returned " in done.stderr
        assert done.stderr.count(b"\n") == bool(code)

    def test_failed_call_keeps_its_code_on_a_full_disk(self, app: App) -> None:
        """
        A refusal stays a refusal where its JSON cannot be written.
        """
        done = run_shell(f"$P call nobody pay to=ann --json --app {app(PAYING)}:registry > /dev/full")

        assert b"pay was called as nobody and ended with forbidden." in done.stderr
        assert done.returncode == 3

    def test_change_that_cannot_be_printed(self, app: App) -> None:
        """
        A change that was made and recorded is on stderr where stdout is full.
        """
        done = run_shell(f"$P block pay clerk --app {app(PAYING)}:registry > /dev/full")

        assert done.returncode == 4
        assert b"Blocked clerk from pay. The output could not be written: No space left on device." in done.stderr

    def test_listing_that_cannot_be_written(self, app: App) -> None:
        """
        A listing on a full disk is one line of error, and no traceback at the end of the process.
        """
        done = run_shell(f"$P list --app {app(PAYING)}:registry > /dev/full")

        assert (done.returncode, done.stderr) == (
            4,
            b"Error: The output could not be written: No space left on device.\n",
        )

    def test_closed_streams_are_not_given_to_files(self, app: App) -> None:
        """
        With every standard stream closed the journal is not opened as one of them: what a tool prints stays out of it.
        """
        source = PAYING.replace("ToolRegistry()", 'ToolRegistry(journal="work.db")').replace(
            '"Pay somebody."',
            '"Pay somebody."\n    import os\n    os.write(1, b"x" * 5000)\n    os.write(2, b"y" * 5000)',
        )
        name = app(source)
        done = run_shell(f"$P call clerk pay to=ann --app {name}:registry <&- >&- 2>&-; echo $?")
        audit = run_shell("$P audit --json --journal work.db")

        assert done.stdout == b"0\n"
        assert "ok" in [json.loads(line).get("outcome") for line in audit.stdout.splitlines()]

    def test_result_without_json_form(self, app: App) -> None:
        """
        A tool that ran and returned what has no JSON form did not fail: exit code 4, and the outcome is named.
        """
        done = run_shell(f"$P call clerk draw --app {app(PAYING)}:registry")

        assert done.returncode == 4
        assert b"draw was called as clerk and ended with ok. What it returned has no JSON form" in done.stderr


class TestInput:
    @pytest.mark.parametrize(
        ("redirection", "text"),
        [
            ("<&-", "$.to: is missing; wanted string"),
            ("< /dev/zero", "is longer than 1048576 bytes"),
            ('< <(printf \'{"to": "\\xe9"}\')', "is not UTF-8"),
        ],
    )
    def test_arguments_from_stdin(self, app: App, redirection: str, text: str) -> None:
        """
        A stdin that is closed, endless or not UTF-8 is wrong usage, at once, and nothing is called.
        """
        done = run_shell(f"$P call clerk pay - --app {app(PAYING)}:registry {redirection}")

        assert done.returncode == 2
        assert text in done.stderr.decode()
        assert not Path("paid").exists()


class TestInterrupts:
    def test_app_with_an_exception_of_its_own(self, app: App) -> None:
        """
        An app that raises a BaseException of its own is one line, with its place.
        """
        name = app("class Stop(BaseException): pass\nraise Stop('no\\nmore')\n")
        done = run_shell(f"$P list --app {name}:registry")

        assert done.returncode == 1
        assert done.stderr.decode() == f"Error: Importing '{name}' failed: Stop: no\nmore ({name}.py, line 2).\n"

    def test_interrupt_while_modules_are_imported(self, tmp_path: Path) -> None:
        """
        Ctrl-C before the first command is known ends with 130 and one line, not with a traceback.
        """
        (tmp_path / "click.py").write_text("raise KeyboardInterrupt")
        done = run_shell("$P --help", PYTHONPATH=f"{tmp_path}:{ENV['PYTHONPATH']}")

        assert (done.returncode, done.stderr) == (130, b"Stopped: interrupted.\n")


class TestConfiguration:
    def test_pipe_as_configuration(self, app: App) -> None:
        """
        A named pipe as the configuration is refused; it would be waited for without end.
        """
        name = app(PAYING)
        done = run_shell(f"mkfifo praval_tools.toml; $P plugins list --app {name}:registry")

        assert done.returncode == 1
        assert done.stderr.decode() == "Error: praval_tools.toml: is not a regular file\n"
