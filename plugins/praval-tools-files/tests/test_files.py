"""What the tools do, and what they say where they cannot."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from praval_tools import Agent, Outcome, ToolCall

from praval_tools_files import plugin
from praval_tools_files.errors import FilesSettingsError, PlatformError
from praval_tools_files.roots import Roots, check_platform
from praval_tools_files.settings import FilesSettings, Root

Make = Callable[..., Agent]
Refused = Callable[..., str]


class TestListing:
    def test_of_a_folder(self, ann: Agent, home: Path) -> None:
        """Entries come by name, with kind and size; links are shown as links."""
        (home / "b.txt").write_text("four")
        (home / "a").mkdir()
        (home / "c").symlink_to("b.txt")
        os.mkfifo(home / "d")

        listing = ann.call("files_list", path="home")

        expected = [("a", "folder", None), ("b.txt", "file", 4), ("c", "link", None), ("d", "other", None)]
        assert expected == [(one.name, one.kind, one.size) for one in listing.entries]
        assert listing.complete

    def test_of_what_is_declared(self, ann: Agent) -> None:
        """Without a path the declared folders are listed, and whether they may be written."""
        assert [("home", True)] == [(one.name, one.writable) for one in ann.call("files_list").entries]

    def test_pattern_and_limit(self, ann: Agent, home: Path) -> None:
        """A listing that leaves matches out says so."""
        for name in ("a.txt", "b.txt", "c.md"):
            (home / name).touch()

        assert not ann.call("files_list", path="home", pattern="*.txt", limit=1).complete
        assert ann.call("files_list", path="home/", pattern="*.txt", limit=2).complete

    def test_names_that_are_not_utf8_are_counted(self, ann: Agent, home: Path) -> None:
        """No path can say such a name, so that it is counted instead of shown."""
        Path(os.fsdecode(os.fsencode(home) + b"/\xff")).touch()

        listing = ann.call("files_list", path="home")

        assert (1, []) == (listing.unnameable, listing.entries)

    def test_of_a_huge_folder(self, make: Make, home: Path) -> None:
        """Only so many entries are looked at, and the listing says that there are more."""
        for number in range(20):
            (home / str(number)).touch()

        assert not make(max_entries=10).call("files_list", path="home").complete


class TestReading:
    def test_in_parts(self, make: Make, home: Path) -> None:
        """Reading on from each `next_offset` gives the whole text, whole characters only."""
        text = "aé漢🎈" * 50
        (home / "a.txt").write_text(text, encoding="utf-8")
        reader, parts, at = make(max_read_bytes=7), [], 0

        while at is not None:
            part = reader.call("files_read", path="home/a.txt", offset=at)
            parts.append(part.text)
            at = part.next_offset

        assert text == "".join(parts)

    def test_length_is_what_the_operator_allows(self, make: Make, home: Path) -> None:
        """A huge file costs no more memory than the operator allows, however much is asked for."""
        with (home / "huge").open("wb") as file:
            file.truncate(2**40)

        part = make(max_read_bytes=100).call("files_read", path="home/huge", length=2**40)

        assert (100, 100, 2**40) == (len(part.text), part.next_offset, part.size)

    def test_what_is_not_utf8(self, ann: Agent, home: Path, refused: Refused) -> None:
        """It is refused with the place and the way out, which works."""
        (home / "a").write_bytes(b"ab\xffcd")

        assert "byte 2 is 0xff" in refused("NotTextError", "files_read", path="home/a")
        assert "ab\ufffdcd" == ann.call("files_read", path="home/a", invalid="replace").text

    def test_half_a_character_at_the_end(self, ann: Agent, home: Path, refused: Refused) -> None:
        """A file that ends within a character is not taken for one that goes on."""
        (home / "a").write_bytes("é".encode()[:1])

        refused("NotTextError", "files_read", path="home/a")
        assert ann.call("files_read", path="home/a", invalid="replace").next_offset is None

    def test_beyond_the_end(self, ann: Agent, home: Path, refused: Refused) -> None:
        """Reading from the end gives nothing; from beyond it is an error that names the size."""
        (home / "a").write_text("abc")

        assert "" == ann.call("files_read", path="home/a", offset=3).text
        assert "byte 3" in refused("PathMissingError", "files_read", path="home/a", offset=4)


class TestSearching:
    def test_finds_lines(self, ann: Agent, home: Path) -> None:
        """Lines come with file and number, files by name, folders walked."""
        (home / "z.txt").write_bytes(b"one\r\nTWO\r\n")
        (home / "deep").mkdir()
        (home / "deep" / "a.txt").write_text("two\n\ntwo")

        found = ann.call("files_search", path="home", text="two", ignore_case=True)

        expected = [("home/deep/a.txt", 1, "two"), ("home/deep/a.txt", 3, "two"), ("home/z.txt", 2, "TWO")]
        assert expected == [(one.path, one.line, one.text) for one in found.matches]
        assert (2, None, {}) == (found.files, found.stopped, found.skipped)

    def test_text_is_no_pattern(self, ann: Agent, home: Path) -> None:
        """What would take for ever as a regular expression is looked for as it is written."""
        (home / "a").write_text("a" * 40 + "!\n(a+)+$\n")

        assert [2] == [one.line for one in ann.call("files_search", path="home/a", text="(a+)+$").matches]

    def test_names_with_many_stars(self, ann: Agent, home: Path) -> None:
        """A pattern of names that is made to be slow is not."""
        (home / ("a" * 200)).write_text("x")

        assert 0 == ann.call("files_search", path="home", text="x", pattern="*a" * 100 + "b").files

    def test_says_what_it_left_out(self, ann: Agent, home: Path) -> None:
        """Links, pipes, binaries and unreadable names are skipped and counted; links are not followed."""
        (home / "link").symlink_to("../secret.txt")
        (home / "loop").symlink_to(".")
        os.mkfifo(home / "pipe")
        (home / "binary").write_bytes(b"secret\0")
        (home / "long").write_bytes(b"x" * 3_000_000)

        found = ann.call("files_search", path="home", text="secret")

        expected = {"links": 2, "devices, pipes and sockets": 1, "files that are not text, or have lines too long": 2}
        assert ([], expected) == (found.matches, found.skipped)

    @pytest.mark.parametrize(("settings", "why"), [({"max_search_bytes": 10}, "size"), ({"timeout": 1e-9}, "time")])
    def test_stops_early_and_says_why(self, make: Make, home: Path, settings: dict[str, float], why: str) -> None:
        """The operator's limits end a search, with the reason in the result."""
        for number in range(3):
            (home / str(number)).write_text("x\n" * 5)

        result = make(**settings).call("files_search", path="home", text="x")

        assert result.stopped is not None
        assert result.stopped.startswith(why)

    def test_more_matches_than_wanted(self, ann: Agent, home: Path) -> None:
        """A limit that cuts is reported; one that is met is not."""
        (home / "a").write_text("x\nx\n")

        assert ann.call("files_search", path="home", text="x", limit=1).stopped is not None
        assert ann.call("files_search", path="home", text="x", limit=2).stopped is None

    def test_long_lines_are_cut_around_the_match(self, ann: Agent, home: Path) -> None:
        """A match shows its surroundings, not a whole line of a million letters."""
        (home / "a").write_text("a" * 100_000 + "needle" + "b" * 100_000)

        text = ann.call("files_search", path="home/a", text="needle").matches[0].text

        assert "needle" in text
        assert len(text) <= 300

    def test_text_with_a_line_break(self, refused: Refused, home: Path) -> None:
        """No line holds a line break; that is said, since "nothing found" would mislead."""
        (home / "a").write_text("one\ntwo\n")

        assert "line break" in refused("FilesError", "files_search", path="home", text="one\ntwo")

    def test_depth(self, make: Make, home: Path) -> None:
        """Folders deeper than allowed are counted, not walked."""
        (home / "1" / "2" / "3").mkdir(parents=True)
        (home / "1" / "2" / "3" / "a").write_text("x")

        assert {"folders too deep": 1} == make(max_depth=2).call("files_search", path="home", text="x").skipped


