"""Faulty configurations: every mistake of each is reported at once, with its line, its key and what is expected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from attrs import frozen
from click.testing import CliRunner
from config_rig import find_schema_problems

from praval_tools import ConfigError, ToolRegistry
from praval_tools.cli.entry import root_command
from praval_tools.config.files import read_document
from praval_tools.config_loading.declarations import TOP_KEYS

# Tests of: checks, declarations, environment, config/yaml_reader
# Tests of: config/toml_lines, config/system, config/json_schema, cli/check, cli/config_option

HERE = Path(__file__).parent
SECRET = "sk-SECRET-1"
STRUCTURAL = re.compile(
    r"unknown key|missing$|has no value|expected (a (table|list|text|number|whole number$)|one of|true)"
)
"""What the JSON Schema of the configuration sees as well; anything else needs to know what the file means."""
SAME_IN_JSON = {"a float as a count"}
"""For JSON Schema, 1000.0 is a whole number."""


@frozen
class Case:
    """A file, and what is wrong with it: `line key: expected`."""

    name: str
    suffix: str
    text: str
    problems: list[str]


def read_cases(suffix: str) -> list[Case]:
    """Return the cases of a file: `=== name`, the text, `---`, and a line for each problem."""
    sections = (HERE / f"faulty_{suffix}.txt").read_text(encoding="utf-8").split("=== ")[1:]
    cases = []
    for section in sections:
        name, _, rest = section.partition("\n")
        text, _, problems = rest.rpartition("\n---\n")
        cases.append(Case(name, suffix, f"{text}\n".replace("<BEL>", "\x07"), problems.strip().splitlines()))
    return cases


CASES = [*read_cases("yml"), *read_cases("toml")]


@pytest.fixture(params=CASES, ids=lambda case: f"{case.suffix}: {case.name}")
def case(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Each faulty file, written as `c.yml` or `c.toml`."""
    monkeypatch.setenv("SECRET_URL", f"ftp://{SECRET}")
    case: Case = request.param
    (folder / f"c.{case.suffix}").write_text(case.text, encoding="utf-8")
    return case


class TestFaultyFiles:
    def test_there_are_many(self) -> None:
        """No name stands for two of them."""
        assert len({(case.suffix, case.name) for case in CASES}) == len(CASES) >= 140

    def test_every_problem_is_reported_with_its_place(self, case: Case) -> None:
        """Loading says all that is wrong, in the order of the lines, and nothing else; there is no registry."""
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config(f"c.{case.suffix}")

        found = [f"{problem.line} {problem.key}: {problem.expected}" for problem in caught.value.problems]
        assert case.problems == [" ".join(text.splitlines()) for text in found]
        assert {f"c.{case.suffix}"} == {problem.file for problem in caught.value.problems}

    def test_nothing_changes_in_a_registry_that_is_there(self, case: Case) -> None:
        """`configure_from` is all or nothing."""
        registry = ToolRegistry()
        before = registry.state

        with pytest.raises(ConfigError):
            registry.configure_from(f"c.{case.suffix}")

        assert before == registry.state
        assert [] == registry.problems()

    def test_no_secret_is_repeated(self, case: Case) -> None:
        """Neither the error nor what the command line prints of it holds a value that may be a secret."""
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config(f"c.{case.suffix}")
        printed = CliRunner().invoke(root_command, ["--config", f"c.{case.suffix}", "check"])

        assert 1 == printed.exit_code
        assert SECRET not in f"{caught.value}{caught.value!r}{printed.output}"
        assert "SECRET" not in printed.output.replace("SECRET_URL", "")

    def test_the_json_schema_agrees(self, case: Case) -> None:
        """An editor with the JSON Schema refuses a file exactly where a key or a type is wrong."""
        document = read_document(Path(f"c.{case.suffix}"))
        if document.problems or case.name in SAME_IN_JSON:
            pytest.skip("it is not even YAML or TOML as it is read here")
        is_structural = any(STRUCTURAL.match(line.partition(": ")[2]) for line in case.problems)

        assert is_structural is not (find_schema_problems(document.data) == [])


@pytest.mark.parametrize("name", TOP_KEYS)
def test_a_section_without_a_value_is_left_out(name: str, folder: Path) -> None:
    """The loader and the JSON Schema agree on it."""
    (folder / "c.yml").write_text(f"{name}:\n")

    assert [] == ToolRegistry.from_config("c.yml").problems()
    assert [] == find_schema_problems({name: None})


def test_a_url_from_the_environment_is_no_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable without `http://` is refused, and its value not shown; nothing is started."""
    monkeypatch.setenv("ADDRESS", f"touch {SECRET}")
    (folder / "c.yml").write_text("mcp_servers: {s: {url: '${ADDRESS}'}}\n")
    with pytest.raises(ConfigError, match=r"line 1: mcp_servers\.s\.url: ") as caught:
        ToolRegistry.from_config("c.yml")

    assert SECRET not in str(caught.value)
    assert not (folder / SECRET).exists()
