"""A folder with a module of functions, which is the working directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from config_rig import find_schema_problems

from praval_tools.config_loading import loader, source

SUMS = '''
"""Functions for the configurations of the tests."""

CALLS = []


def add(x: float, y: float = 0) -> float:
    """Add."""
    CALLS.append((x, y))
    return x + y


async def later(x: float) -> float:
    """Add later."""
    return x


def unhinted(x):
    """Take anything."""


def allow(request):
    """Allow every call."""
    from praval_tools import Allow

    return Allow()
'''


@pytest.fixture(autouse=True)
def accepting_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever configuration a test reads: where it is without mistakes, its JSON Schema accepts it as well."""

    read = source.read_configuration

    def read_and_compare(paths: Sequence[str | os.PathLike[str]]) -> source.Reading:
        reading = read(paths)
        for document in () if reading.problems else reading.declarations.documents:
            assert [] == find_schema_problems(document.data), document.text
        return reading

    for module in (loader, source):
        monkeypatch.setattr(module, "read_configuration", read_and_compare)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the module `sums`."""
    (tmp_path / "sums.py").write_text(SUMS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PRAVAL_TOOLS_CONFIG", raising=False)
    return tmp_path
