"""What the tests of the command line share: an app of the user's, and a way to run commands on it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from praval_tools.cli import main

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}

BANK = '''
from praval_tools import Agent, ToolRegistry, tool

registry = ToolRegistry(name="bank")

@tool("wire_money", owned_by="treasurer", risk_level="high", tags=["money"], registry=registry)
def wire_money(to: str, amount: float, urgent: bool = False) -> dict[str, str | float | bool]:
    """
    Send money.

    Args:
        to: Who gets it.
        amount: How much.
    """
    print("wiring")
    if amount < 0:
        raise ValueError("a negative amount")
    return {"to": to, "amount": amount, "urgent": urgent}

@tool("quote", category="prices", strict_arguments=True, registry=registry)
def quote(symbol: str, days: int = 1) -> str:
    """Return a price."""
    return f"{symbol} {days}"

@tool("log", shared=True, requires_approval=True, registry=registry)
def log(text: str) -> int:
    """Write a line."""
    return len(text)

Agent("treasurer", registry=registry)
Agent("intern", tools=["quote"], registry=registry)

def make():
    return registry
'''

Run = Callable[..., tuple[int, str, str]]
App = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process, with apps imported anew; returns exit code, stdout and stderr."""

    def _run(*arguments: str) -> tuple[int, str, str]:
        for name in [one for one in sys.modules if one.startswith("app_")]:
            del sys.modules[name]
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return _run


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> App:
    """Write a module and return its name; the test runs in its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    written: list[str] = []

    def write(source: str = BANK) -> str:
        name = f"app_{tmp_path.name.replace('-', '_')}_{tmp_path.parent.name.replace('-', '_')}_{len(written)}"
        (tmp_path / f"{name}.py").write_text(source)
        written.append(name)
        return name

    return write
