"""Every hook is documented with its signature, and used by the plugin of a test."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from plugin_rig import Site, loaded, names, site  # noqa: F401

from praval_tools.plugins import hookspecs

HOOKS = [name for name in vars(hookspecs) if name.startswith("praval_tools_")]


TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reference" / "plugins.md"


class TestReference:
    def test_every_hook_is_documented_with_its_signature(self) -> None:
        """The page names each hook with the signature that the code has, and its docstring says all it must."""
        text = PAGE.read_text(encoding="utf-8")
        shown = dict(re.findall(r"^def (praval_tools_\w+)(\(.*\).*):$", text, re.MULTILINE))

        assert {name: str(inspect.signature(getattr(hookspecs, name))).replace("'", "") for name in HOOKS} == shown

    @pytest.mark.parametrize("name", HOOKS)
    def test_every_hook_says_when_what_and_what_if(self, name: str) -> None:
        """Call moment, return value, and what happens when it raises; on the page, too."""
        doc = inspect.getdoc(getattr(hookspecs, name))
        page = PAGE.read_text(encoding="utf-8").partition(f"## {name}\n")[2].partition("\n## ")[0]

        assert all(f"\n{word}: " in doc for word in ("Called", "Returns", "Raises"))
        assert all(f"**{word}:**" in page for word in ("Called", "Returns", "Raises"))

    def test_every_hook_is_used_here(self) -> None:
        """No hook without a test plugin that implements it."""
        tests = "".join(
            file.read_text() for folder in ("plugins", "cli") for file in (TESTS / folder).glob("test_*.py")
        )

        assert [] == [name for name in HOOKS if f"def {name}(" not in tests]
