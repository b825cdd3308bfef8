"""`Any` stays rare: each one switches the type checker off for what it touches."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from source_tree import list_package_files

MAX_ANY = 900
"""Half of what it was when it was first counted."""


def count_any(source: str) -> int:
    """Return how often a module says `Any`, imports and comments included."""
    return len(re.findall(r"\bAny\b", source))


def count_any_in(paths: Iterable[Path]) -> int:
    """Return how often modules say `Any`."""
    return sum(count_any(path.read_text(encoding="utf-8")) for path in paths)


class TestAny:
    def test_is_rare(self) -> None:
        """The package says `Any` no more often than it did when this number was last lowered."""
        assert count_any_in(list_package_files()) <= MAX_ANY

    def test_a_planted_one_is_seen(self, tmp_path: Path) -> None:
        """The check fails as soon as any module has one too many."""
        module, other = tmp_path / "module.py", tmp_path / "other.py"
        other.write_text("x: Any = 1\n")

        for number, holds in ((MAX_ANY - 1, True), (MAX_ANY, False)):
            module.write_text("x: Any = 1\n" * number)
            assert holds is (count_any_in([module, other]) <= MAX_ANY)

    def test_each_is_counted(self) -> None:
        """Annotations, aliases and quoted annotations count; longer words that begin alike do not."""
        assert 4 == count_any('from typing import Any\nx: Any = 1\ny: "dict[str, Any]"\nz: Anything = Any')
