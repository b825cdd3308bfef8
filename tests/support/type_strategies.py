"""
Hypothesis strategies over the table of types: hints, the JSON values that fit them, and mutations of those.

`FORMS` lists every row with a hint to try it on.
`json_for(hint)` draws JSON that fits *hint*, `mutated(value)` changes one place of a value,
`hints()` draws hints that are nested at random.
"""

from __future__ import annotations

import base64
import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NewType,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
)  # fmt: skip
from uuid import UUID

import attrs
from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf
from attrs import NOTHING
from hypothesis import strategies as st
from type_classes import Color, Json, Level, Mood, Movie, Pair, UserId
from typing_extensions import TypeAliasType

from praval_tools import Tool, ToolCall, ToolRegistry, ToolResult
from praval_tools.schema.class_fields import get_fields, is_attrs_or_dataclass, is_named_tuple, is_typed_dict
from praval_tools.schema.type_hints import is_type_alias, resolve_alias

T = TypeVar("T")


class Mixed(Enum):
    TEXT = "1"
    NUMBER = 1
    TRUTH = False
    HALF = 0.5
    PAIR = (1, 2)
    NOTHING = None


@attrs.frozen
class Point:
    x: float
    _y: int = 0
    label: str | None = attrs.field(default=None, kw_only=True)
    total: float = attrs.field(init=False, default=0.0)
    kind: ClassVar[str] = "point"


@attrs.define
class Renamed:
    value: int = attrs.field(alias="wert")
    rest: list[int] = attrs.Factory(list)


@attrs.frozen
class Child(Point):
    color: Color = Color.RED


@dataclass
class Row:
    name: str
    seed: InitVar[int]
    tags: list[str] = field(default_factory=list)
    size: int = field(init=False, default=0)
    limit: ClassVar[int] = 3

    def __post_init__(self, seed: int) -> None:
        self.size = seed


@dataclass(frozen=True, kw_only=True)
class Money:
    amount: Decimal
    currency: Literal["EUR", "USD"] = "EUR"


@dataclass
class Tree:
    value: int
    left: Tree | None = None
    right: Tree | None = None


@attrs.define
class Folder:
    name: str
    inside: dict[str, Folder] = attrs.Factory(dict)


@dataclass
class Box(Generic[T]):
    content: T
    spare: list[T] = field(default_factory=list)


class Partial(TypedDict, total=False):
    name: Required[str]
    age: int
    note: Annotated[str, "a note"]


class Longer(Partial):
    extra: bool


Amounts = TypeAliasType("Amounts", "list[Decimal]")

FORMS: dict[str, Any] = {
    "str": str, "int": int, "float": float, "bool": bool, "None": None, "bytes": bytes, "list": list,
    "list[int]": list[int], "dict": dict, "dict[str, float]": dict[str, float],
    "dict[int, str]": dict[int, str], "dict[float, int]": dict[float, int],
    "dict[bool, int]": dict[bool, int], "dict[Color, int]": dict[Color, int],
    "dict[Level, int]": dict[Level, int], "dict[UUID, int]": dict[UUID, int],
    "dict[date, int]": dict[date, int],
    "dict[Annotated[str, MinLen], int]": dict[Annotated[str, MinLen(2)], int], "tuple": tuple,
    "tuple[()]": tuple[()], "tuple[int, str]": tuple[int, str], "tuple[float, ...]": tuple[float, ...],
    "set": set, "set[int]": set[int], "set[float | bool]": set[float | bool],
    "frozenset[str]": frozenset[str], "Sequence[int]": Sequence[int], "Iterable[str]": Iterable[str],
    "Mapping[str, int]": Mapping[str, int], "Optional[int]": Optional[int],  # noqa: UP045
    "Union[int, str]": Union[int, str],  # noqa: UP007
    "float | bool | None": float | bool | None,
    "list[float] | list[int]": list[float] | list[int], "Literal text": Literal["a", "b"],
    "Literal mixed": Literal["a", 1, True, None], "Literal enum": Literal[Color.RED, "x"],
    "Enum": Color, "IntEnum": Level, "StrEnum": Mood, "Enum mixed": Mixed, "attrs": Point,
    "attrs alias": Renamed, "attrs inherited": Child, "dataclass": Row, "dataclass kw_only": Money,
    "dataclass generic": Box[int], "TypedDict": Movie, "TypedDict total=False": Partial,
    "TypedDict inherited": Longer, "NamedTuple": Pair, "NewType": UserId, "alias": Amounts,
    "recursive alias": Json, "recursive dataclass": Tree, "recursive attrs": Folder,
    "datetime": datetime, "date": date, "time": time, "timedelta": timedelta, "UUID": UUID,
    "Decimal": Decimal, "Path": Path, "PurePath": PurePath,
    "Annotated description": Annotated[int, "how many"], "Ge Le": Annotated[int, Ge(-3), Le(7)],
    "Gt Lt float": Annotated[float, Gt(0), Lt(1)],
    "Interval": Annotated[float, Interval(ge=0.5, lt=100)], "big bound": Annotated[int, Ge(2**60)],
    "MultipleOf int": Annotated[int, MultipleOf(3)],
    "MultipleOf fraction": Annotated[float, MultipleOf(0.01)],
    "Decimal bounded": Annotated[Decimal, Ge(0), Le(1000)],
    "MinLen MaxLen": Annotated[str, MinLen(2), MaxLen(4)], "Len list": Annotated[list[int], Len(1, 3)],
    "Len set": Annotated[set[str], MinLen(1)], "Len dict": Annotated[dict[str, int], MaxLen(2)],
    "pattern": Annotated[str, re.compile(r"^[a-z]+\d$")],
    "Optional constrained": Annotated[int | None, Ge(0)], "Any": Any,
}  # fmt: skip
"""Name → hint, for every row of the table."""

