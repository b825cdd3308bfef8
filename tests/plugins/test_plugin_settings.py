"""The operator's tables for plugins, and the settings of a plugin: checked as a whole, and never told on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_rig import Site, loaded, names, site  # noqa: F401

from praval_tools import ConfigError, ConfigProblem, PluginWarning, ToolRegistry, load_plugins, plugin_reports
from praval_tools.config.files import find_line, format_key
from praval_tools.config.plugins import read_plugins_config

TOOLS = """
from praval_tools import tool
@tool
def one(x: {hint}) -> int:
    "One."
    return 1
@tool
def two() -> int:
    "Two."
    return 2
"""
PRINTABLE = st.characters(categories=("L", "N", "P", "S"))
PLUGIN = """
from pathlib import Path
from typing import Annotated
from attrs import field, frozen
from praval_tools import Secret, hookimpl, tool

def positive(one, attribute, value):
    if value < 1:
        raise ValueError(f"{value} is not positive")

def unrefused(one, attribute, value):
    if value.startswith("refused"):
        raise ValueError(f"{value!r} is refused")

@frozen(kw_only=True)
class Inner:
    hosts: list[str] = field(factory=list)
    ports: dict[str, int] = field(factory=dict)

@frozen(kw_only=True)
class Settings:
    url: str
    rows: int = field(default=10, validator=positive)
    ratio: float = 0.5
    fast: bool = False
    root: Path | None = None
    password: str = field(default="", validator=unrefused)
    code: Annotated[str, Secret] = ""
    inner: Inner = field(factory=Inner)

@hookimpl
def praval_tools_settings():
    return Settings

@hookimpl
def praval_tools_register_tools(settings):
    def told() -> str:
        "Tell."
        return repr(settings)
    if settings.url == "fail":
        raise ValueError(f"no connection with {settings.password} and {settings.code!r} at {settings.url}")
    if settings.url.startswith("postgresql:"):
        raise ValueError(f"no connection to {settings.url}")
    return [told]
