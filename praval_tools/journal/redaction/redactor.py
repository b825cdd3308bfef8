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

from praval_tools.journal.events import AgentToolCall, ApprovalAsked, EventBase, JournalEvent
from praval_tools.journal.redaction.secret_names import DEFAULT_SECRET_NAMES, SecretNames, is_amount
from praval_tools.journal.redaction.secret_search import (
    MIN_SECRET_LENGTH,
    NO_SECRETS,
    SecretMarkers,
    format_scalar,
    iter_secret_texts,
    replace_spans,
)
from praval_tools.journal.redaction.secret_tree import (
    UNKNOWN_NODES,
    SecretNode,
    build_secret_tree,
    get_member_nodes,
    has_secret_keys,
    is_secret,
    is_wrong_container,
)
from praval_tools.journal.value_codec import OpaqueValue, is_plain_json, normalize_value, pack_value
from praval_tools.schema.json_values import to_canonical_json, to_compact_json

_DIGEST_DOMAIN: Final = b"praval-tools/redaction/1\0"
_DIGEST_DIGITS: Final = 32
MARKER_PATTERN: Final = re.compile(r"\[secret [0-9a-f]{32}\]")
_MAX_JSON_NESTING: Final = 100
"""Levels down to which JSON text inside JSON text is read; deeper it is searched as text."""

_KEY_PATTERN: Final = re.compile(
    r"""(?P<quote>\\{0,64}["'])(?P<quoted>[^"'\\]{1,80})(?P=quote)\s*[:=]\s*|(?<![\w-])(?P<bare>[A-Za-z_][\w-]{0,80})\s*[:=]\s*"""
)
_QUOTE_PATTERN: Final = re.compile(r"""\\*["']""")
_QUOTED_VALUE_PATTERNS: Final = {
    '"': re.compile(r'(?:\\.|[^\\"])*', re.DOTALL),
    "'": re.compile(r"(?:\\.|[^\\'])*", re.DOTALL),
}
_UNQUOTED_VALUE_PATTERN: Final = re.compile(r"(?:(?:bearer|basic|digest|token)\s+)?\S*", re.IGNORECASE)
_TRAILING_PUNCTUATION: Final = ",;&.\"')]}>"
"""May follow a value that has no quotes, or belong to it."""
_QUOTE_CHARACTERS: Final = ("'", '"')
_HARMLESS_VALUES: Final = frozenset({"", "null", "none", "true", "false"})

MarkedSpan = tuple[int, int, str]


