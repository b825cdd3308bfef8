"""Which keys are the names of secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

DEFAULT_SECRET_NAMES: Final = (
    "password", "passwd", "pwd", "passphrase", "passcode", "secret", "secret_key", "token", "api_key", "authorization",
    "cookie", "credential", "private_key", "access_key", "signing_key", "encryption_key", "jwt",
)  # fmt: skip
"""Names of secrets, in words; case, dashes, underscores, camelCase, plurals and numbers at the end do not count."""

_AMOUNT_WORDS: Final = frozenset(
    {"max", "min", "count", "limit", "length", "len", "num", "number", "total", "used", "usage", "budget", "size"}
)
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_MIN_SUBSTRING_LENGTH: Final = 8
_MAX_CACHED_KEYS: Final = 8_192


class SecretNames:
    """
    Tells of a key whether its value is a secret.

    A pattern is some words, `"api_key"`, found among the words of a key (`x-api-key`, `openaiApiKey`, `APIKEYS`),
    or a compiled regular expression, searched for in the key as it is.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]]) -> None:
        given = tuple(patterns)
        self._expressions = [one for one in given if isinstance(one, re.Pattern)]
        self._word_patterns = [words for one in given if isinstance(one, str) and (words := _split_words(one))]
        self._cache: dict[str, bool] = {}
        stems = ["[-_. ]?".join(map(re.escape, words)) for words in self._word_patterns]
        stems += [f"(?:{one.pattern})" for one in self._expressions]
        self.prefilter = re.compile("|".join(stems) or r"(?!)", re.IGNORECASE)
        """Finds nothing in a text that holds no such key; what it finds need not be one."""

    def __call__(self, key: str) -> bool:
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MAX_CACHED_KEYS:
                self._cache.clear()
            known = self._cache[key] = self._is_secret_name(key)
        return known

    def _is_secret_name(self, key: str) -> bool:
        if any(one.search(key) for one in self._expressions):
            return True
        words = _split_words(key)
        return any(_contains_words(words, pattern) for pattern in self._word_patterns)


def is_amount(key: str) -> bool:
    """Tell whether a number under *key* is an amount and no secret: `max_tokens`, `token_count`, `cookies`."""
    words = _split_words(key)
    return bool(words) and (words[-1].endswith("s") or not _AMOUNT_WORDS.isdisjoint(words))


def _split_words(text: str) -> list[str]:
    found = (word.rstrip("0123456789") or word for word in _WORD_BOUNDARY.split(text[:256]) if word)
    return [word.lower() for word in found]


def _contains_words(words: list[str], pattern: list[str]) -> bool:
    size, joined = len(pattern), "".join(pattern)
    for start in range(len(words) - size + 1):
        if words[start : start + size - 1] == pattern[:-1] and words[start + size - 1].removesuffix("s") == pattern[-1]:
            return True
    return any(_contains_joined_words(word, joined) for word in words)


def _contains_joined_words(word: str, joined: str) -> bool:
    return word.removesuffix("s").endswith(joined) or (len(joined) >= _MIN_SUBSTRING_LENGTH and joined in word)
