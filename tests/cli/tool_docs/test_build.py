"""The command `docs build`: the same tools give the same bytes, changes are named, and other files are left alone."""

# Tests of: build, command, changes, folder

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

from praval_tools import Agent, ToolRegistry
from praval_tools.cli.common import CommandError
from praval_tools.cli.tool_docs.blocks import MARKER
from praval_tools.cli.tool_docs.build import prepare_build
from praval_tools.cli.tool_docs.changes import parse_index
from praval_tools.cli.tool_docs.folder import OutputFolder

SHUFFLED = '''
from praval_tools import Agent, ToolRegistry
registry = ToolRegistry(name="shuffled")

def quote(symbol: str) -> str:
    """Return a price."""
    return symbol

def pay(to: str, kinds: set[str] = {"a", "b", "c", "d"}) -> None:
    """Pay."""

def declare_quote():
    registry.tool("quote", owned_by="clerk", shared=True, tags={"x", "y", "z", "w"})(quote)

def declare_pay():
    registry.tool("pay", owned_by="boss", retry_on={ValueError, OSError, KeyError})(pay)

def declare_agents():
    for name in {"boss", "clerk", "intern", "guest"}:
        Agent(name, registry=registry)

for step in STEPS:
    step()
registry.limits.set(tool="pay", per_minute=3)
'''


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def build(registry: ToolRegistry, out: Path) -> dict[str, bytes]:
    """Build the Markdown reference of a registry, and return its files."""
    prepare_build(registry, out, "md").write()
    return read_folder(out)


def read_changes(out: Path) -> dict[str, list[str]]:
    """Return what the index says was changed: by tool, the kind of change and its details."""
    index = parse_index((out / "tool-docs.json").read_text("utf-8"), "index")
    return {change.tool: [change.kind, *change.details] for change in index.changes or ()}


def make_bank(*, amount: type = float, owner: str = "treasurer", description: str = "Send money.") -> ToolRegistry:
    """Return a registry with one tool of its owner."""
    registry = ToolRegistry(name="bank")

    def wire_money(to: str, amount: float) -> str:
        return to

    wire_money.__annotations__["amount"] = amount
    registry.tool("wire_money", owned_by=owner, description=description)(wire_money)
    Agent("treasurer", registry=registry)
    Agent("intern", registry=registry)
    return registry


class TestBuild:
    @pytest.mark.parametrize("suffix", ["md", "html"])
    def test_pages(self, run: Run, app: App, suffix: str) -> None:
        """It writes an index, the changes, and a page for each owner and category; a second build writes nothing."""
        name = app()

        first = run("docs", "build", "--format", suffix, "--app", f"{name}:registry")
        written = read_folder(Path("tool-docs"))
        second = run("docs", "build", "--format", suffix, "--app", f"{name}:registry")

        assert (0, "Wrote tool-docs: 3 tools, 7 files changed.\n", "") == first
        assert (0, "tool-docs is up to date.\n", "") == second
        pages = ["category-general", "category-prices", "changes", "index", "owner-treasurer", "unowned"]
        assert [*(f"{page}.{suffix}" for page in pages), "tool-docs.json"] == sorted(
            written, key=lambda one: (one == "tool-docs.json", one)
        )
        assert written == read_folder(Path("tool-docs"))

    def test_order_hash_seed_folder_and_locale_do_not_count(self, tmp_path: Path) -> None:
        """Processes that declare in another order, with other hash seeds and locales, elsewhere, write the same."""
        orders = ("declare_quote, declare_pay, declare_agents", "declare_agents, declare_pay, declare_quote")
        found = []
        for number, (order, seed, lang) in enumerate(
            [(orders[0], "1", "C"), (orders[1], "2", "de_DE.UTF-8"), (orders[0], "77", "C.UTF-8")]
        ):
            folder = tmp_path / f"machine {number}"
            folder.mkdir()
            (folder / "shuffled.py").write_text(SHUFFLED.replace("STEPS", f"[{order}]"))
            env = {**ENV, "PYTHONHASHSEED": seed, "LC_ALL": lang, "TZ": f"UTC+{number}", "PRAVAL_TOOLS_PLUGINS": ""}
            command = [sys.executable, "-m", "praval_tools", "docs", "build", "--app", "shuffled:registry"]
            subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True)
            found.append(read_folder(folder / "tool-docs"))

        assert found[0] == found[1] == found[2]
        assert b"tmp" not in b"".join(found[0].values()), "no path of this machine"

    def test_what_runs_meanwhile_does_not_count(self, tmp_path: Path) -> None:
        """Neither the moment of an expiry nor the calls that a grant has left are in the pages."""
        registries = [make_bank(), make_bank()]
        for registry in registries:
            registry.grant("wire_money", "intern", by="treasurer", max_calls=3, where={"amount": {"maximum": 5}})
        registries[0].agent("intern").call("wire_money", to="a", amount=1)

        files = build(registries[0], tmp_path / "a")

        assert files == build(registries[1], tmp_path / "b")
        assert b"&#34;maximum&#34;: 5" in files["owner-treasurer.md"], "its bounds are"

    def test_the_journal_of_the_folder_does_not_count(self, run: Run, app: App) -> None:
        """Grants of a journal are in the pages where `--journal` names it."""
        target = ("--app", f"{app()}:registry")
        run("assign", "wire_money", "intern", *target)
        run("docs", "build", *target)

        code, out, _ = run("docs", "build", "--check", *target, "--journal", "praval_tools.db")

        assert 0 == run("docs", "build", "--check", *target)[0]
        assert 1 == code and "wire_money: changed; intern may call it: granted by operator" in out