ATOMS = [name for name, hint in FORMS.items() if not (get_origin(hint) in (list, dict, Union) or hint is Any)]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.one_of(st.integers(-100, 100), st.integers(), st.just(2**63), st.just(10**30))
numbers = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.one_of(st.none(), st.booleans(), integers, numbers, text)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3), max_leaves=6
)


def _digits(low: int, high: int, width: int = 2) -> st.SearchStrategy[str]:
    return st.integers(low, high).map(lambda number: f"{number:0{width}d}")


_fraction = st.sampled_from(["", ".5", ".123", ".000001", ".120000"])
_offset = st.sampled_from(["Z", "+00:00", "-00:00", "+05:30", "-23:59", "+23:59"])
dates = st.dates().map(date.isoformat)
clocks = st.builds("{}:{}:{}{}".format, _digits(0, 23), _digits(0, 59), _digits(0, 59), _fraction)
_amount = st.integers(0, 99_999_999).map(str) | st.integers(0, 60).map(str)
durations = st.one_of(
    st.builds("{}P{}W".format, st.sampled_from(["", "-"]), st.integers(0, 9_999_999)),
    st.builds("{}P{}DT{}H{}M{}S".format, st.sampled_from(["", "-"]), _amount, _amount, _amount, _amount),
    st.builds("PT{}{}S".format, _amount, _fraction),
    st.builds("-PT{}M".format, _amount),
    st.builds("P{}D".format, _amount),
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, min_value=-1000000, max_value=1000000).map(str)
_whole = st.integers(-1000, 1000)

_ATOMS: dict[Any, st.SearchStrategy[Any]] = {
    str: text,
    int: st.one_of(integers, _whole.map(float), st.just(1e300)),
    float: st.one_of(numbers, integers, st.just(10**300)),
    bool: st.booleans(), None: st.none(), type(None): st.none(), Any: anything,
    bytes: st.binary(max_size=9).map(lambda data: base64.b64encode(data).decode()),
    datetime: st.builds("{}T{}{}".format, dates, clocks, _offset),
    date: dates,
    time: st.builds("{}{}".format, clocks, st.just("") | _offset),
    timedelta: durations,
    UUID: st.uuids().map(str) | st.uuids().map(lambda one: str(one).upper()),
    Decimal: st.one_of(decimals, _whole, numbers),
    Path: text, PurePath: text,
}  # fmt: skip
_KEYS: dict[Any, st.SearchStrategy[str]] = {
    int: st.integers().map(str),
    float: numbers.filter(lambda one: abs(one) < 1e307).map(repr) | st.integers(-99, 99).map(str),
    bool: st.sampled_from(["true", "false"]),
    Level: st.sampled_from(["1", "2"]),
}


