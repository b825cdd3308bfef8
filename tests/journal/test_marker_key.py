"""The key of the markers: from the environment or a file, which only its owner can read."""

# Tests of: atomic_files

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
