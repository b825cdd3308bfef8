"""Ways out of the declared folder, and ways to hang or flood the tools."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from praval_tools import Agent, Outcome, ToolCall

Make = Callable[..., Agent]
Refused = Callable[..., str]

ROUNDS = 3_000


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        [
            "home/../secret.txt", "../secret.txt", "home/a/../../secret.txt", "home/./a", "home//a", "/etc/passwd",
            "//etc/passwd", "home/\0", "home/a\0.txt", "..", ".", "/", "home/..", "home/../", "~/x",
            "home/deep/../../../secret.txt", "other/x", "home\\..\\secret.txt/a/..",
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("tool", ["files_list", "files_read", "files_search", "files_write"])
    def test_that_lead_out(self, home: Path, refused: Refused, tool: str, path: str) -> None:
        """Every spelling that could lead out is refused by every tool, and nothing is written."""
        more = {"text": "x"} if tool in ("files_search", "files_write") else {}

        refused("PathRefusedError", tool, path=path, **more)

        assert ([], {"home", "secret.txt"}) == (os.listdir(home), set(os.listdir(home.parent)))

    def test_odd_names_are_names(self, ann: Agent, home: Path) -> None:
        """A backslash, `...`, a newline and a leading hyphen mean nothing special."""
        for name in ("a\\b", "...", "-rf", "new\nline", " ", "%2e%2e", "$HOME", "*"):
            ann.call("files_write", path=f"home/{name}", text=name)
            assert name == ann.call("files_read", path=f"home/{name}").text
        assert 8 == len(os.listdir(home))

    @pytest.mark.parametrize("path", ["home/" + "a" * 256, "home" + "/a" * 40, "home/" + "é" * 200])
    def test_too_long(self, refused: Refused, path: str) -> None:
        """A name too long for the system and a path too deep are refused in short words."""
        assert len(refused("FileLimitError", "files_read", path=path)) < 400

    def test_too_long_for_an_argument(self, ann: Agent) -> None:
        """A path of a million characters is refused as an argument."""
        result = ann.execute(ToolCall(name="files_read", arguments={"path": "a" * 1_000_000}))
        assert Outcome.INVALID_ARGUMENTS is result.outcome


class TestLinks:
    @pytest.mark.parametrize("target", ["../secret.txt", "/etc/passwd", "real", "nowhere", "."])
    def test_of_files(self, home: Path, refused: Refused, target: str) -> None:
        """A link is refused wherever it leads, also within the folder, for reading and for writing."""
        (home / "real").write_text("real")
        (home / "link").symlink_to(target)

        refused("PathRefusedError", "files_read", path="home/link")
        refused("PathRefusedError", "files_search", path="home/link", text="secret")
        refused("PathRefusedError", "files_write", path="home/link", text="x", mode="overwrite")
        refused("PathRefusedError", "files_write", path="home/link", text="x")

        assert "secret" == (home.parent / "secret.txt").read_text()

    def test_in_the_middle(self, home: Path, refused: Refused) -> None:
        """A link to a folder is refused as a part of a path, however deep."""
        (home / "deep").mkdir()
        (home / "deep" / "out").symlink_to("../..")
        (home / "out").symlink_to("..")

        for path in ("home/out/secret.txt", "home/deep/out/secret.txt"):
            refused("PathRefusedError", "files_read", path=path)
            refused("PathRefusedError", "files_write", path=path, text="x", mode="overwrite")
        refused("PathRefusedError", "files_list", path="home/out")

    def test_hard(self, make: Make, home: Path, refused: Refused) -> None:
        """A file with a second name can be read, unless the operator refuses such files."""
        os.link(home.parent / "secret.txt", home / "hard")

        assert "secret" == make().call("files_read", path="home/hard").text
        careful = make(refuse_hard_links=True)
        refused("PathRefusedError", "files_read", careful, path="home/hard")
        assert {"changed or not readable": 1} == careful.call("files_search", path="home", text="secret").skipped


@pytest.fixture
def nobody(home: Path) -> Iterator[None]:
    """This process without the rights of root, in a folder whose names may be read and nothing else."""
    shut = home / "shut"
    shut.mkdir()
    (shut / "a").write_text("needle")
    (home / "b").write_text("needle")
    shut.chmod(0o444)
    for folder in (home, home.parent):
        folder.chmod(0o755)
    was = os.geteuid()
    above = [(folder, folder.stat().st_mode) for folder in home.parent.parents if not folder.stat().st_mode & 1]
    for folder, mode in above:
        folder.chmod(mode | 0o111)
    if was == 0:
        os.seteuid(65534)
    yield
    os.seteuid(was)
    shut.chmod(0o755)
    for folder, mode in above:
        folder.chmod(mode)


class TestRights:
    def test_a_folder_that_may_only_be_listed(self, ann: Agent, nobody: None) -> None:
        """What the system does not let be looked at is listed by name, and left out of a search that goes on."""
        ann.call("files_list", path="home")
        listed = ann.call("files_list", path="home/shut")
        found = ann.call("files_search", path="home", text="needle")

        assert [("a", "unknown", None)] == [(one.name, one.kind, one.size) for one in listed.entries]
        assert (["home/b"], {"changed or not readable": 1}) == ([one.path for one in found.matches], found.skipped)


class TestOddFiles:
    def test_pipes_are_not_waited_for(self, home: Path, refused: Refused) -> None:
        """A pipe without a writer is refused at once, as file, as folder and as target."""
        os.mkfifo(home / "pipe")

        assert "pipe" in refused("PathRefusedError", "files_read", path="home/pipe")
        refused("PathRefusedError", "files_list", path="home/pipe")
        refused("PathRefusedError", "files_read", path="home/pipe/a")
        refused("PathRefusedError", "files_write", path="home/pipe", text="x", mode="overwrite")

    def test_sockets(self, home: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
        """A socket is refused."""
        monkeypatch.chdir(home)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("sock")
            refused("PathRefusedError", "files_read", path="home/sock")

    @pytest.mark.parametrize("device", ["zero", "null", "random", "tty"])
    def test_devices(self, make: Make, refused: Refused, device: str) -> None:
        """A device is refused, even under a declared folder."""
        refused("PathRefusedError", "files_read", make(roots=[{"name": "dev", "path": "/dev"}]), path=f"dev/{device}")

    def test_files_that_lie_about_their_size(self, make: Make) -> None:
        """A file of the kernel that says size 0 is read up to the limit."""
        reader = make(roots=[{"name": "self", "path": f"/proc/{os.getpid()}"}], max_read_bytes=10)
        assert 10 == len(reader.call("files_read", path="self/status").text)

    def test_folders_as_files(self, home: Path, refused: Refused) -> None:
        """A folder is refused as a file, a file as a folder, and neither is replaced."""
        (home / "folder").mkdir()
        (home / "file").touch()

        refused("PathRefusedError", "files_read", path="home/folder")
        refused("PathRefusedError", "files_read", path="home")
        refused("PathRefusedError", "files_read", path="home/file/a")
        refused("PathRefusedError", "files_list", path="home/file")
        refused("PathRefusedError", "files_write", path="home/folder", text="x", mode="overwrite")
        refused("PathRefusedError", "files_write", path="home", text="x", mode="overwrite")
        refused("PathMissingError", "files_write", path="home/none/a", text="x")


class Swapper(threading.Thread):
    """Puts a link and the real thing in each other's place, again and again, until stopped."""

    def __init__(self, place: Path, real: Path, link: Path) -> None:
        super().__init__()
        self._place, self._real, self._link = place, real, link
        self._over = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        """Swap until stopped."""
        while not self._over.is_set():
            os.rename(self._place, self._real)
            os.rename(self._link, self._place)
            os.rename(self._place, self._link)
            os.rename(self._real, self._place)
            self.rounds += 1

    def __enter__(self) -> Swapper:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


