"""The page about errors lists every code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from source_tree import ROOT, list_package_files, read_tree


def iter_usage_codes() -> Iterator[str]:
    """Yield each code that the package's source passes to a `ToolUsageError`."""
    for path in list_package_files():
        for node in ast.walk(read_tree(path)):
            if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "ToolUsageError":
                continue
            given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "code")]
            yield from (str(part.value) for part in given if isinstance(part, ast.Constant))


class TestUsageCodes:
    def test_lists_those_of_the_source(self) -> None:
        """A program that matches on `code` finds each code of a `ToolUsageError` on the page, and no other."""
        page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
        (line,) = [line for line in page.splitlines() if line.startswith("A `ToolUsageError` may carry a code")]
        codes = set(iter_usage_codes())

        assert 10 < len(codes)
        assert codes == set(re.findall(r"`([a-z-]+)`", line))
