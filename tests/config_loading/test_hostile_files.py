"""Files that were made to harm: as long as they may be, with code that reloads or ends the program, with secrets."""

# Tests of: declarations, checks, functions, source, config/files, config/toml_lines

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from praval_tools import ConfigError, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.config_loading.source import ConfigurationSource

MANY = 20_000
SCHEMA = "parameters_schema: {type: object}"


class TestLongFiles:
    @pytest.mark.parametrize(
        ("name", "text", "count"),
        [
            (
                "c.yml",
                "tools:\n" + f"  - {{name: t, description: D., module: m, function: f, {SCHEMA}}}\n" * MANY,
                MANY - 1,
            ),
            ("c.yml", "limits:\n" + "  - {agent: ann, per_minute: 1}\n" * MANY, MANY - 1),
            ("c.yml", "agents:\n" + "  ann: {}\n" * MANY, MANY - 1),
            ("c.yml", "agents:\n" + "".join(f"  a{number}: {{toools: []}}\n" for number in range(MANY)), MANY),
            ("c.yml", "plugins:\n" + "".join(f"  p{number}: {{}}\n" for number in range(MANY // 4)), MANY // 4),
            ("c.toml", "[[tools]]\nname = 't'\nmodule = 1\n" * (MANY // 4), MANY // 4),
        ],
        ids=["tools", "limits", "agents", "keys", "plugins", "toml"],
    )
    def test_each_mistake_of_many_is_reported(self, folder: Path, name: str, text: str, count: int) -> None:
        """Tens of thousands of entries of one name take seconds, and none of them is left out."""
        Path(name).write_text(text)
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config(name)

        assert count == len({(problem.line, problem.key) for problem in caught.value.problems})

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("x = 1\n" + ".".join("a" * 30_000) + " = 1\n", "c.toml, line 2: has a key of 1,000 parts"),
            ("[" + " . ".join(["'a'"] * 30_000) + "]\n", "c.toml, line 1: has a key of 1,000 parts"),
            ("[" + ".".join("a" * 65) + "]\n", "c.toml, line 1: a.a.a.a: is nested deeper than 64 levels"),
            ("\nb.x = 1\n" + ".".join("a" * 65) + " = 1\n", "c.toml, line 3: a.a.a.a: is nested deeper than 64 levels"),
        ],
        ids=["key", "header", "deep header", "deep key"],
    )
    def test_long_keys_are_refused(self, folder: Path, text: str, expected: str) -> None:
        """TOML is read as deep as YAML is; a text with dots is something else."""
        Path("c.toml").write_text(text)
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config("c.toml")

        assert expected == str(caught.value)
        Path("c.toml").write_text(f"name = 'a{' a.' * 2_000}'\n[agents.ann]\n")
        assert ["ann"] == ToolRegistry.from_config("c.toml").agents

    def test_grants_of_one_tool_to_one_agent_are_a_hundred(self, folder: Path) -> None:
        """Each more is a mistake; every grant costs what the others of its agent and tool do."""
        grants = "grants:\n" + "".join(f"  - {{tool: a, agent: ann, max_calls: {one + 1}}}\n" for one in range(101))
        Path("c.yml").write_text("tools: [{name: a, module: sums, function: add}]\n" + grants)

        with pytest.raises(ConfigError, match=r"line 103: grants\[100\]: there are more than 100 grants of this tool"):
            ToolRegistry.from_config("c.yml")


class TestHostileModules:
    def test_one_that_reloads_gets_an_error(self, folder: Path) -> None:
        """It would wait for itself; the reload around it goes on."""
        (folder / "eager.py").write_text(
            "import builtins\ndef f(x: int) -> int:\n    'F.'\n    return x\nbuiltins.reload_of_tests()\n"
        )
        Path("c.yml").write_text("agents: {ann: {}}\n")
        registry = ToolRegistry()
        source = registry.configure_from("c.yml")
        assert isinstance(source, ConfigurationSource)
        refused = list[ToolUsageError]()

        def reload() -> None:
            for attempt in (source.refresh, registry.refresh, lambda: registry.configure_from("c.yml")):
                with pytest.raises(ToolUsageError, match="is being loaded") as caught:
                    attempt()
                refused.append(caught.value)

        import builtins

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(builtins, "reload_of_tests", reload, raising=False)
            Path("c.yml").write_text("tools: [{name: t, module: eager, function: f}]\n")
            source.refresh()

        assert ["reload-in-load"] * 3 == [error.code for error in refused]
        assert ["t"] == [tool.name for tool in registry]

    @pytest.mark.parametrize("kind", ["SystemExit", "KeyError", "BaseException"])
    def test_the_text_of_an_exception_may_end_the_program(self, folder: Path, kind: str) -> None:
        """The module cannot be imported, whatever its exception does when it is shown."""
        (folder / "spiteful.py").write_text(
            f"class Spite(BaseException):\n    def __str__(self):\n        raise {kind}(3)\nraise Spite\n"
        )
        Path("c.yml").write_text("tools: [{name: t, module: spiteful, function: f, shared: true}]\n")
        registry = ToolRegistry.from_config("c.yml")

        error = registry.execute(ToolCall(None, "t", {}, "ann")).error
        assert str(error).startswith("module 'spiteful' cannot be imported: Spite")


class TestSecrets:
    def test_a_secret_in_the_wrong_place_is_not_repeated(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where a name, a number or a table is expected, whatever stands there is not shown."""
        secret = "sk-SECRET-9"
        monkeypatch.setenv("TOKEN", secret)
        values = [
            f"mcp_servers: {{s: {{url: 'https://u:{secret}@h/', auth: {{type: {secret}, token_env_var: t}}}}}}",
            f"mcp_servers: {{s: {{url: 'https://h/', headers_env: {{Authorization: 'Bearer {secret}'}}}}}}",
            f"mcp_servers: {{s: {{command: [x], env: ['K={secret}'], timeout: {secret}}}}}",
            f"mcp_servers: {{s: {{url: 'https://h/', auth: {secret}, pin: {secret}}}}}",
            f"mcp_servers: {{s: '{secret}'}}",
            f"journal: {{path: x.db, durability: '{secret}', secrets: '{secret}'}}",
            f"journal: '{secret}'",
            f"approvals: {{handler: '{secret}'}}",
            f"execution: {{engine: 5, timeout: '{secret}', errors: '{secret}'}}",
            f"plugins: {{p: {{trust: '{secret}', settings: '{secret}'}}}}",
            f"sources: ['{secret}']",
            f"stats: {{storage_path: 'x/${{TOKEN}}/{'y' * 300}', track_usage: '{secret}'}}",
        ]
        for text in values:
            Path("c.yml").write_text(text)
            with warnings.catch_warnings(), pytest.raises(ConfigError) as caught:
                warnings.simplefilter("ignore")
                ToolRegistry.from_config("c.yml")
            assert "SECRET" not in f"{caught.value}{caught.value!r}{caught.value.__context__}", text
