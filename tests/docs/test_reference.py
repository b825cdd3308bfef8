"""The reference is complete, and shows nothing of the inside."""

from __future__ import annotations

import html
import importlib
import inspect
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

MODULES = (
    "praval_tools", "praval_tools.compat.praval", "praval_tools.formats", "praval_tools.integrations.langchain",
    "praval_tools.integrations.mcp", "praval_tools.integrations.openai_agents", "praval_tools.integrations.openapi",
    "praval_tools.integrations.opentelemetry", "praval_tools.integrations.praval",
    "praval_tools.integrations.pydantic_ai", "praval_tools.journal", "praval_tools.loop", "praval_tools.testing",
)  # fmt: skip


def read_inventory(site: Path) -> set[str]:
    """Return the names that the site's inventory lists."""
    header, _, packed = (site / "objects.inv").read_bytes().partition(b"zlib.\n")
    assert header
    return {line.partition(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}


def iter_members(kind: type) -> Iterator[tuple[str, list[type]]]:
    """Yield each public member that a class has of this package, with the classes that define it."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("praval_tools")]
    for name in dir(kind):
        holders = [base for base in own if name in vars(base) or name in vars(base).get("__annotations__", {})]
        if holders and not name.startswith("_"):
            yield name, holders


class TestReference:
    def test_lists_every_public_name(self, site: Path) -> None:
        """Each name of `__all__` has an entry."""
        inventory = read_inventory(site)
        names = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}

        assert set() == names - inventory

    def test_lists_every_public_member(self, site: Path) -> None:
        """Each method and property has an entry, inherited ones included; fields stand in the docstrings."""
        inventory, missing = read_inventory(site), []
        for module in map(importlib.import_module, MODULES):
            for public in module.__all__:
                kind = getattr(module, public)
                if not inspect.isclass(kind):
                    continue
                for name, holders in iter_members(kind):
                    entries = {f"{base.__module__}.{base.__qualname__}.{name}" for base in holders}
                    entries |= {f"{module.__name__}.{base.__name__}.{name}" for base in (kind, *holders)}
                    value = inspect.getattr_static(kind, name)
                    is_member = callable(value) or isinstance(value, property | classmethod | staticmethod)
                    if is_member and not entries & inventory:
                        missing.append(f"{kind.__qualname__}.{name}")

        assert [] == sorted(set(missing))

    def test_shows_nothing_of_the_inside(self, site: Path) -> None:
        """No default is a private constant, and bases are shown of errors alone."""
        found = []
        for page in sorted((site / "reference").rglob("index.html")):
            text = html.unescape(re.sub(r"<[^>]+>", "", page.read_text(encoding="utf-8")))
            found += [
                f"{page.parent.name}: {line.strip()}" for line in text.splitlines() if re.search(r"= ?_[A-Z]", line)
            ]
            if page.parent.name != "errors":
                found += [f"{page.parent.name}: {line}" for line in re.findall(r"Bases:.*", text)]

        assert [] == found
