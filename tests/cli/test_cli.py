"""The command line: what it prints, its exit codes, and that hostile input cannot break its output."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import time

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

from praval_tools.cli.common import sanitize_text
from praval_tools.testing.plugin import isolated_registry

COMMANDS = [
    "demo", "list", "show", "agents", "matrix", "why", "call", "export", "assign", "unassign", "block", "unblock",
    "transfer", "share", "unshare", "disable", "enable", "audit", "runs", "journal", "stats", "check",
]  # fmt: skip
DEMO = ("--app", "praval_tools.demo:registry")


class TestStart:
    def test_help_lists_every_command(self, run: Run) -> None:
        """
        `--help` shows each command with one line on what it does, and the exit codes.
        """
        code, out, err = run("--help")

        assert (code, err) == (0, "")
        for name in COMMANDS:
            assert f"\n  {name} " in out
        assert "3 the access rules refuse" in " ".join(out.split())

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
        assert run("matrx") == (2, "", "Error: No such command 'matrx'; there is matrix. See: praval-tools --help\n")

    def test_without_a_command(self, run: Run) -> None:
        """
        Without a command the help is shown.
        """
        code, out, err = run()

        assert (code, err) == (0, "")
        assert "praval-tools demo" in out


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

    @pytest.mark.parametrize(
        ("spec", "code", "text"),
        [
            ("no_such_module:registry", 2, "No module 'no_such_module' here or installed; run this in the folder that"),
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


class TestLooking:
    def test_list(self, run: Run, app: App) -> None:
        """
        One line per tool: name, owner, shared or category, description.
        """
        code, out, err = run("list", "--app", f"{app()}:registry")

        assert (code, err) == (0, "")
        assert [line.split(maxsplit=3)[:3] for line in out.splitlines()[1:]] == [
            ["wire_money", "treasurer", "-"],
            ["quote", "-", "prices"],
            ["log", "-", "shared"],
        ]

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            (["--agent", "intern"], ["quote", "log"]),
            (["--agent", "treasurer"], ["wire_money", "log"]),
            (["--category", "prices"], ["quote"]),
            (["--owner", "treasurer"], ["wire_money"]),
            (["--tag", "money", "--tag", "other"], ["wire_money"]),
            (["--agent", "intern", "--owner", "treasurer"], []),
        ],
    )
    def test_filters(self, run: Run, app: App, options: list[str], names: list[str]) -> None:
        """
        Filters combine; `--agent` shows exactly what the agent may call.
        """
        _, out, _ = run("list", "--app", f"{app()}:registry", "--json", *options)

        assert [tool["name"] for tool in json.loads(out)] == names

    def test_nothing_fits(self, run: Run, app: App) -> None:
        """
        An empty listing says so on stderr.
        """
        assert run("list", "--app", f"{app()}:registry", "--tag", "x") == (0, "", "None of the 3 tools fits.\n")

    def test_mistyped_agent(self, run: Run, app: App) -> None:
        """
        An agent that nobody declared is said to be one, with near names.
        """
        code, _, err = run("list", "--app", f"{app()}:registry", "--agent", "interne")

        assert code == 0
        assert "no agent 'interne' is declared" in err
        assert "Did you mean 'intern'?" in err

    def test_show(self, run: Run, app: App) -> None:
        """
        One tool with parameters, their types, defaults and descriptions, and who may call it.
        """
        code, out, _ = run("show", "wire_money", "--app", f"{app()}:registry")

        assert code == 0
        for text in ("Send money.", "Who gets it.", "float", "default False", "high", "May call it: treasurer owner"):
            assert text in out

    def test_show_json(self, run: Run, app: App) -> None:
        """
        The JSON of a tool has its schemas, source and callers.
        """
        found = json.loads(run("show", "quote", "--json", "--app", f"{app()}:registry")[1])

        assert found["callers"] == {"intern": "listed"}
        assert found["parameters"]["required"] == ["symbol"]
        assert found["result"] == {"type": "string"}

    def test_show_unknown(self, run: Run, app: App) -> None:
        """
        A tool that is not there is a usage error with near names.
        """
        code, _, err = run("show", "wire_mony", "--app", f"{app()}:registry")

        assert (code, err) == (2, "Error: Tool 'wire_mony' not found. Did you mean 'wire_money'?\n")

    def test_agents(self, run: Run, app: App) -> None:
        """
        Each agent with what it owns, lists, requests, and may call.
        """
        found = json.loads(run("agents", "--json", "--app", f"{app()}:registry")[1])

        assert [(one["name"], one["owns"], one["tools"], one["callable"]) for one in found] == [
            ("intern", [], ["quote"], ["quote", "log"]),
            ("treasurer", ["wire_money"], [], ["wire_money", "log"]),
        ]
        assert "intern" in run("agents", "--app", f"{app()}:registry")[1]

    def test_matrix(self, run: Run, app: App) -> None:
        """
        Agents x tools, with the deciding rule in each cell.
        """
        code, out, _ = run("matrix", "--app", f"{app()}:registry")

        assert code == 0
        assert [line.split() for line in out.splitlines()] == [
            ["tool", "intern", "treasurer"],
            ["wire_money", "-", "owner"],
            ["quote", "listed", "-"],
            ["log", "shared", "shared"],
        ]

    def test_matrix_json(self, run: Run, app: App) -> None:
        """
        The JSON of the matrix has rule and answer per cell.
        """
        found = json.loads(run("matrix", "--json", "--agent", "intern", "--app", f"{app()}:registry")[1])

        assert found["agents"] == ["intern"]
        assert {tool: cells["intern"]["rule"] for tool, cells in found["cells"].items()} == {
            "wire_money": "no-way", "quote": "listed", "log": "shared",
        }  # fmt: skip

    def test_matrix_of_many_agents_fits_a_terminal(self, app: App) -> None:
        """
        Agents that do not fit beside each other follow below, and no line is wider than the terminal.
        """
        name = app(BANK + "\nfor n in range(30):\n    Agent(f'agent_{n:02}', registry=registry)\n")
        done = subprocess.run(
            [sys.executable, "-m", "praval_tools", "matrix", "--app", f"{name}:registry"],
            env={**ENV, "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}, capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        lines = [line for line in done.stdout.split("\n") if "\x1b" not in line]

        assert max(map(len, lines)) <= 80
        assert all(f"agent_{n:02}" in done.stdout for n in range(30))


class TestWhy:
    def test_allowed(self, run: Run, app: App) -> None:
        """
        An allowed call: exit code 0, the rule, and every rule in order.
        """
        code, out, _ = run("why", "intern", "quote", "--app", f"{app()}:registry")

        assert code == 0
        assert out.startswith("intern -> quote: allowed (listed)")
        assert [line.split()[1] for line in out.splitlines() if line[:1].isdigit()] == [
            "unknown", "disabled", "blocked", "owner", "listed", "shared", "category", "granted",
        ]  # fmt: skip

    def test_refused(self, run: Run, app: App) -> None:
        """
        A refused call: exit code 3, the reason, and what would change it.
        """
        code, out, _ = run("why", "intern", "wire_money", "--app", f"{app()}:registry")

        assert code == 3
        assert "forbidden" in out
        assert "To change it: 'treasurer' or the operator may grant it" in out

    def test_bounds(self, run: Run) -> None:
        """
        With arguments the bounds of a grant are asked, after the repair of key=value text.
        """
        assert run("why", "analyst", "read_rows", "count=20", *DEMO)[0] == 0
        code, out, _ = run("why", "analyst", "read_rows", "count=21", *DEMO)
        assert code == 3
        assert "count" in out.splitlines()[1]

    def test_json(self, run: Run) -> None:
        """
        The JSON has the decision and every rule tried.
        """
        code, out, _ = run("why", "reporter", "publish", "--json", *DEMO)
        found = json.loads(out)

        assert code == 3
        assert (found["allowed"], found["outcome"], found["rule"]) == (False, "forbidden", "no-way")
        assert [one["rule"] for one in found["tried"]][:3] == ["unknown", "disabled", "blocked"]

    def test_unknown_tool(self, run: Run) -> None:
        """
        A tool that does not exist is explained as unknown.
        """
        code, out, _ = run("why", "reporter", "publsh", *DEMO)

        assert code == 3
        assert "unknown" in out

    def test_swapped(self, run: Run) -> None:
        """
        Tool and agent in the wrong order are recognised and said.
        """
        assert "swap" in run("why", "publish", "reporter", *DEMO)[1]

    def test_arguments_that_do_not_fit(self, run: Run) -> None:
        """
        Arguments that the tool does not take are wrong usage.
        """
        code, _, err = run("why", "analyst", "read_rows", "count=many", *DEMO)

        assert code == 2
        assert "$.count" in err


class TestCall:
    def test_pairs_are_repaired(self, run: Run, app: App) -> None:
        """
        `x=3` is a number where a number is wanted, and text where text is; what the tool prints goes to stderr.
        """
        words = ("to=42", "amount=3", "urgent=true")
        code, out, err = run("call", "treasurer", "wire_money", *words, "--app", f"{app()}:registry")

        assert (code, json.loads(out), err) == (0, {"to": "42", "amount": 3.0, "urgent": True}, "wiring\n")

    def test_pairs_for_a_strict_tool(self, run: Run, app: App) -> None:
        """
        A tool that takes strict arguments can be called from a shell as well.
        """
        assert run("call", "intern", "quote", "symbol=7", "days=2", "--app", f"{app()}:registry")[:2] == (0, "7 2\n")

    def test_json_argument(self, run: Run, app: App) -> None:
        """
        One JSON object is taken as it is.
        """
        spec = f"{app()}:registry"

        assert run("call", "intern", "quote", '{"symbol": "A"}', "--app", spec)[:2] == (0, "A 1\n")

    def test_stdin(self, run: Run, app: App, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        `-` reads JSON from stdin.
        """
        monkeypatch.setattr(sys, "stdin", io.StringIO('{"symbol": "B", "days": 3}'))

        assert run("call", "intern", "quote", "-", "--app", f"{app()}:registry")[:2] == (0, "B 3\n")

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["symbol"], "'symbol' is no argument; write key=value"),
            (["=3"], "'=3' is no argument"),
            (["symbol=a", "symbol=b"], "Argument 'symbol' is given twice."),
            (["{broken"], "The arguments are no JSON object"),
            (["[1]"], "The arguments are no JSON object"),
            (["symbool=a"], "symbool"),
            (["symbol=a", "days=many"], "$.days"),
        ],
    )
    def test_bad_arguments(self, run: Run, app: App, words: list[str], text: str) -> None:
        """
        Arguments that cannot be meant are wrong usage, with what is wrong.
        """
        code, out, err = run("call", "intern", "quote", *words, "--app", f"{app()}:registry")

        assert (code, out) == (2, "")
        assert text in err

    def test_refused(self, run: Run, app: App) -> None:
        """
        A call that the rules refuse: exit code 3, reason and remedy for the operator.
        """
        code, out, err = run("call", "intern", "wire_money", "to=a", "amount=1", "--app", f"{app()}:registry")

        assert (code, out) == (3, "")
        assert err.startswith("forbidden: ")
        assert "'treasurer' or the operator may grant it" in err

    def test_needs_approval(self, run: Run, app: App) -> None:
        """
        A tool that needs an approval never runs without one.
        """
        code, out, err = run("call", "intern", "log", "text=a", "--app", f"{app()}:registry")

        assert (code, out) == (3, "")
        assert err.startswith("approval_required: ")

    def test_tool_that_fails(self, run: Run, app: App) -> None:
        """
        A tool that raises: exit code 1, class and message, no traceback.
        """
        code, _, err = run("call", "treasurer", "wire_money", "to=a", "amount=-1", "--app", f"{app()}:registry")

        assert code == 1
        assert "tool_error (ValueError): a negative amount" in err
        assert "Traceback" not in err

    def test_unknown_tool(self, run: Run, app: App) -> None:
        """
        A tool that does not exist is refused as unknown.
        """
        code, _, err = run("call", "intern", "nope", "--app", f"{app()}:registry")

        assert code == 3
        assert err.startswith("unknown_tool: Tool 'nope' not found")

    def test_json_output(self, run: Run, app: App) -> None:
        """
        `--json` gives the whole result, refusals too.
        """
        good = json.loads(run("call", "intern", "quote", "symbol=a", "--json", "--app", f"{app()}:registry")[1])
        words = ("wire_money", "to=a", "amount=1")
        bad = json.loads(run("call", "intern", *words, "--json", "--app", f"{app()}:registry")[1])

        assert (good["outcome"], good["result"], good["rule"]) == ("ok", "a 1", "listed")
        assert (bad["outcome"], bad["result"], bad["rule"]) == ("forbidden", None, "no-way")


