"""Writes the values of parameters as their styles say, percent-encoded, so that no value leaves its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal
from urllib.parse import quote, unquote

from attrs import frozen

from praval_tools.integrations.openapi.errors import OpenApiRequestError
from praval_tools.names import shorten_repr
from praval_tools.schema.json_values import to_compact_json

Place = Literal["path", "query", "header", "cookie"]

_HEADER_VALUE: Final = re.compile(r"([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?")
_STEPS: Final = re.compile(r"[\[\].]+")
_NOT_IN_PHP: Final = re.compile(r"[.\s\[]")
_KEPT_WHERE_RESERVED: Final = ":/?@!$'()*,;"
"""What `allowReserved` leaves as it is: not `&`, `=`, `+`, `#`, `[` and `]`, which would begin something else."""

_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
PATH_STYLES: Final = {"simple": ("", ",", False), "label": (".", ".", False), "matrix": (";", ";", True)}
"""What each style puts first and between items, and whether it names them."""


@frozen(kw_only=True)
class ParameterStyle:
    """
    How the value of a parameter is written.

    Args:
        name: The name of the parameter.
        place: Where it goes.
        style: Its style.
        explode: Each item and member is written as a parameter of its own.
        allow_reserved: Reserved characters stay as they are, as far as they stay in their place.
        is_json: It is JSON text, whatever the style.
        members: The names of the members that its schema names.
    """

    name: str
    place: Place
    style: str
    explode: bool
    allow_reserved: bool = False
    is_json: bool = False
    members: frozenset[str] = frozenset()

    def list_names(self, value: object) -> set[str]:
        """Return the names that stand in a query or a form for *value*, and for what else may be given of it."""
        if self.is_json or self.style != "form" or not self.explode:
            return {self.name}
        return {self.name, *self.members, *(value if isinstance(value, dict) else ())}


def to_text(value: object) -> str:
    """Return a JSON value as the text of a parameter: texts as they are, all else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else to_compact_json(value)


def encode(text: str, safe: str = "") -> str:
    """Return *text* percent-encoded, but for letters, digits, `-._~` and what is *safe*."""
    return quote(text, safe=safe)


# ── path ─────────────────────────────────────────────────────────────────────────────────────────


def write_path_value(style: ParameterStyle, value: object, *, may_have_slashes: bool = False) -> str:
    """
    Return what takes the place of `{name}` in a path.

    Raises:
        OpenApiRequestError: It would lead to another place.
    """
    texts = list(_iter_texts(value))
    if not any(texts):
        raise OpenApiRequestError(f"The path parameter {style.name!r} is empty, which would make it another path.")
    for text in texts:
        if not may_have_slashes and ("/" in text or "\\" in text):
            fix = "many servers read it as another path. The operator may allow it by slash_parameters="
            raise OpenApiRequestError(f"The path parameter {style.name!r} holds a slash, and {fix}[{style.name!r}].")
    if style.is_json:
        return encode(to_compact_json(value))
    prefix, separator, is_named = PATH_STYLES[style.style]
    _check_items(style, _list_parts(value), separator if style.explode else ",")
    return prefix + _join(style, value, encode, separator, is_named=is_named)


def check_path(path: str) -> None:
    """
    Accept a path if a server reads it as it is written.

    Raises:
        OpenApiRequestError: A part of it means the same place, or one further up.
    """
    text = unquote(path)
    parts = [part.partition(";")[0] for part in text.replace("\\", "/").split("/")]  # some servers drop what is after ;
    if {".", ".."}.intersection(parts):
        raise OpenApiRequestError("A path parameter makes a part of the path '.' or '..': that would be another path.")
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise OpenApiRequestError("A path parameter holds a control character.")


def _iter_texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _iter_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iter_texts(item)
    else:
        yield to_text(value)


def _join(
    style: ParameterStyle, value: object, write: Callable[[str], str], separator: str, *, is_named: bool
) -> str:
    """Return a value as RFC 6570 writes it: items and members between *separator*, or one list between commas."""
    name = write(style.name)
    if isinstance(value, list):
        items = [write(to_text(item)) for item in value]
        if style.explode:
            return separator.join(f"{name}={item}" if is_named else item for item in items)
        return f"{name}={','.join(items)}" if is_named else ",".join(items)
    if isinstance(value, dict):
        members = [(write(key), write(to_text(item))) for key, item in value.items()]
        if style.explode:
            return separator.join(f"{key}={item}" for key, item in members)
        flat = ",".join(part for member in members for part in member)
        return f"{name}={flat}" if is_named else flat
    return f"{name}={write(to_text(value))}" if is_named else write(to_text(value))


# ── query and form ───────────────────────────────────────────────────────────────────────────────


