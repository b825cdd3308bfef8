"""The words: private jargon is banned, class names and domain nouns mean one thing, functions are named by verbs."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from source_tree import (
    PACKAGE,
    ROOT,
    find_comments,
    find_identifiers,
    find_strings,
    list_functions,
    list_package_files,
    read_tree,
    split_words,
)

BANNED_WORDS = {
    word: instead
    for words, instead in {
        "lane lanes road roads": "fast path",
        "desk desks": "dispatcher",
        "slot slots": "attachment, holder",
        "gauge gauges turnstile turnstiles": "calls in flight, exclusive tools",
        "deed deeds act acts": "change, event",
        "fate fates": "outcome",
        "talk talks": "conversation, model log",
        "course courses": "call progress",
        "scribe scribes": "recorder",
        "keeper keepers": "store",
        "ledger ledgers": "access store",
        "sight": "visibility",
        "meeting meetings": "intersection",
        "told": "reported, notified",
        "mend mends mended mending": "repair",
        "wish wishes": "request",
        "house houses": "registry",
    }.items()
    for word in words.split()
}
"""Words of a private jargon, each with what to say instead."""

BANNED_PHRASES = {
    r"\bleads? nowhere\b": "is unresolved",
    r"(?<![Tt]here )\bis no (?!longer\b|more than\b|less than\b|fewer than\b)[a-z`*']": "is not a valid …",
}

ALLOWED = (
    r"\bof course\b",
    r"__slots__|\bslots=(True|False)|^slots$",  # Python's
    r"\bact-(beats-declaration|waits)\b",  # codes of problems, on which programs match
    r"\bacts? (for|as|on behalf|in the name|alone)\b|\bmay act\b",  # of delegations
    r"\b(for wh(om|ich)|on whose behalf) (this one|it|they) acts?\b",
    r"\b(to act (on|at)|at first sight)\b",
    r"\breport\.wishes\b|^wishes$|\n +wishes: ",  # a public attribute of `PluginReport`
)
"""What may be said although a banned word is in it."""

SELF = Path(__file__).name

IRREGULAR_PARTICIPLES = set(
    """
    begun bent bound brought built chosen cut done drawn driven found given gone held hidden kept known left lent lost
    made met paid put read run said seen sent set shown shut spent split spoken taken thought told written broken
    """.split()
)
PUBLIC_NAMES_THAT_ARE_PARTICIPLES = {"run", "read", "set", "feed"}
"""Verbs whose participle looks like their stem."""

MAX_SHARE_OF_PARTICIPLES = 0.01

SAME_NAME_ON_PURPOSE = "compat/praval"
"""The stand-in for Praval's own module: its classes have the names that programs written against Praval import."""


_STEMS = "|".join(sorted({word.removesuffix("s") for word in BANNED_WORDS}))
_CASED_STEMS = "|".join((_STEMS, _STEMS.title(), _STEMS.upper()))
_SUSPECT = re.compile(rf"(?:(?<![A-Za-z])|(?=[A-Z]))(?:{_CASED_STEMS})[sS]?(?![a-z])|(?i:{'|'.join(BANNED_PHRASES)})")
"""Finds whatever may be a banned word or phrase, in less time than it takes to split texts into words."""
_JOINT = re.compile(r"""["']\s*[bfru]{0,2}["']""")
"""Where one string literal goes on in the next."""


@cache
def find_banned(text: str) -> list[str]:
    """Return the banned words and phrases in an identifier or a text."""
    if not _SUSPECT.search(text):
        return []
    for allowed in ALLOWED:
        text = re.sub(allowed, " ", text, flags=re.IGNORECASE)
    words = [word for word in split_words(text) if word in BANNED_WORDS]
    return words + [match[0] for phrase in BANNED_PHRASES for match in re.finditer(phrase, text)]


def find_banned_in_module(path: Path) -> Iterator[str]:
    """Yield the banned words in identifiers, comments, docstrings and messages of a module."""
    source = path.read_text(encoding="utf-8")
    if not _SUSPECT.search(_JOINT.sub("", source)):  # few are worth the time it takes to read them
        return
    places = [*find_identifiers(tree := read_tree(path)), *find_strings(tree), *find_comments(source)]
    for line, text in sorted(set(places)):
        for word in find_banned(text):
            yield f"{path.relative_to(ROOT)}:{line}: {word!r} in {text.strip()[:60]!r}"


def find_banned_in_page(path: Path) -> Iterator[str]:
    """Yield the banned words of a page."""
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        for word in find_banned(text):
            yield f"{path.relative_to(ROOT)}:{line}: {word!r} in {text.strip()[:60]!r}"


def is_named_by_participle(name: str) -> bool:
    """Tell whether a function's name is a past participle and nothing else."""
    word = name.strip("_")
    if "_" in word or word in PUBLIC_NAMES_THAT_ARE_PARTICIPLES:
        return False
    return (word.endswith("ed") and len(word) > 4) or word in IRREGULAR_PARTICIPLES