class TestCheck:
    def test_nothing_wrong(self, run: Run) -> None:
        """
        A sound registry: exit code 0 and how much was checked.
        """
        assert run("check", *DEMO) == (0, "no problems in 8 tools and 4 agents.\n", "")

    def test_problems(self, run: Run, app: App) -> None:
        """
        Typos and hints that do not resolve are found, with the fix; exit code 1.
        """
        name = app(
            "from __future__ import annotations\n" + BANK + "\n"
            "Agent('clerk', tools=['wire_mony'], tool_categories=['price'], registry=registry)\n"
            "@tool('late', owned_by='clerk', registry=registry)\n"
            "def late(x: Missing) -> int:\n    'Doc.'\n    return 1\n"
        )
        code, out, err = run("check", "--app", f"{name}:registry")

        assert (code, err) == (1, "")
        for text in (
            "'wire_mony'", "Did you mean 'wire_money'?", "'price'", "Did you mean 'prices'?", "late", "Missing",
            "3 problems in 4 tools and 3 agents.",
        ):  # fmt: skip
            assert text in out

    def test_json(self, run: Run, app: App) -> None:
        """
        The JSON lists each problem with kind, subject, message and remedy.
        """
        name = app(BANK + "\nAgent('clerk', tools=['nope'], registry=registry)\n")
        code, out, _ = run("check", "--json", "--app", f"{name}:registry")
        found = json.loads(out)

        assert code == 1
        assert [(one["kind"], one["subject"]) for one in found["problems"]] == [("unknown-tool", "clerk")]