def unique(value: Any) -> Any:
    """Return a key that two JSON values share if JSON Schema calls them equal."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(unique, value))
    if isinstance(value, dict):
        return ("dict", *sorted((key, unique(one)) for key, one in value.items()))
    return Decimal(repr(value)) if isinstance(value, float) else value


def json_for(hint: Any, depth: int = 3) -> st.SearchStrategy[Any]:
    """Return a strategy for the JSON values that fit *hint*."""
    if (get_origin(hint) is None or hint is Any) and not isinstance(hint, NewType) and hint in _ATOMS:
        return _ATOMS[hint]
    if isinstance(hint, NewType):
        return json_for(hint.__supertype__, depth)
    if is_type_alias(hint):
        return st.deferred(lambda: json_for(resolved_alias(hint), depth - 1))
    if get_origin(hint) is Annotated:
        return _constrained(hint, depth)
    if is_attrs_or_dataclass(hint) or is_typed_dict(hint) or is_named_tuple(hint):
        return _objects(hint, depth)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from([_plain(one) for one in hint])
    return _compound(hint, depth)


def resolved_alias(hint: Any) -> Any:
    """Return what an alias stands for, its text evaluated here."""
    value = resolve_alias(hint)
    return eval(value, globals()) if isinstance(value, str) else value


def _plain(member: Any) -> Any:
    value = member.value if isinstance(member, Enum) else member
    return list(value) if isinstance(value, tuple) else value


def _compound(hint: Any, depth: int) -> st.SearchStrategy[Any]:
    origin, args = get_origin(hint) or hint, get_args(hint)
    if origin is Literal:
        return st.sampled_from([_plain(one) for one in args])
    if origin in (Union, type(int | str)):
        usable = [
            one
            for one in args
            if depth > 0 or get_origin(one) is None and not is_attrs_or_dataclass(one) and not is_type_alias(one)
        ]
        return st.one_of([json_for(one, depth) for one in usable or args])
    if origin is tuple:
        if args and args[-1] is not ...:
            return st.tuples(*(json_for(one, depth) for one in args)).map(list)
        if hint == tuple[()]:
            return st.just([])
        return st.lists(json_for(args[0], depth - 1) if args else anything, max_size=4)
    if origin in (dict, Mapping):
        key, item = args or (str, Any)
        return st.dictionaries(_keys(key), json_for(item, depth - 1), max_size=3)
    if origin in (set, frozenset):
        items = json_for(args[0], depth - 1) if args else scalars
        return st.lists(items, max_size=4, unique_by=unique)
    return st.lists(json_for(args[0], depth - 1) if args else anything, max_size=4 if depth > 0 else 0)


def _keys(hint: Any) -> st.SearchStrategy[str]:
    return _KEYS[hint] if hint in _KEYS else json_for(hint)


def _objects(hint: Any, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    required, optional = {}, {}
    for one in get_fields(hint):
        if one.required:
            required[one.key] = json_for(one.hint, depth)
        elif depth > 0:
            optional[one.key] = st.deferred(lambda one=one: json_for(one.hint, depth - 1))
    return st.fixed_dictionaries(required, optional=optional)


def _constrained(hint: Any, depth: int) -> st.SearchStrategy[Any]:
    inner = hint.__origin__
    by_text = repr(hint.__metadata__)
    if "Len" in by_text and inner is str:
        return st.text(st.characters(exclude_categories=["Cs"]), min_size=2, max_size=4)
    if "re.compile" in by_text:
        return st.from_regex(r"\A[a-z]{1,6}[0-9]\Z")
    if "MultipleOf" in by_text:
        return _whole.map(lambda number: number * 3) if inner is int else _whole.map(lambda number: number / 100)
    bounds: dict[str, tuple[float, float]] = {"Ge(ge=-3)": (-3, 7), "Interval": (0.5, 99), "Ge(ge=0), Le": (0, 1000)}
    for part, (low, high) in bounds.items():
        if part in by_text:
            return _between(inner, low, high)
    if "Gt(gt=0)" in by_text:
        return st.floats(0, 1, exclude_min=True, exclude_max=True)
    if "1152921504606846976" in by_text:
        return st.integers(2**60)
    if "Ge(ge=0)" in by_text:
        return st.none() | st.integers(0)
    if "Len" in by_text:
        low, high = (0, 2) if get_origin(inner) is dict else (1, 3)
        return json_for(inner, depth).filter(lambda value: low <= len(value) <= high)
    return json_for(inner, depth)


def _between(inner: Any, low: float, high: float) -> st.SearchStrategy[Any]:
    whole = st.integers(math.ceil(low), math.floor(high))
    if inner is int:
        return whole
    written = st.decimals(low, high).map(str) if inner is Decimal else st.nothing()
    return whole | st.floats(low, high) | written


# ── mutations: one place of a value, changed ─────────────────────────────────────────────────────

ALIENS: Sequence[Any] = (
    None,
    True,
    False,
    0,
    1,
    3,
    3.7,
    -1,
    1.0,
    10**20,
    1e300,
    "",
    "x",
    "3",
    "true",
    [],
    {},
    ["x"],
    {"x": 1},
)
TEXT_ALIENS = (" ", "\n", "é", "٣", "0", "-", "Z", "\U0001f600")


@st.composite
def mutated(draw: st.DrawFn, value: Any) -> Any:
    """Draw *value* with one place changed: a value replaced, text edited, an item or key added, doubled or lost."""
    places = list(_places(value))
    path = draw(st.sampled_from(places))
    return _changed(value, path, draw)


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    yield path
    if isinstance(value, list):
        for index, one in enumerate(value):
            yield from _places(one, (*path, index))
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _places(one, (*path, key))


def _changed(value: Any, path: tuple[Any, ...], draw: st.DrawFn) -> Any:
    if path:
        copy = list(value) if isinstance(value, list) else dict(value)
        copy[path[0]] = _changed(value[path[0]], path[1:], draw)
        return copy
    if draw(st.integers(0, 3)) > 0:
        return draw(st.sampled_from(ALIENS))
    if isinstance(value, str):
        return _edited(value, draw)
    if isinstance(value, list):
        return _list_changed(value, draw)
    if isinstance(value, dict):
        return _dict_changed(value, draw)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return draw(
            st.sampled_from(
                [
                    value + 1,
                    value - 1,
                    -value,
                    value * 10 if abs(value) < 1e300 else 10,
                    str(value),
                    [value],
                    value + 0.5 if abs(value) < 1e300 else 0.5,
                ]
            )
        )
    return draw(st.sampled_from(ALIENS))


def _edited(value: str, draw: st.DrawFn) -> str:
    at = draw(st.integers(0, len(value)))
    how = draw(st.sampled_from(["insert", "drop", "replace", "append", "digit"]))
    alien = draw(st.sampled_from(TEXT_ALIENS))
    if how == "insert" or not value:
        return value[:at] + alien + value[at:]
    if how == "append":
        return value + alien
    at = min(at, len(value) - 1)
    middle = {"drop": "", "replace": alien, "digit": draw(st.sampled_from(string.digits))}[how]
    return value[:at] + middle + value[at + 1 :]


def _list_changed(value: list[Any], draw: st.DrawFn) -> list[Any]:
    alien = draw(st.sampled_from(ALIENS))
    choices: list[list[Any]] = [[*value, alien], [alien, *value]]
    if value:
        twin = value[0]
        choices += [[*value, twin], value[1:], value[:-1]]
        if isinstance(twin, int) and not isinstance(twin, bool) and abs(twin) < 2**53:
            choices.append([*value, float(twin)])
    return draw(st.sampled_from(choices))


def _dict_changed(value: dict[str, Any], draw: st.DrawFn) -> dict[str, Any]:
    alien = draw(st.sampled_from(ALIENS))
    key = draw(st.sampled_from(["x", "", "1", "01", "1.0", "true", "True", "red", "label", "total"]))
    choices = [{**value, key: alien}]
    if value:
        lost = draw(st.sampled_from(sorted(value)))
        rest = {name: one for name, one in value.items() if name != lost}
        choices += [rest, {**rest, f"{lost} ": value[lost]}, {**rest, lost: alien}]
    return draw(st.sampled_from(choices))


# ── hints at random ──────────────────────────────────────────────────────────────────────────────


@st.composite
def hints(draw: st.DrawFn, depth: int = 3) -> Any:
    """Draw a hint, nested up to *depth* levels."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return FORMS[draw(st.sampled_from(ATOMS))]
    inner = hints(depth - 1)
    shape = draw(st.sampled_from(["list", "dict", "tuple", "variadic", "optional", "union", "box", "described"]))
    if shape in ("tuple", "union"):
        first, second = draw(inner), draw(inner)
        return tuple[first, second] if shape == "tuple" else Union[first, second]  # noqa: UP007
    one = draw(inner)
    shapes = {
        "list": lambda: list[one],
        "dict": lambda: dict[str, one],
        "variadic": lambda: tuple[one, ...],
        "optional": lambda: Optional[one],  # noqa: UP045
        "box": lambda: Box[one],
        "described": lambda: Annotated[one, "described"],
    }
    return shapes[shape]()


# ── calls through the public surface ──────────────────────────────────────────────────────────────


def ask(tool: Tool[..., Any], arguments: Any, **options: Any) -> ToolResult:
    """Return what comes of one call of *tool* by an agent who may call it, in a registry with *options*."""
    registry = ToolRegistry(**options)
    registry.register_tool(tool)
    registry.assign_tool_to_agent(tool.name, "agent")
    return registry.execute(ToolCall("1", tool.name, arguments, "agent"))


def echo(hint: Any, default: Any = NOTHING, **more: Any) -> Tool[..., Any]:
    """Return a tool that gives back its only argument `value`, of type *hint*."""

    def echo(value: Any) -> Any:
        """Give it back."""
        return value

    echo.__annotations__["value"] = hint
    if default is not NOTHING:
        echo.__defaults__ = (default,)
    return Tool.from_function(echo, **more)


def given_tool(schema: dict[str, Any], **more: Any) -> Tool[..., Any]:
    """Return a tool with a given *schema* that gives back all of its arguments."""
    return Tool("given", "Give them back.", schema, lambda **values: values, **more)