class TestChanges:
    def test_each_kind(self, tmp_path: Path) -> None:
        """Added, removed and changed tools are named, with what changed: parameters, description, owner, access."""
        build(make_bank(), tmp_path)
        registry = make_bank(amount=int, owner="boss", description="Send money fast.")
        registry.tool("quote", shared=True)(_quote)
        registry.grant("wire_money", "intern", max_calls=1)

        build(registry, tmp_path)

        assert {
            "quote": ["added"],
            "wire_money": [
                "changed",
                "owner: treasurer → boss",
                "another description",
                "parameter amount: number, required → integer, required",
                "boss may call it: owner",
                "intern may call it: granted by operator, at most 1 call",
                "treasurer may not call it any more",
            ],
        } == read_changes(tmp_path)
        page = (tmp_path / "changes.md").read_text("utf-8")
        assert "parameter amount: number, required → integer, required" in page
        registry.unregister_tool("quote")
        build(registry, tmp_path)
        assert {"quote": ["removed"]} == read_changes(tmp_path)

    def test_a_build_that_finds_nothing_keeps_them(self, tmp_path: Path) -> None:
        """What the last difference was stays on the page however often it is built: its bytes can be committed."""
        build(make_bank(), tmp_path)
        changed = build(make_bank(description="Pay."), tmp_path)

        assert (
            changed == build(make_bank(description="Pay."), tmp_path) == build(make_bank(description="Pay."), tmp_path)
        )
        assert {"wire_money": ["changed", "another description"]} == read_changes(tmp_path)

    def test_many_callers(self, tmp_path: Path) -> None:
        """Of a tool that hundreds of agents may call, the index keeps a digest of who they are."""
        registry = ToolRegistry()
        registry.tool("quote", shared=True)(_quote)
        for number in range(300):
            Agent(f"agent {number}", registry=registry)
        build(registry, tmp_path)
        registry.block("quote", "agent 7")

        build(registry, tmp_path)

        assert len((tmp_path / "tool-docs.json").read_bytes()) < 4_000
        kind, detail = read_changes(tmp_path)["quote"]
        assert "changed" == kind and detail.startswith("who may call it: 300 agents ") and "→ 299 agents" in detail


class TestCheck:
    def test_it_names_what_differs_and_writes_nothing(self, run: Run, app: App) -> None:
        """`--check` exits with 1 where a build would change a file, and with 0 after it."""
        name = app()
        target = ("--app", f"{name}:registry")
        assert 1 == run("docs", "build", "--check", *target)[0] and not Path("tool-docs").exists()
        run("docs", "build", *target)
        Path(f"{name}.py").write_text(BANK.replace("Return a price.", "Return the price."))
        before = read_folder(Path("tool-docs"))

        code, out, err = run("docs", "build", "--check", *target)

        assert 1 == code and before == read_folder(Path("tool-docs"))
        lines = out.splitlines()
        assert "quote: changed; another description" == lines[0] and "unowned.md differs" in lines
        assert f"tool-docs is not up to date: run praval-tools {' '.join(target)} docs build.\n" == err
        run("docs", "build", *target)
        assert (0, "tool-docs is up to date.\n", "") == run("docs", "build", "--check", *target)

    def test_a_page_that_somebody_changed(self, run: Run, app: App) -> None:
        """A page that was edited, or is left over from a build before, is a difference."""
        target = ("--app", f"{app()}:registry")
        run("docs", "build", *target)
        page = Path("tool-docs/unowned.md")
        page.write_text(page.read_text() + "more")

        assert (1, "unowned.md differs\n") == run("docs", "build", "--check", *target)[:2]
        page.write_bytes(page.read_bytes()[:-4].replace(b"\n", b"\r\n"))
        assert 0 == run("docs", "build", "--check", *target)[0], "git may change the ends of lines"