HOSTILE = """
from praval_tools import Agent, Tool, ToolRegistry

registry = ToolRegistry()
registry.register_tool(Tool(
    "evil", description="[red]not red[/red] \\x1b[31mred\\x1b[0m\\nsecond line \\x9b2J \\u202egnol " + "x" * 5000,
    parameters={"type": "object", "properties": {
        "[bold]p": {"type": "string", "description": "\\x1b]0;title\\x07[link=http://x]"}}},
    callable=lambda **given: "\\x1b[2Jgone", shared=True, category="[blink]\\x1b[5m", tags=["\\x1b[7m"],
))
Agent("[red]robot", registry=registry)
"""


class TestHostileText:
    @pytest.mark.parametrize(
        "command",
        [
            ["list"], ["show", "evil"], ["agents"], ["matrix"], ["why", "[red]robot", "evil"], ["check"],
            ["why", "\x1b[31mx", "\x1b[31my"], ["call", "[red]robot", "\x1b[31m"], ["show", "\x1b[2J"],
            ["list", "--agent", "\x1b[31m"],
        ],
        ids=lambda command: command[0],
    )  # fmt: skip
    def test_is_shown_and_never_interpreted(self, run: Run, app: App, command: list[str]) -> None:
        """
        Markup, escape sequences, line breaks and bidi marks from strangers reach no terminal, in any command.
        """
        spec = f"{app(HOSTILE)}:registry"
        for more in ([], ["--json"]):
            _, out, err = run(*command, *more, "--app", spec)
            for sign in ("\x1b", "\x9b", "\x07", "\u202e"):
                assert sign not in out + err

    def test_markup_is_printed_as_it_is(self, run: Run, app: App) -> None:
        """
        Square brackets are text, and a long description of many lines is one line in a listing.
        """
        _, out, _ = run("list", "--app", f"{app(HOSTILE)}:registry")

        assert "[red]not red[/red] \\x1b[31mred" in out
        assert len(out.splitlines()) == 2
        assert max(map(len, out.splitlines())) < 250

    def test_result_is_raw_only_in_a_pipe(self, run: Run, app: App) -> None:
        """
        In a pipe the tool's text is passed on as it is: there it is data.
        """
        assert run("call", "[red]robot", "evil", "--app", f"{app(HOSTILE)}:registry")[1] == "\x1b[2Jgone\n"

    @pytest.mark.parametrize(
        ("text", "safe"),
        [
            ("a\x1b[31mb", "a\\x1b[31mb"), ("a\nb\tc", "a b c"), ("\u202eabc", "\\u202eabc"), ("\ud800", "\\ud800"),
            ("naïve 漢字 😀", "naïve 漢字 😀"), ("\x85\x9b", "\\x9b"),
        ],
    )  # fmt: skip
    def test_shown(self, text: str, safe: str) -> None:
        """
        What could move a cursor is spelled out, and other people's letters stay.
        """
        assert safe == sanitize_text(text)


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

        assert complete("m") == ["matrix"]
        assert complete(f"--app {spec} why in") == ["intern"]
        assert complete(f"--app {spec} why intern w") == ["wire_money"]
        assert "--json" in complete("list --")