"""


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


def write(text: str, name: str = "praval_tools.toml") -> Path:
    """Write a configuration into the working directory."""
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


class TestTables:
    @pytest.mark.parametrize(("name", "prefix"), [("praval_tools.toml", ""), ("pyproject.toml", "tool.praval_tools.")])
    def test_the_file_of_the_working_directory_counts(
        self, site: Site, registry: ToolRegistry, name: str, prefix: str
    ) -> None:
        """`praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`; other tables are not looked at."""
        site.good()
        write(f'[{prefix}plugins."acme"]\nowned_by = "ann"\n[{prefix}journal]\nanything = "goes"\n', name)
        load_plugins(registry)

        assert {"ann"} == {one.metadata.owned_by for one in registry}

    def test_every_problem_comes_at_once_with_its_place(self, site: Site, registry: ToolRegistry) -> None:
        """Wrong types, unknown keys, wrong names: all of them, each with file, line, key and what is expected."""
        site.good()
        path = write('''# a comment
[plugins."praval-tools-sql"]
trust = "yes"
enabled = 1
shared = "query"
alow = ["x"]
owned_by = "plugin:x"
namespace = "no space"
[plugins.files]
allow = ["a", 1]
settings = 4
[plugins]
odd = 3
[[sources]]
name = "nameless"
''')  # fmt: skip
        with pytest.raises(ConfigError) as caught:
            load_plugins(registry)

        found = {one.key: (one.line, one.expected) for one in caught.value.problems}
        sql = 'plugins."praval-tools-sql"'
        assert {
            f"{sql}.trust": 3, f"{sql}.enabled": 4, f"{sql}.shared": 5, f"{sql}.alow": 6, f"{sql}.owned_by": 7,
            f"{sql}.namespace": 8, "plugins.files.allow[1]": 10, "plugins.files.settings": 11, "plugins.odd": 13,
            "sources[0].kind": 14,
        } == {key: line for key, (line, _) in found.items()}  # fmt: skip
        assert ("expected true or false", "unknown key; did you mean 'allow'?") == (
            found[f"{sql}.trust"][1], found[f"{sql}.alow"][1]
        )  # fmt: skip
        assert {str(path)} == {one.file for one in caught.value.problems}
        assert f"{path}, line 3: {sql}.trust: expected true or false" in str(caught.value)
        assert [] == names(registry)

    @pytest.mark.parametrize("text", ["plugins = 3", "[plugins", "sources = 3", "\x00"])
    def test_files_that_are_none(self, site: Site, registry: ToolRegistry, text: str) -> None:
        """What is no TOML, or no table, is told with the file."""
        path = write(text)
        with pytest.raises(ConfigError, match=str(path)):
            load_plugins(registry)
        with pytest.raises(ConfigError):
            load_plugins(registry, config=path.with_name("missing.toml"))

    def test_two_files_are_an_error(self, site: Site, registry: ToolRegistry) -> None:
        """Nobody knows which counts; without a table of ours in the second, there is but one."""
        write("")
        write("[tool.praval_tools]\n[tool.other]\n", "pyproject.toml")
        load_plugins(registry)
        write("[tool.praval_tools.plugins.acme]\ntrust = true\n", "pyproject.toml")

        with pytest.raises(ConfigError, match="keep one of the two"):
            load_plugins(registry)

    @given(st.lists(st.text(PRINTABLE, min_size=1, max_size=8), min_size=1, max_size=3))
    def test_keys_are_spelled_so_that_their_lines_are_found(self, key: list[str]) -> None:
        """Whatever a key holds, the spelled path of a table is TOML, and its line is found by it."""
        assert 3 == find_line(f"# mine\n\n[{format_key(tuple(key))}]\n", tuple(key))

    def test_errors_survive_pickling(self) -> None:
        """They come back as they were."""
        import pickle

        error = ConfigError([ConfigProblem("a.b", "expected a text", "f.toml", 3)])
        assert str(error) == str(pickle.loads(pickle.dumps(error))) == "f.toml, line 3: a.b: expected a text"


class TestSettings:
    def test_they_come_as_the_plugins_own_class(self, site: Site, registry: ToolRegistry) -> None:
        """Structured from the table, nested classes and lists too."""
        site.install("acme", PLUGIN)
        write('''[plugins.acme.settings]
url = "sqlite:///x"
rows = 3
ratio = 1
root = "/data"
inner = { hosts = ["a", "b"], ports = { a = 1 } }
''')  # fmt: skip
        load_plugins(registry)

        told = registry.execute_tool("told")
        assert "url='sqlite:///x', rows=3, ratio=1.0" in told
        assert "root=PosixPath('/data')" in told or "root=WindowsPath" in told
        assert "Inner(hosts=['a', 'b'], ports={'a': 1})" in told

    def test_every_problem_of_the_settings(self, site: Site, registry: ToolRegistry) -> None:
        """Wrong types, refused values, unknown and missing keys, at any depth; the plugin is kept out."""
        site.install("acme", PLUGIN)
        path = write('''[plugins.acme.settings]
rows = "many"
ratio = "half"
fast = "s3cret-value"
rots = "/data"
[plugins.acme.settings.inner]
hosts = ["a", 7]
ports = { a = "s3cret-port" }
''')  # fmt: skip
        report = loaded(registry)["acme"]

        assert ("settings", []) == (report.stage, names(registry))
        places = {2: "rows", 3: "ratio", 4: "fast", 5: "rots", 7: "inner.hosts[1]", 8: "inner.ports.a"}
        for line, key in places.items():
            assert f"{path}, line {line}: plugins.acme.settings.{key}: " in str(report.error), key
        assert "plugins.acme.settings.url: missing" in str(report.error)
        assert "rots: unknown key; did you mean '" in str(report.error)
        assert "s3cret" not in str(report.error) + report.traceback

    def test_a_value_that_the_class_refuses(self, site: Site, registry: ToolRegistry) -> None:
        """What the plugin's own validator says is told with the place of its table."""
        site.install("acme", PLUGIN)
        path = write("[plugins.acme.settings]\nurl = ''\nrows = -8642\n")
        report = loaded(registry)["acme"]

        said = f"{path}, line 1: plugins.acme.settings: its class refuses the values: -8642 is not positive"
        assert said in str(report.error)

    @pytest.mark.parametrize("table", [{"settings": {"a": 1}}, {}])
    def test_a_plugin_that_takes_none(self, site: Site, registry: ToolRegistry, table: dict[str, Any]) -> None:
        """Settings for a plugin that takes none are an error."""
        site.good()
        report = loaded(registry, config={"plugins": {"acme": table}})["acme"]

        assert bool(table) == report.failed
        assert not table or "acme takes no settings" in str(report.error)

    def test_a_class_that_is_none(self, site: Site, registry: ToolRegistry) -> None:
        """The hook is to return an attrs class."""
        source = "from praval_tools import hookimpl\n@hookimpl\ndef praval_tools_settings():\n    return dict\n"
        site.install("acme", source)

        assert "attrs class" in str(loaded(registry)["acme"].error)

    def test_given_by_the_program(self, site: Site, registry: ToolRegistry) -> None:
        """`settings=` takes a table or an instance, instead of the configuration's."""
        site.install("acme", PLUGIN)
        load_plugins(registry, settings={"Acme": {"url": "by table"}})
        assert "by table" in registry.execute_tool("told")
        import acme

        load_plugins(registry, settings={"acme": acme.Settings(url="by instance")})
        assert "by instance" in registry.execute_tool("told")

    def test_from_the_environment(self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """`${NAME}` is that variable; one that is not set is a problem like others."""
        site.install("acme", PLUGIN)
        write('[plugins.acme.settings]\nurl = "${ACME_URL}"\nrows = "three"\n')
        text = str(loaded(registry)["acme"].error)
        assert "line 2: plugins.acme.settings.url: the environment variable ACME_URL is not set" in text
        assert "line 3: plugins.acme.settings.rows: expected a whole number" in text
        write('[plugins.acme.settings]\nurl = "${ACME_URL}"\n')
        monkeypatch.setenv("ACME_URL", "from-there")
        load_plugins(registry)

        assert "from-there" in registry.execute_tool("told")

    @pytest.mark.parametrize(("settings", "secrets"), [
        ({"url": "fail", "password": "hunter2-hunter2", "code": "c0de\nin two"}, ["hunter2", "c0de", "in two"]),
        ({"url": "postgresql://me:pass-in-url@host/db"}, ["pass-in-url"]),
        ({"url": "fail", "password": "${ACME_PASSWORD}"}, ["from-environment"]),
        ({"url": "x", "password": "refused-password"}, ["refused-password"]),
        ({"url": "x", "password": ["listed-password"]}, ["listed-password"]),
    ])  # fmt: skip
    def test_no_report_holds_a_secret(
        self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str],
        secrets: list[str],
    ) -> None:  # fmt: skip
        """What a plugin tells of its settings in its error is made unreadable: in report, traceback and journal."""
        site.install("acme", PLUGIN)
        monkeypatch.setenv("ACME_PASSWORD", "from-environment")
        registry.journal = "memory"
        with pytest.warns(PluginWarning) as warned:
            reports = load_plugins(registry, config={"plugins": {"acme": {"settings": settings}}})

        told = [str(reports), str(reports[0]), reports[0].traceback, *(str(one.message) for one in warned)]
        told += [str(one) for one in registry.journal.events()]
        told += [repr(read_plugins_config({"plugins": {"acme": {"settings": settings}}}))]
        assert [] == [secret for secret in secrets for text in told if secret in text]
        assert "[secret]" in str(reports[0].error) or "expected a text" in str(reports[0].error)


