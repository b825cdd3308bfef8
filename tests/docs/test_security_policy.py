"""SECURITY.md is true: its links exist, and the threat model says what the policy takes as its measure."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POLICY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
THREAT_MODEL = ROOT / "docs" / "explanation" / "threat-model.md"


def read_sections(text: str) -> dict[str, str]:
    """Return the sections of a page by their headings."""
    parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


SECTIONS = read_sections(THREAT_MODEL.read_text(encoding="utf-8"))


def list_promises(section: str) -> list[str]:
    """Return the promises of a section of the threat model, without what keeps and tests them."""
    return [line.split(" | ")[0].strip("| ") for line in section.splitlines()
            if line.startswith("| ") and not line.startswith("| promised |")]  # fmt: skip


def test_its_links_lead_to_files_and_headings() -> None:
    """Each is relative; a part after `#` is a heading of the page."""
    links = re.findall(r"\]\(([^)#]+)(?:#([^)]*))?\)", POLICY)
    assert THREAT_MODEL in [ROOT / link for link, _ in links]
    for link, anchor in links:
        headings = re.findall(r"^#+ (.+)$", (ROOT / link).read_text(encoding="utf-8"), re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
        assert not anchor or anchor in anchors


def test_it_says_how_to_report() -> None:
    """Readers of the README are sent here for it: there is a section, and it has a text."""
    assert "[SECURITY.md](SECURITY.md) how to report" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert read_sections(POLICY)["Reporting a vulnerability"].strip()


@pytest.mark.parametrize("name", SECTIONS)
def test_the_measure_says_of_everybody_what_is_promised_and_what_is_not(name: str) -> None:
    """Each section of the threat model has promises, or says that nothing or something is not promised."""
    text = SECTIONS[name]

    assert list_promises(text) or re.search(r"^(Not promised|Nothing is promised)", text, re.MULTILINE)


class TestPlugins:
    """What the policy says of plugins is what the threat model says."""

    def test_their_code_may_do_what_python_can(self) -> None:
        """It is said there, as not promised: what is imported has all rights of the process."""
        _, _, not_promised = SECTIONS["A plugin"].partition("\nNot promised: ")

        assert re.search(r"\bcode with all rights of your process\b", not_promised)

    def test_inside_the_interfaces_they_widen_no_access(self) -> None:
        """A hole is a broken promise: it is promised there, for plugins that stay inside of them."""
        assert "the promise is about what it gets by staying inside the interfaces" in SECTIONS["A plugin"]
        assert [text for text in list_promises(SECTIONS["A plugin"]) if text.startswith("Installed is not granted")]
