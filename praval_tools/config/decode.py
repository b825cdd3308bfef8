"""Decodes tables of a configuration into attrs classes, without converting types; expands `${NAME}`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
from cattrs import BaseValidationError, Converter, IterableValidationError, IterableValidationNote
from cattrs.errors import AttributeValidationNote, ForbiddenExtraKeysError
from cattrs.strategies import configure_union_passthrough

from praval_tools.config.files import ConfigDocument
from praval_tools.config.toml_lines import KeyPath
from praval_tools.errors import ConfigError, ConfigProblem
from praval_tools.names import describe_error, suggest_names

T = TypeVar("T")

Hint: TypeAlias = Any
"""A type hint."""

_TYPE_DESCRIPTIONS: Final = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "a path",
    datetime: "a moment",
}
_EXACT_TYPES: Final = (str, bool, int, datetime, date, time)


def decode_table(
    document: ConfigDocument, table: object, kind: type[T], key: KeyPath, *, allows_null: bool = False
) -> T:
    """
    Return *table*, which stands at *key* of the document, as an instance of the attrs class *kind*.

    What the class itself says of values that it refuses is in the error; it may hold a value.
    A key without a value, as YAML allows it, is a mistake: what was meant to stand there may have been commented out.

    Args:
        document: Holds the table.
        table: What was read.
        kind: The class.
        key: Where the table stands.
        allows_null: Take null for a value where the hint has None.

    Raises:
        ConfigError: With every problem: unknown and missing keys, values of a wrong type or that the class refuses.
    """
    if not isinstance(table, Mapping):
        raise ConfigError([document.build_problem(key, "expected a table")])
    try:
        return _get_converter(allows_null).structure(dict(table), kind)
    except Exception as error:  # the seam to converters and validators of whoever wrote the class
        problems = [document.build_problem((*key, *path), text) for path, text in _iterate_problems(error, (), kind)]
    raise ConfigError(problems)


@cache
def _get_converter(allows_null: bool) -> Converter:
    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    for exact in _EXACT_TYPES:
        converter.register_structure_hook(exact, partial(_check_exact_type, exact))
    converter.register_structure_hook(float, _to_float)
    converter.register_structure_hook(Path, lambda value, kind: Path(_check_exact_type(str, value, kind)))
    converter.register_structure_hook_factory(_is_choice, lambda kind: _choose)
    converter.register_structure_hook_factory(_is_list, lambda kind: partial(_decode_list, converter))
    converter.register_structure_hook_factory(_is_table, lambda kind: partial(_decode_mapping, converter))
    configure_union_passthrough(str | bool | int | float | None, converter)
    if not allows_null:
        converter.register_structure_hook_factory(_is_optional, lambda kind: partial(_decode_given, converter))
    return converter


def _is_optional(kind: Hint) -> bool:
    origin: object = get_origin(kind)
    return origin in (Union, UnionType) and type(None) in get_args(kind)


def _decode_given(converter: Converter, value: object, kind: Hint) -> object:
    """Decode the value of a key that may be left out."""
    if value is None:
        raise _NoValueError
    given_kind: Hint = Union[tuple(hint for hint in get_args(kind) if hint is not type(None))]  # noqa: UP007
    return converter.structure(value, given_kind)


class _NoValueError(Exception):
    """A key is there without a value."""


def _check_exact_type(exact: type[T], value: object, kind: Hint) -> T:
    if type(value) is not exact:
        raise TypeError
    return value


def _is_choice(kind: Hint) -> bool:
    origin: object = get_origin(kind)
    return origin is Literal


def _choose(value: object, kind: Hint) -> object:
    """Return one of the texts of a `Literal`; what is none of them is not repeated, it may be a secret."""
    choices = get_args(kind)
    if isinstance(value, str) and value in choices:
        return value
    raise _NoChoiceError(suggest_names(value, choices, "did you mean ") if isinstance(value, str) else "")


class _NoChoiceError(Exception):
    """A value is none of those that are known; the text is a hint, or empty."""


def _to_float(value: object, kind: Hint) -> float:
    if type(value) not in (int, float):
        raise TypeError
    return float(cast(float, value))


def _get_class(kind: Hint) -> Hint:
    """Return the class of a hint without its parameters: `list` of `list[int]`."""
    origin: Hint = get_origin(kind)
    return origin or kind


def _is_list(kind: Hint) -> bool:
    return _get_class(kind) in (list, tuple, set, frozenset)


def _is_table(kind: Hint) -> bool:
    origin = _get_class(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _decode_list(converter: Converter, value: object, kind: Hint) -> object:
    if not isinstance(value, list | tuple):
        raise TypeError
    origin, inner = _get_class(kind), get_args(kind)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(inner) != len(value):
            raise TypeError
        hints = list(inner)
    else:
        hints = [inner[0] if inner else Any] * len(value)
    return origin(_decode_items(converter, enumerate(value), hints, kind))


def _decode_mapping(converter: Converter, value: object, kind: Hint) -> dict[object, object]:
    if not isinstance(value, Mapping):
        raise TypeError
    inner = get_args(kind)
    hints = [inner[1] if inner else Any] * len(value)
    return dict(zip(value, _decode_items(converter, value.items(), hints, kind), strict=True))


def _decode_items(
    converter: Converter, items: Iterable[tuple[int | str, object]], hints: list[Hint], kind: Hint
) -> list[object]:
    """Decode each item; the errors of all of them come together, each with its index."""
    decoded, errors = list[object](), list[Exception]()
    for (index, item), hint in zip(items, hints, strict=True):
        try:
            decoded.append(item if hint in (Any, object) else converter.structure(item, hint))
        except Exception as error:  # collected: all problems are reported together
            error.add_note(IterableValidationNote("", index, hint))
            errors.append(error)
    if errors:
        raise IterableValidationError("items", errors, kind)
    return decoded


def _iterate_problems(error: BaseException, path: KeyPath, kind: Hint) -> Iterator[tuple[KeyPath, str]]:
    """Yield path and fix of each problem."""
    if isinstance(error, ForbiddenExtraKeysError):
        known = [field.alias or field.name for field in attrs.fields(error.cl)]
        for name in sorted(map(str, error.extra_fields)):
            hint = suggest_names(name, known, "did you mean ") or _format_known_keys(known)
            yield (*path, name), f"unknown key; {hint}"
    elif isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            step, hint = _get_path_step(inner)
            yield from _iterate_problems(inner, (*path, *step), hint if step else getattr(error, "cl", kind))
    elif isinstance(error, KeyError):
        yield path, "missing"
    elif isinstance(error, _NoValueError):
        yield path, f"has no value: write {_describe_type(kind)}, or leave the key out"
    elif isinstance(error, TypeError) and not error.args:
        yield path, f"expected {_describe_type(kind)}"
    elif isinstance(error, _NoChoiceError):
        yield path, f"expected {_describe_type(kind)}{f'; {error}' if str(error) else ''}"
    elif isinstance(kind, type) and attrs.has(kind):
        yield path, f"its class refuses the values: {describe_error(error)[:400]}"
    else:
        yield path, f"expected {_describe_type(kind)}: {describe_error(error)[:400]}"


def _get_path_step(error: BaseException) -> tuple[KeyPath, Hint]:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return (note.name,), note.type
        if isinstance(note, IterableValidationNote):
            return (note.index,), note.type
    return (), None


def _describe_type(kind: Hint) -> str:
    if kind in _TYPE_DESCRIPTIONS:
        return _TYPE_DESCRIPTIONS[kind]
    inner = get_args(kind)
    if _is_choice(kind):
        return f"one of {', '.join(map(str, inner))}"
    if _is_list(kind):
        return "a list of texts" if inner and inner[0] is str else "a list"
    if _is_table(kind) or (isinstance(kind, type) and attrs.has(kind)):
        return "a table"
    if type(None) in inner:
        return " or ".join(_describe_type(hint) for hint in inner if hint is not type(None))
    return str(getattr(kind, "__name__", kind))


def _format_known_keys(known: list[str]) -> str:
    return f"known are {', '.join(sorted(known))}" if known else "there are none"


def expand_variables(
    document: ConfigDocument, table: object, key: KeyPath, environment: Mapping[str, str] | None = None
) -> tuple[Any, list[ConfigProblem], list[str]]:
    """
    Replace each text of *table* that is `${NAME}` as a whole by that environment variable.

    Returns:
        The table; a problem for each variable that is not set; the values that were filled in, which are secret.
    """
    variables = os.environ if environment is None else environment
    problems, secrets = list[ConfigProblem](), list[str]()

    def expand(value: object, path: KeyPath) -> object:
        if isinstance(value, Mapping):
            return {name: expand(item, (*path, name)) for name, item in value.items()}
        if isinstance(value, list):
            return [expand(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, str) and value.startswith("${") and value.endswith("}") and value[2:-1].isidentifier():
            if (text := variables.get(value[2:-1])) is None:
                problems.append(document.build_problem(path, f"the environment variable {value[2:-1]} is not set"))
                return value
            secrets.append(text)
            return text
        return value

    return expand(table, key), problems, secrets
