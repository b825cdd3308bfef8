"""The page about access explains every rule that a decision may name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import ROOT, list_package_files, read_tree

PLACES = {"Decision": 2, "_make_refusal": 1, "Tried": 0}
"""The functions that are given the name of a rule, and where among their arguments."""


def iter_rules() -> Iterator[str]:
    """Yield each rule that the package's source gives a decision."""
    for path in list_package_files():
        for node in ast.walk(read_tree(path)):
            if isinstance(node, ast.Call):
                place = PLACES.get(getattr(node.func, "id", ""))
                given = [] if place is None else node.args[place : place + 1]
                given += [keyword.value for keyword in node.keywords if keyword.arg == "rule"]
                yield from (part.value for part in given if isinstance(part, ast.Constant) and type(part.value) is str)


def test_the_page_about_access_has_each() -> None:
    """Broken promise: who reads a rule in an audit finds what it means. `out-of-bounds` was not on the page."""
    page = (ROOT / "docs" / "explanation" / "access.md").read_text(encoding="utf-8")
    _, _, lines = page.partition("### Other rules\n")
    named = {*re.findall(r"^\| \d \| `([a-z-]+)` ", page, re.MULTILINE), *re.findall("`([a-z-]+)`", lines)}
    rules = set(iter_rules())

    assert 10 < len(rules)
    assert set() == rules - named
