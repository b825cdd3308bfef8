"""A folder with a module of functions, which is the working directory, and cleans up after itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with the module `sums`; modules that are imported of it are forgotten at the end."""
    (tmp_path / "sums.py").write_text(SUMS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("PRAVAL_TOOLS_CONFIG", raising=False)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")) or name == "src" or name.startswith("src."):
            del sys.modules[name]
