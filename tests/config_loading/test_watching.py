"""Files that change under a watcher in all the ways that editors and people have, with callers running meanwhile."""

# Tests of: watcher, source

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from write_ahead_rig import FailingStore

from praval_tools import Outcome, ToolCall, ToolRegistry
from praval_tools.journal.storage.sql_store import SqlStore

OLD, NEW = ("a", "b"), ("c", "d")


def write_text(names: tuple[str, ...]) -> str:
    """Return a configuration with tools of these names, shared, and an agent that lists them."""
    tools = "".join(f"  - {{name: {name}, module: sums, function: add, shared: true}}\n" for name in names)
    return f"tools:\n{tools}agents:\n  ann: {{tools: [{', '.join(names)}]}}\n"


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds that a thread brings about."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.01)


@pytest.fixture
def watched(folder: Path) -> Iterator[ToolRegistry]:
    """A registry whose file is watched."""
    Path("c.yml").write_text(write_text(OLD))
    with ToolRegistry.from_config("c.yml", watch=True) as registry:
        yield registry


def list_names(registry: ToolRegistry) -> tuple[str, ...]:
    """Return the names of the tools."""
    return tuple(tool.name for tool in registry)


def write_in_place(text: str) -> None:
    """As most programs do."""
    Path("c.yml").write_text(text)


def write_in_pieces(text: str) -> None:
    """As over a slow network, with every part on disk before the next."""
    with open("c.yml", "w", encoding="utf-8") as file:
        for start in range(0, len(text), 20):
            file.write(text[start : start + 20])
            file.flush()
            os.fsync(file.fileno())


def replace_as_vim(text: str) -> None:
    """The old file becomes a backup, a new one is written, the backup goes; a probe named 4913 comes first."""
    Path("4913").touch()
    Path("4913").unlink()
    os.rename("c.yml", "c.yml~")
    Path("c.yml").write_text(text)
    Path("c.yml~").unlink()


def replace_as_emacs(text: str) -> None:
    """A lock that is a dangling link, a backup by copying, an auto-save file."""
    os.symlink("user@host.1:1", ".#c.yml")
    Path("#c.yml#").write_text(text)
    Path("c.yml~").write_bytes(Path("c.yml").read_bytes())
    Path("c.yml").write_text(text)
    Path("#c.yml#").unlink()
    Path(".#c.yml").unlink()


def replace_by_rename(text: str) -> None:
    """As VS Code's and most tools' atomic saving."""
    Path("c.yml.tmp").write_text(text)
    os.replace("c.yml.tmp", "c.yml")


def swap_link(text: str) -> None:
    """As ConfigMaps of Kubernetes: the file is a link into a folder that a link names, which is swapped."""
    number = len(list(Path().glob("version*")))
    version = Path(f"version{number}")
    version.mkdir()
    (version / "c.yml").write_text(text)
    os.symlink(version / "c.yml", "link")
    os.replace("link", "c.yml")


def delete_and_write(text: str) -> None:
    """Gone for a while, and back."""
    Path("c.yml").unlink()
    time.sleep(0.3)
    Path("c.yml").write_text(text)


SAVES = [
    write_in_place, write_in_pieces, replace_as_vim, replace_as_emacs, replace_by_rename, swap_link, delete_and_write
]  # fmt: skip


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
def test_each_way_of_saving_is_loaded(watched: ToolRegistry, save: Callable[[str], None]) -> None:
    """Twice each, to and fro, with a caller that sees one version or the other, and whose calls all succeed."""
    seen, outcomes, stopped = set[tuple[str, ...]](), set[Outcome](), threading.Event()

    def call() -> None:
        agent = watched.agent("ann")
        while not stopped.is_set():
            names = tuple(agent.list_tools())
            seen.add(names)
            outcome = watched.execute(ToolCall(None, names[0], {"x": 1}, "ann")).outcome
            outcomes.add(outcome if outcome is not Outcome.UNKNOWN_TOOL else Outcome.OK)  # it went after the look

    caller = threading.Thread(target=call)
    caller.start()
    try:
        for names in (NEW, OLD, NEW):
            save(write_text(names))
            wait_until(lambda names=names: names == list_names(watched) and [] == watched.problems())  # type: ignore[misc]
    finally:
        stopped.set()
        caller.join()
    assert {OLD, NEW} >= seen
    assert {Outcome.OK} == outcomes


