"""The commands that are printed start the command line as the reader's shell can start it."""

# Tests of: program

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV, ROOT

from praval_tools.cli.program import find_program, shorten_path


def _run(*words: str, folder: Path, path: str) -> str:
    env = {**ENV, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A folder with an environment that is not activated, and a script in it."""
    script = tmp_path / ".venv" / "bin" / "praval-tools"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return script


class TestStart:
    @pytest.mark.parametrize("typed", [".venv/bin/praval-tools", "./.venv/bin/praval-tools"])
    def test_from_an_environment_that_is_not_active(
        self, script: Path, monkeypatch: pytest.MonkeyPatch, typed: str
    ) -> None:
        """Broken promise: after `make demo`, each command that was printed was one that the shell did not find."""
        monkeypatch.chdir(script.parents[2])
        monkeypatch.setattr(sys, "argv", [typed])
        monkeypatch.setenv("PATH", "/usr/bin")
        (word,) = find_program()
        assert os.path.samefile(script, word) and os.sep in word

    def test_where_the_shell_finds_another_one(self, script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The bare name is of the program that runs, or is not used; in an active environment it is."""
        other = script.parent.with_name("other")
        other.mkdir()
        (other / "praval-tools").write_bytes(script.read_bytes())
        (other / "praval-tools").chmod(0o755)
        monkeypatch.setattr(sys, "argv", [str(script)])
        monkeypatch.setenv("PATH", str(other))
        assert [str(script)] == find_program()
        monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{other}")
        assert ["praval-tools"] == find_program()

    def test_as_a_module(self, tmp_path: Path) -> None:
        """`python -m praval_tools` is said as it was typed where the shell has no praval-tools of it."""
        words = ("-m", "praval_tools", "tokens", "list", "--app", "praval_tools.demo:registry")
        again = "-m praval_tools --app praval_tools.demo:registry tokens add AGENT"
        assert f"Make one: {sys.executable} {again}" in _run(*words, folder=tmp_path, path="/usr/bin")

    def test_a_path_is_no_bare_name(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Below the working directory it begins with a dot, for pip and for a shell; elsewhere it is whole."""
        monkeypatch.chdir(tmp_path)
        assert ("./plugin", "/usr/bin") == (shorten_path(tmp_path / "plugin"), shorten_path(Path("/usr/bin")))
