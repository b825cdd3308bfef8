"""
Secrets are made unreadable before anything is written.

What is stored is `[secret 5f0c…]`, a digest under a key that is not in the journal: equal secrets have equal markers,
so that a replay compares them, and nothing can be read back or guessed from the journal alone.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn

import attrs
import msgspec

from praval_tools.journal.events import AgentToolCall, ApprovalAsked, JournalEvent, Recorded
from praval_tools.journal.redaction.secret_names import DEFAULT, SecretNames, counts
from praval_tools.journal.redaction.secret_search import LEAST, NO_SECRETS, Secrets, covered, leaves, spelled
from praval_tools.journal.redaction.secret_tree import (
    ANYWHERE,
    Place,
    at,
    has_secret_names,
    is_astray,
    is_secret,
    read_places,
)
from praval_tools.journal.value_codec import Opaque, is_plain, known, packed
from praval_tools.schema.json_values import canonical, compact

_DOMAIN: Final = b"praval-tools/redaction/1\0"
_DIGITS: Final = 32
MARKER: Final = re.compile(r"\[secret [0-9a-f]{32}\]")
_MOST_NESTED: Final = 100
"""Levels down to which JSON text inside JSON text is read; deeper it is searched as text."""

_KEY: Final = re.compile(
    r"""(?P<quote>\\{0,64}["'])(?P<quoted>[^"'\\]{1,80})(?P=quote)\s*[:=]\s*|(?<![\w-])(?P<bare>[A-Za-z_][\w-]{0,80})\s*[:=]\s*"""
)
_QUOTE: Final = re.compile(r"""\\*["']""")
_INSIDE: Final = {'"': re.compile(r'(?:\\.|[^\\"])*', re.DOTALL), "'": re.compile(r"(?:\\.|[^\\'])*", re.DOTALL)}
_BARE: Final = re.compile(r"(?:(?:bearer|basic|digest|token)\s+)?\S*", re.IGNORECASE)
_AFTER: Final = ",;&.\"')]}>"
"""May follow a value that has no quotes, or belong to it."""
_QUOTES: Final = ("'", '"')
_HARMLESS: Final = frozenset({"", "null", "none", "true", "false"})

Span = tuple[int, int, str]


class Redactor:
    """
    Replaces secrets by markers, at any depth, also inside JSON text and error messages.

    Args:
        patterns: Names of keys whose values are secret; see `SecretNames`.
        key: What the digests are made with; whoever has it can test a guess, so it stays out of the journal.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]] = DEFAULT, *, key: bytes) -> None:
        if not key:
            raise ValueError("key: it is empty; take one from `load_key`")
        self._key = bytes(key)
        self.names = SecretNames(patterns)

    def __repr__(self) -> str:
        return "<Redactor>"

    def plan(self, parameters: Mapping[str, Any] | None = None, result: Mapping[str, Any] | None = None) -> Plan:
        """
        Return what is to be done for the calls of one tool, worked out once.

        Args:
            parameters: The JSON Schema of its arguments.
            result: The JSON Schema of its result.
        """
        known, astray = (read_places(parameters, self.names, fits=fits) for fits in (True, False))
        return Plan(self, known, astray, read_places(result, self.names))

    def marker(self, value: Any) -> str:
        """Return what stands for the secret *value*: the same for equal values of one JSON type."""
        text = canonical(packed(value)).encode("utf-8", "surrogatepass")
        return f"[secret {hmac.digest(self._key, _DOMAIN + text, 'sha256').hex()[:_DIGITS]}]"

    def redact(
        self, value: Any, secrets: Secrets = NO_SECRETS, places: tuple[Place, ...] = ANYWHERE
    ) -> tuple[Any, Secrets]:
        """
        Return *value* without its secrets, and *secrets* with those that were in it; *value* itself where it has none.

        A secret of fewer than four characters, or `true`, `false`, `null`, `none`, is hidden in its own place alone.

        Args:
            value: Anything; what has no JSON form comes back as its text.
            secrets: Other secrets that may come back in it.
            places: What its schema says.
        """
        if not is_plain(value):
            value = known(value)
        finder = _Finder(self, value, places)
        if finder.found:
            texts = {text for one in finder.found for text in leaves(one, _parsed) if _is_telling(text)}
            secrets |= Secrets({text: self.marker(text) for text in texts})
        elif not secrets:
            return value, secrets
        return _Hider(self, secrets, places).hide(value, places, 0), secrets

    def text(self, text: str, secrets: Secrets = NO_SECRETS, places: tuple[Place, ...] = ANYWHERE) -> str:
        """Return a message without secrets, and without parts of *secrets*, since messages are cut."""
        clean = str(self.redact(text, secrets, places)[0])
        if not secrets:
            return clean
        pieces, markers = MARKER.split(clean), [*MARKER.findall(clean), ""]
        pieces = [covered(piece, secrets.fragments(piece)) for piece in pieces]
        return "".join(part for pair in zip(pieces, markers, strict=True) for part in pair)

    def is_hidden(self, key: Any, value: Any, places: tuple[Place, ...]) -> bool:
        """Tell whether *value* under *key* is a secret; what is empty, or one bit, is none."""
        kind = type(value)
        if value is None or kind is bool or (kind in _SIZED and not value):
            return False
        if places and (is_secret(places) or is_astray(kind, places)):
            return True
        return type(key) is str and self.names(key) and not (kind in (int, float) and counts(key))

    def key_of(self, step: Any, whole: dict[Any, Any]) -> Any:
        """Return the key that names the member *step*: of `{"name": "Cookie", "value": …}` it is the name."""
        if step != "value":
            return step
        said = (name for key in _NAMING if type(name := whole.get(key)) is str and self.names(name))
        return next(said, step)

    def named(self, text: str, marked: frozenset[str]) -> Iterator[tuple[int, int]]:
        """Yield where *text*, which is no JSON, says a secret: `"password": "…`, `token=…`, or what is *marked*."""
        if "=" not in text and ":" not in text:
            return
        if not self.names.hint.search(text) and not any(name in text for name in marked):
            return
        done = 0
        while (match := _KEY.search(text, done)) is not None:
            key, done = match["quoted"] or match["bare"], match.end()
            if key in marked or self.names(key):
                start, done = _value_span(text, done)
                value = text[start:done].rstrip(_AFTER)
                harmless = value.lower() in _HARMLESS and text[start - 1] not in _QUOTES
                if not harmless and start < done and not (_is_number(value) and counts(key)):
                    yield start, done


_NAMING: Final = ("name", "key", "header")
_SIZED: Final = (str, bytes, list, dict, tuple, set, frozenset)


def _is_telling(text: str) -> bool:
    """Tell whether *text* says enough to be looked for elsewhere."""
    return len(text) >= LEAST and text.lower() not in _HARMLESS


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _value_span(text: str, start: int) -> tuple[int, int]:
    """Return where the value that begins at *start* lies; to the end of the text where its end cannot be told."""
    if (quote := _QUOTE.match(text, start)) is not None:
        inside = _INSIDE.get(quote.group())
        end = inside.match(text, quote.end()) if inside is not None else None
        return quote.end(), end.end() if end is not None else len(text)
    if text[start : start + 1] in ("{", "["):
        return start, len(text)
    bare = _BARE.match(text, start)
    return start, bare.end() if bare is not None else start


def _parsed(text: str, level: int = 0) -> Any:
    """Return what *text* is the JSON text of; the text itself where it is none, or holds a key twice."""
    if text[:64].lstrip()[:1] not in _OPENERS or level > _MOST_NESTED:
        return text
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return text
    return value if is_plain(value) else text


_OPENERS: Final = ("{", "[", '"')


def _spelled(value: Any) -> Any:
    """Return what *value* is the JSON text of, however often it was written as text; itself where it is none."""
    while isinstance(value, str | bytes):
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if (inner := _parsed(text)) is text:
            break
        value = inner
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key twice")
    return made


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


class _Finder:
    """Looks for secrets; `found` holds their values."""

    def __init__(self, redactor: Redactor, value: Any, places: tuple[Place, ...]) -> None:
        self._redactor, self._marked = redactor, places[0].marked
        self.found: list[Any] = []
        self._member(None, value, places, 0)

    def _member(self, key: Any, value: Any, places: tuple[Place, ...], level: int) -> None:
        kind = type(value)
        if self._redactor.is_hidden(key, value, places):
            self.found.append(value)
        elif kind is str:
            self._text(value, places, level)
        elif kind is dict:
            if places and has_secret_names(places):
                self.found += value
            for step, one in value.items():
                self._member(self._redactor.key_of(step, value), one, at(places, step), level + 1)
        elif kind is list or kind is tuple:
            for index, one in enumerate(value):
                self._member(None, one, at(places, index), level + 1)
        elif kind is set or kind is frozenset:
            for one in value:
                self._member(None, one, at(places, 0), level + 1)
        elif kind is bytes:
            self._text(value.decode("utf-8", "surrogateescape"), places, level)
        elif kind is Opaque:
            self._text(value.text, places, level)

    def _text(self, text: str, places: tuple[Place, ...], level: int) -> None:
        if (inner := _parsed(text, level)) is not text:
            self._member(None, inner, places, level + 1)
        else:
            said = [text[start:end] for start, end in self._redactor.named(text, self._marked)]
            self.found += said + [bare for one in said if (bare := one.rstrip(_AFTER)) != one]


class _Hider:
    """Replaces secrets; what holds none stays the same object."""

    def __init__(self, redactor: Redactor, secrets: Secrets, places: tuple[Place, ...]) -> None:
        self._redactor, self._secrets, self._marked = redactor, secrets, places[0].marked

    def hide(self, value: Any, places: tuple[Place, ...], level: int, key: Any = None) -> Any:
        """Return *value*, the member *key* of something, without secrets."""
        if self._redactor.is_hidden(key, value, places):
            return self._redactor.marker(value)
        kind = type(value)
        if kind is str:
            return self._text(value, places, level)
        if kind is dict:
            return self._dict(value, places, level)
        if kind in (list, tuple, set, frozenset):
            steps = enumerate(value) if kind in (list, tuple) else ((0, one) for one in value)
            made = [self.hide(one, at(places, step), level + 1) for step, one in steps]
            return value if all(map(_is, made, value)) else kind(made)
        if kind is bytes:
            text = value.decode("utf-8", "surrogateescape")
            return value if (clean := self._text(text, places, level)) is text else clean
        if kind is Opaque:
            return Opaque(self._text(value.text, places, level))
        if value is None or kind is bool:
            return value
        return self._secrets.marker(spelled(value)) or value

    def _dict(self, value: dict[Any, Any], places: tuple[Place, ...], level: int) -> Any:
        names = bool(places) and has_secret_names(places)
        made, same = {}, True
        for key, one in value.items():
            name = self._redactor.marker(key) if names else self._name(key)
            made[name] = inner = self.hide(one, at(places, key), level + 1, self._redactor.key_of(key, value))
            same = same and name is key and inner is one
        return value if same else made

    def _name(self, key: Any) -> Any:
        return covered(key, self._secrets.spans(key)) if type(key) is str and self._secrets else key

    def _text(self, text: str, places: tuple[Place, ...], level: int) -> str:
        if (inner := _parsed(text, level)) is not text:
            clean = self.hide(inner, places, level + 1)
            return text if clean is inner else compact(clean)
        spans: list[Span] = list(self._secrets.spans(text)) if self._secrets else []
        for start, end in self._redactor.named(text, self._marked):
            spans.append((start, end, self._redactor.marker(text[start:end])))
        return covered(text, spans)


def _is(one: Any, other: Any) -> bool:
    return one is other


class Plan:
    """What is to be redacted in the calls of one tool."""

    def __init__(self, redactor: Redactor, parameters: Place, astray: Place, result: Place) -> None:
        self._redactor = redactor
        self._parameters, self._astray, self._result = (parameters,), (astray,), (result,)
        self._quiet, self._quiet_result = parameters.quiet, result.quiet
        self._quiet_names = {name for name, one in parameters.keys.items() if one.quiet}

    def arguments(self, arguments: Any, *, bound: bool = True) -> tuple[Any, Secrets]:
        """
        Return the arguments without secrets, and the secrets.

        Args:
            arguments: What a call passes.
            bound: They fit the tool's schema; False: they may be anything.
        """
        if bound and type(arguments) is dict:
            if self._quiet:
                return arguments, NO_SECRETS
            for name in arguments:
                if name not in self._quiet_names:
                    break
            else:
                return arguments, NO_SECRETS
        if bound:
            return self._redactor.redact(arguments, NO_SECRETS, self._parameters)
        return self._redactor.redact(_spelled(arguments) if self._astray[0].shape else arguments, places=self._astray)

    def result(self, result: Any, secrets: Secrets = NO_SECRETS) -> Any:
        """Return a result without secrets: its own, by the names of keys, and those that were given to the call."""
        if self._quiet_result and not secrets:
            return result
        return self._redactor.redact(result, secrets, self._result)[0]

    def text(self, text: str, secrets: Secrets = NO_SECRETS) -> str:
        """Return a message without secrets, and without parts of those that were given to the call."""
        return self._redactor.text(text, secrets, self._parameters)

    def event(self, event: JournalEvent, secrets: Secrets = NO_SECRETS) -> tuple[JournalEvent, Secrets]:
        """
        Return *event* without secrets, and the secrets for the events of the same call that follow.

        Args:
            event: Any; acts and plugins have none.
            secrets: Those of the call.
        """
        if not isinstance(event, Recorded):
            return event, secrets
        changes: dict[str, Any] = {}
        if (given := getattr(event, "arguments", None)) is not None:
            changes["arguments"], more = self.arguments(given, bound=isinstance(event, AgentToolCall | ApprovalAsked))
            secrets |= more
        if (result := getattr(event, "result", None)) is not None:
            changes["result"] = self.result(result, secrets)
        for name in ("error", "detail", "reason", "toolcall_reason"):
            if text := getattr(event, name, None):
                changes[name] = self.text(text, secrets)
        if secrets:
            changes.update(self._notes(event, secrets))
        changed = {name: one for name, one in changes.items() if one is not getattr(event, name)}
        return (attrs.evolve(event, **changed) if changed else event), secrets

    def _notes(self, event: Any, secrets: Secrets) -> Iterator[tuple[str, Any]]:
        """Yield what quotes arguments: problems, repairs and the reason of the decision."""
        for name, parts in (("problems", ("reason", "given")), ("repairs", ("given", "became"))):
            if found := getattr(event, name, ()):
                clean = ({part: self.text(getattr(one, part), secrets) for part in parts} for one in found)
                yield name, tuple(map(_replaced, found, clean))
        if (note := getattr(event, "decision", None)) is not None:
            yield "decision", attrs.evolve(note, reason=self.text(note.reason, secrets))


def _replaced(one: Any, changes: Mapping[str, Any]) -> Any:
    return msgspec.structs.replace(one, **changes)