def test_a_thousand_changes_in_a_row_end_with_the_last(watched: ToolRegistry) -> None:
    """However many of them are loaded, what counts in the end is what the file says."""
    for number in range(1_000):
        Path("c.yml").write_text(write_text((f"t{number}",)))

    wait_until(lambda: list_names(watched) == ("t999",))
    wait_until(lambda: [] == watched.problems())


def test_an_emptied_file_changes_nothing(watched: ToolRegistry) -> None:
    """Whoever saves empties it first: what it said counts until it says something again."""
    Path("c.yml").write_text("")
    time.sleep(2)
    assert list_names(watched) == OLD
    Path("c.yml").write_text(write_text(NEW))
    wait_until(lambda: list_names(watched) == NEW)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_a_file_that_may_not_be_read_changes_nothing(watched: ToolRegistry) -> None:
    """Until it may be read again."""
    Path("c.yml").chmod(0)
    Path("c.yml").touch()
    wait_until(watched.problems)
    assert list_names(watched) == OLD
    Path("c.yml").chmod(0o600)
    Path("c.yml").write_text(write_text(NEW))
    wait_until(lambda: list_names(watched) == NEW)


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "large", "binary"])
def test_what_is_no_file_any_more_changes_nothing(watched: ToolRegistry, kind: str) -> None:
    """A folder, a pipe, a link to itself, a file of 17 MB, bytes: a problem while it is there, and nothing waits."""
    path = Path("c.yml")
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to("c.yml")
    else:
        path.write_bytes(b"#" * 17_000_000 if kind == "large" else b"\xff\x00\xfe")
    wait_until(watched.problems)
    assert list_names(watched) == OLD

    path.rmdir() if kind == "folder" else path.unlink()
    path.write_text(write_text(NEW))
    wait_until(lambda: list_names(watched) == NEW and [] == watched.problems())


@pytest.mark.parametrize("way", ["from_config", "configure_from", "again"])
def test_a_change_while_the_file_is_loaded_is_not_lost(folder: Path, way: str) -> None:
    """What is written after the file was read and before it is watched is loaded too."""
    Path("slow.py").write_text(
        "from pathlib import Path\n"
        f"Path('c.yml').write_text({write_text(NEW)!r})\n"
        "def add() -> int:\n    'Add.'\n    return 1\n"
    )
    Path("c.yml").write_text("tools: [{name: old, module: slow, function: add}]\n")
    if way == "from_config":
        registry = ToolRegistry.from_config("c.yml", watch=True)
    else:
        registry = ToolRegistry()
        if way == "again":
            Path("c.yml").write_text("tools: []\n")
            registry.configure_from("c.yml")
            Path("c.yml").write_text("tools: [{name: old, module: slow, function: add}]\n")
        registry.configure_from("c.yml", watch=True)
    with registry:
        wait_until(lambda: NEW == list_names(registry))


def test_a_load_that_the_files_do_not_fail_is_tried_again(folder: Path) -> None:
    """Once the journal can be written again; a grant that was taken out stayed until the file was saved again."""
    store = FailingStore(SqlStore(folder / "runs.db"))
    Path("c.yml").write_text(f"{write_text(OLD)}grants: [{{tool: a, agent: bob}}]\n")
    with ToolRegistry(journal=store) as registry:
        registry.configure_from("c.yml", watch=True)
        store.fails = {"grant_revoked"}
        Path("c.yml").write_text(write_text(OLD))
        wait_until(registry.problems)
        assert 1 == len(registry.grants())
        store.fails = set()
        wait_until(lambda: [] == registry.grants())
        wait_until(lambda: [] == registry.problems())


def test_what_another_file_was_in_the_way_of_is_tried_again(folder: Path) -> None:
    """A tool that moves from one file to another, of which the second is saved first."""
    Path("c.yml").write_text(write_text(OLD))
    Path("d.yml").write_text("agents: {bob: {}}\n")
    with ToolRegistry() as registry:
        source = registry.configure_from("c.yml")
        registry.configure_from("d.yml", watch=True)
        Path("d.yml").write_text(write_text(OLD).replace("ann", "bob"))
        wait_until(registry.problems)
        Path("c.yml").write_text("agents: {ann: {}}\n")
        source.refresh()

        wait_until(lambda: list_names(registry) == OLD and [] == registry.problems())


def test_a_file_whose_time_is_set_back(watched: ToolRegistry) -> None:
    """Of the same length and the same time, as a program leaves it that restores times."""
    before = os.stat("c.yml")
    Path("c.yml").write_text(write_text(NEW))
    os.utime("c.yml", ns=(before.st_atime_ns, before.st_mtime_ns))

    wait_until(lambda: list_names(watched) == NEW)
