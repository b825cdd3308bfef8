"""What is there at every start of the processes in the tests of what survives: the same tools and agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from praval_tools import Agent, ToolRegistry

HERE = Path(__file__).parent


def spend(amount: int) -> int:
    """Spend some money."""
    return amount


def look() -> str:
    """Look."""
    return "seen"


def open_to_all() -> str:
    """Do what everybody may."""
    return "open"


class Started(ToolRegistry):
    """The registry of a process that starts: a journal, three tools, two agents."""

    def __init__(self, where: Any, **options: Any) -> None:
        super().__init__(journal=where, **options)
        self.mine = declare(self)


def declare(registry: ToolRegistry) -> list[Agent]:
    """Declare what the host's code declares at every start."""
    registry.tool("spend", owned_by="treasurer")(spend)
    registry.tool("look", owned_by="treasurer")(look)
    registry.tool("open", owned_by="treasurer", shared=True, category="text", tags=("slow",))(open_to_all)
    return [Agent(name, registry=registry) for name in ("treasurer", "clerk")]


def killed(where: Path, code: str) -> None:
    """Run *code* in a process that has started over *where* and is killed as soon as its last line returned."""
    done = run(
        f"import os, signal\nfrom survivors import *\nregistry = Started({str(where)!r})\n{code}\n"
        f"os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert -signal.SIGKILL == done.returncode, done.stderr


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a program beside these tests, to its end."""
    return subprocess.run(_command(program, arguments), cwd=HERE, env=_environment(), capture_output=True, text=True,
                          timeout=120)  # fmt: skip


def begun(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Begin a program beside these tests, to exchange lines with."""
    return subprocess.Popen(_command(program, arguments), cwd=HERE, env=_environment(), stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)  # fmt: skip


def _command(program: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-c", program, *map(str, arguments)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE)}
