"""CONTRIBUTING.md says where to change what, and every file that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGES = (
    "A rule",
    "A type form",
    "An error text",
    "A provider format",
    "A journal event",
    "A store",
    "An engine",
    "A CLI command",
    "A hook",
    "A benchmark row",
    "An integration",
    "A docs page",
)


def find_files(text: str) -> list[str]:
    """Return the paths in a text: what stands between back quotes and has a slash or an ending."""
    return [
        name
        for name in re.findall(r"`([\w./-]+)`", text)
        if "/" in name.strip("/") or name.endswith((".md", ".yml", ".toml"))
    ]


def find_missing(text: str) -> list[str]:
    """Return the paths of a text that do not exist."""
    return [name for name in find_files(text) if not (ROOT / name).exists()]


class TestContributing:
    @pytest.mark.parametrize("change", CHANGES)
    def test_each_change_has_its_files(self, change: str) -> None:
        """Each of the twelve most likely changes has a list of at least three files: code, and docs or tests."""
        match = re.search(rf"^\*\*{change}\*\*.*?\n\n(.*?)(?=^\*\*|^## )", TEXT, re.MULTILINE | re.DOTALL)
        assert match is not None

        files = find_files(match[1])

        assert len(files) >= 3
        assert any(name.startswith(("docs/", "tests/")) for name in files)

    def test_each_file_exists(self) -> None:
        """No list leads to a file that has moved."""
        assert [] == find_missing(TEXT)

    def test_a_planted_name_is_seen(self) -> None:
        """A file that does not exist is found, and plain words between back quotes are not taken for files."""
        assert ["praval_tools/gone.py"] == find_missing("`praval_tools/gone.py`, `make test`, `Any`, `README.md`")

    def test_each_command_exists(self) -> None:
        """Every `make` target that the page names is one."""
        targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
        named = {
            name
            for line in re.findall(r"\bmake ([a-z -]+)", TEXT)
            for name in line.split()
            if "-" in name or name in targets
        }

        assert set() == named - targets
        assert {"test", "test-fast"} <= named
