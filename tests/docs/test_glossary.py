"""The glossary defines every domain noun that code and docs use, and nothing that they do not use."""

from __future__ import annotations

import re

import pytest
from source_tree import PACKAGE, ROOT, list_package_files, split_words

import praval_tools

GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [page for page in [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"] if page != GLOSSARY]

ORDINARY = set(
    """
    a access allow and architecture ask assign async audit autoload batches busy called cli closed command
    compare compat compatibility config context current declare declaring definition demo deny discover
    discovery duplicate durable error errors execution explanation extra first from get global glossary home
    hookimpl hookspec how integrations invalid limited line load metadata migrating mismatch missing name
    normalize not packages praval profile reference report reports request reset retryable schema speed
    subscriber test testing the timeout timeouts to tried tutorial unknown unused usage use validation warning
    what who your
    """.split()
)
"""Words of public names, packages and titles that mean what they mean everywhere in programming or in English."""


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
    defined = {to_singular(part) for term in terms for part in term.split()}
    return {word for word in words if not {word, to_singular(word)} & (ORDINARY | defined)}


TERMS = read_terms(GLOSSARY.read_text(encoding="utf-8"))


class TestGlossary:
    @pytest.mark.parametrize("term", TERMS)
    def test_each_term_is_used(self, term: str) -> None:
        """A term stands on some other page, and in the code: in a name or in a text."""
        pattern = re.compile(rf"\b{term.replace(' ', '[ _-]')}(s|es)?\b|{term.title().replace(' ', '')}", re.IGNORECASE)
        pages = [page for page in PAGES if pattern.search(page.read_text(encoding="utf-8"))]
        modules = [path for path in list_package_files() if pattern.search(path.read_text(encoding="utf-8"))]

        assert pages
        assert modules

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

    def test_a_planted_noun_is_seen(self) -> None:
        """A noun that no term defines is found; plurals of terms are not."""
        assert {"turnstile"} == find_undefined({"turnstile", "tools", "policies", "name"}, ["tool", "policy"])
