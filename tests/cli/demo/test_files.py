"""Where the demo leaves its files, and what it leaves alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from demo_rig import ROOT, empty_folder, run_command  # noqa: F401

from praval_tools.demo.input_files import read_table


class TestFolder:
    def test_is_made_here(self, empty_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Report, journal, its key and the effects go to `praval-demo`; a second demo replaces those of the first.
        """
        for _ in range(2):
            code, out, err = run_command(capsys, "demo")
            assert (code, err) == (0, "")
            assert "Report:  praval-demo/report.html\n" in out
            assert os.listdir(empty_folder) == ["praval-demo"]

        names = {".praval-demo", "effects.jsonl", "journal.db", "journal.db.key", "report.html"}
        assert set(os.listdir("praval-demo")) == names

    def test_of_somebody_else_is_left_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A folder of that name with other files stays as it is, and the demo takes the next name.
        """
        Path("praval-demo").mkdir()
        Path("praval-demo", "report.html").write_text("mine")

        _, out, _ = run_command(capsys, "demo")

        assert "Report:  praval-demo-2/report.html\n" in out
        assert Path("praval-demo", "report.html").read_text() == "mine"

    def test_that_is_asked_for_must_be_free(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        With `--out`, a folder of other files, or a file, is a usage error, before anything is done.
        """
        (tmp_path / "mine.txt").write_text("mine")

        assert run_command(capsys, "demo", "--out", str(tmp_path)) == (
            2, "", f"Error: {tmp_path}: holds other files; name a folder that is new, empty, or an earlier demo's.\n"
        )  # fmt: skip
        assert run_command(capsys, "demo", "--out", str(tmp_path / "mine.txt"))[0] == 2
        assert os.listdir(tmp_path) == ["mine.txt"]

    def test_that_cannot_be_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        Where nothing can be written, one line says so and what to do.
        """

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(tempfile, "mkdtemp", refuse)

        code, out, err = run_command(capsys, "demo")

        assert (code, out) == (1, "")
        assert "Permission denied. Name another folder: praval-tools demo --out DIR" in err

    def test_is_not_read_as_data(self, tmp_path: Path) -> None:
        """
        What an earlier demo left in a folder is not a part of what the next one reads there.
        """
        (tmp_path / "a.md").write_text("some words\n")
        (tmp_path / "praval-demo").mkdir()
        (tmp_path / "praval-demo" / ".praval-demo").touch()
        (tmp_path / "praval-demo" / "report.html").write_text("other words\n")

        assert read_table(tmp_path).get_column("text").values == ("some words",)

    @pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs process groups")
    @pytest.mark.parametrize("lines", [1, 40])
    def test_interrupted_leaves_nothing(self, lines: int, empty_folder: Path) -> None:
        """
        Ctrl-C, which every process of the terminal gets, ends all of them with 130, and nothing is left behind.
        """
        child = subprocess.Popen(
            [sys.executable, "-m", "praval_tools", "demo"], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, encoding="utf-8",
        )  # fmt: skip
        for _ in range(lines):
            child.stdout.readline()
        os.killpg(child.pid, signal.SIGINT)
        _, err = child.communicate(timeout=30)

        assert (child.returncode, err.strip()) == (130, "Stopped: interrupted.")
        assert os.listdir(empty_folder) == []
        for _ in range(50):  # the group is empty once the killed process was taken note of
            try:
                os.killpg(child.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        raise AssertionError("a process of the demo is still there")