class TestJournal:
    def test_what_became_of_plugins_is_written_once(self, site: Site, registry: ToolRegistry) -> None:
        """Loaded and failed are events; a second start that goes the same way adds none."""
        site.good(version="1.0")
        site.install("bad", "1 / 0", version="6.6")
        registry.journal = "memory"
        for _ in range(2):
            loaded(registry)

        good, bad = registry.journal.events()
        assert ("plugin_loaded", "acme", "1.0", ("acme_query", "acme_count")) == (
            good.type.value, good.distribution, good.version, good.tools
        )  # fmt: skip
        assert ("plugin_failed", "bad", "6.6", "import", "ZeroDivisionError") == (
            bad.type.value, bad.distribution, bad.version, bad.stage, bad.error_type
        )  # fmt: skip

    def test_a_hook_that_fails_is_written(self, site: Site, registry: ToolRegistry) -> None:
        """Its event names the hook."""
        source = "from praval_tools import hookimpl\n@hookimpl\ndef praval_tools_after_call():\n    1 / 0\n"
        site.install("acme", source)
        registry.journal = "memory"
        load_plugins(registry)
        with pytest.warns(PluginWarning):
            registry.execute("1", "nope", {})

        (event,) = registry.journal.events(type="plugin_failed")
        assert ("praval_tools_after_call", "ZeroDivisionError") == (event.stage, event.error_type)

    def test_an_upgrade_that_changes_a_tool_is_reported(self, site: Site, tmp_path: Path) -> None:
        """The journal remembers what tools were: in the next process a changed fingerprint is told, once."""
        told = []
        for version, hint in (("1.0", "int"), ("1.1", "int"), ("2.0", "str"), ("2.0", "str")):
            site.remove("acme")
            site.install("acme", TOOLS.format(hint=hint), version=version)
            with ToolRegistry(journal=tmp_path / "runs.db") as registry:
                report = loaded(registry)["acme"]
                assert (report,) == plugin_reports(registry)
            told.append((report.changed, report.upgraded_from))
            site.forget()

        assert [((), ""), ((), "1.0"), (("one",), "1.1"), ((), "")] == told

    def test_a_changed_tool_warns(self, site: Site, registry: ToolRegistry) -> None:
        """Who does not look at reports is warned."""
        registry.journal = "memory"
        for version, hint in (("1.0", "int"), ("2.0", "str")):
            site.remove("acme")
            site.install("acme", TOOLS.format(hint=hint), version=version)
            if version == "1.0":
                load_plugins(registry)
        with pytest.warns(PluginWarning, match=r"acme 2\.0 changed one since 1\.0"):
            load_plugins(registry)

    def test_grants_on_a_plugins_tools_survive(self, site: Site, tmp_path: Path) -> None:
        """What the operator granted counts at the next start, for the tool of that distribution, and of no other."""
        site.install("acme", TOOLS.format(hint="int"))
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            load_plugins(registry)
            registry.assign_tool_to_agent("one", "ann")
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            load_plugins(registry)
            assert 1 == registry.agent("ann").call("one", x=1)
        site.remove("acme")
        site.install("evil", TOOLS.format(hint="int"))
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            load_plugins(registry)
            assert [] == registry.agent("ann").list_tools()