class Redactor:
    """
    Replaces secrets by markers, at any depth, also inside JSON text and error messages.

    Args:
        patterns: Names of keys whose values are secret; see `SecretNames`.
        key: What the digests are made with; whoever has it can test a guess, so it stays out of the journal.
    """

    def __init__(self, patterns: Iterable[str | re.Pattern[str]] = DEFAULT_SECRET_NAMES, *, key: bytes) -> None:
        if not key:
            raise ValueError("key: it is empty; take one from `load_key`")
        self._key = bytes(key)
        self.secret_names = SecretNames(patterns)

    def __repr__(self) -> str:
        return "<Redactor>"

    def build_plan(
        self, parameters: Mapping[str, Any] | None = None, result: Mapping[str, Any] | None = None
    ) -> RedactionPlan:
        """
        Return what is to be done for the calls of one tool, worked out once.

        Args:
            parameters: The JSON Schema of its arguments.
            result: The JSON Schema of its result.
        """
        known, astray = (build_secret_tree(parameters, self.secret_names, is_validated=fits) for fits in (True, False))
        return RedactionPlan(self, known, astray, build_secret_tree(result, self.secret_names))

    def make_marker(self, value: Any) -> str:
        """Return what stands for the secret *value*: the same for equal values of one JSON type."""
        text = to_canonical_json(pack_value(value)).encode("utf-8", "surrogatepass")
        return f"[secret {hmac.digest(self._key, _DIGEST_DOMAIN + text, 'sha256').hex()[:_DIGEST_DIGITS]}]"

    def redact(
        self, value: Any, secrets: SecretMarkers = NO_SECRETS, nodes: tuple[SecretNode, ...] = UNKNOWN_NODES
    ) -> tuple[Any, SecretMarkers]:
        """
        Return *value* without its secrets, and *secrets* with those that were in it; *value* itself where it has none.

        A secret of fewer than four characters, or `true`, `false`, `null`, `none`, is hidden in its own place alone.

        Args:
            value: Anything; what has no JSON form comes back as its text.
            secrets: Other secrets that may come back in it.
            places: What its schema says.
        """
        if not is_plain_json(value):
            value = normalize_value(value)
        finder = _SecretFinder(self, value, nodes)
        if finder.secrets:
            texts = {
                text for one in finder.secrets for text in iter_secret_texts(one, _parse_json) if _is_searchable(text)
            }
            secrets |= SecretMarkers({text: self.make_marker(text) for text in texts})
        elif not secrets:
            return value, secrets
        return _SecretReplacer(self, secrets, nodes).replace(value, nodes, 0), secrets

    def redact_text(
        self, text: str, secrets: SecretMarkers = NO_SECRETS, places: tuple[SecretNode, ...] = UNKNOWN_NODES
    ) -> str:
        """Return a message without secrets, and without parts of *secrets*, since messages are cut."""
        clean = str(self.redact(text, secrets, places)[0])
        if not secrets:
            return clean
        pieces, markers = MARKER_PATTERN.split(clean), [*MARKER_PATTERN.findall(clean), ""]
        pieces = [replace_spans(piece, secrets.find_fragments(piece)) for piece in pieces]
        return "".join(part for pair in zip(pieces, markers, strict=True) for part in pair)

    def is_secret_member(self, key: Any, value: Any, places: tuple[SecretNode, ...]) -> bool:
        """Tell whether *value* under *key* is a secret; what is empty, or one bit, is none."""
        kind = type(value)
        if value is None or kind is bool or (kind in _SIZED_TYPES and not value):
            return False
        if places and (is_secret(places) or is_wrong_container(kind, places)):
            return True
        return type(key) is str and self.secret_names(key) and not (kind in (int, float) and is_amount(key))

    def get_naming_key(self, step: Any, whole: dict[Any, Any]) -> Any:
        """Return the key that names the member *step*: of `{"name": "Cookie", "value": …}` it is the name."""
        if step != "value":
            return step
        said = (name for key in _NAME_KEYS if type(name := whole.get(key)) is str and self.secret_names(name))
        return next(said, step)

    def find_named_values(self, text: str, marked: frozenset[str]) -> Iterator[tuple[int, int]]:
        """Yield where *text*, which is no JSON, says a secret: `"password": "…`, `token=…`, or what is *marked*."""
        if "=" not in text and ":" not in text:
            return
        if not self.secret_names.prefilter.search(text) and not any(name in text for name in marked):
            return
        done = 0
        while (match := _KEY_PATTERN.search(text, done)) is not None:
            key, done = match["quoted"] or match["bare"], match.end()
            if key in marked or self.secret_names(key):
                start, done = _find_value_span(text, done)
                value = text[start:done].rstrip(_TRAILING_PUNCTUATION)
                harmless = value.lower() in _HARMLESS_VALUES and text[start - 1] not in _QUOTE_CHARACTERS
                if not harmless and start < done and not (_is_number(value) and is_amount(key)):
                    yield start, done


_NAME_KEYS: Final = ("name", "key", "header")
_SIZED_TYPES: Final = (str, bytes, list, dict, tuple, set, frozenset)


def _is_searchable(text: str) -> bool:
    """Tell whether *text* says enough to be looked for elsewhere."""
    return len(text) >= MIN_SECRET_LENGTH and text.lower() not in _HARMLESS_VALUES


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def _find_value_span(text: str, start: int) -> tuple[int, int]:
    """Return where the value that begins at *start* lies; to the end of the text where its end cannot be told."""
    if (quote := _QUOTE_PATTERN.match(text, start)) is not None:
        inside = _QUOTED_VALUE_PATTERNS.get(quote.group())
        end = inside.match(text, quote.end()) if inside is not None else None
        return quote.end(), end.end() if end is not None else len(text)
    if text[start : start + 1] in ("{", "["):
        return start, len(text)
    bare = _UNQUOTED_VALUE_PATTERN.match(text, start)
    return start, bare.end() if bare is not None else start


