# Tests of: demo/mcp_client, mcp_scene
"""The scene `demo mcp`: a real client in a process of its own, over HTTP."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")


class TestScene:
    def test_client_is_refused_granted_and_shut_out(self, tmp_path: Path) -> None:
        """The client sees its own tools, is refused, sees its list change after a grant, and loses its token."""
        command = [sys.executable, "-m", "praval_tools", "demo", "mcp"]

        scene = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

        assert ("", 0) == (scene.stderr, scene.returncode)
        lines = [re.sub(r":\d+/", ":PORT/", line.strip()) for line in scene.stdout.splitlines()]
        assert [
            "operator  serves http://127.0.0.1:PORT/mcp; a token stands for 'analyst'",
            "client  sees the tools count_delays",
            "client  calls count_delays: 147",
            "client  calls publish: Tool 'publish' is forbidden for this agent.",
            "operator  asks why: 'analyst' may not call 'publish': nothing gives it this tool.",
            "operator  grants one call",
            "client  sees the tools count_delays, publish",
            "client  calls publish: published: JetBlue flew",
            "client  calls publish: Tool 'publish' is forbidden for this agent.",
            "operator  asks why: 'analyst' may not call 'publish': its grant is spent.",
            "client  has done its work",
            "operator  revokes the token",
            "client  asks once more: HTTP 401",
            "journal  has every call",
            "analyst count_delays ok",
            "analyst publish forbidden",
            "analyst publish ok",
            "analyst publish forbidden",
        ] == lines
        assert [] == list(tmp_path.iterdir())
