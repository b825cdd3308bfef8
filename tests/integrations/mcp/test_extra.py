"""Without the SDK, what needs it says what to install, and all else works."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WITHOUT_SDK = "import sys; sys.modules['mcp'] = None\n"
FIX = "needs an extra: pip install 'praval-tools[mcp]'."


def run_without_sdk(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that cannot import the SDK."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PRAVAL_TOOLS_PLUGINS": ""}
    command = [sys.executable, "-c", WITHOUT_SDK + program]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, stdin=subprocess.DEVNULL)


class TestWithoutTheSdk:
    @pytest.mark.parametrize("name", ["server", "http_app", "McpSource"])
    def test_the_integration_names_the_extra(self, name: str, tmp_path: Path) -> None:
        """Importing anything of the integration is an error that says what to install."""
        done = run_without_sdk(f"from praval_tools.integrations.mcp import {name}", tmp_path)

        assert done.stderr.strip().endswith(FIX)

    @pytest.mark.parametrize("more", [["--agent", "analyst"], ["--http", "--port", "0"]])
    def test_the_command_names_the_extra(self, more: list[str], tmp_path: Path) -> None:
        """`mcp serve` is one line on stderr, and nothing on stdout."""
        arguments = ["--app", "praval_tools.demo:registry", "mcp", "serve", *more]
        done = run_without_sdk(f"from praval_tools.cli import main; main({arguments})", tmp_path)

        assert (1, "") == (done.returncode, done.stdout)
        assert done.stderr.strip().endswith(FIX) and "Traceback" not in done.stderr

    def test_tokens_need_no_sdk(self, tmp_path: Path) -> None:
        """Tokens are made and listed without it."""
        done = run_without_sdk("from praval_tools.cli import main; main(['tokens', 'add', 'analyst'])", tmp_path)

        assert (0, True) == (done.returncode, done.stdout.startswith("pvt_"))
