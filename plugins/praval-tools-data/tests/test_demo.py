"""The demo of praval-tools, where this package is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_has_its_answer_drawn(tmp_path: Path) -> None:
    """Installed, the package's tools come in, are refused, are granted once, and draw the picture of the report."""
    environment = {**os.environ, "COLUMNS": "200"}
    environment.pop("PRAVAL_TOOLS_PLUGINS", None)
    done = subprocess.run(
        [sys.executable, "-m", "praval_tools", "demo"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip

    output = done.stdout[done.stdout.index("A package brings tools") :]
    assert (0, "") == (done.returncode, done.stderr)
    assert output.index("forbidden") < output.index("lends data_plot to reporter: 1 call") < output.index(" granted\n")
    assert "pip install" not in output
    assert "data:image/png;base64,iVBOR" in (tmp_path / "praval-demo" / "report.html").read_text()
