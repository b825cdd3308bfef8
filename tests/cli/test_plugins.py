"""Plugins on the command line: their tools without code, their commands, and what became of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV, App, Run, app, run  # noqa: F401
from plugin_rig import Site, site, write_tool  # noqa: F401

import praval_tools
from praval_tools import ToolRegistry, reset_tool_registry, use_registry

ROOT = Path(praval_tools.__file__).parent.parent
COMMANDS = '''
import click
from praval_tools import hookimpl
print("noise at import")

@hookimpl
def praval_tools_commands(cli):
    @cli.command("{name}")
    @click.argument("word")
    def {name}(word):
        """Say a word."""
        click.echo("{name}: " + word)
'''


def type_in(site: Site, *arguments: str, folder: Path | None = None) -> tuple[int, str, str]:
    """Run the command line in a process of its own, where the packages of *site* are installed."""
    keeps = {name: value for name, value in os.environ.items() if name != "PRAVAL_TOOLS_PLUGINS"}
    env = {**keeps, "PATH": ENV["PATH"], "PYTHONPATH": f"{site.folder}{os.pathsep}{ROOT}", "COLUMNS": "200"}
    done = subprocess.run([sys.executable, "-m", "praval_tools", *arguments], env=env, cwd=folder or Path.cwd(),
                          capture_output=True, text=True)  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def list_names(run: Run, spec: str) -> list[str]:
    """Return the names of the tools that `list` shows of an app."""
    return [tool["name"] for tool in json.loads(run("list", "--json", "--app", spec)[1])]


class TestWithoutCode:
    def test_installed_listed_granted_called(self, site: Site) -> None:
        """A plugin's tools are listed without `--app`, refused until they are granted, and run then."""
        site.good(version="1.2")

        assert ["acme_query", "acme_count"] == [one["name"] for one in json.loads(type_in(site, "list", "--json")[1])]
        assert 3 == type_in(site, "call", "analyst", "acme_query", "text=x")[0]
        assert 0 == type_in(site, "assign", "acme_query", "analyst")[0]
        assert (0, "acme: x\n", "") == type_in(site, "call", "analyst", "acme_query", "text=x")
        assert "May call it: analyst granted" in type_in(site, "show", "acme_query")[1]
        mine = json.loads(type_in(site, "list", "--agent", "analyst", "--json")[1])
        assert ["acme_query"] == [one["name"] for one in mine]
        words = [line for line in type_in(site, "audit")[1].splitlines() if "plugin loaded" in line]
        assert 1 == len(words)

    def test_show_prints_who_ships_it(self, site: Site) -> None:
        """Distribution and version stand in the text and in the JSON."""
        site.good(version="1.2")

        assert "acme 1.2 (plugin, not trusted)" in type_in(site, "show", "acme_query")[1]
        assert {"kind": "plugin", "distribution": "acme", "version": "1.2", "trusted": False} == json.loads(
            type_in(site, "show", "acme_query", "--json")[1]
        )["provenance"]  # fmt: skip

    def test_check_finds_no_fault_in_what_waits_to_be_granted(self, site: Site) -> None:
        """That nobody owns or reaches a plugin's tools is not a problem; a plugin that fails is one."""
        site.good()
        assert (0, "no problems in 2 tools and 0 agents.\n", "") == type_in(site, "check")
        site.install("bad", "1 / 0")
        code, out, err = type_in(site, "check", "--json")

        assert (1, ["plugin"]) == (code, [one["kind"] for one in json.loads(out)["problems"]])
        assert "Note: Plugin bad 1.0 (bad) (import): ZeroDivisionError" in err

    def test_an_apps_registry_is_shown_as_the_program_has_it(self, site: Site, run: Run, app: App) -> None:
        """
        With `--app` plugins are in the registry where the app loads them, or where the configuration says so.

        Broken before: every command loaded them, so that the tools of the listing were not those of the program.
        """
        site.good()
        spec = f"{app()}:registry"
        own = app(
            "from praval_tools import ToolRegistry, load_plugins\nregistry = ToolRegistry()\nload_plugins(registry)\n"
        )

        assert ["wire_money", "quote", "log"] == list_names(run, spec)
        assert ["acme_query", "acme_count"] == list_names(run, f"{own}:registry")
        Path("praval_tools.toml").write_text("autoload = true\n")
        assert ["wire_money", "quote", "log", "acme_query", "acme_count"] == list_names(run, spec)

    @pytest.mark.parametrize("command", ["list", "agents", "matrix", "why a acme_query", "check", "plugins", "stats"])
    def test_looking_writes_nothing(self, site: Site, run: Run, app: App, command: str) -> None:
        """No command that only shows something writes to the app's journal that a plugin was loaded."""
        site.good()
        Path("praval_tools.toml").write_text("autoload = true\n")
        name = app("from praval_tools import ToolRegistry\nregistry = ToolRegistry(journal='work.db')\n")
        run(*command.split(), "--app", f"{name}:registry")

        assert (0, "") == run("audit", "--json", "--journal", "work.db")[:2]

    def test_no_plugin_no_app(self, site: Site, run: Run) -> None:
        """Where nothing is installed, or may be loaded, the command line asks for the app as ever."""
        with use_registry(ToolRegistry()):
            assert "Which registry?" in run("list")[2]

    def test_a_wrong_configuration_is_one_line_a_problem(self, site: Site) -> None:
        """Exit code 1 and the places."""
        site.good()
        Path("praval_tools.toml").write_text("[plugins.acme]\ntrust = 1\nallow = 2\n")
        code, out, err = type_in(site, "list")

        assert (1, "") == (code, out)
        assert "praval_tools.toml, line 2: plugins.acme.trust: expected true or false" in err
        assert "Traceback" not in err


