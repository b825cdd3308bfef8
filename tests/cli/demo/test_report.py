"""The HTML report: well-formed, self-contained, true, and safe."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

from demo_rig import DemoOutput, demo_output, empty_folder, run_demo_into  # noqa: F401


class _Page(HTMLParser):
    """Reads a page: which elements are open, and every attribute that it has."""

    VOID = ("meta",)

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.wrong: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


class TestReport:
    def test_is_well_formed(self, demo_output: DemoOutput) -> None:
        """
        Every element is closed where it should be, and headings, tables and charts are there.
        """
        page = _Page(demo_output.page)

        assert (page.open, page.wrong) == ([], [])
        assert {"h1", "h2", "table", "svg", "circle", "path", "pre"} <= page.names

    def test_needs_nothing_from_outside(self, demo_output: DemoOutput) -> None:
        """
        No script, no link, no image, no address: one file, and a policy that lets a browser fetch nothing.
        """
        page = _Page(demo_output.page)

        assert not page.names & {"script", "link", "img", "iframe", "object", "a", "base", "form"}
        assert not {name for name, _ in page.attributes} & {"src", "href", "xlink:href", "style", "action"}
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert not re.search(r"https?:|url\(|@import", demo_output.page)
        assert "default-src &#x27;none&#x27;" in demo_output.page

    def test_says_what_happened(self, demo_output: DemoOutput) -> None:
        """
        It has the answer, the matrix, each refusal with its reason, the approval, the doubts, and the effects.
        """
        for text in (
            "JetBlue Airways stands out: 46.9% cancelled",
            "granted (1 left)",
            "The arguments are outside the grant: count is larger than 20.",
            "operator: allow, the figures are checked",
            "again, same key",
            "in doubt, resolved",
            "5 effects, each exactly once",
            "analyst owned publish before",
            "prefers-color-scheme: dark",
        ):
            assert text in demo_output.page

    def test_strangers_write_no_markup(self, tmp_path: Path) -> None:
        """
        Markup, quotes, escape sequences and marks of direction in headings and cells are shown in it, never obeyed.
        """
        file = tmp_path / "evil.csv"
        rows = "\n".join(
            f"<b>{'AB'[n % 2]}</b>\x1b[2J\u202e<script>alert(1)</script>,{n % 9 + 50 * (n % 2)},{n}" for n in range(60)
        )
        file.write_text(f'who</style><img src=x>\x1b[8m,"v"" onload=""x",password\n{rows}\n', encoding="utf-8")

        left = run_demo_into(tmp_path / "out", str(file))
        page = _Page(left.page)

        assert (page.open, page.wrong) == ([], [])
        assert not page.names & {"script", "img"}
        assert not {name for name, _ in page.attributes} & {"src", "onload"}
        assert not set(left.page) & {"\x1b", "\u202e"}
        assert not set(left.out) & {"\x1b", "\u202e"}
        assert "&lt;script&gt;alert(1)" in left.page

    def test_one_row_is_not_plural(self, tmp_path: Path) -> None:
        """
        Of a file of one line it says "1 line" wherever it counts, and so does what is printed.
        """
        file = tmp_path / "one.txt"
        file.write_text("hello wonderful world\n", encoding="utf-8")

        left = run_demo_into(tmp_path / "out", str(file))

        assert [] == re.findall(r"\b1 (?:lines|rows|groups|columns)\b", left.out + left.page)
        assert "Data: one.txt, 1 line\n" in left.out
        assert "1 group of 1 line\n" in left.out
        for text in ("one.txt · 1 line<", "expected 3, 1 line, too few", "(1 line of one.txt)"):
            assert text in left.page
