"""The command line with configurations: which files count, with an app and without one, and what `check` says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_rig import App, Run, app, run  # noqa: F401

# Tests of: config_option, check, config_loading/references

TOOLS = "tools:\n  - {name: add, module: sums, function: add}\nagents: {ann: {tools: [add]}}\n"


@pytest.fixture(autouse=True)
def folder(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the app, with a module and a configuration."""
    monkeypatch.delenv("PRAVAL_TOOLS_CONFIG", raising=False)
    monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "")
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "sums.py").write_text('def add(x: float) -> float:\n    "Add."\n    return x + 1\n')
    (tmp_path / "tools.yml").write_text(TOOLS)
    return tmp_path


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

    @pytest.mark.parametrize(
        ("look", "left", "present"),
        [
            ("matrix", "granted ({} left)", " left)"),
            ("why bob add", "{} call", " left"),
            ("grants", "{} of 3", "of 3"),
            ("list --agent bob", "Add.", "Add."),
        ],
    )
    def test_every_look_sees_what_earlier_commands_used_up(
        self, folder: Path, run: Run, look: str, left: str, present: str
    ) -> None:
        """The journal is opened before the files are loaded, whatever the command, and a look writes nothing to it."""
        grants = "journal: {path: mine.db}\ngrants:\n  - {tool: add, agent: bob, max_calls: 3}\n"
        (folder / "tools.yml").write_text(TOOLS + grants)
        run("call", "bob", "add", "x=1")
        (folder / "tools.yml").write_text(TOOLS + grants + "  - {tool: add, agent: eve}\n")

        assert left.format(2) in run(*look.split())[1]
        assert 0 == run("call", "bob", "add", "x=1", "--config", "tools.yml")[0]
        recorded = run("audit", "--json")
        assert left.format(1) in run(*look.split())[1]
        assert recorded == run("audit", "--json")
        run("call", "bob", "add", "x=1")
        assert present not in run(*look.split())[1]

    def test_a_look_records_nothing_of_the_files(self, folder: Path, run: Run) -> None:
        """A grant that is declared since the last call is not written by a listing."""
        (folder / "tools.yml").write_text(TOOLS + "journal: {path: mine.db}\n")
        run("call", "ann", "add", "x=1")
        (folder / "tools.yml").write_text(TOOLS + "journal: {path: mine.db}\ngrants: [{tool: add, agent: bob}]\n")
        before = (folder / "mine.db").read_bytes(), run("audit", "--json")

        assert "granted" in run("matrix")[1]
        assert before == ((folder / "mine.db").read_bytes(), run("audit", "--json"))

    def test_a_grant_of_an_apps_files_is_used_up_over_several_commands(self, app: App, folder: Path, run: Run) -> None:
        """With `--app` and `--config` together, the journal is opened before the files are loaded too."""
        more = "journal: {path: mine.db}\ngrants: [{tool: add, agent: bob, max_calls: 1}]\n"
        (folder / "tools.yml").write_text(TOOLS + more)
        options = ("--app", f"{app()}:registry", "--config", "tools.yml")

        assert [0, 3] == [run(*options, "call", "bob", "add", "x=1")[0] for _ in range(2)]
        assert "left" not in run(*options, "matrix")[1]

    def test_why_names_the_key_of_the_file(self, app: App, folder: Path, run: Run) -> None:
        """Who is declared in a file is changed there, who is declared in code is changed there."""
        (folder / "tools.yml").write_text(TOOLS.replace("{ann:", "{eve: {}, ann:"))

        def list_changes(*words: str) -> list[str]:
            return [row["change"] for row in json.loads(run(*words, "--json")[1])["tried"]]

        assert {
            "'add' in agents.eve.tools of tools.yml", "'general' in agents.eve.tool_categories of tools.yml",
            "praval-tools transfer add eve", "praval-tools share add", "praval-tools assign add eve",
        } == set(filter(None, list_changes("why", "eve", "add")))  # fmt: skip
        assert "'add' in agents.zoe.tools of tools.yml" in list_changes("why", "zoe", "add")
        name = f"{app()}:registry"
        assert "@agent('intern', tools=['add'])" in list_changes(
            "--app", name, "--config", "tools.yml", "why", "intern", "add"
        )

    def test_why_names_the_file_of_a_server_and_of_a_document(self, folder: Path, run: Run) -> None:
        """Who is declared nowhere is declared in the file that declares where the tool comes from, not in code."""
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        pytest.importorskip("httpx", reason="needs an HTTP client")
        operation = {"operationId": "price", "responses": {"200": {"description": "The price."}}}
        shop = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": {"/price": {"get": operation}}}
        (folder / "shop.json").write_text(json.dumps(shop | {"servers": [{"url": "http://127.0.0.1:1"}]}))
        (folder / "tools.yml").write_text(
            "openapi: [{document: shop.json, namespace: shop}]\n"
            "mcp_servers:\n  weather:\n    command: [nowhere]\n"
            "    provides_tools: [{name: forecast, inputSchema: {type: object}}]\n"
        )

        for tool, line in (("shop-price", 1), ("forecast", 3)):
            changes = [row["change"] for row in json.loads(run("why", "zoe", tool, "--json")[1])["tried"]]
            assert f"'{tool}' in agents.zoe.tools of tools.yml" in changes
            assert "'general' in agents.zoe.tool_categories of tools.yml" in changes
            assert f"tools.yml:{line}" in run("show", tool)[1]

    def test_a_journal_in_memory_lasts_for_one_command(self, folder: Path, run: Run) -> None:
        """Looks and calls work, and what would be lost with the command is refused, with the fix."""
        (folder / "tools.yml").write_text(TOOLS + "journal: {path: memory}\n")

        assert [0, 0, 0] == [run(*words)[0] for words in (("list",), ("call", "ann", "add", "x=1"), ("matrix",))]
        code, _, error = run("assign", "add", "bob")
        assert (2, True) == (code, "--journal PATH" in error)
        assert 0 == run("assign", "add", "bob", "--journal", "kept.db")[0]

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
        assert (1, [(2, "tools[0].module"), (7, "agents.ann.tools[1]")]) == (
            code, [(one["line"], one["key"]) for one in json.loads(out)["problems"]]
        )  # fmt: skip

        (folder / "tools.yml").write_text(TOOLS.replace("[add]", "[add, ad]"))
        assert (
            1,
            "configuration tools.yml:3: agents.ann.tools[1]: Tool 'ad' not found. Did you mean 'add'?\n"
            "1 problem in 0 tools and 0 agents.\n",
        ) == run("check")[:2]

    def test_a_schema_that_does_not_fit_its_function_is_a_mistake(self, folder: Path, run: Run) -> None:
        """An argument that the function does not take, and one that it needs and the schema does not, have lines."""
        schema = "parameters_schema: {type: object, properties: {x: {type: integer}, z: {type: integer}}}"
        (folder / "more_sums.py").write_text("def add(x: int, y: int) -> int:\n    return x + y\n")
        (folder / "tools.yml").write_text(
            f"tools:\n  - name: t\n    description: D.\n    module: more_sums\n    function: add\n    {schema}\n"
        )
        code, out, _ = run("check", "--json")
        problems = json.loads(out)["problems"]
        assert (1, [(6, "tools[0].parameters_schema")] * 3) == (code, [(one["line"], one["key"]) for one in problems])
        assert [
            "function 'add' has no parameter 'z'.",
            "function 'add' needs 'x', and the schema does not require it",
            "function 'add' needs 'y', and the schema does not require it",
        ] == [one["message"].removeprefix("tools[0].parameters_schema: ").partition(" Did")[0] for one in problems]

    def test_every_name_that_nothing_has_is_a_mistake(self, folder: Path, run: Run) -> None:
        """Agents and categories too, each with its line: a block of a misspelt agent would refuse nobody."""
        (folder / "tools.yml").write_text(
            "tools:\n  - {name: add, module: sums, function: add, owned_by: an}\n"
            "agents: {ann: {tool_categories: [genral]}}\n"
            "grants:\n  - {tool: add, agent: anne}\n"
            "blocks:\n  - {tool: add, agent: bob}\n"
            "limits:\n  - {agent: Ann, per_minute: 3}\n"
            "categories:\n  generl: {enabled: false}\n  later: {enabled: true}\n"
        )
        code, out, _ = run("check")

        assert 1 == code
        assert out.splitlines() == [
            "configuration tools.yml:2: tools[0].owned_by: Agent 'an' is not declared. Did you mean 'ann'?",
            "configuration tools.yml:3: agents.ann.tool_categories[0]: No tool has the category 'genral'. "
            "Did you mean 'general'?",
            "configuration tools.yml:5: grants[0].agent: Agent 'anne' is not declared. Did you mean 'ann'?",
            "configuration tools.yml:7: blocks[0].agent: Agent 'bob' is not declared. "
            "Declare it in agents, or check the spelling.",
            "configuration tools.yml:9: limits[0].agent: Agent 'Ann' is not declared. Did you mean 'ann'?",
            "configuration tools.yml:11: categories.generl: No tool has the category 'generl'. Did you mean 'general'?",
            "6 problems in 0 tools and 0 agents.",
        ]

    def test_names_are_looked_for_beside_other_mistakes(self, folder: Path, run: Run) -> None:
        """All at once; a name that may be that of a faulty entry is not a mistake as well."""
        (folder / "tools.yml").write_text(
            TOOLS.replace("[add]", "[ad]") + "tolls: []\nblocks: [{tool: add, agent: bo}]\n"
        )
        keys = [one["key"] for one in json.loads(run("check", "--json")[1])["problems"]]
        assert ["agents.ann.tools[0]", "blocks[0].agent", "tolls"] == sorted(keys)

        (folder / "tools.yml").write_text(
            "tools: [{nam: add}]\nagents: {ann: {tools: [add], x: 1}, bob: {}}\nblocks: [{tool: add, agent: ann}]\n"
        )
        keys = [one["key"] for one in json.loads(run("check", "--json")[1])["problems"]]
        assert {"tools[0].nam", "tools[0].name", "agents.ann.x"} == set(keys)

    def test_nothing_is_connected_or_opened(self, folder: Path, run: Run) -> None:
        """A server, a journal and a file of statistics are left alone."""
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        (folder / "tools.yml").write_text(
            TOOLS.replace("[add]", "[add, s-thing]")
            + "journal: {path: mine.db}\nmcp_servers:\n  s: {command: [touch, started]}\n"
            "grants: [{tool: s-anything, agent: ann}]\n"
        )

        assert (0, "no problems in 1 tool and 1 agent.") == ((result := run("check"))[0], result[1].partition("\n")[0])
        assert {"tools.yml", "sums.py"} == {path.name for path in folder.iterdir() if path.name != "__pycache__"}

    def test_what_is_not_checked_is_said(self, app: App, folder: Path, run: Run) -> None:
        """A misspelt tool of a server that is not asked counts as right; the output names what was not asked."""
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        (folder / "tools.yml").write_text(
            TOOLS.replace("[add]", "[add, s-misspelt, shop-misspelt]")
            + "mcp_servers:\n  s: {command: [touch, started]}\n  t: {command: [touch, started], provides_tools: []}\n"
            "openapi: [{document: 'http://127.0.0.1:1/shop.json', namespace: shop}]\n"
        )

        assert run("check") == (
            0,
            "no problems in 1 tool and 1 agent.\n"
            "Not checked, since nothing is connected: the names of tools of MCP server 's', OpenAPI document 'shop'.\n",
            "",
        )
        assert ["MCP server 's'", "OpenAPI document 'shop'"] == json.loads(run("check", "--json")[1])["unchecked"]
        (folder / "tools.yml").write_text(TOOLS)
        assert [] == json.loads(run("check", "--json")[1])["unchecked"]
        assert [] == json.loads(run("check", "--json", "--app", f"{app()}:registry")[1])["unchecked"]

    def test_the_schema_is_printed(self, run: Run) -> None:
        """For editors, without a look at any file."""
        schema = json.loads(run("check", "--schema")[1])

        assert {"tools", "agents", "mcp_servers"} < set(schema["properties"])
        assert "What a model reads" in schema["$defs"]["ToolConfig"]["properties"]["description"]["description"]
