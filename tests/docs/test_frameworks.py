"""The page on other frameworks is true of the frameworks themselves, where they are installed."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[2] / "docs" / "how-to"
_FILE = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$(?:\n\n```sh\n\$ python \S+\n(.*?)^```$)?', re.M | re.S)
_PAGES = {
    "pydantic-ai.md": "pydantic_ai",
    "langchain.md": "langchain",
    "openai-agents.md": "agents",
    "frameworks.md": "",
}
"""Page → what has to be installed for its examples."""
_FILES = {
    "with_crewai.py": "crewai",
    "with_agent_framework.py": "agent_framework",
    "with_strands.py": "strands",
}
"""Example → what has to be installed for it, on the page of several frameworks; `make frameworks` runs these."""


def read_files(page: str) -> dict[str, tuple[str, str]]:
    """Return the files of a page, each with what it prints."""
    found = _FILE.findall((_FOLDER / page).read_text(encoding="utf-8"))
    return {name: (text, printed) for name, text, printed in found}


_EXAMPLES = [(page, name) for page in _PAGES for name, (_, printed) in read_files(page).items() if printed]


@pytest.mark.parametrize(("page", "name"), _EXAMPLES)
def test_an_example_prints_what_the_page_says(page: str, name: str, tmp_path: Path) -> None:
    """The example for a framework runs with it, and prints what stands below it."""
    needed = _PAGES[page] or _FILES[name]
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    files = read_files(page)
    for file, (text, _) in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=120)

    assert files[name][1] == done.stdout, done.stderr


def test_the_pages_have_examples() -> None:
    """Each page has examples that are run here."""
    assert set(_PAGES) == {page for page, _ in _EXAMPLES}