def _parse_json(text: str, level: int = 0) -> Any:
    """Return what *text* is the JSON text of; the text itself where it is none, or holds a key twice."""
    if text[:64].lstrip()[:1] not in _JSON_OPENERS or level > _MAX_JSON_NESTING:
        return text
    try:
        value = json.loads(text, object_pairs_hook=_build_unique_dict, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return text
    return value if is_plain_json(value) else text


_JSON_OPENERS: Final = ("{", "[", '"')


def _parse_nested_json(value: Any) -> Any:
    """Return what *value* is the JSON text of, however often it was written as text; itself where it is none."""
    while isinstance(value, str | bytes):
        text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
        if (inner := _parse_json(text)) is text:
            break
        value = inner
    return value


def _build_unique_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key twice")
    return made


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)


class _SecretFinder:
    """Looks for secrets; `found` holds their values."""

    def __init__(self, redactor: Redactor, value: Any, places: tuple[SecretNode, ...]) -> None:
        self._redactor, self._secret_member_names = redactor, places[0].secret_member_names
        self.secrets: list[Any] = []
        self._search_member(None, value, places, 0)

    def _search_member(self, key: Any, value: Any, places: tuple[SecretNode, ...], level: int) -> None:
        kind = type(value)
        if self._redactor.is_secret_member(key, value, places):
            self.secrets.append(value)
        elif kind is str:
            self._search_text(value, places, level)
        elif kind is dict:
            if places and has_secret_keys(places):
                self.secrets += value
            for step, one in value.items():
                self._search_member(
                    self._redactor.get_naming_key(step, value), one, get_member_nodes(places, step), level + 1
                )
        elif kind is list or kind is tuple:
            for index, one in enumerate(value):
                self._search_member(None, one, get_member_nodes(places, index), level + 1)
        elif kind is set or kind is frozenset:
            for one in value:
                self._search_member(None, one, get_member_nodes(places, 0), level + 1)
        elif kind is bytes:
            self._search_text(value.decode("utf-8", "surrogateescape"), places, level)
        elif kind is OpaqueValue:
            self._search_text(value.text, places, level)

    def _search_text(self, text: str, places: tuple[SecretNode, ...], level: int) -> None:
        if (inner := _parse_json(text, level)) is not text:
            self._search_member(None, inner, places, level + 1)
        else:
            said = [text[start:end] for start, end in self._redactor.find_named_values(text, self._secret_member_names)]
            self.secrets += said + [bare for one in said if (bare := one.rstrip(_TRAILING_PUNCTUATION)) != one]


class _SecretReplacer:
    """Replaces secrets; what holds none stays the same object."""

    def __init__(self, redactor: Redactor, secrets: SecretMarkers, places: tuple[SecretNode, ...]) -> None:
        self._redactor, self._secrets, self._secret_member_names = redactor, secrets, places[0].secret_member_names

    def replace(self, value: Any, places: tuple[SecretNode, ...], level: int, key: Any = None) -> Any:
        """Return *value*, the member *key* of something, without secrets."""
        if self._redactor.is_secret_member(key, value, places):
            return self._redactor.make_marker(value)
        kind = type(value)
        if kind is str:
            return self._replace_in_text(value, places, level)
        if kind is dict:
            return self._replace_in_dict(value, places, level)
        if kind in (list, tuple, set, frozenset):
            steps = enumerate(value) if kind in (list, tuple) else ((0, one) for one in value)
            made = [self.replace(one, get_member_nodes(places, step), level + 1) for step, one in steps]
            return value if all(map(_is_same_object, made, value)) else kind(made)
        if kind is bytes:
            text = value.decode("utf-8", "surrogateescape")
            return value if (clean := self._replace_in_text(text, places, level)) is text else clean
        if kind is OpaqueValue:
            return OpaqueValue(self._replace_in_text(value.text, places, level))
        if value is None or kind is bool:
            return value
        return self._secrets.get_marker(format_scalar(value)) or value

    def _replace_in_dict(self, value: dict[Any, Any], places: tuple[SecretNode, ...], level: int) -> Any:
        names = bool(places) and has_secret_keys(places)
        made, same = {}, True
        for key, one in value.items():
            name = self._redactor.make_marker(key) if names else self._replace_in_key(key)
            made[name] = inner = self.replace(
                one, get_member_nodes(places, key), level + 1, self._redactor.get_naming_key(key, value)
            )
            same = same and name is key and inner is one
        return value if same else made

    def _replace_in_key(self, key: Any) -> Any:
        return replace_spans(key, self._secrets.find_spans(key)) if type(key) is str and self._secrets else key

    def _replace_in_text(self, text: str, places: tuple[SecretNode, ...], level: int) -> str:
        if (inner := _parse_json(text, level)) is not text:
            clean = self.replace(inner, places, level + 1)
            return text if clean is inner else to_compact_json(clean)
        spans: list[MarkedSpan] = list(self._secrets.find_spans(text)) if self._secrets else []
        for start, end in self._redactor.find_named_values(text, self._secret_member_names):
            spans.append((start, end, self._redactor.make_marker(text[start:end])))
        return replace_spans(text, spans)


