"""The glossary defines every domain noun that code and docs use, and nothing that they do not use."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from source_tree import PACKAGE, ROOT, list_package_files, read_tree, split_words

import praval_tools

GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [page for page in [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"] if page != GLOSSARY]

ORDINARY = set(
    """
    a access allow among and api architecture ask assign async audit autoload batches busy called cli closed command
    compare compat compatibility config context current declare declaring definition demo deny differences
    discover discovery duplicate durable error errors execution explanation extra find first framework from get
    global glossary hand home hookimpl hookspec how integrations invalid limited line load many metadata migrating
    mismatch missing name normalize not open other over packages praval profile reference report reports request
    processes reset retryable schema serve speed structured subscriber test testing the threat timeout timeouts to tried
    tutorial unknown unused usage use validation warning web what who your
    """.split()
)
"""Words of public names, packages and titles that mean what they mean everywhere in programming or in English."""

ORDINARY_IN_HEADINGS = set(
    """
    about accepted account after again ahead ai all along already an another any anything apply approve approved are
    assertions at attach authorize available away back bank be before behalf below between bring by callable can
    cancellation change changes check choose closing code comes comparing configuration connect configure conformance
    constrain continue contributing cost costs counts crash dangerous data database decide default desktop dict did docs
    different differs disable disabled disk do documentation does each else enable ends everything example export
    figure file files fit five fixtures for full function functions give go granted happened have helper here http if
    images import install installed is isolation it its json keep lang later learn lend let limitations list lists
    loading look made make matched may measured migrate minutes more needed network no of off on once one options
    or order otherwise out own owns package part persist person process program proxy put pydantic raises read reads
    real record recorded records refused register repaired rest resume reverse revoke s same say scenario scenarios see
    set settings several share show side small so something sounds stands start statistics stats step stored stream
    such swap switch take targets tenant that there things three tls transfer two types unassign unblock unshare up used
    user versions way well when where whether which while whoever whole whose why wins with within without work write
    wrote yaml yet you expect sdk db fails machine move reach ui beyond cannot
    divide divided next scale advise
    """.split()
)
"""Such words of the headings of pages: English, programming, and commands that their own sections explain."""

ORDINARY_IN_CLASSES = set(
    """
    address app attachment average backend base batch body build cache catalogue certificate chat clock collector column
    connection contribution credential decorator description entry exporter factory field filter folder force frame
    guard heading history host item link listing loader lock map markup message object offer operation output pattern
    pause piece point property protocol query question reader reading reason registration row runtime setting signature
    site snapshot style table task text thread tracer transport turn type validator value view word writer
    activity constraint form header keyword marker module pipe resource response statement term status
    began frozen spent taken
    """.split()
)
"""Nouns of public classes that mean in the docs what they mean everywhere in programming or in English."""


@cache
def read_texts(paths: tuple[Path, ...]) -> list[str]:
    """Return the texts of files."""
    return [path.read_text(encoding="utf-8") for path in paths]


def read_terms(text: str) -> list[str]:
    """Return the terms that a glossary defines."""
    return [term.strip() for line in re.findall(r"^(\S.*)\n:   ", text, re.MULTILINE) for term in line.split(",")]


def to_singular(word: str) -> str:
    """Return a noun without its plural ending."""
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def find_undefined(words: set[str], terms: list[str]) -> set[str]:
    """Return the words that are neither ordinary nor defined."""
    defined = {to_singular(part.lower()) for term in terms for part in term.split()}
    known = ORDINARY | ORDINARY_IN_HEADINGS | ORDINARY_IN_CLASSES | defined
    return {word for word in words if not {word, to_singular(word)} & known}


def remove_examples(page: str) -> str:
    """Return the prose of a page: without examples, and without what stands in sentences as code or as an address."""
    prose = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", prose)


def find_headings(page: str) -> list[str]:
    """Return the headings of a page, without what stands in them as code."""
    return re.findall(r"^#+ (.+)$", remove_examples(page), re.MULTILINE)


def find_class_nouns(tree: ast.Module) -> set[str]:
    """Return what the public classes of a module are: the last words of their names, participles left out."""
    classes = (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    nouns = {split_words(name)[-1] for name in classes if not name.startswith("_")}
    return {noun for noun in nouns if not noun.endswith("ed")}


def find_used(nouns: set[str], pages: list[str]) -> set[str]:
    """Return those of the nouns that stand in the prose of a page."""
    words = {to_singular(word) for page in pages for word in re.findall(r"[a-z]+", remove_examples(page).lower())}
    return {noun for noun in nouns if to_singular(noun) in words}


TERMS = read_terms(GLOSSARY.read_text(encoding="utf-8"))


class TestGlossary:
    @pytest.mark.parametrize("term", TERMS)
    def test_each_term_is_used(self, term: str) -> None:
        """A term stands on some other page, and in the code: in a name or in a text."""
        pattern = re.compile(rf"\b{term.replace(' ', '[ _-]')}(s|es)?\b|{term.title().replace(' ', '')}", re.IGNORECASE)

        assert any(pattern.search(text) for text in read_texts(tuple(PAGES)))
        assert any(pattern.search(text) for text in read_texts(list_package_files()))

    def test_terms_are_defined_once(self) -> None:
        """No term has two definitions."""
        assert len(set(TERMS)) == len(TERMS)

    def test_the_nouns_of_the_public_names_are_defined(self) -> None:
        """The words of the public names and of the packages are in the glossary, or are ordinary words."""
        names = [*praval_tools.__all__, *(path.parent.name for path in PACKAGE.glob("*/__init__.py"))]

        assert set() == find_undefined({word for name in names for word in split_words(name)}, TERMS)

    def test_the_nouns_of_the_navigation_are_defined(self) -> None:
        """So are the words of the titles of the pages."""
        titles = re.findall(
            r"^ +- ([^:]+):", (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2], re.MULTILINE
        )

        assert set() == find_undefined({word for title in titles for word in split_words(title)}, TERMS)

    def test_the_nouns_of_the_headings_are_defined(self) -> None:
        """So are those of the headings of every page."""
        headings = [heading for page in PAGES for heading in find_headings(page.read_text(encoding="utf-8"))]

        assert set() == find_undefined({word for heading in headings for word in split_words(heading)}, TERMS)

    def test_the_nouns_of_classes_that_the_docs_use_are_defined(self) -> None:
        """So is each noun of the prose that is what a public class of the package is: such a noun is of the domain."""
        nouns = {noun for path in list_package_files() for noun in find_class_nouns(read_tree(path))}

        assert set() == find_undefined(find_used(nouns, read_texts(tuple(PAGES))), TERMS)

    def test_ordinary_words_are_used(self) -> None:
        """No list of ordinary words has one that is a term, or is in another list."""
        lists = (ORDINARY, ORDINARY_IN_HEADINGS, ORDINARY_IN_CLASSES)

        assert sum(map(len, lists)) == len(set().union(*lists))
        assert set() == set().union(*lists) & set(TERMS)

    def test_a_planted_heading_is_seen(self) -> None:
        """Headings of each level count, comments in examples and code in headings do not."""
        page = "# The carousel\n\n```python\n# a comment\n```\n\n### When `cord` is\n"

        assert ["The carousel", "When  is"] == find_headings(page)
        assert {"carousel"} == find_undefined({word for text in find_headings(page) for word in split_words(text)}, [])

    def test_a_planted_noun_is_seen(self) -> None:
        """A noun that no term defines is found; plurals of terms are not."""
        assert {"carousel"} == find_undefined({"carousel", "tools", "policies", "name"}, ["tool", "policy"])

    def test_a_planted_class_is_seen(self) -> None:
        """The noun of a public class is found once the prose of a page uses it; in examples it does not count."""
        tree = ast.parse("class RideCarousel: ...\nclass _Wheel: ...\nclass RideEnded: ...")
        nouns = find_class_nouns(tree)

        assert {"carousel"} == nouns
        assert {"carousel"} == find_undefined(find_used(nouns, ["Each of the carousels turns."]), [])
        assert set() == find_used(nouns, ["A `carousel`:\n\n```python\ncarousel()\n```\n"])