class TestFolder:
    def test_foreign_files_are_left_alone(self, tmp_path: Path) -> None:
        """A page never replaces a file that no build wrote, and only pages of builds are removed."""
        (tmp_path / "index.md").write_text("mine")
        (tmp_path / "notes.md").write_text("mine too")

        with pytest.raises(CommandError, match=r"index\.md was not written by this command; move it away"):
            build(make_bank(), tmp_path)

        assert {"index.md": b"mine", "notes.md": b"mine too"} == read_folder(tmp_path)
        (tmp_path / "index.md").unlink()
        build(make_bank(), tmp_path)
        (tmp_path / "owner-treasurer.md").write_text("mine now")
        build(make_bank(owner="boss"), tmp_path)
        assert "mine now" == (tmp_path / "owner-treasurer.md").read_text(), "no build wrote it"
        assert "mine too" == (tmp_path / "notes.md").read_text()

    def test_pages_that_are_no_more_are_removed(self, tmp_path: Path) -> None:
        """The page of an owner without tools goes, and so do all pages of another format."""
        build(make_bank(), tmp_path)
        assert "owner-treasurer.md" not in build(make_bank(owner="boss"), tmp_path)

        prepare_build(make_bank(), tmp_path, "html").write()

        assert not list(tmp_path.glob("*.md"))

    @pytest.mark.parametrize("files", [["../outside.md"], ["/etc/passwd"], ["notes.txt"], [".hidden.md"], ["a/b.md"]])
    def test_an_index_cannot_name_other_files(self, tmp_path: Path, files: list[str]) -> None:
        """What an index names outside of its pages is not removed, whoever wrote the index."""
        out = tmp_path / "out"
        build(make_bank(), out)
        target = tmp_path / "outside.md"
        target.write_text(MARKER)
        (out / "notes.txt").write_text(MARKER)
        (out / ".hidden.md").write_text(MARKER)
        index = json.loads((out / "tool-docs.json").read_text())
        (out / "tool-docs.json").write_text(json.dumps({**index, "files": [*index["files"], *files]}))

        build(make_bank(owner="boss"), out)

        assert target.exists() and (out / "notes.txt").exists() and (out / ".hidden.md").exists()

    def test_links_are_not_followed(self, tmp_path: Path) -> None:
        """Where a link has the name of a page, nothing behind it is read, written or removed."""
        out = tmp_path / "out"
        out.mkdir()
        target = tmp_path / "target.md"
        target.write_text(MARKER)
        (out / "index.md").symlink_to(target)

        with pytest.raises(CommandError, match="is not a regular file"):
            build(make_bank(), out)

        assert MARKER == target.read_text() and ["index.md"] == sorted(read_folder(out))

    def test_a_file_is_replaced_at_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A build that is killed while it writes leaves each file as it was; the next one completes it."""
        build(make_bank(), tmp_path)
        before, replace, replaced = read_folder(tmp_path), os.replace, []

        def replace_once(source: str, target: Path) -> None:
            if replaced:
                raise KeyboardInterrupt
            replaced.append(target.name)
            replace(source, target)

        monkeypatch.setattr(os, "replace", replace_once)
        with pytest.raises(KeyboardInterrupt):
            build(make_bank(description="Pay."), tmp_path)
        monkeypatch.undo()
        left = read_folder(tmp_path)
        assert left.keys() == before.keys() and replaced == [name for name in left if left[name] != before[name]]
        (tmp_path / ".praval-tools-docs-abc.tmp").write_text("of a process that was killed")

        completed = build(make_bank(description="Pay."), tmp_path)

        assert {"wire_money": ["changed", "another description"]} == read_changes(tmp_path)
        assert completed.keys() == before.keys()

    def test_the_first_build_may_be_killed_too(self, tmp_path: Path) -> None:
        """Pages without an index are recognized as those of a build."""
        whole = build(make_bank(), tmp_path)
        (tmp_path / "tool-docs.json").unlink()

        assert whole == build(make_bank(), tmp_path)

    def test_files_can_be_read_as_any_others(self, tmp_path: Path) -> None:
        """Its files have the permissions that new files have."""
        build(make_bank(), tmp_path)
        (tmp_path / "other").touch()

        assert {(tmp_path / "other").stat().st_mode} == {path.stat().st_mode for path in tmp_path.iterdir()}

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"a":' * 99_999, '"\\ud800"'])
    def test_a_broken_index_is_an_error(self, tmp_path: Path, text: str) -> None:
        """An index that nobody can read is named, with the fix, and nothing is written."""
        (tmp_path / "tool-docs.json").write_text(text)

        with pytest.raises(CommandError, match=r"tool-docs\.json is not an index of docs build .*delete it"):
            build(make_bank(), tmp_path)

        assert {"tool-docs.json": text.encode()} == read_folder(tmp_path)

    def test_an_unwritable_folder(self, tmp_path: Path) -> None:
        """A file in the place of the folder is an error in one line."""
        (tmp_path / "file").touch()

        with pytest.raises(CommandError, match="could not be written|cannot be read"):
            build(make_bank(), tmp_path / "file")

    def test_only_what_differs_is_written(self, tmp_path: Path) -> None:
        """Of a file that is the same, neither time nor inode changes."""
        folder = OutputFolder(tmp_path, MARKER)
        files: dict[str, Callable[[], str]] = {"a.md": lambda: f"{MARKER}a", "b.md": lambda: f"{MARKER}b"}
        assert 2 == folder.write(files, ())
        inodes = {path.name: path.stat().st_ino for path in tmp_path.iterdir()}

        assert 1 == folder.write({**files, "b.md": lambda: f"{MARKER}c"}, ())
        assert inodes["a.md"] == (tmp_path / "a.md").stat().st_ino


def _quote(symbol: str = "x") -> str:
    """Return a price."""
    return symbol