class TestRaces:
    def test_reading_while_a_folder_becomes_a_link(self, ann: Agent, home: Path) -> None:
        """In thousands of rounds the secret is never read, and both outcomes of the race happen."""
        (home / "place").mkdir()
        (home / "place" / "secret.txt").write_text("mine")
        (home / "link").symlink_to("..")
        seen: set[str] = set()

        with Swapper(home / "place", home / "real", home / "link") as swapper:
            while swapper.rounds < ROUNDS or len(seen) < 2:
                try:
                    seen.add(ann.call("files_read", path="home/place/secret.txt").text)
                except ValueError:
                    seen.add("refused")

        assert {"mine", "refused"} == seen

    def test_reading_while_a_file_becomes_a_link(self, ann: Agent, home: Path) -> None:
        """The same for the last part of the path."""
        (home / "place").write_text("mine")
        (home / "link").symlink_to("../secret.txt")
        seen: set[str] = set()

        with Swapper(home / "place", home / "real", home / "link") as swapper:
            while swapper.rounds < ROUNDS or len(seen) < 2:
                try:
                    seen.add(ann.call("files_read", path="home/place").text)
                except ValueError:
                    seen.add("refused")

        assert {"mine", "refused"} == seen

    def test_searching_while_a_folder_becomes_a_link(self, ann: Agent, home: Path) -> None:
        """A search that walks through the race never sees what lies outside."""
        (home / "place").mkdir()
        (home / "place" / "mine.txt").write_text("mine")
        (home / "link").symlink_to("..")
        found: set[str] = set()

        with Swapper(home / "place", home / "real", home / "link") as swapper:
            while swapper.rounds < ROUNDS or not found:
                found.update(one.text for one in ann.call("files_search", path="home", text="e").matches)

        assert {"mine"} == found

    def test_writing_while_a_folder_becomes_a_link(self, ann: Agent, home: Path) -> None:
        """A write lands in the folder or is refused; beside it nothing changes."""
        (home / "place").mkdir()
        (home / "link").symlink_to("..")
        outcomes: set[str] = set()

        with Swapper(home / "place", home / "real", home / "link") as swapper:
            while swapper.rounds < ROUNDS // 4 or len(outcomes) < 2:
                try:
                    ann.call("files_write", path="home/place/secret.txt", text="evil", mode="overwrite")
                    outcomes.add("written")
                except ValueError:
                    outcomes.add("refused")

        assert "secret" == (home.parent / "secret.txt").read_text()
        assert {"home", "secret.txt"} == set(os.listdir(home.parent))
        assert ["secret.txt"] == os.listdir(home / "place")

    def test_one_of_many_creates(self, ann: Agent, home: Path) -> None:
        """Of many who create one file at once one succeeds, and the file holds what that one wrote."""
        for number in range(20):
            calls = [
                ToolCall(name="files_write", arguments={"path": f"home/{number}", "text": str(writer)})
                for writer in range(8)
            ]
            results = ann.execute_batch(calls, max_parallel=8)
            winners = [writer for writer, result in enumerate(results) if result.success]
            assert [(home / str(number)).read_text()] == [str(writer) for writer in winners]
        assert 20 == len(os.listdir(home))

    def test_readers_see_whole_files(self, ann: Agent, home: Path) -> None:
        """Who reads while a file is overwritten sees the old or the new text, never a part of either."""
        texts = {"a" * 50_000, "b" * 60_000}
        (home / "file").write_text("a" * 50_000)
        seen: set[str] = set()
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                for text in sorted(texts):
                    ann.call("files_write", path="home/file", text=text, mode="overwrite")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(300):
                seen.add(ann.call("files_read", path="home/file").text)
        finally:
            over.set()
            writer.join()

        assert seen <= texts


def test_no_descriptor_is_left_open(ann: Agent, home: Path) -> None:
    """Neither success nor refusal leaves a descriptor open."""
    (home / "deep" / "er").mkdir(parents=True)
    (home / "deep" / "er" / "a").write_text("x")
    (home / "link").symlink_to("deep")
    os.mkfifo(home / "pipe")
    before = len(os.listdir("/proc/self/fd"))

    for path in ("home", "home/deep/er/a", "home/link/a", "home/pipe", "home/none", "home/deep/er/a/b", "x/y"):
        for tool, more in (("files_list", {}), ("files_read", {}), ("files_search", {"text": "x"})):
            ann.execute(ToolCall(name=tool, arguments={"path": path, **more}))
    ann.execute(ToolCall(name="files_write", arguments={"path": "home/deep", "text": "x"}))

    assert before == len(os.listdir("/proc/self/fd"))
