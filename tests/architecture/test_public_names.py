"""What the package offers by name: there from the start, whenever it is imported."""

from __future__ import annotations

import subprocess
import sys

import praval_tools
from praval_tools.schema.type_hints import is_path_type


def _printed(program: str) -> str:
    """Return what *program* prints in an interpreter of its own."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True
    ).stdout


class TestNames:
    def test_each_can_be_had_first(self) -> None:
        """
        Each public name can be asked for before any other, also those that are imported when somebody asks.
        """
        assert all(getattr(praval_tools, name) is not None for name in praval_tools.__all__)
        later = sorted(praval_tools._LAZY_NAMES)
        for name in later:
            assert name in _printed(f"from praval_tools import {name}; print({name!r})")

    def test_all_are_listed(self) -> None:
        """
        Interactive shells complete them from the first moment.
        """
        listed = _printed("import praval_tools; print(set(praval_tools.__all__) - set(dir(praval_tools)))")
        assert "set()" == listed.strip()

    def test_a_path_is_known_without_its_module(self) -> None:
        """
        A parameter that is a path stays one, whatever becomes of `sys.modules`.
        """
        program = """
import sys
from pathlib import Path
import praval_tools
sys.modules.pop("pathlib")
from praval_tools.schema.type_hints import is_path_type
class Mine(type(Path())): pass
print(*map(is_path_type, (Path, Mine, str, list[int])))
"""
        assert "True True False False" == _printed(program).strip()
        assert not is_path_type(type("PurePath", (), {}))
