"""Which keys are the names of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

DEFAULT: Final = (
    "password", "passwd", "pwd", "passphrase", "passcode", "secret", "secret_key", "token", "api_key", "authorization",
    "cookie", "credential", "private_key", "access_key", "signing_key", "encryption_key", "jwt",
)  # fmt: skip
"""Names of secrets, in words; case, dashes, underscores, camelCase, plurals and numbers at the end do not count."""

_COUNTS: Final = frozenset(
    {"max", "min", "count", "limit", "length", "len", "num", "number", "total", "used", "usage", "budget", "size"}
)
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_LONG: Final = 8
_MOST_KNOWN: Final = 8_192


class SecretNames:
    """
    Tells of a key whether its value is a secret.

    A pattern is some words, `"api_key"`, found among the words of a key (`x-api-key`, `openaiApiKey`, `APIKEYS`),
    or a compiled regular expression, searched for in the key as it is.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]]) -> None:
        given = tuple(patterns)
        self._expressions = [one for one in given if isinstance(one, re.Pattern)]
        self._words = [words for one in given if isinstance(one, str) and (words := _words(one))]
        self._known: dict[str, bool] = {}
        stems = ["[-_. ]?".join(map(re.escape, words)) for words in self._words]
        stems += [f"(?:{one.pattern})" for one in self._expressions]
        self.hint = re.compile("|".join(stems) or r"(?!)", re.IGNORECASE)
        """Finds nothing in a text that holds no such key; what it finds need not be one."""

    def __call__(self, key: str) -> bool:
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[key] = self._judge(key)
        return known

    def _judge(self, key: str) -> bool:
        if any(one.search(key) for one in self._expressions):
            return True
        words = _words(key)
        return any(_holds(words, pattern) for pattern in self._words)


def counts(key: str) -> bool:
    """Tell whether a number under *key* is an amount and no secret: `max_tokens`, `token_count`, `cookies`."""
    words = _words(key)
    return bool(words) and (words[-1].endswith("s") or not _COUNTS.isdisjoint(words))


def _words(text: str) -> list[str]:
    found = (word.rstrip("0123456789") or word for word in _WORDS.split(text[:256]) if word)
    return [word.lower() for word in found]


def _holds(words: list[str], pattern: list[str]) -> bool:
    size, joined = len(pattern), "".join(pattern)
    for start in range(len(words) - size + 1):
        if words[start : start + size - 1] == pattern[:-1] and words[start + size - 1].removesuffix("s") == pattern[-1]:
            return True
    return any(_holds_joined(word, joined) for word in words)


def _holds_joined(word: str, joined: str) -> bool:
    return word.removesuffix("s").endswith(joined) or (len(joined) >= _LONG and joined in word)