def write_query_pairs(style: ParameterStyle, value: object, taken: Iterable[str] = ()) -> list[tuple[str, str]]:
    """
    Return a value as pairs of a query, or of a form, percent-encoded.

    Args:
        style: How it is written.
        value: The value.
        taken: The names that stand for something else: the keys of an object that is written as pairs are not among
            them. Nor is a key that its schema does not name read as one that it names.

    Raises:
        OpenApiRequestError: A key is the name of something else, a text would be read as several, or nothing would be
            written at all.
    """
    safe = _KEPT_WHERE_RESERVED if style.allow_reserved else ""
    name = encode(style.name)
    if style.is_json:
        return [(name, encode(to_compact_json(value)))]
    check_not_empty(style.name, value)
    if isinstance(value, dict) and style.style in ("form", "deepObject"):
        check_names(style.name, value.keys() - style.members, style.members)
    if style.style == "deepObject" and isinstance(value, dict | list):
        pairs = list(_iter_deep(style.name, value))
        check_names(style.name, [name for name, _ in pairs], taken)
        return [(encode(key), encode(text, safe)) for key, text in pairs]
    if isinstance(value, dict) and style.explode and style.style == "form":
        check_names(style.name, value, taken)
        return [(encode(key), encode(to_text(item), safe)) for key, item in value.items()]
    if isinstance(value, list) and style.explode:
        return [(name, encode(to_text(item), safe)) for item in value]
    if isinstance(value, list | dict):
        parts, delimiter = _list_parts(value), _DELIMITERS.get(style.style, ",")
        _check_items(style, parts, unquote(delimiter))
        return [(name, delimiter.join(encode(to_text(part)) for part in parts))]
    return [(name, encode(to_text(value), safe))]


def check_not_empty(name: str, value: object) -> None:
    """
    Accept *value* if something is written of it; to a service, what is not written was not given.

    Raises:
        OpenApiRequestError: It is an empty list or object.
    """
    if isinstance(value, list | dict) and not value:
        text = f"{shorten_repr(name)} is empty, and the request would be the same as without it, which may mean all"
        raise OpenApiRequestError(f"{text}: leave it out if that is what you want.")


def _list_parts(value: object) -> list[object]:
    """Return the items of a list, or the keys and values of an object; of all else, nothing."""
    if isinstance(value, dict):
        return [part for member in value.items() for part in member]
    return value if isinstance(value, list) else []


def _iter_deep(name: str, value: object) -> Iterator[tuple[str, str]]:
    check_not_empty(name, value)
    if isinstance(value, dict):
        for key, item in value.items():
            if "[" in key or "]" in key:
                text = f"The key {shorten_repr(key)} of {shorten_repr(name)} holds a bracket"
                raise OpenApiRequestError(f"{text}, which would make it the key of another object.")
            yield from _iter_deep(f"{name}[{key}]", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_deep(f"{name}[{index}]", item)
    else:
        yield name, to_text(value)


def check_names(owner: str, names: Iterable[str], taken: Iterable[str]) -> None:
    """
    Accept the *names* of the pairs that *owner* is written as, if no service reads one as something of *taken*.

    To some services case and blanks around names mean nothing, and `a[b]` or `a.b` is a member of `a`; PHP reads `a.b`
    as `a_b`.

    Raises:
        OpenApiRequestError: One is such a name.
    """
    names, taken = list(names), list(taken)
    for read in (_split_name, _split_name_as_php):
        known = [read(name) for name in taken]
        for name in names:
            steps = read(name)
            if any(steps[: len(other)] == other[: len(steps)] for other in known if steps and other):
                text = f"The key {shorten_repr(name)} of {owner!r} is the name of another parameter"
                raise OpenApiRequestError(f"{text}, or of a member of one.")


def _split_name(name: str) -> list[str]:
    """Return the steps that a name may be read as: those to a member of something, or one."""
    return [step for text in _STEPS.split(name.partition("\0")[0].casefold()) if (step := text.strip())]


def _split_name_as_php(name: str) -> list[str]:
    """
    Return the steps that PHP reads: an underscore stands for a dot, a blank, and a bracket that nothing closes.

    Blanks in front are dropped, those at the end are not.
    """
    text = name.partition("\0")[0].lstrip().casefold()
    head, _, rest = text.partition("[")
    if "]" not in rest:
        return [_NOT_IN_PHP.sub("_", text)]
    return [_NOT_IN_PHP.sub("_", head), *_split_name(rest)]


def _check_items(style: ParameterStyle, parts: Iterable[object], delimiter: str) -> None:
    """Accept what is written between delimiters if it holds none: many services decode a value before they split it."""
    for part in parts:
        if delimiter in to_text(part):
            text = f"An item of {style.name!r} holds {delimiter!r}, which is between items there"
            raise OpenApiRequestError(f"{text}: it would be read as several.")


# ── header and cookie ────────────────────────────────────────────────────────────────────────────


def write_header(style: ParameterStyle, value: object) -> str:
    """
    Return a value as the text of a header.

    Raises:
        OpenApiRequestError: It holds line breaks, or other characters than those of printable ASCII.
    """
    if isinstance(value, dict | list) and not style.is_json:  # nothing is encoded there
        check_not_empty(style.name, value)
        _check_items(style, _list_parts(value), ",")
        _check_items(style, value if style.explode and isinstance(value, dict) else [], "=")
    text = to_compact_json(value) if style.is_json else _join(style, value, str, ",", is_named=False)
    return check_header(style.name, text)


def check_header(name: str, text: str) -> str:
    """
    Return *text* if it can be the value of a header.

    Raises:
        OpenApiRequestError: It cannot.
    """
    if not _HEADER_VALUE.fullmatch(text):
        raise OpenApiRequestError(f"What is given for the header {name!r} cannot be one: use printable ASCII alone.")
    return text


def write_cookies(style: ParameterStyle, value: object, taken: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return a value as cookies, percent-encoded; *taken* as for a query."""
    return write_query_pairs(style, value, taken)
