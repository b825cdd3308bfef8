"""What the reference of tools says, and that no text of a tool is anything but text in it."""

# Tests of: blocks, pages, reference, schema_text, markdown, html

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import markdown
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typing_extensions import TypedDict

from praval_tools import Agent, Secret, Tool, ToolRegistry, use_registry
from praval_tools.cli.tool_docs.blocks import Block, Code, CodeBlock, Grid, Heading, Link, Page, Paragraph
from praval_tools.cli.tool_docs.build import prepare_build
from praval_tools.cli.tool_docs.html import render_html
from praval_tools.cli.tool_docs.markdown import render_markdown
from praval_tools.cli.tool_docs.pages import TOOLS_PER_PAGE, make_file_name
from praval_tools.cli.tool_docs.reference import read_reference
from praval_tools.cli.tool_docs.schema_text import SchemaRedactor, describe_constraints, describe_type

HOSTILE = (
    "<script>alert(1)</script> <img src=x onerror=alert(1)> [go](javascript:alert(1)) ![x](http://evil.example/x.png) "
    "http://evil.example www.evil.example mail@evil.example <http://evil.example> | cell | `code` ``` *em* **st** "
    "__st__ ~~no~~ {: onclick=alert(1)} {{ x }} $$x$$ &lt;b&gt; \\ # - + 1. "
    "\u202eevil\u202c \x1b[31m\x00 [^1] :+1: ==m=="
)
FINDS_LINKS = find_spec("linkify_it") is not None
"""Whether the Markdown of GitHub can be read as GitHub does, which makes links of bare addresses."""

TEXTS = st.text(min_size=1, max_size=60) | st.sampled_from(
    ["# x", "- x", "1. x", "> x", "```", "| a | b |", "---", "===", "    x", "*", "[a]: http://x", "!!! note", HOSTILE]
)

SECRET_MARKS = ({"writeOnly": True}, {"format": "password"})


def make_page(text: str, name: str = "x") -> Page:
    """Return a page with a text in each place that one can be in."""

    def make_blocks() -> Iterator[Block]:
        yield Heading(2, text, "here")
        yield Heading(3, Code(text))
        yield Paragraph((text, Code(text), Link(text, name, "here"), Link(Code(text), name)))
        yield CodeBlock(text, "json", text)
        yield Grid((text, "b"), [[(text,), (Code(text), text)]])
        yield Grid((), [[(text,), (text,)]])

    return Page(name, text, make_blocks)