def compute_share_of_participles(names: list[str]) -> float:
    """Return how many of the names of functions are past participles and nothing else, as a share of all."""
    return sum(map(is_named_by_participle, names)) / len(names)


def find_shared_class_names(trees: Mapping[str, ast.Module]) -> dict[str, list[str]]:
    """Return the names of public classes that more than one place defines, with the places."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for place, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(place)
    return {name: defined_in for name, defined_in in places.items() if len(defined_in) > 1}


class TestBannedWords:
    def test_the_package_has_none(self) -> None:
        """Names, comments, docstrings and messages of the package speak plain technical English."""
        found = [place for path in list_package_files() for place in find_banned_in_module(path)]

        assert [] == found

    def test_the_docs_have_none(self) -> None:
        """So do the pages that users read."""
        pages = [*sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("*.md")), ROOT / "mkdocs.yml"]
        found = [place for path in pages for place in find_banned_in_page(path)]

        assert [] == found

    def test_the_tests_have_none(self) -> None:
        """So do the tests, which tell the next reader what is promised."""
        files = [path for path in sorted(ROOT.glob("tests/**/*.py")) if path.name != SELF]
        found = [place for path in files for place in find_banned_in_module(path)]

        assert [] == found

    @pytest.mark.parametrize(
        ("text", "count"),
        [
            ("_fast_lane", 1),
            ("JournalSlot", 1),
            ("a hint leads nowhere", 1),
            ("'x' is no agent name", 1),
            ("the ledger keeps every act", 2),
            ("of course, __slots__ and slots=True are fine, there is no journal, and it is no longer open", 0),
            ("the agent for which it may act", 0),
            ("a thing of courseware, roadmap", 0),
        ],
    )
    def test_a_planted_word_is_seen(self, text: str, count: int) -> None:
        """Words are found inside of identifiers and in sentences, and what is allowed is not counted."""
        assert count == len(find_banned(text))

    def test_a_planted_module_and_page_are_seen(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Words count in names, parameters, comments, docstrings and messages, and on each line of a page."""
        module, joined, page = tmp_path / "planted.py", tmp_path / "joined.py", tmp_path / "planted.md"
        module.write_text(
            'def find_lane(desk):\n    """Ask the ledger."""\n    # a gauge\n    raise ValueError("no sight of it")\n'
        )
        joined.write_text('text = (\n    "it is "\n    f"no name of {who}"\n)\n')
        page.write_text("# Road\n\nof course\n\nthe scribe\n")
        monkeypatch.setitem(globals(), "ROOT", tmp_path)

        assert {"lane", "desk", "ledger", "gauge", "sight"} == {
            place.split("'")[1] for place in find_banned_in_module(module)
        }
        assert 1 == len(list(find_banned_in_module(joined)))
        assert ["road", "scribe"] == [place.split("'")[1] for place in find_banned_in_page(page)]


class TestNames:
    def test_a_public_class_name_is_used_once(self) -> None:
        """One word for one idea: no two modules define public classes of the same name."""
        assert {} == find_shared_class_names(
            {
                place: read_tree(path)
                for path in list_package_files()
                if not (place := path.relative_to(PACKAGE).as_posix()).startswith(SAME_NAME_ON_PURPOSE)
            }
        )

    def test_a_planted_class_name_is_seen(self) -> None:
        """A name of two public classes is found, also where one of them is inside of another class or a function."""
        sources = {
            "a.py": "class Run: ...\nclass _Step: ...\nclass Slip: ...",
            "b.py": "class Call:\n    class Run: ...\nclass _Step: ...",
            "c.py": "def f():\n    class Slip: ...",
        }

        shared = find_shared_class_names({place: ast.parse(source) for place, source in sources.items()})

        assert {"Run": ["a.py", "b.py"], "Slip": ["a.py", "c.py"]} == shared

    def test_few_functions_are_named_by_a_bare_participle(self) -> None:
        """Functions are verbs: fewer than one in a hundred is called `made`, `kept` or the like."""
        names = [node.name for path in list_package_files() for node in list_functions(read_tree(path))]

        assert compute_share_of_participles(names) < MAX_SHARE_OF_PARTICIPLES

    def test_planted_participles_are_seen(self) -> None:
        """The check fails at one participle in a hundred names."""
        assert compute_share_of_participles(["make_tool"] * 199 + ["made"]) < MAX_SHARE_OF_PARTICIPLES
        assert compute_share_of_participles(["make_tool"] * 99 + ["_made"]) >= MAX_SHARE_OF_PARTICIPLES

    @pytest.mark.parametrize(
        ("name", "expected"),
        [("made", True), ("_kept", True), ("narrowed", True), ("make_tool", False), ("run", False), ("need", False)],
    )
    def test_a_planted_participle_is_seen(self, name: str, expected: bool) -> None:
        """A participle is known by its ending or by the list of irregular ones."""
        assert expected is is_named_by_participle(name)
