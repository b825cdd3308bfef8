"""The page on other frameworks is true of the frameworks themselves, where they are installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "frameworks.md"
_FILE = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$(?:\n\n```sh\n\$ python \S+\n(.*?)^```$)?', re.M | re.S)
_FILES = {name: (text, printed) for name, text, printed in _FILE.findall(_PAGE.read_text(encoding="utf-8"))}
_FRAMEWORKS = {"with_pydantic_ai.py": "pydantic_ai", "with_langchain.py": "langchain_core"}


@pytest.mark.parametrize("name", _FRAMEWORKS)
def test_an_example_prints_what_the_page_says(name: str, tmp_path: Path) -> None:
    """The example for a framework runs with it, and prints what stands below it."""
    pytest.importorskip(_FRAMEWORKS[name], reason="the framework is not installed")
    for file, (text, _) in _FILES.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert _FILES[name][1] == done.stdout, done.stderr


def test_every_example_belongs_to_a_framework() -> None:
    """A file of the page is run here, or is the one that the others import."""
    assert set(_FILES) == {"shop.py", *_FRAMEWORKS}
