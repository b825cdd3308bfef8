"""The plugin tables of a configuration: every problem is reported, with its file and line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plugin_rig import PLUGIN_WITH_SETTINGS, Site, loaded, names, site, write_config  # noqa: F401

from praval_tools import ConfigError, ConfigProblem, ToolRegistry, load_plugins
from praval_tools.config.files import format_key
from praval_tools.config.toml_lines import find_lines

# Tests of: files, decode


PRINTABLE = st.characters(categories=("L", "N", "P", "S"))


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class TestTables:
    @pytest.mark.parametrize(("name", "prefix"), [("praval_tools.toml", ""), ("pyproject.toml", "tool.praval_tools.")])
    def test_the_file_of_the_working_directory_counts(
        self, site: Site, registry: ToolRegistry, name: str, prefix: str
    ) -> None:
        """`praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`; other tables are not looked at."""
        site.good()
        write_config(f'[{prefix}plugins."acme"]\nowned_by = "ann"\n[{prefix}journal]\nanything = "goes"\n', name)
        load_plugins(registry)

        assert {"ann"} == {one.metadata.owned_by for one in registry}

    def test_every_problem_comes_at_once_with_its_place(self, site: Site, registry: ToolRegistry) -> None:
        """Wrong types, unknown keys, wrong names: all of them, each with file, line, key and what is expected."""
        site.good()
        path = write_config('''# a comment
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
        """What is no TOML, or no table, is reported with the file."""
        path = write_config(text)
        with pytest.raises(ConfigError, match=str(path)):
            load_plugins(registry)
        with pytest.raises(ConfigError):
            load_plugins(registry, config=path.with_name("missing.toml"))

    def test_two_files_are_an_error(self, site: Site, registry: ToolRegistry) -> None:
        """Nobody knows which counts; without a table of ours in the second, there is but one."""
        write_config("")
        write_config("[tool.praval_tools]\n[tool.other]\n", "pyproject.toml")
        load_plugins(registry)
        write_config("[tool.praval_tools.plugins.acme]\ntrust = true\n", "pyproject.toml")

        with pytest.raises(ConfigError, match="keep one of the two"):
            load_plugins(registry)

    @given(st.lists(st.text(PRINTABLE, min_size=1, max_size=8), min_size=1, max_size=3))
    def test_keys_are_spelled_so_that_their_lines_are_found(self, key: list[str]) -> None:
        """Whatever a key holds, the spelled path of a table is TOML, and its line is found by it."""
        assert 3 == find_lines(f"# mine\n\n[{format_key(tuple(key))}]\n")[tuple(key)]

    def test_errors_survive_pickling(self) -> None:
        """They come back as they were."""
        import pickle

        error = ConfigError([ConfigProblem("a.b", "expected a text", "f.toml", 3)])
        assert str(error) == str(pickle.loads(pickle.dumps(error))) == "f.toml, line 3: a.b: expected a text"
