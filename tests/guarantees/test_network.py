"""The package opens no socket but where it is to serve, and there on the loopback."""

# Tests of: cli/listening

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_rig import ENV

CORE = '''
import asyncio, sys

opened = []
sys.addaudithook(lambda event, given: opened.append((event, given[1:])) if event.startswith("socket.") else None)

from praval_tools import Allow, ToolCall, ToolRegistry, load_plugins

registry = ToolRegistry(journal="runs.db")
load_plugins(registry)


@registry.tool(owned_by="clerk", requires_approval=True)
async def add(first: int, second: int) -> int:
    """Add."""
    return first + second


registry.grant("add", "bob", max_calls=2)
registry.set_approval_handler(lambda request: Allow())
with registry.run("1"):
    assert 3 == asyncio.run(registry.aexecute(ToolCall("1", "add", {"first": 1, "second": 2}, "bob"))).result
assert registry.search("add") and registry.explain("eve", "add").rule == "no-way"
registry.close()
local = ("socket.__new__", "socket.gethostname")  # the pair that wakes an event loop, and the name in a record
print([(event, given) for event, given in opened if event not in local])
'''
STOP_AT_BIND = """
import os, sys

def stop_at_bind(event, given):
    if event == "socket.bind":
        print("bound", *given[1], flush=True)
        os._exit(0)

sys.addaudithook(stop_at_bind)
"""


def run(folder: Path, *words: str, **env: str) -> str:
    """Run Python in a folder and return what it prints."""
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env={**ENV, **env}, capture_output=True, text=True, timeout=60
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_the_core_opens_none(tmp_path: Path) -> None:
    """Tools, plugins, approvals, journals and searches connect to nothing, and listen nowhere."""
    (tmp_path / "program.py").write_text(CORE, encoding="utf-8")

    assert "[]\n" == run(tmp_path, "program.py")


@pytest.mark.parametrize("command", ["ui", "mcp serve --http"])
def test_servers_listen_on_the_loopback(tmp_path: Path, command: str) -> None:
    """Nobody on the network reaches them, unless the operator says where they are to listen."""
    pytest.importorskip("uvicorn")
    (tmp_path / "sitecustomize.py").write_text(STOP_AT_BIND, encoding="utf-8")
    (tmp_path / "app.py").write_text("from praval_tools import ToolRegistry\nregistry = ToolRegistry()\n", "utf-8")
    path = os.pathsep.join((str(tmp_path), ENV["PYTHONPATH"]))
    words = ["-m", "praval_tools", "--app", "app:registry", "--journal", "runs.db", *command.split(), "--port", "0"]

    assert "bound 127.0.0.1 0\n" == run(tmp_path, *words, PYTHONPATH=path)
