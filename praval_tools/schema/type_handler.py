"""The interface of type handlers (how a kind of type hint is described, decoded and encoded), and their errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import msgspec

from praval_tools.schema.json_pointer import format_json_path
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.type_hints import Hint

DecodeHook = Callable[[Any, Any], Any]
"""JSON value, hint → Python value: the signature that cattrs calls. Our hooks ignore the hint."""

EncodeHook = Callable[[Any], Any]
"""Python value → JSON value."""


class Mismatch(Exception):
    """
    A JSON value does not fit a hint.

    Args:
        reason: What is wrong, in a few words.
        steps: Keys and indexes that lead to the place, the innermost first.
    """

    def __init__(self, reason: str, *steps: str | int) -> None:
        super().__init__(reason)
        self.reason, self.steps = reason, list(steps)

    def prepend_step(self, step: str | int) -> Mismatch:
        """Return this error with a path that starts one level further out."""
        self.steps.append(step)
        return self

    @property
    def path(self) -> str:
        """The place as JSON path: `$.rows[3].amount`."""
        return format_json_path(reversed(self.steps))

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Unencodable(Mismatch, TypeError):
    """A Python value has no JSON form, or not the declared one."""


def collect_items(items: Iterable[Any]) -> list[Any]:
    """Return items that are converted while they are iterated over; an error gets the index of its item."""
    collected: list[Any] = []
    try:
        collected.extend(items)
    except Mismatch as error:
        raise error.prepend_step(len(collected)) from None
    return collected


class SchemaBuilder(Protocol):
    """What a type handler needs to build a schema."""

    describes_results: bool
    """Of a class that writes itself otherwise than it is given, describe what it writes."""

    describes_all_members: bool
    """Describe what a tool does not take, too, such as fields that a constructor does not take."""

    hides_values: bool
    """Leave out defaults and examples of secrets."""

    def build(self, hint: Hint) -> JsonSchema:
        """Return the schema of *hint*."""

    def build_reference(self, hint: Hint, name: str, build: Callable[[], JsonSchema]) -> JsonSchema:
        """Return a reference to the schema of *hint*, which *build* makes at the first reference."""

    def replace_definition(self, hint: Hint, schema: JsonSchema) -> None:
        """Replace the schema that was made for *hint*, for schemas that refer to each other."""

    def add_default(self, hint: Hint, value: object, into: JsonSchema) -> None:
        """Put *value*, which is `NOTHING` where code makes it, into the schema, if it has a JSON form there."""


class DecodeHookFactory(Protocol):
    """What a type handler needs to make a decode hook."""

    exact: bool
    """No widening: each value must come in the JSON type that is its own."""

    reads_results: bool
    """The values were written by encode hooks: numbers stay as a tool returned them, 1 under float an int."""

    def get_hook(self, hint: Hint) -> DecodeHook:
        """Return the hook of *hint*, in the same mode."""

    def get_exact_hook(self, hint: Hint) -> DecodeHook:
        """Return the hook of *hint* that does not widen."""


class EncodeHookFactory(Protocol):
    """What a type handler needs to make an encode hook."""

    reads_models: bool
    """Read the fields of pydantic models instead of having the models write themselves."""

    marks_members: bool
    """Write what is under a union as `WrittenByMember`."""

    takes_subclasses: bool
    """Write an object of a subclass of the declared class, too: with the fields of its own class."""

    def get_hook(self, hint: Hint) -> EncodeHook:
        """Return the encode hook of *hint*."""

    def encode_value(self, value: object) -> Any:
        """Encode *value* by its own type."""


def match_nothing(hint: Hint) -> bool:
    """Match no hint: the default of handlers that are looked up by type only."""
    return False


class TypeHandler(msgspec.Struct, frozen=True, kw_only=True):
    """
    One row of the type table: how a kind of type hint is described, decoded and encoded.

    Args:
        name: What it is called in errors.
        types: Classes and origins that it handles; looked up before any predicate is asked.
        matches: Tells whether it handles a hint that is in no handler's `types`.
        constrainable_types: The JSON types to which constraints can apply: `number`, `string`, `array`, `object`.
        get_inner_hints: Returns the hints inside a hint, which need handlers, too.
        find_problem: Returns why a hint cannot be used although it is handled here, or None.
        build_schema: Builds the JSON Schema of a hint.
        make_decode_hook: Makes the function from JSON to Python.
        make_encode_hook: Makes the function from Python to JSON.
    """

    name: str
    types: tuple[Hint, ...] = ()
    matches: Callable[[Hint], bool] = match_nothing
    constrainable_types: frozenset[str] = frozenset()
    get_inner_hints: Callable[[Hint], Iterable[Hint]] = lambda hint: ()
    find_problem: Callable[[Hint], str | None] = lambda hint: None
    build_schema: Callable[[Hint, SchemaBuilder], JsonSchema]
    make_decode_hook: Callable[[Hint, DecodeHookFactory], DecodeHook]
    make_encode_hook: Callable[[Hint, EncodeHookFactory], EncodeHook]
