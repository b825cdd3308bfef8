"""
Every example of the documentation runs, and prints what the page says.

Blocks of a page run in order. `python` blocks share one module, until `<!-- new -->` starts another with an empty
registry; one with a `title` is a file, which is saved and not run by itself. `console` blocks are typed in. What a
`python` block prints is the `text` block that follows it, and a block without one prints nothing.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from importlib import invalidate_caches
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from unittest import mock

import pytest
from event_loop_scope import new_event_loop
from model_server import ModelServer
from source_tree import find_tests, read_tree
from store_rig import make_empty_database

from praval_tools import ToolRegistry, use_registry
from praval_tools.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
RUN = ("python", "console")
SHOWN = ("text", "toml", "yaml", "ini", "sh", "json")

DATABASE = "postgresql://ann@db.example/agents"
"""What pages call a database; that of the tests takes its place, and the page is skipped where none answers."""

_SITE = ".site"
_FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_CHANGING = (
    (re.compile(r"\d+\.\d+s"), "…s"),
    (re.compile(r"\d+(\.\d+)? (µs|ms|s|min|h)\b"), "… ms"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?"), "…-…-… …:…:…"),
    (re.compile(r"█+"), "█"),
    (re.compile(r"(?<=\S)  +"), "  "),
)
"""What differs from run to run, and what stands for it: durations, moments, bars, and so the widths of columns."""


class Block(NamedTuple):
    """One fenced block of a page, with the text between the block before and this one."""

    kind: str
    file: str | None
    text: str
    line: int
    before: str

    @property
    def fresh(self) -> bool:
        """Whether the examples start again here."""
        return "<!-- new -->" in self.before


def blocks_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text, found, end = page.read_text(encoding="utf-8"), [], 0
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start(3))
        found.append(Block(match[1], match[2], match[3], line, text[end : match.start()]))
        end = match.end()
    return found


class Reader:
    """Somebody who follows one page, block by block, in an empty folder."""

    def __init__(self, page: Path, folder: Path, capsys: pytest.CaptureFixture[str], stack: ExitStack) -> None:
        self._page, self._folder, self._capsys, self._stack = page, folder, capsys, stack
        self.database = DATABASE
        self.start()

    def start(self) -> None:
        """Begin again: nothing is defined, nothing is registered."""
        self._stack.enter_context(use_registry(self._stack.enter_context(ToolRegistry())))
        self._module = sys.modules["example"] = ModuleType("example")

    def follow(self, block: Block) -> str:
        """Run a block and return what it prints; a file is saved."""
        if block.fresh:
            self.start()
        if block.file is not None:
            invalidate_caches()
            path = self._folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            if block.kind == "python":
                compile(block.text, block.file, "exec", dont_inherit=True)
        elif block.kind == "python":
            place = self._page.relative_to(ROOT).as_posix()
            text = block.text.replace(DATABASE, self.database)
            code = compile("\n" * block.line + text, place, "exec", dont_inherit=True)
            with new_event_loop():
                exec(code, self._module.__dict__)
        return self._capsys.readouterr().out

    def type_in(self, command: str) -> str:
        """Return what a command prints, errors included."""
        program, *arguments = shlex.split(command.replace(DATABASE, self.database))
        if program == "pytest":
            run = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
            env = {**os.environ, "PYTHONPATH": str(self._folder / _SITE)}
            return subprocess.run(run, capture_output=True, text=True, cwd=self._folder, env=env).stdout
        if program == "pip":
            return self._install(*arguments)
        assert "praval-tools" == program, f"{command!r} is a command that this test does not know"
        mine = forget(self._folder)  # every command is a process of its own, for who types it in
        with use_registry(ToolRegistry()), pytest.raises(SystemExit):
            main(arguments)
        forget(self._folder)
        sys.modules.update(mine)
        said = self._capsys.readouterr()
        return (said.out + said.err).replace(self.database, DATABASE)

    def _install(self, verb: str, package: str) -> str:
        """Install a package of the folder, beside the others of this page; return what pip says when it is quiet."""
        assert "install" == verb
        site = self._folder / _SITE
        quietly = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
        run = [sys.executable, "-m", "pip", "install", *quietly, "--upgrade", "--target", str(site), package]
        done = subprocess.run(run, capture_output=True, text=True, cwd=self._folder)
        sys.path[:] = [str(site), *(one for one in sys.path if one != str(site))]
        mine = Path(package.partition("[")[0]).name  # without its extras
        os.environ["PRAVAL_TOOLS_PLUGINS"] = mine  # the page knows of no other that may be here
        invalidate_caches()
        return done.stdout + "".join(line for line in done.stderr.splitlines(True) if "WARNING" not in line)


def follow_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str], *, again: bool = False) -> None:
    """
    Follow a page from its first block to its last, and compare what it prints.

    Args:
        page: The page.
        folder: Where its files are.
        capsys: Has what is printed.
        again: It was followed in this folder before: commands, which show what is left of that, are not typed in.
    """
    blocks, time = blocks_of(page), "the second time" if again else "the first time"
    with ExitStack() as stack:
        reader = Reader(page, folder, capsys, stack)
        if any(DATABASE in block.text for block in blocks if block.kind in RUN):
            reader.database = stack.enter_context(make_empty_database())
            stack.enter_context(mock.patch.dict(os.environ, {"PRAVAL_TOOLS_KEY": "a key that all processes share"}))
        for block, following in zip_longest(blocks, blocks[1:]):
            expected = following.text if following is not None and following.kind == "text" else ""
            if block.file is not None and block.kind != "python":
                reader.follow(block)
            elif block.kind == "python":
                assert plain(expected) == plain(reader.follow(block)), f"{page.name}, line {block.line}, {time}"
            elif block.kind == "console" and not again:
                for command, printed in sessions(block):
                    assert plain(printed) == plain(reader.type_in(command)), f"{page.name}: {command}"


def forget(folder: Path) -> dict[str, ModuleType]:
    """Let the modules of a folder be imported anew; returns those that were there."""
    there = {
        name: module
        for name, module in sys.modules.items()
        if str(getattr(module, "__file__", None)).startswith(str(folder))
    }
    for name in there:
        del sys.modules[name]
    return there


def sessions(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the commands of a console block, each with what it is said to print."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, printed = part.partition("\n")
        yield command, printed


def plain(text: str) -> str:
    """Return a text without what differs from run to run, and without spaces at the ends of lines."""
    text = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    for pattern, sign in _CHANGING:
        text = pattern.sub(sign, text)
    return text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; modules that are imported from it are forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PRAVAL_TOOLS_PLUGINS", "")
    yield tmp_path
    sys.modules.pop("example", None)
    forget(tmp_path)


class TestExamples:
    """What a page shows is what happens."""

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
    def test_a_page_prints_what_it_says(self, page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Every example of a page runs as printed, and its output is the output on the page.

        Where that makes a journal file in the folder, the page works a second time in that folder, too.
        """
        if any("import praval\n" in block.text for block in blocks_of(page)):
            pytest.importorskip("praval", reason="needs praval: pip install 'praval-tools[praval]'")
        follow_page(page, folder, capsys)
        if any(folder.rglob("*.db")):
            forget(folder)
            follow_page(page, folder, capsys, again=True)

    @pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
    def test_no_block_is_passed_over(self, page: Path) -> None:
        """Each fence of a page is one that the test reads; no example hides from it by its spelling."""
        fences = [line for line in page.read_text(encoding="utf-8").splitlines() if line.lstrip().startswith("```")]

        assert 2 * len(blocks_of(page)) == len(fences)
        assert set() == {block.kind for block in blocks_of(page)} - {*RUN, *SHOWN}


