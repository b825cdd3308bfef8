"""README.md is true: what it says to type works, and its names, numbers and versions are those of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from demo_rig import DemoOutput, run_process

import praval_tools
from praval_tools import Agent, ToolCall, ToolRegistry
from praval_tools.demo.question import load_flights_question

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
NUMBERS = dict(zip("one two three four five six seven eight nine ten".split(), range(1, 11), strict=True))


@cache
def read_project() -> dict[str, Any]:
    """Return the table `project` of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def find(pattern: str, text: str = README) -> str:
    """Return what the group of a pattern matches in a text; it is there once."""
    (match,) = re.findall(pattern, text)
    return str(match)


def find_extras(text: str) -> set[str]:
    """Return the extras of this package that a text says to install, from an index or from a checkout."""
    named = re.findall(r"""pip install ["'](?:praval-tools|\.)\[([\w,-]+)\]""", text)
    return {extra for names in named for extra in names.split(",")}


def list_make_targets() -> list[str]:
    """Return the targets that the README says to make."""
    return sorted(set(re.findall(r"(?:^|`)make ([\w-]+)", README, re.MULTILINE)))


def plan_make(folder: Path, target: str) -> str:
    """Return the commands that make would run for a target in a fresh checkout; none of them runs."""
    for name in ("Makefile", "constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(["make", "-n", target], cwd=folder, env=env, capture_output=True, text=True)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


class TestInstall:
    def test_needs_the_python_that_the_project_needs(self) -> None:
        """Both sentences that name a version name the one of pyproject.toml, and so does what make checks."""
        (needed,) = {*re.findall(r"Python (\d+\.\d+) or newer", README)}
        checked = find(r"sys\.version_info < \((\d+, \d+)\)", (ROOT / "Makefile").read_text(encoding="utf-8"))

        assert f">={needed}" == read_project()["requires-python"]
        assert needed == checked.replace(", ", ".")

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
    def test_extras_exist(self, page: Path) -> None:
        """Each extra that the README or another page says to install is one that the package has: pip only warns."""
        assert set() == find_extras(page.read_text(encoding="utf-8")) - set(read_project()["optional-dependencies"])

    def test_planted_extras_are_seen(self) -> None:
        """Extras of this package count in each spelling of the pages, those of other packages and of plugins do not."""
        text = (
            """`pip install '.[a]'`, pip install -e '.[own]', pip install "praval-tools[c-d,e]", pip install 'o[p]'"""
        )

        assert {"a", "c-d", "e"} == find_extras(text)

    def test_pages_name_extras_as_it_says(self) -> None:
        """The name with an extra that it explains is the one of the distribution, and other pages write it so."""
        explained = find(r"Where a page says `pip install '([\w-]+\[\w+\])'`")

        assert read_project()["name"] == explained.partition("[")[0]
        assert explained in "".join(page.read_text(encoding="utf-8") for page in PAGES if page.name != "README.md")

    def test_is_for_the_version_that_it_names(self) -> None:
        """Its limitations are those of this version, of the module and of the distribution."""
        version = find(r"Version (\d+\.\d+):")

        assert version == praval_tools.__version__.rpartition(".")[0]
        assert read_project()["version"] == praval_tools.__version__

    def test_names_the_licence_of_the_project(self) -> None:
        """The licence is the one that package indexes show, and that of the text."""
        licence = find(r"Licence: \[(.+)\]\(LICENSE\)")
        name, version = licence.split("-")

        assert licence == read_project()["license"]
        assert [f"{name} License", f"Version {version}"] == re.findall(
            r"^ +(Apache License|Version [\d.]+)", (ROOT / "LICENSE").read_text(encoding="utf-8"), re.MULTILINE
        )


class TestExpressions:
    """The expressions in its sentences, which no example runs."""

    @pytest.fixture
    def names(self) -> Iterator[dict[str, Any]]:
        """What they are about: a registry with the clerk and a tool of it."""
        with ToolRegistry() as registry:
            Agent("clerk", registry=registry)
            registry.tool("price", owned_by="clerk", description="Return a price.")(lambda: 7.0)
            yield {"registry": registry, "ToolCall": ToolCall}

    def evaluate(self, start: str, names: dict[str, Any]) -> Any:
        """Return the value of the expression that starts so, with the arguments of a call in place of the dots."""
        expression = find(rf"`({re.escape(start)}[^`]*)`")
        return eval(expression.replace("…", '"call-1", "price", {}'), names)

    def test_schemas_are_in_the_format_of_the_provider(self, names: dict[str, Any]) -> None:
        """They are the clerk's tools, as Anthropic takes them."""
        (schema,) = self.evaluate("registry.schemas(", names)

        assert {"name", "description", "input_schema"} == set(schema)
        assert "price" == schema["name"]

    def test_execute_runs_a_call(self, names: dict[str, Any]) -> None:
        """It is made in the name of the clerk."""
        assert 7.0 == self.evaluate("registry.execute(", names).result

    def test_functions_are_the_tools_of_an_agent(self, names: dict[str, Any]) -> None:
        """They are real functions, each with the name of its tool."""
        (price,) = self.evaluate("registry.toolset(", names)

        assert isinstance(price, FunctionType)
        assert ("price", 7.0) == (price.__name__, price())

    def test_code_of_a_tool_changes_access_as_the_operator_where_it_says_so(self, names: dict[str, Any]) -> None:
        """Without that it may not grant what its agent does not own, whatever name it passes."""
        registry = names["registry"]
        registry.tool("pay", owned_by="treasurer", description="Pay.")(lambda: None)

        @registry.tool("grant", owned_by="clerk")
        def grant(as_operator: bool) -> None:
            """Grant a tool in the name of the treasurer, or as the operator."""
            if not as_operator:
                registry.assign_tool_to_agent("pay", "clerk", by="treasurer")
            with self.evaluate("registry.as_operator(", names):
                registry.assign_tool_to_agent("pay", "clerk")

        assert not registry.execute(ToolCall("1", "grant", {"as_operator": False}, "clerk")).success
        assert not registry.explain("clerk", "pay").allowed
        assert registry.execute(ToolCall("2", "grant", {"as_operator": True}, "clerk")).success
        assert registry.explain("clerk", "pay").allowed


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> DemoOutput:
    """What the demo prints as the README says to run it, and the folder in which it ran."""
    folder = tmp_path_factory.mktemp("demo")
    program, *arguments = find(r"## Demo\n\n```sh\n(.+)\n```").split()
    assert program in read_project()["scripts"]
    done = run_process(*arguments, cwd=folder)
    assert (0, "") == (done.returncode, done.stderr)
    return DemoOutput(done.stdout, folder)


class TestDemo:
    def test_its_data_are_as_large_as_it_says(self, demo: DemoOutput) -> None:
        """The flights are those of the table that the demo reads, the airlines those that it compares in its answer."""
        airlines, flights = re.findall(r"which of (\w+) airlines .*, from ([\d,]+) flights", README)[0]

        assert int(flights.replace(",", "")) == len(load_flights_question().table)
        assert {str(NUMBERS[airlines])} == set(re.findall(r"\d of (\d+) stay within luck", demo.out))

    def test_it_writes_a_journal_and_one_page(self, demo: DemoOutput) -> None:
        """They are in the folder that the README names; the page needs no file beside it."""
        place = find(r"It writes the journal and a report, one HTML file, to `([\w-]+)`")

        assert [place] == [path.name for path in demo.folder.iterdir()]
        assert 1 == len([*demo.folder.rglob("*.html")])
        assert (demo.folder / place / "journal.db").is_file()

    def test_its_journal_is_shown_by_the_command_that_follows(self, demo: DemoOutput) -> None:
        """The command names the journal that the demo wrote, and takes the option that the README names."""
        sentence = r"`praval-tools (ui [^`]+)` \(extra `(\w+)`.*\n.*with `(--\w+)` you"
        ((command, extra, option),) = re.findall(sentence, README)
        verb, journal = command.split()
        shown = run_process(verb, "--help", cwd=demo.folder)

        assert (demo.folder / journal).is_file()
        assert (0, True) == (shown.returncode, f"{option} " in shown.stdout)
        assert {"starlette", "uvicorn"} == {
            requirement.partition(">")[0] for requirement in read_project()["optional-dependencies"][extra]
        }


class TestCommands:
    def test_targets_are_named(self) -> None:
        """The README names some, and no other than those that the tests below look at."""
        assert ["demo", "docs", "test", "test-fast"] == list_make_targets()

    @pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
    @pytest.mark.parametrize("target", list_make_targets())
    def test_targets_set_up_their_own_environment(self, target: str, tmp_path: Path) -> None:
        """In a fresh checkout, make installs the package before it does anything with it."""
        commands = plan_make(tmp_path, target)

        assert 0 < commands.index("-m venv .venv") < commands.index("--editable") < commands.rindex(".venv/bin/")

    @pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
    def test_the_site_is_built_in_the_folder_that_it_names(self, tmp_path: Path) -> None:
        """`make docs` leaves the folder to mkdocs, and mkdocs to its default."""
        config = pytest.importorskip("mkdocs.config.base", reason="mkdocs is not installed")
        folder = find(r"`make docs` builds the site in `([\w-]+)/`")

        assert "--site-dir" not in plan_make(tmp_path, "docs")
        assert str(ROOT / folder) == config.load_config(str(ROOT / "mkdocs.yml")).site_dir


def test_it_counts_the_rules_of_access() -> None:
    """The page about access lists as many as the README says."""
    number = find(r"\[Access\]\(docs/explanation/access\.md\): the (\w+) rules")
    page = (ROOT / "docs" / "explanation" / "access.md").read_text(encoding="utf-8")

    assert NUMBERS[number] == len(re.findall(r"^\| \d+ \| `", page, re.MULTILINE))


def test_help_shows_what_the_reference_is_made_of() -> None:
    """Each public name of the package has a docstring, which `help` prints."""
    done = subprocess.run(
        [sys.executable, "-c", "import praval_tools; help(praval_tools.ToolRegistry)"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip

    assert [] == [name for name in praval_tools.__all__ if callable(getattr(praval_tools, name))
                  and not getattr(praval_tools, name).__doc__]  # fmt: skip
    assert (praval_tools.ToolRegistry.__doc__ or "-").strip().splitlines()[0] in done.stdout
