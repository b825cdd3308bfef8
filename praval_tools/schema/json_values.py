"""Checks, compares and writes plain JSON values: what is one, which are equal, canonical text, lone surrogates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from praval_tools.names import get_class_name, get_plain_type, has_type, shorten_repr, to_plain_scalar, to_plain_text
from praval_tools.schema.type_handler import Mismatch, Unencodable
from praval_tools.values.builtin_iteration import iterate_items_without_overrides, iterate_without_overrides

if TYPE_CHECKING:
    from fractions import Fraction

T = TypeVar("T")

MAX_DIGITS: Final = 4300
INT_LIMIT: Final = 10**MAX_DIGITS
LOWER_INT_LIMIT: Final = -INT_LIMIT
"""Python writes no integer of more digits as text, so none travels as JSON."""

MAX_DEPTH: Final = 64
MAX_CONTAINERS: Final = 1_000_000
SCALAR_TYPES: Final = frozenset((str, int, float, bool, type(None)))
"""Values of these types are JSON, whatever the hints say, and nobody changes them."""

_MAX_EXACT_FLOAT: Final = 2.0**53

_JSON_OPENERS: Final = ("{", "[", '"')

JsonPath = tuple[str | int, ...]


def are_scalars(values: Iterable[object]) -> bool:
    """Tell whether all *values* are JSON scalars of plain types; no code of theirs, nor of their metaclasses, runs."""
    for value in values:
        kind = type(value)
        if type(kind) is not type or kind not in SCALAR_TYPES:
            return False
    return True


def shorten_value(value: object, limit: int = 80) -> str:
    """
    Return the `repr` of a text, a number, a boolean or None, cut to *limit* characters, and of all else the type.

    What other objects say of themselves may be secret, such as a password of their own.
    """
    return shorten_repr(value, limit) if are_scalars((value,)) else get_class_name(type(value))


def to_step(key: object) -> str:
    """Return the key of a dict as a step of a path."""
    return key if type(key) is str else shorten_value(key)


# ── text ─────────────────────────────────────────────────────────────────────────────────────────


def is_utf8_encodable(text: str) -> bool:
    """Tell whether *text* can be written as UTF-8: no lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def replace_surrogates(text: str) -> str:
    """Return *text* without halves of surrogate pairs, which UTF-8 cannot carry."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def replace_surrogates_in_json(value: Any) -> Any:
    """
    Return a JSON value without halves of surrogate pairs, which UTF-8 cannot carry, all of plain types.

    Classes of their own, whose code would run as whoever reads the value, end here.
    """
    if type(value) is str:
        return replace_surrogates(value)
    if has_type(value, dict):
        members = dict.items(value)
        return {replace_surrogates_in_json(key): replace_surrogates_in_json(item) for key, item in members}
    if has_type(value, list):
        return list(map(replace_surrogates_in_json, list.__iter__(value)))
    return replace_surrogates(to_plain_text(value)) if has_type(value, str) else to_plain_scalar(value)


# ── what is a JSON value ─────────────────────────────────────────────────────────────────────────


def find_scalar_problem(value: Any) -> str:
    """Return why *value*, of one of JSON's scalar types, is not a JSON value; empty where it is one."""
    kind = type(value)
    if kind is str:
        return "" if value.isascii() or is_utf8_encodable(value) else "holds half of a surrogate pair"
    if kind is float:
        return "" if math.isfinite(value) else "is not a finite number"
    if kind is int:
        return "" if LOWER_INT_LIMIT < value < INT_LIMIT else f"has more than {MAX_DIGITS} digits"
    return ""


def iter_json_problems(
    value: object, max_depth: int = MAX_DEPTH, *, exact: bool = True
) -> Iterator[tuple[JsonPath, str, object]]:
    """
    Yield each place in *value* that is not JSON, with the reason and what is there; without recursion.

    Args:
        value: What may be a JSON value.
        max_depth: How many lists and objects may be around a list or an object.
        exact: Only `list` and `dict` themselves count as containers, not their subclasses, nor tuples.
    """
    stack: list[tuple[Any, JsonPath]] = [(value, ())]
    count = 0
    while stack:
        item, path = stack.pop()
        kind = type(item)
        if type(kind) is type and kind in SCALAR_TYPES:  # a metaclass may hash and compare its classes
            if reason := find_scalar_problem(item):
                yield path, reason, item
            continue
        if kind is not list and kind is not dict and (exact or not has_type(item, (list, tuple, dict))):
            yield path, f"is not a JSON value but {get_class_name(kind)}; pass JSON instead", item
            continue
        count += 1
        if len(path) > max_depth:
            yield path, f"is nested more than {max_depth} levels deep", None
            return
        if count > MAX_CONTAINERS:
            yield (), f"holds more than {MAX_CONTAINERS} lists and objects", None
            return
        is_object = has_type(item, dict)
        members: Iterable[tuple[Any, object]]
        if is_object:
            members = item.items() if kind is dict else iterate_items_without_overrides(item)
        else:
            members = enumerate(item if kind is list else iterate_without_overrides(item))
        for step, member in members:
            if is_object and (type(step) is not str or find_scalar_problem(step)):
                yield path, f"has the key {shorten_value(step)}, which is not text", step
            elif get_plain_type(member) not in SCALAR_TYPES or find_scalar_problem(member):
                stack.append((member, (*path, step)))


def check_json(value: object) -> None:
    """
    Accept *value* if it is made of JSON values only, at most 64 levels deep.

    Raises:
        Mismatch: Naming a place where it is not.
    """
    for path, reason, _ in iter_json_problems(value, MAX_DEPTH - 1):
        raise Mismatch(reason, *reversed(path))


