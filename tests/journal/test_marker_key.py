"""The key of the markers: from the environment or a file, which only its owner can read."""

# Tests of: atomic_files

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from praval_tools import ToolRegistry
from praval_tools.errors import RedactionKeyError
from praval_tools.journal.redaction.marker_key import KEY_VARIABLE, load_key

RACER = """
import sys
from praval_tools.journal.redaction.marker_key import load_key

print("ready", flush=True)
for path in sys.stdin:
    print(load_key(path.strip(), environ={}).hex(), flush=True)
"""


class TestKey:
    def test_made_once_beside_the_store(self, tmp_path: Path) -> None:
        """The first process makes the file, for itself alone; later ones read it; nothing else is left behind."""
        store = tmp_path / "runs.db"
        key = load_key(store, environ={})

        assert (32, key) == (len(key), load_key(store, environ={}))
        assert 0o600 == stat.S_IMODE((tmp_path / "runs.db.key").stat().st_mode)
        assert ["runs.db.key"] == os.listdir(tmp_path)

    def test_two_processes_at_once(self, tmp_path: Path) -> None:
        """Processes that start together get the same key, every time."""
        pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        racers = [subprocess.Popen([sys.executable, "-c", RACER], **pipe) for _ in range(5)]
        assert ["ready\n"] * 5 == [one.stdout.readline() for one in racers if one.stdout]
        for turn in range(30):
            for one in racers:
                assert one.stdin is not None
                one.stdin.write(f"{tmp_path}/runs{turn}.db\n")
            keys = {one.stdout.readline() for one in racers if one.stdout}

            assert 1 == len(keys) and 65 == len(keys.pop())
        for one in racers:
            one.communicate()
            assert 0 == one.returncode
        assert 30 == len(os.listdir(tmp_path))

    def test_the_environment_comes_first(self, tmp_path: Path) -> None:
        """`PRAVAL_TOOLS_KEY` is used as it is, and no file is made; too short a one is refused without being shown."""
        assert b"0123456789abcdef" == load_key(tmp_path / "x", environ={KEY_VARIABLE: "0123456789abcdef"})
        assert [] == os.listdir(tmp_path)
        with pytest.raises(RedactionKeyError, match="fewer than 16") as caught:
            load_key(None, environ={KEY_VARIABLE: "shortkey"})
        assert "shortkey" not in str(caught.value)

    def test_without_a_store(self) -> None:
        """A journal in memory has a key of its own."""
        assert load_key(None, environ={}) != load_key(None, environ={})

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o777])
    def test_wider_permissions(self, tmp_path: Path, mode: int) -> None:
        """A file that others can read or write is refused, with the command that fixes it."""
        load_key(tmp_path / "x", environ={})
        (tmp_path / "x.key").chmod(mode)

        with pytest.raises(RedactionKeyError, match="chmod 600"):
            load_key(tmp_path / "x", environ={})

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_another_owner(self, tmp_path: Path) -> None:
        """A file of another user's is refused: that user knows the key."""
        load_key(tmp_path / "x", environ={})
        os.chown(tmp_path / "x.key", 12345, -1)

        with pytest.raises(RedactionKeyError, match="belongs to user 12345"):
            load_key(tmp_path / "x", environ={})

    def test_links_directories_pipes_and_damaged_files(self, tmp_path: Path) -> None:
        """Whatever else stands in its place is refused, never followed, replaced or waited for."""
        load_key(tmp_path / "real", environ={})
        (tmp_path / "link.key").symlink_to(tmp_path / "real.key")
        (tmp_path / "folder.key").mkdir(mode=0o700)
        os.mkfifo(tmp_path / "pipe.key", 0o600)
        for name, content in (("empty", b""), ("short", b"00ff"), ("junk", b"\xffkey material"), ("long", b"0" * 5000)):
            (tmp_path / f"{name}.key").write_bytes(content)
            (tmp_path / f"{name}.key").chmod(0o600)
        for name in ("link", "folder", "pipe", "empty", "short", "junk", "long"):
            with pytest.raises(RedactionKeyError) as caught:
                load_key(tmp_path / name, environ={})

            assert "material" not in str(caught.value) and KEY_VARIABLE in str(caught.value)

    def test_a_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        """Where the file cannot be created the error says where, and what else can be done."""
        with pytest.raises(RedactionKeyError, match="cannot be created"):
            load_key(tmp_path / "none" / "x", environ={})


