"""The command line with configurations: which files count, with an app and without one, and what `check` says."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_rig import App, Run, app, run  # noqa: F401

# Tests of: config_option, check

TOOLS = "tools:\n  - {name: add, module: sums, function: add}\nagents: {ann: {tools: [add]}}\n"


@pytest.fixture(autouse=True)
def folder(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the app, with a module and a configuration; the module is forgotten at the end."""
    monkeypatch.delenv("PRAVAL_TOOLS_CONFIG", raising=False)
    monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sums.py").write_text('def add(x: float) -> float:\n    "Add."\n    return x + 1\n')
    (tmp_path / "tools.yml").write_text(TOOLS)
    sys.modules.pop("sums", None)
    yield tmp_path
    sys.modules.pop("sums", None)


class TestFiles:
    def test_named_files_come_before_those_of_the_variable_and_of_the_folder(
        self, folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:  # fmt: skip
        """`--config`, before or after the command and repeated; else the variable; else what the folder holds."""
        (folder / "more.yml").write_text("agents: {bob: {}}\n")
        (folder / "other.yml").write_text("agents: {eve: {}}\n")

        def list_agents(*arguments: str) -> list[str]:
            return [agent["name"] for agent in json.loads(run(*arguments, "agents", "--json")[1])]

        assert ["ann"] == list_agents()
        monkeypatch.setenv("PRAVAL_TOOLS_CONFIG", "other.yml")
        assert ["eve"] == list_agents()
        assert ["ann", "bob"] == list_agents("--config", "tools.yml", "--config", "more.yml")
        assert 0 == run("list", "--config", "tools.yml")[0]

    def test_an_app_takes_named_files_in(self, app: App, run: Run) -> None:
        """Those of the folder are for the app itself to load."""
        name = f"{app()}:registry"

        assert 3 == run("--app", name, "call", "ann", "add", "x=1")[0] or "add" not in run("--app", name, "list")[1]
        assert (0, "2.0\n", "") == run("--app", name, "--config", "tools.yml", "call", "ann", "add", "x=1")
        assert "wire_money" in run("--app", name, "--config", "tools.yml", "list")[1]

    def test_the_journal_of_the_file_is_used(self, folder: Path, run: Run) -> None:
        """A listing makes no file; a change makes the one that the configuration names."""
        (folder / "tools.yml").write_text(TOOLS + "journal: {path: mine.db}\n")

        assert 0 == run("list")[0]
        assert not (folder / "mine.db").exists()
        assert 0 == run("assign", "add", "bob")[0]
        assert (folder / "mine.db").exists()
        assert (0, "2.0\n") == run("call", "bob", "add", "x=1")[:2]
        assert "add" in run("audit")[1]

    def test_calls_are_recorded_from_the_first_one_on(self, folder: Path, run: Run) -> None:
        """A call makes the journal that the configuration names."""
        (folder / "tools.yml").write_text(TOOLS + "journal: {path: mine.db}\n")

        assert 0 == run("call", "ann", "add", "x=1")[0]
        assert "ann" in run("audit")[1]

    def test_a_grant_of_the_file_is_used_up_over_several_commands(self, folder: Path, run: Run) -> None:
        """The journal counts the calls of a declared grant, as it does in a program."""
        more = "journal: {path: mine.db}\ngrants: [{tool: add, agent: bob, max_calls: 2}]\n"
        (folder / "tools.yml").write_text(TOOLS + more)

        assert [0, 0, 3, 3] == [run("call", "bob", "add", "x=1")[0] for _ in range(4)]

    def test_a_mistake_ends_every_command(self, folder: Path, run: Run) -> None:
        """The error is that of the configuration, whatever the command."""
        (folder / "tools.yml").write_text("tolls: []\nagents: {}\n")
        error = "Error: tools.yml, line 1: tolls: unknown key; did you mean 'tools'?\n"

        assert {(1, "", error)} == {run("list"), run("call", "ann", "add", "x=1"), run("matrix")}


class TestCheck:
    def test_functions_and_names_are_looked_for(self, folder: Path, run: Run) -> None:
        """A module that cannot be imported, and a name in a list that no tool has, are mistakes with their lines."""
        schema = "parameters_schema: {type: object, properties: {}}"
        (folder / "tools.yml").write_text(
            f"tools:\n  - {{name: t, description: D., module: nowhere, function: f, {schema}}}\n"
            "agents:\n  ann:\n    tools:\n      - t\n      - tt\n"
        )
        code, out, _ = run("check", "--json")
        assert (1, [(2, "tools[0].module")]) == (
            code, [(one["line"], one["key"]) for one in json.loads(out)["problems"]]
        )  # fmt: skip

        (folder / "tools.yml").write_text(TOOLS.replace("[add]", "[add, ad]"))
        assert (
            1,
            "configuration tools.yml:3: agents.ann.tools[1]: Tool 'ad' not found. Did you mean 'add'?\n"
            "1 problem in 0 tools and 0 agents.\n",
        ) == run("check")[:2]

    def test_nothing_is_connected_or_opened(self, folder: Path, run: Run) -> None:
        """A server, a journal and a file of statistics are left alone."""
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        (folder / "tools.yml").write_text(
            TOOLS.replace("[add]", "[add, s-thing]")
            + "journal: {path: mine.db}\nmcp_servers:\n  s: {command: [touch, started]}\n"
            "grants: [{tool: s-anything, agent: ann}]\n"
        )

        assert (0, "no problems in 1 tool and 1 agent.\n", "") == run("check")
        assert {"tools.yml", "sums.py"} == {path.name for path in folder.iterdir() if path.name != "__pycache__"}

    def test_the_schema_is_printed(self, run: Run) -> None:
        """For editors, without a look at any file."""
        schema = json.loads(run("check", "--schema")[1])

        assert {"tools", "agents", "mcp_servers"} < set(schema["properties"])
        assert "What a model reads" in schema["$defs"]["ToolConfig"]["properties"]["description"]["description"]