def is_json(value: object) -> bool:
    """Tell whether *value* is made of JSON values only, as `check_json` does."""
    return next(iter_json_problems(value, MAX_DEPTH - 1), None) is None


def copy_members(value: dict[str, T]) -> dict[str, T]:
    """
    Return a copy of a plain dict whose keys are texts, of one moment: another thread may change the dict.

    Raises:
        Mismatch: A key is of another class, whose code a look-up would run.
    """
    members = list(value.items())
    for name, _ in members:
        if type(name) is not str:
            raise Mismatch(f"has the key {shorten_value(name)}, which is not text")
    return dict(members)


# ── comparing and writing ────────────────────────────────────────────────────────────────────────


def make_equality_key(value: Any) -> Any:
    """
    Return a hashable key that two values share exactly if JSON Schema calls them equal.

    So 1 and 1.0 share one; True and 1 do not. Nothing but plain scalars is hashed.

    Raises:
        Mismatch: It is not a JSON value.
    """
    kind = type(value)
    if kind is bool:
        return (bool, value)
    if kind is float and not -_MAX_EXACT_FLOAT < value < _MAX_EXACT_FLOAT and math.isfinite(value):
        return int(Decimal(repr(value)))
    if kind is list:
        return (list, *map(make_equality_key, value))
    if kind is dict:
        return (dict, frozenset((key, make_equality_key(item)) for key, item in copy_members(value).items()))
    if are_scalars((value,)):
        return value
    raise Mismatch(f"is not a JSON value but {get_class_name(kind)}")


def to_equality_text(value: object) -> str:
    """
    Return text that two values share exactly if JSON Schema calls them equal.

    Other than the hashes of numbers, those of texts cannot be chosen by who sends them.
    """
    if isinstance(value, list | tuple):
        return f"[{','.join(map(to_equality_text, value))}]"
    if isinstance(value, dict):
        return f"{{{','.join(f'{key!r}:{to_equality_text(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    if isinstance(value, float | Decimal):
        text = f"{Decimal(repr(value)) if isinstance(value, float) else value:f}" if value else "0"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return repr(value)


def to_fraction(number: float | Decimal) -> Fraction:
    """Return the number that the text of *number* says."""
    from fractions import Fraction

    return Fraction(number) if isinstance(number, int) else Fraction(str(number))


def is_multiple(number: float | Decimal, step: float) -> bool:
    """Tell whether *number* is a whole multiple of *step*, neither of them rounded."""
    if type(number) is int and type(step) is int:
        return number % step == 0
    (_, digits, exponent), (_, step_digits, step_exponent) = (
        Decimal(repr(item) if isinstance(item, float) else item).as_tuple() for item in (number, step)
    )
    if not isinstance(exponent, int) or not isinstance(step_exponent, int):  # not finite
        return False
    shift = exponent - step_exponent
    if shift < 0 and -shift >= len(digits):
        return not any(digits)
    exact = Context(prec=len(digits))
    value, divisor = Decimal((0, digits, 0)), Decimal((0, step_digits, max(-shift, 0)))
    rest = exact.remainder(value, divisor)  # as decimals: Python makes no integer of more than 4300 digits of text
    if shift <= 0:
        return not rest
    return int(rest) * pow(10, shift, int(divisor)) % int(divisor) == 0


def to_canonical_json(value: object) -> str:
    """Return *value* as JSON text that is the same for equal values: sorted keys, no spaces."""
    return _write_json(value, sort_keys=True)


def to_compact_json(value: object) -> str:
    """Return *value* as JSON text without spaces, keys in their own order."""
    return _write_json(value, sort_keys=False)


def _write_json(value: object, *, sort_keys: bool) -> str:
    import json

    return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def to_key_text(value: object) -> str:
    """
    Return *value*, a JSON value, as the text of a key.

    Raises:
        Unencodable: It is a list or an object.
    """
    if type(value) is bool:
        return "true" if value else "false"
    if isinstance(value, list | dict):
        raise Unencodable("a list or an object cannot be a key in JSON")
    return "null" if value is None else str(value)


def sort_json_items(items: list[T], to_json: Callable[[T], object] | None = None) -> list[T]:
    """
    Return *items* in an order that does not depend on hashing.

    Args:
        items: JSON, or what stands for it.
        to_json: Returns the JSON of an item, by which it is ordered.
    """
    keys: list[Any] = [*items] if to_json is None else list(map(to_json, items))
    try:
        if len(set(map(type, keys))) == 1:
            return sorted(keys) if to_json is None else _sort_by(keys, items)
    except TypeError:
        pass
    return _sort_by(list(map(_make_sort_key, keys)), items)


def _sort_by(keys: list[Any], items: list[T]) -> list[T]:
    return [items[place] for place in sorted(range(len(keys)), key=keys.__getitem__)]


def _make_sort_key(item: object) -> str:
    try:
        return to_canonical_json(item)
    except (TypeError, ValueError):
        return repr(item)


# ── reading ──────────────────────────────────────────────────────────────────────────────────────


def read_json_text(text: str) -> object:
    """Return the object, list or text of which *text* is the JSON; *text* itself where it is none, or repeats a key."""
    if text[:64].lstrip()[:1] not in _JSON_OPENERS:
        return text
    import json

    try:
        value: object = json.loads(text, object_pairs_hook=_build_unique_dict, parse_constant=reject_constant)
    except (ValueError, RecursionError):
        return text
    return value


def _build_unique_dict(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a repeated key")
    return members


def reject_constant(name: str) -> NoReturn:
    """Refuse `NaN` and the infinities, which `json.loads` takes for numbers, as its `parse_constant`."""
    raise ValueError(f"{name} is not a JSON number")
