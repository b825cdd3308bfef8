"""`--app`: how the registry is found, and what is said where it is not."""

# Tests of: app_option, report/command_line, plugin_commands

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

from praval_tools.report.command_line import CommandLine
from praval_tools.testing.plugin import isolated_registry


class TestFindingTheRegistry:
    def test_without_app_it_says_what_to_do(self, run: Run) -> None:
        """
        No `--app`: one line with the fix and an example that works.
        """
        code, out, err = run("list")

        assert (code, out) == (2, "")
        assert err.startswith("Error: Which registry? Name it: --app module:registry")
        assert err.count("\n") == 1

    def test_app_before_and_after_the_command(self, run: Run, app: App) -> None:
        """
        `--app` is taken in both places.
        """
        name = app()

        assert run("--app", f"{name}:registry", "list") == run("list", "--app", f"{name}:registry")

    def test_app_may_be_a_function(self, run: Run, app: App) -> None:
        """
        A function that returns a registry is called.
        """
        assert run("list", "--app", f"{app()}:make")[0] == 0

    def test_module_alone_means_the_default_registry(self, run: Run, app: App) -> None:
        """
        A module without an attribute is imported, and the default registry is what it filled.
        """
        name = app('from praval_tools import tool\n@tool\ndef hello(name: str) -> str:\n    "Greet."\n    return name')

        with isolated_registry():
            assert run("list", "--app", name)[1].split()[-4:] == ["hello", "-", "-", "Greet."]

    def test_module_alone_with_a_registry_of_its_own(self, run: Run, app: App) -> None:
        """
        A module that fills no default registry but one of its own: the option that names it, not an empty list.

        One that uses the default registry, too, is taken at its word.
        """
        own = app("from praval_tools import ToolRegistry\nbank = ToolRegistry()")
        both = app("from praval_tools import Agent, ToolRegistry\nbank = ToolRegistry()\nAgent('a')")

        with isolated_registry():
            assert run("list", "--app", own) == (
                2, "", f"Error: Module {own!r} declares nothing in the default registry; it has one of its own: "
                f"--app {own}:bank.\n",
            )  # fmt: skip
            assert run("list", "--app", both)[0] == 0

    @pytest.mark.parametrize(
        ("spec", "code", "text"),
        [
            (
                "no_such_module:registry",
                2,
                "No module 'no_such_module' in this folder or installed; run the command in the folder that",
            ),
            ("praval_tools.demo:registri", 2, "Module 'praval_tools.demo' has no 'registri'. Did you mean 'registry'?"),
            ("praval_tools.errors:annotations", 2, "is a _Feature, not a ToolRegistry"),
            ("app.py:registry", 2, "--app takes a module, not a file: --app app:registry"),
            (":registry", 2, "--app takes MODULE[:REGISTRY], not ''."),
            ("..x:registry", 2, "--app takes MODULE[:REGISTRY], not '..x'."),
        ],
    )
    def test_wrong_app(self, run: Run, spec: str, code: int, text: str) -> None:
        """
        A wrong `--app` is one line that names the fix.
        """
        given, out, err = run("list", "--app", spec)

        assert (given, out) == (code, "")
        assert text in err
        assert err.count("\n") == 1

    @pytest.mark.parametrize(
        ("source", "text"),
        [
            ("1 / 0", "ZeroDivisionError: division by zero"),
            ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
            ("def broken(:", "SyntaxError"),
            ("raise SystemExit('leaving')", "SystemExit: leaving"),
            ("from praval_tools import tool\n@tool\ndef f(x) -> int:\n    'Doc.'\n    return x", "has no type hint"),
        ],
    )
    def test_app_that_fails(self, run: Run, app: App, source: str, text: str) -> None:
        """
        A module that fails on import is one readable error, without a traceback, exit code 1.
        """
        code, out, err = run("check", "--app", app(source))

        assert (code, out) == (1, "")
        assert text in err
        assert "Traceback" not in err

    def test_traceback_on_request(self, app: App) -> None:
        """
        `--traceback` shows the whole Python error.
        """
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "check", "--traceback", "--app", app("1 / 0")],
            env=ENV, capture_output=True, text=True, timeout=60,
        )  # fmt: skip

        assert done.returncode == 1
        assert "Traceback (most recent call last)" in done.stderr
        assert "ZeroDivisionError" in done.stderr


