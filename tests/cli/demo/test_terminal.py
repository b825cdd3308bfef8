"""What the demo prints, in pipes and in terminals of any width."""

# Tests of: terminal, text_charts

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from demo_rig import ROOT, DemoOutput, demo_output, empty_folder, run_process  # noqa: F401
from rich.text import Text

from praval_tools.cli import main
from praval_tools.cli.output import make_console, print_parts, unwrap

_COMMAND = re.compile(r"(?:  )?\S*(?:praval-tools|python\S* -m praval_tools|python\S* -m pip) ")


class TestOutput:
    def test_piped_is_plain_and_narrow(self, demo_output: DemoOutput) -> None:
        """
        In a pipe there is no colour, no line is wider than 80 columns, and source and licence are named.

        A command that names the journal's path is as long as that is.
        """
        assert "\x1b" not in demo_output.out
        lines = [line for line in demo_output.out.splitlines() if not _COMMAND.match(line)]
        assert max(map(len, lines)) <= 80
        assert "CC0 1.0" in demo_output.out
        assert "JetBlue Airways stands out" in demo_output.out

    def test_a_package_that_is_not_installed_is_named(
        self, demo_output: DemoOutput, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """
        Where no package of tools is there, the demo does without, and says how to install it from the checkout.

        Broken promise: the command that it said installed nothing, since no index has the package.
        """
        assert "A package brings tools" not in demo_output.out
        monkeypatch.setattr("praval_tools.cli.demo.command.find_pip", lambda: ["pip"])
        with pytest.raises(SystemExit):
            main(["demo"])
        (command,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  pip "))
        words = shlex.split(command)
        projects = [tomllib.loads(Path(word, "pyproject.toml").read_text())["project"] for word in words[2:]]
        named = {project["name"] for project in projects}
        needed = {need.partition(">")[0] for project in projects for need in project["dependencies"]}
        assert ["pip", "install"] == words[:2] and "praval-tools-data" in named
        assert {"praval-tools"} == {name for name in needed if name.startswith("praval-tools")} - named

    def test_commands_are_unbroken_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Broken promise: in a terminal a long command was cut into lines, each of which is another command."""
        command = f"praval-tools {'word ' * 40}end"
        print_parts(make_console(width=40), unwrap(Text(f"Ask:\n  {command}")))
        assert f"Ask:\n  {command}\n" == capsys.readouterr().out

    def test_no_package_is_named_without_its_source(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An installed demo, which has no folder of packages beside it, says no command that would fail."""
        monkeypatch.setattr("praval_tools.demo.plugin_scene.PACKAGE_NAME", "praval-tools-nowhere")
        with pytest.raises(SystemExit):
            main(["demo"])
        assert " install " not in capsys.readouterr().out

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
        Nothing is wider than the terminal, with colour or with NO_COLOR; commands to be copied are unbroken lines.
        """
        done = run_process("demo", COLUMNS=width, TERM="xterm-256color", FORCE_COLOR="1", **extra)

        lines = [line for line in strip_escapes(done.stdout).splitlines() if not _COMMAND.match(line)]
        assert max(map(len, lines)) <= int(width)
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
