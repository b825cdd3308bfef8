"""The commands that look: list, show, agents, matrix, export, check."""

# Tests of: listings, check, matrix, report/access_matrix

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

DEMO = ("--app", "praval_tools.demo:registry")


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

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            (["money", "prices"], ["wire_money", "quote"]),
            (["--limit", "1", "money", "prices"], ["wire_money"]),
            (["--agent", "intern", "send money, return prices"], ["quote"]),
            (["--agent", "intern", "wiring"], []),
        ],
    )
    def test_search(self, run: Run, app: App, options: list[str], names: list[str]) -> None:
        """
        Tools are found by their words, the best first; `--agent` finds only what the agent may call.
        """
        _, out, _ = run("search", "--app", f"{app()}:registry", "--json", *options)
        assert [tool["name"] for tool in json.loads(out)] == names

        code, out, err = run("search", "--app", f"{app()}:registry", *options)
        assert (code, err) == (0, "" if names else "No tool that 'intern' may call has them.\n")
        assert [line.split()[0] for line in out.splitlines()[1:]] == names

    def test_a_search_of_an_unknown_agent(self, run: Run, app: App) -> None:
        """
        A mistyped agent finds nothing, and a note says why; no words and no limit are wrong usage.
        """
        _, _, err = run("search", "--app", f"{app()}:registry", "--agent", "interne", "money")
        assert "Did you mean 'intern'?" in err
        assert (2, 2) == (run("search")[0], run("search", "--limit", "0", "money")[0])

    def test_nothing_fits(self, run: Run, app: App) -> None:
        """
        An empty listing says so on stderr.
        """
        assert run("list", "--app", f"{app()}:registry", "--tag", "x") == (0, "", "None of the 3 tools matches.\n")

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

    UNDECLARED = BANK + "\nregistry.assign_tool_to_agent('wire_money', 'cleark', max_calls=1)\n"

    def test_agents_that_only_grants_name(self, run: Run, app: App) -> None:
        """
        An agent that nobody declares, and that a grant names, is listed as such with what it may call.
        """
        where = f"{app(self.UNDECLARED)}:registry"
        (found,) = (one for one in json.loads(run("agents", "--json", "--app", where)[1]) if one["name"] == "cleark")
        _, out, err = run("agents", "--app", where)

        assert (found["declared"], found["callable"]) == (False, ["wire_money", "log"])
        assert "cleark (undeclared)" in out
        assert "treasurer (undeclared)" not in out
        assert err == ""

    def test_matrix_of_agents_that_only_grants_name(self, run: Run, app: App) -> None:
        """
        Such an agent has a column of its own; a name that no grant has gets a note, and no column's title hides it.
        """
        where = f"{app(self.UNDECLARED)}:registry"
        code, out, err = run("matrix", "--app", where)
        _, asked, no_note = run("matrix", "--agent", "cleark", "--app", where)
        _, _, note = run("matrix", "--agent", "carol", "--app", where)

        assert (code, err, no_note) == (0, "", "")
        assert "cleark" in out and "(undeclared)" in out
        assert any(line.split()[:2] == ["wire_money", "granted"] for line in asked.splitlines())
        assert "no agent 'carol' is declared" in note

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

    def test_an_agent_that_is_not_declared_is_reported(self, run: Run) -> None:
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