class TestReadme:
    """The front page is true."""

    def test_its_picture_is_what_the_demo_prints(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Every line of the picture stands in the demo's output, in that order, in 80 columns."""
        picture = next(one for one in blocks_of(ROOT / "README.md") if "<!-- from the demo -->" in one.before).text
        with pytest.raises(SystemExit):
            main(["demo"])
        printed = iter(capsys.readouterr().out.splitlines())

        assert [] == [line for line in picture.splitlines() if line and line not in printed]
        assert 80 >= max(map(len, picture.splitlines()))

    def test_its_loop_asks_a_model(self, folder: Path) -> None:
        """`ask.py` runs as it stands, against a server that implements Chat Completions."""
        pytest.importorskip("openai")
        (program,) = [one.text for one in blocks_of(ROOT / "README.md") if one.file == "ask.py"]
        (folder / "ask.py").write_text(program, encoding="utf-8")
        asked = {"calls": [("price", {"item": "rope", "count": 3})]}
        with ModelServer([asked, {"text": "Three ropes cost 21."}]) as server:
            env = {
                **os.environ,
                "OPENAI_BASE_URL": f"{server.url}/v1",
                "OPENAI_API_KEY": "none",
                "PYTHONPATH": str(ROOT),
            }
            done = subprocess.run([sys.executable, "ask.py"], env=env, capture_output=True, text=True, timeout=60)

            assert ("Three ropes cost 21.\n", "") == (done.stdout, done.stderr)
            assert ["price"] == [tool["function"]["name"] for tool in server.requests[0]["tools"]]
            assert "21.0" == server.requests[1]["messages"][-1]["content"]

    def test_its_links_lead_somewhere(self) -> None:
        """Each relative link names a file of the project."""
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / "README.md").read_text(encoding="utf-8"))

        assert [] == [link for link in links if "://" not in link and not (ROOT / link).is_file()]

    def test_it_begins_with_the_name_and_says_how_to_install_and_call(self) -> None:
        """Its heading is the package's name; it is installed from its folder, and an agent calls with `acall`."""
        text = (ROOT / "README.md").read_text(encoding="utf-8")

        assert "# praval_tools" == text.splitlines()[0]
        assert ["pip install ."] == [one.text.strip() for one in blocks_of(ROOT / "README.md") if one.kind == "sh"][:1]
        assert "acall(" in next(one.text for one in blocks_of(ROOT / "README.md") if one.kind == "python")

    def test_its_links_work_on_a_package_page(self) -> None:
        """The description of the distribution has no link or picture that needs the files beside the README."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        substitutions = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
        description = (ROOT / "README.md").read_text(encoding="utf-8")
        for substitution in substitutions:
            description = re.sub(substitution["pattern"], substitution["replacement"], description)

        assert [] == [link for link in re.findall(r"\]\(([^)]*)\)", description) if not link.startswith("https://")]
        assert "Tutorial: from nothing to three agents" in description


def test_the_pictures_of_the_first_page_exist() -> None:
    """Each picture that the documentation's first page shows is a file beside it."""
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"))

    assert pictures
    assert [] == [picture for picture in pictures if not (ROOT / "docs" / picture).is_file()]


class TestThreatModel:
    """What the threat model promises is tested."""

    PAGE = ROOT / "docs" / "explanation" / "threat-model.md"

    def test_every_promise_names_its_tests(self) -> None:
        """Each row of its tables ends with tests."""
        rows = [line for line in self.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
        promises = [row for row in rows if not row.startswith("| promised |")]

        assert 20 < len(promises)
        assert [] == [row for row in promises if "::test_" not in row.rstrip(" |").rpartition("|")[2]]

    def test_the_tests_exist(self) -> None:
        """Each test that it names is there, in that file and class."""
        named = re.findall(r"`(tests/[^`]+)`", self.PAGE.read_text(encoding="utf-8"))

        assert [] == [name for name in named if not self._exists(*name.split("::"))]

    def _exists(self, file: str, *names: str) -> bool:
        path = ROOT / file
        return path.is_file() and "::".join(names) in find_tests(read_tree(path))
