"""What one row of the table of types is, and what its parts are given to work with."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import msgspec

from praval_tools.lazy_regex import LazyRegex

DecodeHook = Callable[[Any, Any], Any]
"""JSON value, hint → Python value: the shape that cattrs calls. The hint is ignored by ours."""

EncodeHook = Callable[[Any], Any]
"""Python value → JSON value."""

JsonSchema = dict[str, Any]

_IDENTIFIER_KEY: Final = LazyRegex(r"[A-Za-z_][A-Za-z0-9_]*")


class Mismatch(Exception):
    """
    A JSON value does not fit a hint.

    Args:
        reason: What is wrong, in a few words.
        steps: Keys and indexes from the whole to the place, the innermost first.
    """

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason, self.steps = reason, list(steps)

    def prepend_step(self, step: str | int) -> Mismatch:
        """Return the same, seen from one level further out."""
        self.steps.append(step)
        return self

    @property
    def path(self) -> str:
        """The place as JSON path: `$.rows[3].amount`."""
        return "$" + "".join(map(_format_path_step, reversed(self.steps)))

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Unencodable(Mismatch, TypeError):
    """A Python value has no JSON form, or not the declared one."""


def _format_path_step(step: str | int) -> str:
    if type(step) is int:
        return f"[{step}]"
    return f".{step}" if _IDENTIFIER_KEY.fullmatch(str(step)) else f"[{step!r}]"


class SchemaBuilder(Protocol):
    """What a row needs to write a schema."""

    def build(self, hint: Any) -> JsonSchema:
        """Return the schema of *hint*."""

    def build_reference(self, hint: Any, name: str, build: Callable[[], JsonSchema]) -> JsonSchema:
        """Return a reference to the schema that *build* makes once for *hint*."""

    def replace_definition(self, hint: Any, schema: JsonSchema) -> None:
        """Replace the schema that was made for *hint*, for schemas that refer to each other."""

    def add_default(self, hint: Any, value: Any, into: JsonSchema) -> None:
        """Put *value* into the schema as its default, if it has a JSON form there."""


class DecodeHookFactory(Protocol):
    """What a row needs to make a structure hook."""

    exact: bool
    """No widening: each value must come in the JSON type that is its own."""

    def get_hook(self, hint: Any) -> DecodeHook:
        """Return the hook of *hint*, in the same mode."""

    def get_exact_hook(self, hint: Any) -> DecodeHook:
        """Return the hook of *hint* that does not widen."""


class EncodeHookFactory(Protocol):
    """What a row needs to make an encode hook."""

    keep_decimal: bool
    """Leave `Decimal` as it is, for exact comparison."""

    def get_hook(self, hint: Any) -> EncodeHook:
        """Return the encode hook of *hint*."""

    def encode_value(self, value: Any) -> Any:
        """Encode *value* by its own type."""


def match_nothing(hint: Any) -> bool:
    """Tell that *hint* does not belong to a row, whatever it is."""
    return False


class TypeHandler(msgspec.Struct, frozen=True, kw_only=True):
    """
    One row of the table of types: a kind of hint, in schema and in structuring and back.

    Args:
        name: What it is called in errors.
        types: Classes and origins that it stands for; looked up before any predicate is asked.
        fits: Tells whether a hint that is in no row's `types` belongs here.
        takes: The JSON types to which constraints can apply: `number`, `string`, `array`, `object`.
        parts: The hints inside a hint, which need forms, too.
        problem: Why a hint cannot be used although it belongs here, or None.
        schema: Writes the schema.
        structure: Makes the hook from JSON.
        encode: Makes the hook to JSON.
    """

    name: str
    types: tuple[Any, ...] = ()
    matches: Callable[[Any], bool] = match_nothing
    constrainable_types: frozenset[str] = frozenset()
    get_inner_hints: Callable[[Any], Iterable[Any]] = lambda hint: ()
    find_problem: Callable[[Any], str | None] = lambda hint: None
    build_schema: Callable[[Any, SchemaBuilder], JsonSchema]
    make_decode_hook: Callable[[Any, DecodeHookFactory], DecodeHook]
    make_encode_hook: Callable[[Any, EncodeHookFactory], EncodeHook]


def is_utf8_encodable(text: str) -> bool:
    """Tell whether *text* can be written as UTF-8: no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
