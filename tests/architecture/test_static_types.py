"""Types: decorated tools keep their signatures, agents and toolsets are typed, and mistakes are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

HOME = Path(__file__).parent
EXAMPLES = HOME.parents[1] / "examples"


def mypy(*files: Path) -> str:
    """Return what `mypy --strict` says of the files."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "", *map(str, files)],
        capture_output=True,
        text=True,
        cwd=HOME,
        check=False,
    )
    return done.stdout + done.stderr


class TestStaticTypes:
    def test_tools_agents_and_toolsets_are_typed(self) -> None:
        """
        Signatures survive the decorators, and a toolset knows the types of the tool that it is asked for.
        """
        assert "" == mypy(HOME / "static" / "typed.py")

    def test_the_examples_are_well_typed(self) -> None:
        """
        What the documents show passes the strictest check; Praval, which the others use, has no types.
        """
        assert "" == mypy(*sorted(one for one in EXAMPLES.rglob("*.py") if not one.name.startswith("praval_")))

    def test_mistakes_are_errors(self) -> None:
        """
        Each marked line is an error of the marked kind, and no other line is.
        """
        path = HOME / "static" / "mistakes.py"
        expected = {
            (number, mark[1])
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            if (mark := re.search(r"# E: ([a-z-]+)$", line))
        }

        found = {(int(line), code) for line, code in re.findall(r":(\d+): error: .*\[([a-z-]+)\]", mypy(path))}

        assert expected == found
