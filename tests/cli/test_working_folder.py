"""Plugins are looked for where they are installed, never in the working directory."""

# Tests of: entry, app_option, plugins/discovery

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV, ROOT
from plugin_rig import Site

PROGRAM = Path(sys.executable).with_name("praval-tools")
STARTS = {
    "script": [str(PROGRAM)],
    "module": [sys.executable, "-m", "praval_tools"],
    "safe module": [sys.executable, "-P", "-m", "praval_tools"],
}
APP = "from praval_tools import ToolRegistry, load_plugins\nregistry = ToolRegistry()\nload_plugins(registry)\n"


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("words", ["--help", "plugins list", "--app app:registry list", "--app app:registry check"])
def test_holds_no_plugins(tmp_path: Path, start: list[str], words: str) -> None:
    """Broken promise: only what was installed is loaded. `python -m` loaded what lay in the working directory."""
    if not PROGRAM.exists():
        pytest.skip("the package is not installed here as a program")
    mark = tmp_path / "mark"
    Site(tmp_path).install("evil", f"open({str(mark)!r}, 'w').close()")
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*start, *words.split()], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    assert 0 == done.returncode, done.stderr
    assert not mark.exists() and "evil" not in done.stdout + done.stderr
