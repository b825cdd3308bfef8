"""The entry point: help, unknown commands, completion, interrupts, broken pipes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

from praval_tools.cli.entry import COMMANDS


class TestStart:
    def test_help_lists_every_command(self, run: Run) -> None:
        """
        `--help` shows each command with one line on what it does, and the exit codes.
        """
        code, out, err = run("--help")

        assert (code, err) == (0, "")
        for name in COMMANDS:
            assert f"\n  {name} " in out
        assert "3 refused by the access rules" in " ".join(out.split())

    def test_version(self, run: Run) -> None:
        """
        `--version` prints the package's version.
        """
        from praval_tools import __version__

        assert run("--version") == (0, f"praval-tools {__version__}\n", "")

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_help(self, run: Run, command: str) -> None:
        """
        Each command explains itself.
        """
        code, out, _ = run(command, "--help")

        assert code == 0
        assert out.startswith(f"Usage: praval-tools {command} ")

    def test_help_imports_nothing_heavy(self) -> None:
        """
        `--help` and `--version` import neither Rich nor the commands.
        """
        script = (
            "import sys\n"
            "from praval_tools.cli import main\n"
            "try: main([sys.argv[1]])\n"
            "except SystemExit: pass\n"
            "heavy = ('rich', 'asyncio', 'jsonschema_rs', 'hypothesis', 'sqlalchemy', 'alembic', 'cattrs')\n"
            "print([name for name in sys.modules if name.split('.')[0] in heavy"
            " or name.startswith(('praval_tools.cli.listings', 'praval_tools.demo', 'praval_tools.journal'))],"
            " file=sys.stderr)\n"
        )
        for option in ("--help", "--version"):
            command = [sys.executable, "-c", script, option]
            done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=60)
            assert done.stderr == "[]\n"

    def test_unknown_command_names_near_ones(self, run: Run) -> None:
        """
        A mistyped command is a usage error that names the right one.
        """
        assert run("matrx") == (
            2,
            "",
            "Error: No such command 'matrx'. Did you mean 'matrix'? See: praval-tools --help\n",
        )

    def test_without_a_command(self, run: Run) -> None:
        """
        Without a command the help is shown.
        """
        code, out, err = run()

        assert (code, err) == (0, "")
        assert "praval-tools demo" in out


class TestSurroundings:
    def test_piped_listing_has_no_colour_and_whole_lines(self, run: Run, app: App) -> None:
        """
        In a pipe nothing is coloured, cut or wrapped, and no line ends in spaces.
        """
        name = app(BANK.replace("Return a price.", "Return a price, " + "and so on " * 9))
        _, out, _ = run("list", "--app", f"{name}:registry")

        assert "\x1b" not in out
        assert len(out.splitlines()) == 4
        assert all(line == line.rstrip() for line in out.splitlines())

    def test_broken_pipe_is_silent(self, app: App) -> None:
        """
        A reader that leaves early gets no traceback behind it.
        """
        many = "\nfor n in range(3000):\n    tool(f'tool_{n}', shared=True, registry=registry)(log.function)\n"
        name = app(BANK + many)
        command = f"{sys.executable} -m praval_tools list --app {name}:registry | head -1; echo ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", command], env=ENV, capture_output=True, text=True, timeout=60)

        assert done.stderr == ""
        assert done.stdout.splitlines()[-1] == "141"

    def test_interrupt(self, app: App) -> None:
        """
        Ctrl-C ends with 130 and one line.
        """
        name = app(
            BANK + "\nimport time\n@tool('wait', owned_by='treasurer', registry=registry)\n"
            "def wait() -> int:\n    'Wait.'\n    print('ready', flush=True)\n    time.sleep(30)\n    return 1\n"
        )
        running = subprocess.Popen(
            [sys.executable, "-u", "-m", "praval_tools", "call", "treasurer", "wait", "--app", f"{name}:registry"],
            env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert running.stderr is not None and running.stderr.readline() == "ready\n"
        time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)

        assert (running.returncode, out, err.strip()) == (130, "", "Stopped: interrupted.")

    def test_completion(self, app: App) -> None:
        """
        The shell completes commands, options, and the names of tools and agents.
        """
        spec = f"{app()}:registry"

        def complete(words: str) -> list[str]:
            done = subprocess.run(
                [sys.executable, "-c", "from praval_tools.cli import main; main()"], capture_output=True, text=True,
                env={**ENV, "_PRAVAL_TOOLS_COMPLETE": "bash_complete", "COMP_WORDS": f"praval-tools {words}",
                     "COMP_CWORD": str(len(words.split()) + words.endswith(" "))}, timeout=60,
            )  # fmt: skip
            return [line.split(",")[1] for line in done.stdout.splitlines()]

        assert complete("m") == ["matrix", "mcp"]
        assert complete(f"--app {spec} why in") == ["intern"]
        assert complete(f"--app {spec} why intern w") == ["wire_money"]
        assert "--json" in complete("list --")