class TestPlugins:
    def test_list_says_what_became_of_each(self, site: Site) -> None:
        """One line each: version, state, tools, why; JSON has all of it."""
        site.good(version="1.2")
        site.install("bad", "def f(:")
        site.good("off")
        Path("praval_tools.toml").write_text("[plugins.off]\nenabled = false\n")
        code, out, err = type_in(site, "plugins")
        rows = {line.split()[0]: line for line in out.splitlines()}

        assert (0, True) == (code, "Note: Plugin bad" in err)
        assert ["1.2", "loaded", "2"] == rows["acme"].split()[1:4]
        assert "failed: import" in rows["bad"] and "SyntaxError" in rows["bad"]
        assert "left out" in rows["off"] and "enabled = false" in rows["off"]
        assert out == type_in(site, "plugins", "list")[1]
        assert [1, 1] == [type_in(site, "plugins", *more, "--strict")[0] for more in ([], ["list"])]
        reports = json.loads(type_in(site, "plugins", "--json")[1])
        assert ["acme", "bad", "off"] == [one["distribution"] for one in reports]
        assert "SyntaxError" in reports[1]["traceback"]

    def test_show_prints_requests_and_errors(self, site: Site) -> None:
        """What it asks for and how to grant it; the traceback in full."""
        site.good()
        site.install("bad", "1 / 0")
        out = type_in(site, "plugins", "show", "acme")[1]

        assert "acme_query: owned by 'analyst'" in out and 'trust = true in [plugins."acme"]' in out
        assert "Traceback (most recent call last)" in type_in(site, "plugins", "show", "bad")[1]
        code, _, err = type_in(site, "plugins", "show", "acmee")
        assert (2, True) == (code, "Did you mean 'acme'?" in err)

    def test_none(self, site: Site) -> None:
        """Where there is none, it says how to start one."""
        code, out, err = type_in(site, "plugins")
        assert (0, "") == (code, out)
        assert "praval-tools plugins new NAME" in err

    def test_check_kills_what_hangs_and_survives_what_crashes(self, site: Site) -> None:
        """Each in a process of its own: one that hangs, one that ends the process, one that prints; and a good one."""
        site.good()
        site.install("crash", "import os; os._exit(7)")
        site.install("hang", "import threading; threading.Event().wait()")
        noisy = "print('{}'); from praval_tools import tool\n@tool\ndef n() -> int:\n    'N.'\n    return 1\n"
        site.install("noisy", noisy)
        code, out, _ = type_in(site, "plugins", "check", "--timeout", "15", "--json")
        reports = {one["distribution"]: one for one in json.loads(out)}

        assert (1, {"acme": "loaded", "crash": "import", "hang": "timeout", "noisy": "loaded"}) == (
            code, {name: one["stage"] for name, one in reports.items()}
        )  # fmt: skip
        assert "ended with 7" in reports["crash"]["error"]
        assert ["n"] == reports["noisy"]["tools"]