class TestMissingKey:
    """
    Broken promise: at most once, also after a restart.

    A missing key file was replaced in silence: no recorded call with a secret matched, and the effect came twice.
    """

    def test_beside_markers(self, tmp_path: Path) -> None:
        """A journal that holds markers is refused without its key, and accepted again with it; nothing runs twice."""
        path, key = tmp_path / "runs.db", tmp_path / "runs.db.key"
        effects: list[str] = []
        _pay(path, effects)
        kept = key.read_bytes()
        key.unlink()

        with pytest.raises(RedactionKeyError, match="is missing, and the journal holds secrets.*Restore it") as caught:
            _pay(path, effects)
        assert KEY_VARIABLE in str(caught.value) and not key.exists()

        key.write_bytes(kept)
        key.chmod(0o600)
        _pay(path, effects)
        assert ["paid"] == effects

    def test_without_markers(self, tmp_path: Path) -> None:
        """A journal without secrets gets a new key: nothing in it depends on the old one."""
        for _ in range(2):
            with ToolRegistry(journal=tmp_path / "runs.db"):
                (tmp_path / "runs.db.key").unlink()


class TestAnotherKey:
    """
    Broken promise: at most once, also after a restart.

    The key of another journal, or a changed `PRAVAL_TOOLS_KEY`, was taken without a word: the effect came twice.
    """

    def test_the_file_of_another_journal(self, tmp_path: Path) -> None:
        """A journal is refused with a key that did not make its markers, and accepted again with its own."""
        path, key = tmp_path / "runs.db", tmp_path / "runs.db.key"
        effects: list[str] = []
        _pay(path, effects)
        _pay(tmp_path / "other.db", [])
        own = key.read_bytes()
        key.write_bytes((tmp_path / "other.db.key").read_bytes())

        with pytest.raises(RedactionKeyError, match="is not the one that hides the secrets.*Use the one of before"):
            _pay(path, effects)
        key.write_bytes(own)
        _pay(path, effects)
        assert ["paid"] == effects

    def test_another_value_of_the_variable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """So is one whose `PRAVAL_TOOLS_KEY` was changed; the error names the variable, and no key."""
        path = tmp_path / "runs.db"
        effects: list[str] = []
        monkeypatch.setenv(KEY_VARIABLE, "a key of sixteen characters")
        _pay(path, effects)
        monkeypatch.setenv(KEY_VARIABLE, "some other key of that length")

        with pytest.raises(RedactionKeyError, match=KEY_VARIABLE) as caught:
            _pay(path, effects)
        assert "some other" not in str(caught.value)
        monkeypatch.setenv(KEY_VARIABLE, "a key of sixteen characters")
        _pay(path, effects)
        assert ["paid"] == effects

    def test_a_journal_of_before(self, tmp_path: Path) -> None:
        """A journal that does not know its key yet is opened, and knows it from the next marker on."""
        path = tmp_path / "runs.db"
        _pay(path, [])
        with closing(sqlite3.connect(path)) as connection, connection:
            assert 1 == connection.execute("DELETE FROM journal_uses WHERE grant_id LIKE 'redaction key %'").rowcount
        _pay(path, [], run="weekly")
        (tmp_path / "runs.db.key").unlink()
        load_key(path, environ={})

        with pytest.raises(RedactionKeyError, match="is not the one"):
            _pay(path, [])

    def test_without_markers(self, tmp_path: Path) -> None:
        """A journal without secrets takes any key."""
        with ToolRegistry(journal=tmp_path / "runs.db"):
            (tmp_path / "runs.db.key").write_text("00" * 32)
        with ToolRegistry(journal=tmp_path / "runs.db"):
            pass


def _pay(path: Path, effects: list[str], run: str = "nightly") -> None:
    """Make one call with a secret in a run of the journal at *path*."""
    with ToolRegistry(journal=path) as registry:

        @registry.tool("pay", owned_by="ann")
        def pay(password: str) -> str:
            """Pay."""
            effects.append("paid")
            return "done"

        with registry.run(run):
            registry.agent("ann").call("pay", password="swordfish")  # the secret of the test
