"""The programs in `examples/` print what their docstrings say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
from demo_rig import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


class TestExamples:
    @pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
    def test_prints_what_it_says(self, path: Path, tmp_path: Path) -> None:
        """The output of an example is the block under "Prints:" in its docstring, also when it is run again."""
        if path.stem.startswith("praval_"):
            pytest.importorskip("praval", reason="needs praval: pip install 'praval-tools[praval]'")
        promised = dedent(path.read_text("utf-8").split('"""')[1].split("Prints:\n")[1])
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, str(path)], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
                text=True, timeout=60, cwd=tmp_path,
            )  # fmt: skip
            assert (done.returncode, done.stderr, done.stdout) == (0, "", promised)
