"""Splits texts into the words by which tools are found: identifiers into their parts, scripts without spaces, too."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from praval_tools.lazy_regex import LazyRegex

_MAX_TEXT_LENGTH: Final = 10_000
"""Characters of a text that count: a search stays fast, whatever somebody pastes."""
_MAX_WORD_LENGTH: Final = 64
_MAX_QUERY_WORDS: Final = 64

_CASE_BOUNDARY: Final = LazyRegex(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
"""Where `getHTTPStatus` has its next part."""
_UNSPACED: Final = LazyRegex(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U0003ffff]+"
)
"""Runs of Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean, in which spaces do not divide the words."""

STOP_WORDS: Final = frozenset(
    """
    a about after all also am an and any are as at be been before but by can could did do
    does for from had has have he her here him his how i if in into is it its just let like
    may me my need no not of on one or our out please she should so some such than that the
    their them then there these they this those to up us using want was we were what when where
    which who will with would you your
    """.split()  # noqa: SIM905  # a list of them fills a page
)
"""Words that nearly every sentence has: a question does not ask for them."""


def list_words(text: str) -> list[str]:
    """Return the words of a text by which it is found, in order; of a run without spaces, characters and pairs."""
    words = list[str]()
    for word in _iter_chunks(text):
        for run in _iter_runs(word):
            if _UNSPACED.match(run):
                words += [*run, *_list_pairs(run)]
            else:
                words.append(run[:_MAX_WORD_LENGTH])
    return words


def list_query_words(text: str) -> list[str]:
    """Return the words that a question asks for, each once; at most 64 of them."""
    words = list(dict.fromkeys(list_words(text)))
    return ([word for word in words if word not in STOP_WORDS] or words)[:_MAX_QUERY_WORDS]


def _iter_chunks(text: str) -> Iterator[str]:
    """Yield what stands between blanks, punctuation and the parts of identifiers, in lower case."""
    text = _CASE_BOUNDARY.sub(" ", text[:_MAX_TEXT_LENGTH])
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(character if _is_word_character(character) else " " for character in text)
    if text.isascii():
        yield from re.findall(r"[a-z0-9]+", text.lower())
    else:  # a mark that stands alone is not a word of the index
        yield from (word for word in text.casefold().split() if any(map(str.isalnum, word)))


def _is_word_character(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _iter_runs(word: str) -> Iterator[str]:
    """Yield a word, divided where a script without spaces begins or ends."""
    if word.isascii():
        yield word
        return
    end = 0
    for match in _UNSPACED.finditer(word):
        if word[end : match.start()]:
            yield word[end : match.start()]
        yield match.group()
        end = match.end()
    if word[end:]:
        yield word[end:]


def _list_pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)]