class TestExport:
    def test_writes_what_the_registry_gives(self, run: Run, app: App) -> None:
        """
        The JSON is that of `registry.schemas`, in the format and mode asked for.
        """
        code, out, err = run(*DEMO, "export", "--agent", "analyst", "--format", "anthropic", "--strict", "--reason")
        tools = json.loads(out)

        assert (code, err) == (0, "")
        assert [one["name"] for one in tools] == sorted(one["name"] for one in tools)
        assert all("toolcall_reason" in one["input_schema"]["properties"] for one in tools)
        assert any(one.get("strict") for one in tools)

    def test_an_unknown_format_is_wrong_usage(self, run: Run) -> None:
        """
        It exits with 2 and lists the formats.
        """
        code, out, err = run(*DEMO, "export", "--agent", "analyst", "--format", "grpc")

        assert (code, out) == (2, "")
        assert "openai-chat" in err

    def test_an_agent_that_is_not_declared_is_told(self, run: Run) -> None:
        """
        The list of a stranger is that of what is shared, and standard error says so.
        """
        code, out, err = run(*DEMO, "export", "--agent", "analist")

        assert code == 0
        assert isinstance(json.loads(out), list)
        assert "Did you mean 'analyst'?" in err

    def test_tags_choose(self, run: Run) -> None:
        """
        `--tag` and `--exclude-tag` choose among the tools.
        """
        assert "[]" == run(*DEMO, "export", "--agent", "analyst", "--tag", "none")[1].strip()