def _is_same_object(one: Any, other: Any) -> bool:
    return one is other


class RedactionPlan:
    """What is to be redacted in the calls of one tool."""

    def __init__(self, redactor: Redactor, parameters: SecretNode, astray: SecretNode, result: SecretNode) -> None:
        self._redactor = redactor
        self._parameter_nodes, self._unvalidated_nodes, self._result_nodes = (parameters,), (astray,), (result,)
        self._are_arguments_textless, self._is_result_textless = parameters.textless, result.textless
        self._textless_names = {name for name, one in parameters.members.items() if one.textless}

    def redact_arguments(self, arguments: Any, *, is_validated: bool = True) -> tuple[Any, SecretMarkers]:
        """
        Return the arguments without secrets, and the secrets.

        Args:
            arguments: What a call passes.
            bound: They fit the tool's schema; False: they may be anything.
        """
        if is_validated and type(arguments) is dict:
            if self._are_arguments_textless:
                return arguments, NO_SECRETS
            for name in arguments:
                if name not in self._textless_names:
                    break
            else:
                return arguments, NO_SECRETS
        if is_validated:
            return self._redactor.redact(arguments, NO_SECRETS, self._parameter_nodes)
        return self._redactor.redact(
            _parse_nested_json(arguments) if self._unvalidated_nodes[0].container_type else arguments,
            nodes=self._unvalidated_nodes,
        )

    def redact_result(self, result: Any, secrets: SecretMarkers = NO_SECRETS) -> Any:
        """Return a result without secrets: its own, by the names of keys, and those that were given to the call."""
        if self._is_result_textless and not secrets:
            return result
        return self._redactor.redact(result, secrets, self._result_nodes)[0]

    def redact_text(self, text: str, secrets: SecretMarkers = NO_SECRETS) -> str:
        """Return a message without secrets, and without parts of those that were given to the call."""
        return self._redactor.redact_text(text, secrets, self._parameter_nodes)

    def redact_event(
        self, event: JournalEvent, secrets: SecretMarkers = NO_SECRETS
    ) -> tuple[JournalEvent, SecretMarkers]:
        """
        Return *event* without secrets, and the secrets for the events of the same call that follow.

        Args:
            event: Any; acts and plugins have none.
            secrets: Those of the call.
        """
        if not isinstance(event, EventBase):
            return event, secrets
        changes: dict[str, Any] = {}
        if (given := getattr(event, "arguments", None)) is not None:
            changes["arguments"], more = self.redact_arguments(
                given, is_validated=isinstance(event, AgentToolCall | ApprovalAsked)
            )
            secrets |= more
        if (result := getattr(event, "result", None)) is not None:
            changes["result"] = self.redact_result(result, secrets)
        for name in ("error", "detail", "reason", "toolcall_reason"):
            if text := getattr(event, name, None):
                changes[name] = self.redact_text(text, secrets)
        if secrets:
            changes.update(self._redact_quoted_values(event, secrets))
        changed = {name: one for name, one in changes.items() if one is not getattr(event, name)}
        return (attrs.evolve(event, **changed) if changed else event), secrets

    def _redact_quoted_values(self, event: Any, secrets: SecretMarkers) -> Iterator[tuple[str, Any]]:
        """Yield what quotes arguments: problems, repairs and the reason of the decision."""
        for name, parts in (("problems", ("reason", "given")), ("repairs", ("given", "became"))):
            if found := getattr(event, name, ()):
                clean = ({part: self.redact_text(getattr(one, part), secrets) for part in parts} for one in found)
                yield name, tuple(map(_replace_fields, found, clean))
        if (note := getattr(event, "decision", None)) is not None:
            yield "decision", attrs.evolve(note, reason=self.redact_text(note.reason, secrets))


def _replace_fields(one: Any, changes: Mapping[str, Any]) -> Any:
    return msgspec.structs.replace(one, **changes)
