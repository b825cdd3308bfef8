"""Tables into attrs classes, strictly: nothing is converted in silence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_args, get_origin

import attrs
from cattrs import BaseValidationError, Converter, IterableValidationError, IterableValidationNote
from cattrs.errors import AttributeValidationNote, ForbiddenExtraKeysError
from cattrs.strategies import configure_union_passthrough

from praval_tools.config.files import ConfigDocument, KeyPath
from praval_tools.errors import ConfigError, ConfigProblem
from praval_tools.execution.failures import describe_error
from praval_tools.names import find_similar_names

T = TypeVar("T")

_TYPE_DESCRIPTIONS: Final = {
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Path: "a path",
}
_EXACT_TYPES: Final = (str, bool, int, datetime, date, time)


def decode_table(document: ConfigDocument, table: Any, kind: type[T], key: KeyPath) -> T:
    """
    Return *table*, which stands at *key* of the document, as an instance of the attrs class *kind*.

    What the class itself says of values that it refuses is in the error; it may hold a value.

    Raises:
        ConfigError: With every problem: unknown and missing keys, values of a wrong type or that the class refuses.
    """
    if not isinstance(table, Mapping):
        raise ConfigError([document.build_problem(key, "expected a table")])
    try:
        return _get_converter().structure(dict(table), kind)
    except Exception as error:  # the seam to converters and validators of whoever wrote the class
        problems = [document.build_problem((*key, *path), said) for path, said in _iterate_problems(error, (), kind)]
    raise ConfigError(problems)


@cache
def _get_converter() -> Converter:
    made = Converter(forbid_extra_keys=True, detailed_validation=True)
    for plain in _EXACT_TYPES:
        made.register_structure_hook(plain, partial(_check_exact_type, plain))
    made.register_structure_hook(float, _to_float)
    made.register_structure_hook(Path, lambda value, kind: Path(_check_exact_type(str, value, kind)))
    made.register_structure_hook_factory(_is_list, lambda kind: partial(_decode_list, made))
    made.register_structure_hook_factory(_is_table, lambda kind: partial(_decode_mapping, made))
    configure_union_passthrough(str | bool | int | float | None, made)
    return made


def _check_exact_type(plain: type, value: Any, kind: Any) -> Any:
    if type(value) is not plain:
        raise TypeError
    return value


def _to_float(value: Any, kind: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError
    return float(value)


def _is_list(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (list, tuple, set, frozenset)


def _is_table(kind: Any) -> bool:
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _decode_list(converter: Converter, value: Any, kind: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise TypeError
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is tuple and inner and inner[-1] is not Ellipsis:
        if len(inner) != len(value):
            raise TypeError
        hints: list[Any] = list(inner)
    else:
        hints = [inner[0] if inner else Any] * len(value)
    return origin(_decode_items(converter, list(enumerate(value)), hints, kind))


def _decode_mapping(converter: Converter, value: Any, kind: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError
    inner = get_args(kind)
    given = list(value.items())
    made = _decode_items(converter, given, [inner[1] if inner else Any] * len(given), kind)
    return dict(zip(value, made, strict=True))


def _decode_items(converter: Converter, items: list[tuple[Any, Any]], hints: list[Any], kind: Any) -> list[Any]:
    """Structure each item; the errors of all of them come together, each with its index."""
    made, errors = [], []
    for (index, item), hint in zip(items, hints, strict=True):
        try:
            made.append(item if hint is Any else converter.structure(item, hint))
        except Exception as error:  # collected: all problems come at once
            error.add_note(IterableValidationNote("", index, hint))
            errors.append(error)
    if errors:
        raise IterableValidationError("items", errors, kind)
    return made


def _iterate_problems(error: BaseException, path: KeyPath, kind: Any) -> Iterator[tuple[KeyPath, str]]:
    """Yield path and fix of each problem."""
    if isinstance(error, ForbiddenExtraKeysError):
        known = [one.alias or one.name for one in attrs.fields(error.cl)]
        for name in sorted(map(str, error.extra_fields)):
            match = find_similar_names(name, known)
            yield (*path, name), f"unknown key{f'; did you mean {match[0]!r}?' if match else _format_known_keys(known)}"
    elif isinstance(error, BaseValidationError):
        for inner in error.exceptions:
            step, hint = _get_path_step(inner)
            yield from _iterate_problems(inner, (*path, *step), hint if step else getattr(error, "cl", kind))
    elif isinstance(error, KeyError):
        yield path, "missing"
    elif isinstance(error, TypeError) and not error.args:
        yield path, f"expected {_describe_type(kind)}"
    elif isinstance(kind, type) and attrs.has(kind):
        yield path, f"its class refuses the values: {describe_error(error)[:400]}"
    else:
        yield path, f"expected {_describe_type(kind)}: {describe_error(error)[:400]}"


def _get_path_step(error: BaseException) -> tuple[KeyPath, Any]:
    for note in getattr(error, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return (note.name,), note.type
        if isinstance(note, IterableValidationNote):
            return (note.index,), note.type
    return (), None


def _describe_type(kind: Any) -> str:
    if kind in _TYPE_DESCRIPTIONS:
        return _TYPE_DESCRIPTIONS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if _is_list(kind):
        return "a list of texts" if inner and inner[0] is str else "a list"
    if _is_table(kind):
        return "a table"
    if origin is not None and inner and type(None) in inner:
        return " or ".join(_describe_type(one) for one in inner if one is not type(None))
    return "a table" if isinstance(kind, type) and attrs.has(kind) else str(getattr(kind, "__name__", kind))


def _format_known_keys(known: list[str]) -> str:
    return f"; known are {', '.join(sorted(known))}" if known else "; there are none"


def expand_variables(
    document: ConfigDocument, table: Any, key: KeyPath, environment: Mapping[str, str] | None = None
) -> tuple[Any, list[ConfigProblem], list[str]]:
    """
    Return *table* with each text that is `${NAME}` as a whole replaced by that environment variable.

    Returns:
        The table; a problem for each variable that is not set; the values that were filled in, which are secret.
    """
    known = os.environ if environment is None else environment
    problems, secrets = list[ConfigProblem](), list[str]()

    def walk(value: Any, path: KeyPath) -> Any:
        if isinstance(value, Mapping):
            return {name: walk(one, (*path, name)) for name, one in value.items()}
        if isinstance(value, list):
            return [walk(one, (*path, index)) for index, one in enumerate(value)]
        if isinstance(value, str) and value.startswith("${") and value.endswith("}") and value[2:-1].isidentifier():
            if (text := known.get(value[2:-1])) is None:
                problems.append(document.build_problem(path, f"the environment variable {value[2:-1]} is not set"))
                return value
            secrets.append(text)
            return text
        return value

    return walk(table, key), problems, secrets