class Tags(HTMLParser):
    """The elements, attributes and texts of a document."""

    def __init__(self, document: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""
        self.feed(document)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def render(text: str) -> dict[str, Tags]:
    """Return what browsers get of a page: of its HTML, and of its Markdown as GitHub and as MkDocs read it."""
    source = "".join(render_markdown(make_page(text)))
    gfm = MarkdownIt("gfm-like", {"linkify": FINDS_LINKS}).render(source)
    return {
        "html": Tags("".join(render_html(make_page(text)))),
        "gfm": Tags(gfm),
        "mkdocs": Tags(markdown.markdown(source, extensions=["tables", "fenced_code", "attr_list", "admonition"])),
    }


PLAIN = render("plain")


class TestText:
    @settings(max_examples=50)
    @given(TEXTS, TEXTS)
    def test_a_text_is_only_text(self, text: str, other: str) -> None:
        """Whatever a text says, a page has the same elements and attributes as with another text."""
        whole = f"{text} {other}"
        for kind, tags in render(whole).items():
            plain = PLAIN[kind]
            found = [tag for tag in tags.tags if tag not in ("span", "code")]
            assert [tag for tag in plain.tags if tag not in ("span", "code")] == found, (kind, whole)
            more = {(key, value) for key, value in tags.attributes - plain.attributes if key not in ("class", "id")}
            assert not more, (kind, whole)

    @pytest.mark.parametrize("kind", ["html", "gfm", "mkdocs"])
    def test_a_hostile_text_is_shown(self, kind: str) -> None:
        """What is shown is the text itself; what cannot be seen is spelled out."""
        shown = render(HOSTILE)[kind].text

        for part in ("<script>alert(1)</script>", "[go](javascript:alert(1))", "http://evil.example", "| cell |"):
            assert part in shown
        assert "\\u202eevil\\u202c \\x1b[31m\\x00" in shown
        assert not re.search("[\u202e\x00\x1b]", shown)

    @settings(max_examples=50)
    @given(TEXTS)
    def test_a_text_is_shown_as_it_is(self, text: str) -> None:
        """Plain text is shown character by character, in its one line."""
        for kind, tags in render(f"a {text} b").items():
            visible = " ".join(text.split())
            if text.isprintable() and text.isascii():
                assert " ".join(f"a {visible} b".split()) in " ".join(tags.text.split()), (kind, text)

    def test_html_is_self_contained(self) -> None:
        """A page has a policy that allows no script and no network, both colour schemes, and a width of its own."""
        document = "".join(render_html(make_page("x")))

        assert document.startswith("<!doctype html>\n<!-- Made by praval-tools docs build")
        assert "default-src &#x27;none&#x27;" in document and "prefers-color-scheme: dark" in document
        assert "width=device-width" in document and not re.search(r"<script|https?://|<link|@import", document)


class TestFileNames:
    @given(st.text(max_size=200), st.text(max_size=200))
    def test_no_name_leaves_the_folder_and_no_two_share_a_file(self, one: str, other: str) -> None:
        """Files of different names differ in any case of letters, and have only small letters, digits, `-`."""
        files = [make_file_name("owner", name) for name in (one, other)]

        assert all(re.fullmatch(r"owner-[a-z0-9-]{1,90}", name) for name in files)
        assert (one == other) == (files[0] == files[1])

    @pytest.mark.parametrize("name", ["../../etc/passwd", "CON", "a/b", "a\\b", "Bob", "con.", "\u202e", "x" * 128])
    def test_names_that_are_not_plain(self, name: str) -> None:
        """A digest keeps them apart, from each other and from plain names that look like theirs."""
        file = make_file_name("owner", name)

        assert re.fullmatch(r"owner-[a-z0-9-]+--[0-9a-f]{12}", file)
        assert file != make_file_name("owner", file.removeprefix("owner-"))


def make_registry() -> ToolRegistry:
    """Return a registry with a tool that has much to say."""
    registry = ToolRegistry(name="bank")
    Agent("treasurer", registry=registry)
    Agent("intern", registry=registry, tools=["quote"])

    @registry.tool(
        "wire_money", owned_by="treasurer", risk_level="high", requires_approval=True, approval_reason="it is money",
        destructive=True, idempotent=False, timeout=5, retries=2, tags={"b", "a"}, author="ann", category="money",
    )  # fmt: skip
    def wire_money(
        to: str,
        amount: float = 1.5,
        pin: Annotated[str, Secret] = "hush-pin",
        password: str = "hush-password",
        options: dict[str, str] = {"token": "hush-token", "speed": "fast"},
        max_tokens: int = 5,
    ) -> dict[str, float]:
        """
        Send money.

        It is gone then.

        Args:
            to: Who gets it.

        Examples:
            >>> wire_money("ann")
            {}
        """
        return {}

    registry.register_tool(
        Tool(
            "quote",
            "Return a price.",
            {
                "type": "object",
                "properties": {
                    "symbol": {"type": "string", "minLength": 1, "examples": ["ACME"]},
                    "day": {"enum": ["mon", 1, None]},
                },
                "required": ["symbol"],
            },
            lambda symbol, day=None: 1,
        )
    )
    registry.limits.set(tool="wire_money", per_minute=10, concurrent=2)
    registry.grant(
        "wire_money", "intern", by="treasurer", max_calls=2, expires=timedelta(hours=1),
        where={"amount": {"maximum": 9}},
    )  # fmt: skip
    return registry


def build_files(registry: ToolRegistry, out: Path) -> str:
    """Return the text of all files of a build."""
    prepare_build(registry, out, "md").write()
    return "".join(path.read_text("utf-8") for path in out.iterdir())


class Options(TypedDict, extra_items=Annotated[str, Secret]):  # type: ignore[call-arg]
    """Has other keys, which are secret, and which no tool takes."""

    size: int


class TestPages:
    def test_a_page(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The page of an owner says all that is known of its tools, in Markdown."""
        monkeypatch.chdir(Path(__file__).parents[2])
        prepare_build(make_registry(), tmp_path, "md").write()
        page = (tmp_path / "owner-treasurer.md").read_text("utf-8")

        for line in (
            "# Tools of treasurer",
            "Send money.",
            "It is gone then.",
            '>>> wire_money("ann")',
            "| category | [`money`](category-money.md) |",
            "| risk | high |",
            "| approval | every call waits for a person: it is money |",
            "| effects | destructive, not idempotent |",
            "| limits | given up after 5 s; retried 2 times; calls: 10 a minute, 2 at once |",
            "| tags | a, b |",
            "| source | cli/tool&#95;docs/test_tool_docs.py, make_registry.&#60;locals&#62;.wire_money |".replace(
                "tool&#95;docs", "tool_docs"
            ),
            "| `to` | string | required | Who gets it. |",
            "| `amount` | number | default 1.5 |   |",
            "| `max_tokens` | integer | default 5 |   |",
            "| granted by treasurer, at most 2 calls, for a limited time, with bounds on its arguments | `intern` |",
            "| owner | `treasurer` |",
        ):
            assert line in page.splitlines() or line in page, line

    @pytest.mark.parametrize("suffix", ["md", "html"])
    def test_secrets(self, tmp_path: Path, suffix: Any) -> None:
        """No default of what is marked or named as a secret is in any file, at any depth."""
        prepare_build(make_registry(), tmp_path, suffix).write()

        text = "".join(path.read_text("utf-8") for path in tmp_path.iterdir())
        assert "hush" not in text and "[secret]" in Tags(text).text and "speed" in text

    def test_bounds_of_secrets(self, tmp_path: Path) -> None:
        """The bounds of a grant are not shown where they may say what a secret is."""
        registry = make_registry()
        registry.grant("wire_money", "clerk", by="treasurer", where={"pin": {"const": "hush-bound"}})

        files = build_files(registry, tmp_path)

        assert "hush" not in files and "granted by treasurer, with bounds on its arguments | `clerk`" in files

    def test_secrets_by_names_of_the_registry(self, tmp_path: Path) -> None:
        """Broken promise: what is named like a secret is left out. Names that `secrets=` gives were not."""

        def unlock(codeword: str = "hush") -> None:
            """Unlock the door."""

        registry = ToolRegistry(secrets=["codeword"])
        registry.register_tool(Tool("unlock", fn=unlock, owned_by="ann"))
        registry.grant("unlock", "clerk", where={"codeword": {"const": "hush"}})
        files = build_files(registry, tmp_path)

        assert "hush" not in files and "[secret]" in files

    def test_secrets_of_pairs_and_in_texts(self, tmp_path: Path) -> None:
        """Broken promise: defaults and bounds were shown that journals hide by a name beside them, or in a text."""
        pairs = [{"name": "Cookie", "value": "hush"}, {"name": "Accept", "value": "json"}]
        address = "https://h/?token=hush"

        def fetch(
            headers: list[dict[str, str]] = pairs, url: str = address, body: str = '{"password": "hush"}',
            name: str = "Cookie", value: str = "hush", dsn: str = "host=h",
        ) -> None:  # fmt: skip
            """Fetch."""

        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(fetch, owned_by="ann"))
        Agent("clerk", registry=registry)
        registry.grant("fetch", "clerk", where={"url": {"const": address}, "headers": {"const": pairs}})
        files = build_files(registry, tmp_path)

        assert "hush" not in files and "[secret]" in files
        assert "Accept" in files and "json" in files and "host=h" in files

    def test_secrets_by_names_of_items(self, tmp_path: Path) -> None:
        """The name of an item of an array is its title."""
        word = {"type": "string", "default": "hush"}
        reference = {"title": "codeword", "$ref": "#/$defs/word"}
        items = [{"title": "codeword", **word}, reference, {"title": "door", "default": "front"}]
        schema = {"properties": {"key": {"type": "array", "prefixItems": items}}, "$defs": {"word": word}}
        registry = ToolRegistry(secrets=["codeword"])
        registry.register_tool(Tool("unlock", "Unlock.", schema, lambda key: None, owned_by="ann"))
        files = build_files(registry, tmp_path)

        assert "hush" not in files and "front" in files

    def test_secrets_that_only_the_function_marks(self, tmp_path: Path) -> None:
        """Where the schema was given, what the hints of the function mark is left out of it, too."""

        def login(user: str, key: Annotated[str, Secret] = "hush") -> None: ...

        schema = {
            "properties": {"user": {"default": "ann"}, "key": {"type": "string", "default": "hush", "enum": ["hush"]}},
            "examples": [{"user": "ann", "key": "hush"}],
        }
        registry = ToolRegistry()
        registry.register_tool(Tool("login", "Log in.", schema, login, owned_by="o"))
        files = build_files(registry, tmp_path)

        assert "hush" not in files and "ann" in files and "secret" in files

    def test_what_stands_beside_a_secret_that_no_tool_takes(self, tmp_path: Path) -> None:
        """A mark of what tools do not take hides the parameter that it is in, and no other."""
        registry = make_registry()

        @registry.tool("draw", owned_by="treasurer")
        def draw(options: Options = {"size": 4711}, width: int = 4712) -> None:
            """Draw."""

        text = build_files(registry, tmp_path)

        assert '"default": 4712' in text
        assert "default 4712, secret" not in text
        assert "4711" not in text

    def test_a_supplied_schema(self, tmp_path: Path) -> None:
        """Of a JSON Schema, constraints, choices and examples are shown."""
        prepare_build(make_registry(), tmp_path, "md").write()
        page = (tmp_path / "unowned.md").read_text("utf-8")

        assert "| `symbol` | string | required | minLength 1 |" in page
        assert "one of &#34;mon&#34;, 1, null | optional" in page
        assert 'Example:\n\n```json\n{"symbol": "ACME"}\n```' in page and "| listed | `intern` |" in page

    def test_what_nobody_can_give(self, tmp_path: Path) -> None:
        """A property that nothing fits, as what only the answers of a service have, is not a parameter."""
        registry = ToolRegistry()
        schema = {"type": "object", "properties": {"identity": False, "symbol": True}}
        registry.register_tool(Tool(name="find", description="Find.", parameters=schema, callable=lambda **_: 1))
        prepare_build(registry, tmp_path, "md").write()
        page = (tmp_path / "unowned.md").read_text("utf-8")

        assert "| `symbol` | any | optional |" in page
        assert "| `identity`" not in page

    def test_an_unresolved_hint(self, tmp_path: Path) -> None:
        """Of a tool whose hint names nothing that exists, the page says that."""

        def broken(x: Missing) -> int:  # type: ignore[name-defined]  # noqa: F821
            """Do it."""

        registry = make_registry()
        registry.tool("broken", owned_by="treasurer")(broken)

        assert "| problem | a type hint is unresolved: praval-tools check says which |" in build_files(
            registry, tmp_path
        )

    def test_no_path_of_the_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A tool of code that is not below the working directory is named by its module."""
        monkeypatch.chdir(tmp_path)

        (source,) = {
            tool.facts["source"] for tool in read_reference(make_registry()).tools if tool.name == "wire_money"
        }

        assert source.endswith("test_tool_docs, make_registry.<locals>.wire_money") and "/" not in source

    def test_a_disabled_tool_and_no_tools(self, tmp_path: Path) -> None:
        """Of a disabled tool it is said that nobody may call it; an empty registry has an index."""
        registry = make_registry()
        registry.disable(category="money")
        prepare_build(registry, tmp_path / "a", "md").write()
        prepare_build(ToolRegistry(), tmp_path / "b", "html").write()

        assert "Nobody: category money is disabled." in (tmp_path / "a/owner-treasurer.md").read_text()
        assert ["changes.html", "index.html", "tool-docs.json"] == sorted(
            one.name for one in (tmp_path / "b").iterdir()
        )

    def test_ten_thousand_tools(self, tmp_path: Path) -> None:
        """Ten thousand tools of one owner are pages of two hundred, which lead to each other."""
        registry = ToolRegistry()
        tool = Tool("t", "Do it.", {"type": "object", "properties": {"x": {"type": "integer"}}}, lambda x=1: x)
        with use_registry(registry), registry.change():
            for number in range(10_000):
                registry.register_tool(tool.from_function(lambda: 1, name=f"t{number:05}", description="d" * 200,
                                                          owned_by="o", shared=True))  # fmt: skip
            for number in range(2):
                Agent(f"agent{number}")

        prepare_build(registry, tmp_path, "html").write()

        assert 10_000 // TOOLS_PER_PAGE == len(list(tmp_path.glob("owner-o*.html")))
        assert 'href="owner-o.3.html#tool-t00400"' in (tmp_path / "category-general.html").read_text()
        assert 'href="owner-o.2.html">next' in (tmp_path / "owner-o.html").read_text()


class TestSchemas:
    @pytest.mark.parametrize(
        ("schema", "text"),
        [
            ({"type": "integer"}, "integer"),
            ({"type": "array", "items": {"type": "string"}}, "array of string"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
            ({"type": ["string", "null"]}, "string or null"),
            ({"enum": ["a", 1]}, 'one of "a", 1'),
            ({"const": True}, "true"),
            ({"$ref": "#/$defs/Node"}, "Node"),
            ({}, "any"),
            (True, "any"),
        ],
    )
    def test_types(self, schema: object, text: str) -> None:
        """A type is described in words."""
        assert text == describe_type(schema)

    def test_constraints(self) -> None:
        """What else must hold is listed, also of one of several types."""
        schema = {"anyOf": [{"type": "string", "maxLength": 3, "writeOnly": True}, {"type": "null"}], "default": None}

        assert ["secret", "maxLength 3"] == describe_constraints(schema)

    @pytest.mark.parametrize(
        "mark", [*SECRET_MARKS, {"anyOf": [SECRET_MARKS[0], {"type": "null"}]}, {"anyOf": [SECRET_MARKS[1]]}]
    )
    def test_secrets_behind_references(self, mark: dict[str, Any]) -> None:
        """What a secret refers to has no values either, and neither has what it contains."""
        hush = {"default": "hush", "examples": ["hush"], "const": "hush", "enum": ["hush"]}
        inner = {"type": "object", "properties": {"x": {"type": "string", "default": "hush"}}}
        schema = {
            "properties": {
                "a": {**mark, **hush},
                "b": {**mark, "$ref": "#/$defs/B"},
                "password": {"default": "hush", "enum": ["basic"]},
                "api_key": {"$ref": "#/$defs/C"},
                "list": {"type": "array", "items": {**mark, **hush}},
                "plain": {"default": {"password": "hush", "n": [1, {"token": "hush"}]}},
            },
            "$defs": {"B": inner, "C": {"items": {"$ref": "#/$defs/D"}}, "D": {"default": "hush"}, "E": {"default": 7}},
        }

        redacted = SchemaRedactor().redact_schema(schema)

        assert "hush" not in str(redacted) and "basic" in str(redacted) and 7 == redacted["$defs"]["E"]["default"]
        assert {"password": "[secret]", "n": [1, {"token": "[secret]"}]} == redacted["properties"]["plain"]["default"]
