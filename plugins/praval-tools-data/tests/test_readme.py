"""The example of the README does what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each Python block prints the text block that follows it."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```(?:python|text)\n(.*?)^```$", README.read_text(encoding="utf-8"), re.M | re.S)

    for code, expected in zip(blocks[::2], blocks[1::2], strict=True):
        exec(compile(code, str(README), "exec"), {"__name__": "example"})
        assert expected == capsys.readouterr().out