class TestDefaults:
    def test_variable_and_configuration_name_the_app(self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        `--app` goes before `PRAVAL_TOOLS_APP`, and that before `app` in the configuration.
        """
        bank, demo = f"{app()}:registry", "praval_tools.demo:registry"
        Path("pyproject.toml").write_text(f'[tool.praval_tools]\napp = "{bank}"\n')

        assert run("list") == run("list", "--app", bank)
        monkeypatch.setenv("PRAVAL_TOOLS_APP", demo)
        assert run("agents") == run("agents", "--app", demo)
        assert run("agents", "--app", bank) != run("agents")

    @pytest.mark.parametrize("value", ["1", '""', "true"])
    def test_wrong_value_in_the_configuration(self, run: Run, app: App, value: str) -> None:
        """
        A value that is not a text is one line with file, line and key.
        """
        app()
        Path("praval_tools.toml").write_text(f"# ours\napp = {value}\n")

        assert run("list") == (
            1,
            "",
            'Error: praval_tools.toml, line 2: app: expected a text: "module:registry"\n',
        )

    def test_journal_of_the_app_without_option(self, run: Run, app: App) -> None:
        """
        Commands on the journal read that of the app that the configuration names.
        """
        name = app("from praval_tools import ToolRegistry\nregistry = ToolRegistry(journal='work.db')\n")
        Path("praval_tools.toml").write_text(f'app = "{name}:registry"\n')

        assert run("journal", "path") == (0, f"{Path('work.db').absolute()}\n", "")


class TestRemedies:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("ask: assign_tool_to_agent('a', 'b c').", "ask: praval-tools assign a 'b c'."),
            ("registry.transfer_ownership('a', …)", "praval-tools transfer a AGENT"),
            ("enable(tag='x')", "praval-tools enable x --kind tag"),
            ("swap the two, explain(agent, tool).", "swap the two, praval-tools why AGENT TOOL."),
            ("unblock(", "unblock("),
            ("ungrant('a')", "ungrant('a')"),
        ],
    )
    def test_remedies_are_commands(self, text: str, shown: str) -> None:
        """
        Where the package names a method of the registry, the command line names its command.
        """
        assert shown == CommandLine().rewrite(text)

    def test_the_command_of_a_remedy_works(self, run: Run, app: App) -> None:
        """
        What `why` says changes a refusal, changes it: for a block, a disabled tool, and where nothing gives access.
        """
        spec = f"{app()}:registry"
        for change in ("block quote intern", "disable quote", "unassign quote intern"):
            assert run(*change.split(), "--app", spec)[0] == 0
            out = run("why", "intern", "quote", "--app", spec)[1]
            remedy = out.partition("To change it: ")[2].splitlines()[0]
            command = remedy.partition("praval-tools ")[2].rstrip(".").split()
            assert run(*command, "--app", spec)[0] == 0
            assert run("why", "intern", "quote", "--app", spec)[0] == 0


class TestUnknownNames:
    @pytest.mark.parametrize(
        "command",
        ["show nope", "why intern nope", "call intern nope", "assign nope intern", "unassign nope intern",
         "block nope intern", "transfer nope intern", "share nope", "disable nope", "runs show nope", "nope"],
    )  # fmt: skip
    def test_one_exit_code(self, run: Run, app: App, command: str) -> None:
        """
        A name that is not there is wrong usage, whatever the command.
        """
        spec = f"{app()}:registry"
        run("block", "quote", "intern", "--app", spec)

        assert run(*command.split(), "--app", spec)[0] == 2

    @pytest.mark.parametrize("command", ["why", "call"])
    def test_unknown_agent_is_noted(self, run: Run, app: App, command: str) -> None:
        """
        A mistyped agent is named with the one that may be meant.
        """
        err = run(command, "intren", "quote", "symbol=a", "--app", f"{app()}:registry")[2]

        assert "Note: no agent 'intren' is declared" in err and "Did you mean 'intern'?" in err
