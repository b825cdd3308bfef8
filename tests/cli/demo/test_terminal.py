"""What the demo prints, in pipes and in terminals of any width."""

# Tests of: terminal, text_charts

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from demo_rig import ROOT, DemoOutput, demo_output, empty_folder, run_process  # noqa: F401


class TestOutput:
    def test_piped_is_plain_and_narrow(self, demo_output: DemoOutput) -> None:
        """
        In a pipe there is no colour, no line is wider than 80 columns, and source and licence are named.

        A command that names the journal's path is as long as that is.
        """
        assert "\x1b" not in demo_output.out
        lines = [line for line in demo_output.out.splitlines() if not line.startswith("praval-tools ui ")]
        assert max(map(len, lines)) <= 80
        assert "CC0 1.0" in demo_output.out
        assert "JetBlue Airways stands out" in demo_output.out

    def test_a_package_that_is_not_installed_is_named(self, demo_output: DemoOutput) -> None:
        """
        Where no package of tools is there, the demo does without, and says how to get one.
        """
        assert "A package brings tools" not in demo_output.out
        assert "  pip install praval-tools-data\n" in demo_output.out

    def test_matrix_has_the_rule_in_each_cell(self, demo_output: DemoOutput) -> None:
        """
        The matrix names the deciding rule for each agent and tool.
        """
        rows = {words[0]: words[1:] for words in map(str.split, demo_output.out.splitlines()) if words}

        assert rows["read_rows"] == ["owner", "granted", "(1", "left)", "-", "-"]
        assert rows["publish"] == ["-", "-", "-", "owner"]
        assert rows["fair_comparison"] == ["-", "-", "listed", "-"]

    @pytest.mark.parametrize(("width", "extra"), [("40", {}), ("80", {"NO_COLOR": "1"}), ("120", {})])
    def test_in_a_terminal_of_any_width(self, width: str, extra: dict[str, str]) -> None:
        """
        Nothing is wider than the terminal, with colour or with NO_COLOR.
        """
        done = run_process("demo", COLUMNS=width, TERM="xterm-256color", FORCE_COLOR="1", **extra)

        assert max(map(len, strip_escapes(done.stdout).splitlines())) <= int(width)
        assert ("\x1b[3" in done.stdout) == ("NO_COLOR" not in extra)

    def test_ascii_output(self) -> None:
        """
        An output that cannot carry more than ASCII gets ASCII signs.
        """
        done = run_process("demo", PYTHONIOENCODING="ascii")

        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.isascii()
        assert "x analyst read_rows" in done.stdout

    def test_needs_nothing_but_the_package(self, empty_folder: Path) -> None:
        """
        It runs in an empty directory, without home, key or network settings.
        """
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "demo"], cwd=empty_folder, env={"PYTHONPATH": str(ROOT)}, text=True,
            capture_output=True, timeout=60,
        )  # fmt: skip

        assert (done.returncode, done.stderr) == (0, "")


def strip_escapes(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
