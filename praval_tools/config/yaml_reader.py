"""Reads YAML as JSON values with the line of each key; what YAML versions read differently is a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from types import ModuleType
from typing import Final

from attrs import define, field

from praval_tools.config.toml_lines import MAX_DEPTH, KeyPath, TooDeepError
from praval_tools.errors import MissingExtraError

MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_VALUES: Final = 2_000_000
_BOOLEANS: Final = {word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_NULLS: Final = ("", "~", "null", "Null", "NULL")
_OTHER_BOOLEANS: Final = ("yes", "no", "on", "off")
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_LEADING_ZEROS: Final = re.compile(r"[-+]?[0-9]+")
_CORE_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_ALLOWED: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OTHER_NUMBERS: Final = re.compile(
    r"[-+]?(0o[0-7]+|0b[01_]+|0[0-9_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
    r"|[0-9][0-9_]*_[0-9_]*(\.[0-9_]*)?|[0-9_]*\.[0-9_]*_[0-9_]*"
    r"|([0-9]+(\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+)"
)


@define
class YamlContent:
    """
    What was read of a YAML text.

    Args:
        data: The root; an empty mapping for an empty text.
        lines: The line on which each value begins, by its path; of members of a mapping, that of the key.
        problems: What is wrong: the path, the line, and what is expected there.
    """

    data: object = field(factory=dict)
    lines: dict[KeyPath, int] = field(factory=dict)
    problems: list[tuple[KeyPath, int, str]] = field(factory=list)


def read_yaml(text: str, *, is_foreign: bool = False, feature: str = "A configuration in YAML") -> YamlContent:
    """
    Return the values of a YAML text, as JSON values.

    Of a text that is no YAML, the problem is the only content: its message repeats nothing of the text.

    Args:
        text: The text.
        is_foreign: It is not written for this program: where versions of YAML differ, it is read as YAML 1.2 says,
            keys are texts, and an alias stands for a value that all places of it share.
        feature: What needs PyYAML, for the error where that is missing.

    Raises:
        MissingExtraError: PyYAML is not installed.
    """
    yaml = _import_yaml(feature)
    content = YamlContent()
    try:
        events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        (_ForeignReader if is_foreign else _EventReader)(events, yaml, content).read()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = _find_line_of_bad_character(text) if mark is None else mark.line + 1
        reason = str(getattr(error, "problem", None) or "it holds a character that is not allowed")
        context = getattr(error, "context", None)
        content.problems.append(((), line, f"is not valid YAML: {f'{context}: ' if context else ''}{reason}"))
    except TooDeepError as error:
        content.problems.append((error.path, error.line, f"is nested deeper than {MAX_DEPTH} levels"))
    return content


def _find_line_of_bad_character(text: str) -> int:
    match = _NOT_ALLOWED.search(text)
    return 0 if match is None else text.count("\n", 0, match.start()) + 1


def _import_yaml(feature: str) -> ModuleType:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise MissingExtraError(feature, "yaml") from error
    module: ModuleType = yaml
    return module


class _EventReader:
    """Builds values of the events of a parser; nothing of YAML beyond JSON gets through."""

    def __init__(self, events: Iterator[object], yaml: ModuleType, content: YamlContent) -> None:
        self._events, self._yaml, self._content = events, yaml, content

    def read(self) -> None:
        """Read the one document of the text."""
        documents = 0
        for event in self._events:
            if isinstance(event, self._yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    self._report((), event, "is another document: one file holds one; take the --- out")
                    return
                value = self._read_value(next(self._events), ())
                self._content.data = {} if value is None else value

    def _report(self, path: KeyPath, event: object, expected: str) -> None:
        self._content.problems.append((path, _get_line(event), expected))

    def _read_value(self, event: object, path: KeyPath) -> object:
        yaml = self._yaml
        self._content.lines.setdefault(path, _get_line(event))
        if isinstance(event, yaml.AliasEvent):
            return self._read_alias(event, path)
        if getattr(event, "tag", None) is not None:
            self._report(path, event, "has a tag (!): take it out; types follow from the key")
            self._skip_rest(event)
            return None
        if len(path) > MAX_DEPTH:
            raise TooDeepError(path[:4], _get_line(event))
        if isinstance(event, yaml.MappingStartEvent):
            value: object = self._read_mapping(path)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._read_sequence(path)
        else:
            value = self._read_scalar(event, path)
        if getattr(event, "anchor", None) is not None:
            self._note_anchor(event, path, value)
        return value

    def _read_alias(self, event: object, path: KeyPath) -> object:
        self._report(path, event, "is an alias (*): write the value out")
        return None

    def _note_anchor(self, event: object, path: KeyPath, value: object) -> None:
        self._report(path, event, "has an anchor (&): take it out, and write the value out where it is used")

    def _read_sequence(self, path: KeyPath) -> list[object]:
        items: list[object] = []
        while not isinstance(event := next(self._events), self._yaml.SequenceEndEvent):
            items.append(self._read_value(event, (*path, len(items))))
        return items

    def _read_mapping(self, path: KeyPath) -> dict[str, object]:
        members: dict[str, object] = {}
        while not isinstance(event := next(self._events), self._yaml.MappingEndEvent):
            key = self._read_key(event, path)
            if key is None or key in members:
                if key is not None:
                    first = self._content.lines[*path, key]
                    self._report((*path, key), event, f"stands twice; line {first} has it too")
                self._skip_value()
                continue
            self._content.lines[*path, key] = _get_line(event)
            members[key] = self._read_value(next(self._events), (*path, key))
        return members

    def _read_key(self, event: object, path: KeyPath) -> str | None:
        if not isinstance(event, self._yaml.ScalarEvent):
            self._report(path, event, "has a key that is not a text")
            if not isinstance(event, self._yaml.AliasEvent):
                self._skip_rest(event)
            return None
        text = str(getattr(event, "value", ""))
        if _is_plain(event):
            if text == "<<":
                self._report(path, event, "merges another mapping (<<): write its keys out")
                return None
            if not isinstance(value := _resolve(text), str):
                what = value.expected if isinstance(value, _Ambiguous) else "is a key that is not a text"
                self._report((*path, text), event, f"{what}; put the key in quotes")
                return None
        if getattr(event, "anchor", None) is not None or getattr(event, "tag", None) is not None:
            self._report((*path, text), event, "has an anchor or a tag before the key: take it out")
        return text

    def _read_scalar(self, event: object, path: KeyPath) -> object:
        text = str(getattr(event, "value", ""))
        if not _is_plain(event):
            return text
        value = _resolve(text)
        if isinstance(value, _Ambiguous):
            self._report(path, event, f"{value.expected}; {value.fix}")
            return None
        return value

    def _skip_value(self) -> None:
        self._skip_rest(next(self._events))

    def _skip_rest(self, event: object) -> None:
        """Pass over what belongs to a value that began with *event*."""
        yaml, depth = self._yaml, 0
        while True:
            depth += isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent)
            depth -= isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent)
            if not depth:
                return
            event = next(self._events)


class _ForeignReader(_EventReader):
    """Reads a text that other programs read, too."""

    def __init__(self, events: Iterator[object], yaml: ModuleType, content: YamlContent) -> None:
        super().__init__(events, yaml, content)
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count, self._is_too_large = 0, False

    def _read_value(self, event: object, path: KeyPath) -> object:
        before, self._count = self._count, self._count + 1
        value = super()._read_value(event, path)
        if (anchor := getattr(event, "anchor", None)) is not None and not isinstance(event, self._yaml.AliasEvent):
            self._anchors[anchor] = value, self._count - before
        return value

    def _read_alias(self, event: object, path: KeyPath) -> object:
        anchor = getattr(event, "anchor", None)
        if anchor not in self._anchors:  # inside of its own value it has none yet
            self._report(path, event, "is an alias of a value that is not complete before it")
            return None
        value, count = self._anchors[anchor]
        self._count += count
        if self._count <= _MAX_VALUES:
            return value
        if not self._is_too_large:
            self._is_too_large = True
            self._report(path, event, f"is an alias by which the text has more than {_MAX_VALUES:,} values")
        return None

    def _note_anchor(self, event: object, path: KeyPath, value: object) -> None:
        """Accept the anchor."""

    def _read_key(self, event: object, path: KeyPath) -> str | None:
        text = getattr(event, "value", None)
        is_text = isinstance(text, str) and getattr(event, "tag", None) is None
        return text if is_text and not (_is_plain(event) and text == "<<") else super()._read_key(event, path)

    def _read_scalar(self, event: object, path: KeyPath) -> object:
        text = str(getattr(event, "value", ""))
        value = _resolve(text) if _is_plain(event) else text
        return _resolve_as_1_2(text) if isinstance(value, _Ambiguous) else value


def _resolve_as_1_2(text: str) -> object:
    """Return the value that the core schema of YAML 1.2 gives a plain word; a number that JSON lacks is its text."""
    if len(text) > 4_000:
        return text
    for pattern, base in ((_OCTAL, 8), (_LEADING_ZEROS, 10)):
        if pattern.fullmatch(text):
            return int(text, base)
    if _CORE_FLOAT.fullmatch(text) and isfinite(number := float(text)):
        return number
    return text


def _get_line(event: object) -> int:
    mark = getattr(event, "start_mark", None)
    return 0 if mark is None else int(mark.line) + 1


def _is_plain(event: object) -> bool:
    return not getattr(event, "style", None) and getattr(event, "tag", None) is None


@define
class _Ambiguous:
    """A plain word that readers of YAML take for different values."""

    expected: str
    fix: str


def _resolve(text: str) -> object:
    """Return the value of a plain word: a text, or what JSON has, where all versions of YAML agree."""
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    if text.lower() in _OTHER_BOOLEANS:
        return _Ambiguous(f"{text} is true or false in YAML 1.1, and a text in 1.2", "write true or false, or quote it")
    if _DECIMAL.fullmatch(text):
        return int(text) if len(text) < 4_000 else _Ambiguous("is a number of too many digits", "shorten it")
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return _Ambiguous("is not a finite number, and JSON has no other", "write a number, or quote it")
    if text == "=" or _OTHER_NUMBERS.fullmatch(text):
        fix = "write a plain decimal number, or quote it"
        return _Ambiguous("is read as different values by YAML 1.1 and 1.2", fix)
    return text
