"""The page of differences says what tests show: each row names one, and none of the tests is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from source_tree import read_tree

ROOT = Path(__file__).parents[2]
_ROWS = [
    line.strip("|").split("|")
    for line in (ROOT / "docs" / "explanation" / "seeds.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| there")
]


def list_test_classes(pattern: str) -> set[str]:
    """Return the names of the test classes in the files of the seeds."""
    trees = [read_tree(path) for path in (ROOT / "tests" / "seeds").glob(pattern)]
    return {node.name for tree in trees for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test")}  # fmt: skip


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[-1].strip(" `"))
def test_a_row_has_a_test(row: list[str]) -> None:
    """A row has three cells, and the last one names a class that holds tests."""
    assert 3 == len(row)
    (name,) = re.findall(r"`(\w+)`", row[-1])
    assert name in list_test_classes("test_*.py")


def test_every_disagreement_is_a_row() -> None:
    """What the tests of disagreements show is on the page, once."""
    named = [row[-1].strip(" `") for row in _ROWS]

    assert set() == list_test_classes("test_disagreements*.py") - set(named)
    assert len(named) == len(set(named))