class TestCommands:
    def test_they_appear_and_run(self, site: Site) -> None:
        """In the help, and as any other; what the import prints does not mix with output."""
        site.install("acme", COMMANDS.format(name="hello"))

        assert (0, "hello: x\n") == type_in(site, "hello", "x")[:2]
        assert "Commands of plugins" in type_in(site, "--help")[1]
        assert "hello" in type_in(site, "--help")[1].partition("Commands of plugins")[2]
        assert "Did you mean 'hello'" in type_in(site, "helo", "x")[2]

    def test_names_that_are_taken(self, site: Site) -> None:
        """Neither a command of ours nor another plugin's is replaced; the others stay."""
        site.install("aaa", COMMANDS.format(name="hello"))
        site.install("bbb", COMMANDS.format(name="hello"))
        site.install("ccc", COMMANDS.format(name="list"))
        site.install("ddd", COMMANDS.format(name="other"))
        fails = "from praval_tools import hookimpl\n@hookimpl\ndef praval_tools_commands(cli):\n    1 / 0\n"
        site.install("eee", fails)
        code, out, err = type_in(site, "--help")

        assert (0, True, True) == (code, "  hello" in out, "  other" in out)
        assert "'hello' comes from aaa already" in err
        assert "'list' is praval_tools' own" in err
        assert "Plugin eee 1.0 (eee) (praval_tools_commands): ZeroDivisionError" in err
        code, out, err = type_in(site, "other", "x")
        assert (0, "other: x\n", 1) == (code, out, err.count("'hello' comes from aaa already"))

    def test_a_broken_plugin_does_not_break_the_help(self, site: Site) -> None:
        """One that cannot be imported, or a configuration that is wrong, is reported on stderr; the help is printed."""
        site.install("bad", "1 / 0")
        assert (0, True) == (lambda result: (result[0], "praval-tools demo" in result[1]))(type_in(site, "--help"))
        Path("praval_tools.toml").write_text("plugins = 1")
        code, out, err = type_in(site, "--help")

        assert (0, True, True) == (code, "praval-tools demo" in out, "expected tables" in err)

    def test_a_command_without_help_does_not_break_the_help(self, site: Site) -> None:
        """A command that cannot say what it does is left out, and reported."""
        site.install(
            "acme",
            """
import click
from praval_tools import hookimpl
class Mute(click.Command):
    def get_short_help_str(self, limit=45): raise ValueError("mute")
@hookimpl
def praval_tools_commands(cli):
    cli.add_command(Mute("mute"))
""",
        )
        code, out, err = type_in(site, "--help")

        assert (0, True, True) == (code, "plugins" in out, "ValueError: mute" in err)

    @pytest.mark.parametrize("name", ["class", "json", "praval", "praval-tools", "tests", "praval-tools-3d", "../evil",
                                      "a/b", "A", "", "-x", "a" * 61, "a\nb", "ä"])  # fmt: skip
    def test_new_refuses_names_that_would_not_work(self, site: Site, name: str) -> None:
        """Neither a keyword nor Python's own modules, nor a path; nothing is written."""
        code, out, err = type_in(site, "plugins", "new", "--", name)

        assert (2, "", []) == (code, out, list(Path().iterdir()))
        assert "name" in err or "module" in err

    def test_the_version_looks_for_no_plugins(self, site: Site) -> None:
        """`--version` answers at once: nothing is searched for, and nothing imported."""
        site.install("acme", "raise SystemExit('imported')")
        program = (
            "import sys\nfrom praval_tools.cli import main\n"
            "try: main(['--version'])\nexcept SystemExit: pass\n"
            "print([name for name in ('pluggy', 'importlib.metadata', 'acme') if name in sys.modules])"
        )
        env = {**os.environ, "PYTHONPATH": f"{site.folder}{os.pathsep}{ROOT}"}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)

        assert "[]" == done.stdout.splitlines()[-1]

    def test_the_environment_keeps_them_out(self, site: Site, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """`PRAVAL_TOOLS_PLUGINS=` imports nothing."""
        site.install("acme", "raise SystemExit('imported')")
        monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "")

        assert (2, "") == run("hello")[:2]


class TestWithoutAnApp:
    """Only plugins are installed, and the user has named no registry."""

    @pytest.fixture(autouse=True)
    def installed(self, site: Site) -> None:
        """A plugin with one tool, and no default registry of another test."""
        reset_tool_registry()
        site.install("acme", write_tool("acme_one"))

    def test_what_is_unknown_says_that_no_app_is_named(self, run: Run, tmp_path: Path) -> None:
        """
        `why` of an unknown tool or agent, and `grants` that finds none, say how to name the program's registry.
        """
        note = "Note: no app is named, so only installed plugins are known; name yours: --app MODULE:REGISTRY.\n"
        ToolRegistry(journal=str(tmp_path / "own.db")).close()

        assert note in run("why", "ann", "wire_money", "--journal", str(tmp_path / "own.db"))[2]
        expected = (0, "", note + "No grants of the tools that are known here.\n")  # the journal may have others
        assert expected == run("grants", "--journal", str(tmp_path / "own.db"))

    def test_an_assignment_says_how_the_program_sees_it(self, run: Run) -> None:
        """
        A plugin's tool is in a program's own registry once that loads plugins, so the hint says `load_plugins`.
        """
        code, _, err = run("assign", "acme_one", "ann")

        assert (code, True) == (0, "ToolRegistry(journal='praval_tools.db') and load_plugins(registry).\n" in err)
        assert "no app is named" not in run("grants")[2]
