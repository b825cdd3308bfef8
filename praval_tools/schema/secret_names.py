"""Recognizes keys that name secrets, such as `password`, and finds the values that they name in JSON and in text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from praval_tools.schema.json_values import read_json_text

StepT = TypeVar("StepT")

DEFAULT_SECRET_NAMES: Final = (
    "password", "passwd", "pwd", "passphrase", "passcode", "secret", "secret_key", "token", "api_key", "authorization",
    "cookie", "credential", "private_key", "access_key", "signing_key", "encryption_key", "jwt",
)  # fmt: skip
"""Names of secrets, in words; case, dashes, underscores, camelCase, plurals and numbers at the end are ignored."""

_AMOUNT_WORDS: Final = frozenset(
    {"max", "min", "count", "limit", "length", "len", "num", "number", "total", "used", "usage", "budget", "size"}
)
_WORD_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_MIN_SUBSTRING_LENGTH: Final = 8
_MAX_CACHED_KEYS: Final = 8_192

_KEY_PATTERN: Final = re.compile(
    r"""(?P<quote>\\{0,64}["'])(?P<quoted>[^"'\\]{1,80})(?P=quote)\s*[:=]\s*|(?<!\w)(?<!\w-)(?P<bare>[^\W\d][\w-]{0,80})\]?\s*[:=]\s*"""
)
"""A key with its sign: `"password": `, `password=`, `--password=`, `user[password]=`."""
_QUOTE_PATTERN: Final = re.compile(r"""\\*["']""")
_QUOTED_VALUE_PATTERNS: Final = {
    '"': re.compile(r'(?:\\.|[^\\"])*', re.DOTALL),
    "'": re.compile(r"(?:\\.|[^\\'])*", re.DOTALL),
}
_UNQUOTED_VALUE_PATTERN: Final = re.compile(r"(?:(?:bearer|basic|digest|token)\s+)?\S*", re.IGNORECASE)
_QUOTE_CHARACTERS: Final = ("'", '"')
TRAILING_PUNCTUATION: Final = ",;&.\"')]}>"
"""May follow a value that has no quotes, or belong to it."""
NAMING_KEYS: Final = ("name", "key", "header")
"""Keys whose text names what stands under `value` beside them, as in `{"name": "Cookie", "value": …}`."""

HARMLESS_VALUES: Final = frozenset({"", "null", "none", "true", "false"})


class SecretNames:
    """
    Tells of a key whether its value is a secret.

    A pattern is some words, `"api_key"`, found among the words of a key (`x-api-key`, `openaiApiKey`, `APIKEYS`),
    or a compiled regular expression, searched for in the key as it is.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]]) -> None:
        patterns = tuple(patterns)
        self._expressions = [pattern for pattern in patterns if isinstance(pattern, re.Pattern)]
        self._word_patterns = [words for text in patterns if isinstance(text, str) and (words := _split_words(text))]
        self._cache: dict[str, bool] = {}
        stems = ["[-_. ]?".join(map(re.escape, words)) for words in self._word_patterns]
        stems += [f"(?:{expression.pattern})" for expression in self._expressions]
        self.prefilter = re.compile("|".join(stems) or r"(?!)", re.IGNORECASE)
        """Finds nothing in a text that holds no such key; what it finds need not be such a key."""

    def __call__(self, key: str) -> bool:
        known = self._cache.get(key)
        if known is None:
            if len(self._cache) >= _MAX_CACHED_KEYS:
                self._cache.clear()
            known = self._cache[key] = self._is_secret_name(key)
        return known

    def _is_secret_name(self, key: str) -> bool:
        if any(expression.search(key) for expression in self._expressions):
            return True
        words = _split_words(key)
        return any(_contains_words(words, pattern) for pattern in self._word_patterns)

    def is_secret_member(self, key: str, value: object) -> bool:
        """Tell whether a value, JSON or not, is a secret by its *key*: neither empty, true or false, nor an amount."""
        return self(key) and tells_secret(key, value)

    def get_naming_key(self, step: StepT, container: Mapping[str, object]) -> StepT | str:
        """Return the key that names the member *step*: of `{"name": "Cookie", "value": …}` it is the name."""
        if step != "value":
            return step
        names = (name for key in NAMING_KEYS if type(name := container.get(key)) is str and self(name))
        return next(names, step)

    def holds_secret(self, value: object) -> bool:
        """Tell whether a journal would hide anything of a JSON value, at any depth and in any text, by these names."""
        parts = [value]
        while parts:
            part = parts.pop()
            if isinstance(part, Mapping):
                named = ((self.get_naming_key(key, part), item) for key, item in part.items())
                if any(self.is_secret_member(key, item) for key, item in named):
                    return True
                parts += part.values()
            elif isinstance(part, list):
                parts += part
            elif isinstance(part, str):
                inner = read_json_text(part)
                if inner is not part:
                    parts.append(inner)
                elif any(True for _ in self.find_values(part)):
                    return True
        return False

    def find_values(self, text: str, more_names: frozenset[str] = frozenset()) -> Iterator[tuple[int, int]]:
        """Yield start and end of the secrets in *text* that is not JSON: `"password": "…`, `token=…`, *more_names*."""
        if "=" not in text and ":" not in text:
            return
        if not self.prefilter.search(text) and not any(name in text for name in more_names):
            return
        end = 0
        while (match := _KEY_PATTERN.search(text, end)) is not None:
            key, end = match["quoted"] or match["bare"], match.end()
            if key in more_names or self(key):
                start, end = _find_value_span(text, end)
                value = text[start:end].rstrip(TRAILING_PUNCTUATION)
                is_harmless = value.lower() in HARMLESS_VALUES and text[start - 1] not in _QUOTE_CHARACTERS
                if not is_harmless and start < end and not (_is_number(value) and is_amount(key)):
                    yield start, end


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _find_value_span(text: str, start: int) -> tuple[int, int]:
    """Return start and end of the value that begins at *start*; the text's end where the value's is not clear."""
    if (quote := _QUOTE_PATTERN.match(text, start)) is not None:
        quoted_value = _QUOTED_VALUE_PATTERNS.get(quote.group())
        match = quoted_value.match(text, quote.end()) if quoted_value is not None else None
        return quote.end(), match.end() if match is not None else len(text)
    if text[start : start + 1] in ("{", "["):
        return start, len(text)
    match = _UNQUOTED_VALUE_PATTERN.match(text, start)
    return start, match.end() if match is not None else start


def tells_secret(key: str, value: object) -> bool:
    """Tell whether a value under the key of a secret is one: neither empty, nor true or false, nor an amount."""
    if value is None or isinstance(value, bool) or (type(value) in (str, list, dict) and not value):
        return False  # a value of another class is not asked whether it is empty
    return not (isinstance(value, int | float) and is_amount(key))


def is_amount(key: str) -> bool:
    """Tell whether a number under *key* is an amount and no secret: `max_tokens`, `token_count`, `cookies`."""
    words = _split_words(key)
    return bool(words) and (words[-1].endswith("s") or not _AMOUNT_WORDS.isdisjoint(words))


def _split_words(text: str) -> list[str]:
    words = (word.rstrip("0123456789") or word for word in _WORD_BOUNDARY.split(text[:256]) if word)
    return [word.lower() for word in words]


def _contains_words(words: list[str], pattern: list[str]) -> bool:
    size, joined = len(pattern), "".join(pattern)
    for start in range(len(words) - size + 1):
        if words[start : start + size - 1] == pattern[:-1] and words[start + size - 1].removesuffix("s") == pattern[-1]:
            return True
    return any(_contains_joined_words(word, joined) for word in words)


def _contains_joined_words(word: str, joined: str) -> bool:
    return word.removesuffix("s").endswith(joined) or (len(joined) >= _MIN_SUBSTRING_LENGTH and joined in word)