class TestWriting:
    def test_round_trip(self, ann: Agent, home: Path) -> None:
        """What is written is what stands in the file, byte by byte, and nothing else is left behind."""
        written = ann.call("files_write", path="home/a.txt", text="é\r\n\0")

        assert (5, True) == (written.bytes, written.created)
        assert "é\r\n\0".encode() == (home / "a.txt").read_bytes()
        assert ["a.txt"] == os.listdir(home)

    def test_create_takes_no_place(self, ann: Agent, home: Path, refused: Refused) -> None:
        """A file that is there stays as it is, unless overwriting is asked for; then it keeps its rights."""
        (home / "a").write_text("old")
        (home / "a").chmod(0o640)

        assert "overwrite" in refused("FileTakenError", "files_write", path="home/a", text="new")
        assert "old" == (home / "a").read_text()
        assert not ann.call("files_write", path="home/a", text="new", mode="overwrite").created
        assert ("new", 0o640) == ((home / "a").read_text(), (home / "a").stat().st_mode & 0o777)

    def test_hard_links_are_cut(self, ann: Agent, home: Path) -> None:
        """Overwriting a file does not change what its other name shows."""
        os.link(home.parent / "secret.txt", home / "a")

        ann.call("files_write", path="home/a", text="new", mode="overwrite")

        assert "secret" == (home.parent / "secret.txt").read_text()

    def test_read_only_folders(self, make: Make, home: Path, refused: Refused) -> None:
        """A folder is read-only unless the operator says otherwise."""
        reader = make(roots=[{"name": "home", "path": str(home)}])

        text = refused("PathRefusedError", "files_write", reader, path="home/a", text="x")

        assert "writable = true for 'home'" in text
        assert [] == os.listdir(home)

    def test_needs_approval(self, make: Make, home: Path) -> None:
        """Unless the operator says otherwise, a person approves each write."""
        result = make(approve_writes=True).execute(
            ToolCall(name="files_write", arguments={"path": "home/a", "text": "x"})
        )

        assert Outcome.APPROVAL_REQUIRED is result.outcome
        assert [] == os.listdir(home)

    def test_too_large(self, make: Make, home: Path, refused: Refused) -> None:
        """The limit counts bytes, and is reported."""
        writer = make(max_write_bytes=4)

        assert "5 bytes" in refused("FileLimitError", "files_write", writer, path="home/a", text="éé!")
        writer.call("files_write", path="home/a", text="éé")

    def test_half_a_character(self, ann: Agent, home: Path) -> None:
        """A lone surrogate, which JSON can carry, is refused as an argument, and nothing is left behind."""
        for arguments in ({"path": "home/a", "text": "\ud800"}, {"path": "home/\ud800", "text": "x"}):
            result = ann.execute(ToolCall(name="files_write", arguments=arguments))
            assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert [] == os.listdir(home)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_without_rights(self, ann: Agent, home: Path, refused: Refused) -> None:
        """What the system refuses is reported, without the real path."""
        home.chmod(0o500)
        assert str(home) not in refused("FileSystemError", "files_write", path="home/a", text="x")

    def test_full_disk(self, ann: Agent, home: Path, monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
        """A write that fails half-way leaves the old file and no other."""
        (home / "a").write_text("old")

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        text = refused("FileSystemError", "files_write", path="home/a", text="new", mode="overwrite")
        assert "No space left" in text
        assert (["a"], "old") == (os.listdir(home), (home / "a").read_text())


class TestSettings:
    def test_nothing_declared(self, make: Make, refused: Refused) -> None:
        """Each tool says how to declare a folder, in words that can be pasted."""
        lost = make(roots=[])
        for tool, more in [
            ("files_list", {}),
            ("files_read", {}),
            ("files_search", {"text": "x"}),
            ("files_write", {"text": "x"}),
        ]:
            text = refused("NoRootsError", tool, lost, **({"path": "home/a"} if tool != "files_list" else {}), **more)
            assert '[[plugins."praval-tools-files".settings.roots]]' in text

    def test_defaults_are_enough(self) -> None:
        """A host without a table for the package gets the tools."""
        tools = plugin.praval_tools_register_tools(FilesSettings())
        assert ["files_list", "files_read", "files_search", "files_write"] == [tool.name for tool in tools]

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": "a/b", "path": "/x"},
            {"name": "", "path": "/x"},
            {"name": "a", "path": "x"},
            {"name": "a", "path": "/\0"},
            {"name": "a", "path": "/srv/link/."},
        ],
    )
    def test_wrong_roots(self, wrong: dict[str, str]) -> None:
        """A folder needs a plain name and a whole path."""
        with pytest.raises(FilesSettingsError):
            Root(**wrong)

    def test_two_of_one_name(self) -> None:
        """Two folders of one name are an error."""
        with pytest.raises(FilesSettingsError, match="two folders"):
            FilesSettings(roots=[Root(name="a", path="/x"), Root(name="a", path="/y")])

    @pytest.mark.parametrize("value", [0, -1, float("inf"), float("nan"), True])
    def test_wrong_limits(self, value: float) -> None:
        """A limit is a positive number."""
        with pytest.raises(FilesSettingsError, match="max_depth"):
            FilesSettings(max_depth=value)

    @pytest.mark.parametrize("name", ["max_entries", "max_depth", "max_read_bytes", "max_write_bytes"])
    def test_limits_that_count_are_whole(self, name: str) -> None:
        """What counts entries, folders or bytes is a whole number, refused at once and not when a tool is called."""
        with pytest.raises(FilesSettingsError, match=f"{name}.*whole"):
            FilesSettings(**{name: 1.5})

    def test_a_text_is_no_truth(self) -> None:
        """A text like "no" does not count as true: a folder is never writable by mistake."""
        with pytest.raises(FilesSettingsError, match="writable"):
            Root(name="a", path="/x", writable="no")
        for name in ("approve_writes", "refuse_hard_links"):
            with pytest.raises(FilesSettingsError, match=name):
                FilesSettings(**{name: "false"})

    def test_folders_that_are_none(self) -> None:
        """What is not a declared folder is reported as such."""
        for roots in ("/srv", [{"name": "a", "path": "/x"}]):
            with pytest.raises(FilesSettingsError, match="as a Root"):
                FilesSettings(roots=roots)

    def test_what_the_tools_say_of_themselves(self) -> None:
        """Readers are read-only; the writer is destructive and needs approval; nobody owns or shares them."""
        for tool in plugin.praval_tools_register_tools(FilesSettings()):
            output, writes = tool.metadata, tool.name == "files_write"
            assert (not writes or None, writes or None, writes) == (
                output.read_only,
                output.destructive,
                output.requires_approval,
            )
            assert (None, False, "files") == (output.owned_by, output.shared, output.category)

    def test_systems_that_cannot(self, monkeypatch: pytest.MonkeyPatch, ann: Agent, refused: Refused) -> None:
        """Where files cannot be opened step by step, the tools refuse."""
        monkeypatch.setattr(os, "supports_dir_fd", set())

        with pytest.raises(PlatformError, match="dir_fd of os.open"):
            check_platform("home")
        refused("PlatformError", "files_list", path="home")

    def test_a_declared_folder_that_is_a_link(self, make: Make, home: Path, refused: Refused) -> None:
        """A declared folder that is missing or a link is refused, and its real path is not reported."""
        (home / "there").mkdir()
        (home / "link").symlink_to("there")
        for name in ("link", "missing", "link/"):
            lost = make(roots=[{"name": "r", "path": f"{home}/{name}"}])
            assert str(home) not in refused("FilesSettingsError", "files_list", lost, path="r")


@given(
    st.text(max_size=30) | st.lists(st.sampled_from(["..", ".", "", "home", "a", "/", "\0", "\ud800"])).map("/".join)
)
def test_no_path_leads_out(path: str) -> None:
    """Whatever the path, what is opened lies under the declared folder, or an error of this package says why not."""
    from praval_tools_files.errors import FilesError

    here = os.path.dirname(os.path.abspath(__file__))
    try:
        with Roots((Root(name="home", path=here),), "x").open_folder(path) as folder:
            opened = os.fstat(folder)
    except FilesError:
        return
    inside = {(os.stat(at).st_dev, os.stat(at).st_ino) for at, _, _ in os.walk(here)}
    assert (opened.st_dev, opened.st_ino) in inside
