# Tests of: type_table, type_lookup, type_handler, type_hints, scalars, text_formats
# Tests of: containers, data_classes, class_fields, wrappers, constraints
"""Row by row through the table of types: what the schema says of a hint, and what its JSON becomes."""

from __future__ import annotations

import collections.abc as abc
import importlib.util
import re
import sys
import typing
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Flag
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)  # fmt: skip
from uuid import UUID

import attrs
import jsonschema_rs
import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen, MultipleOf
from type_classes import Color, Even, Json, Level, Mood, Movie, Pair, UserId
from type_strategies import ask, echo
from typing_extensions import TypeAliasType

from praval_tools import Outcome, Tool, ToolDefinitionError

T = TypeVar("T")


class Rights(Flag):
    READ = 1


@attrs.frozen
class Point:
    """A point."""

    x: float
    _y: int = 0
    seen: bool = attrs.field(init=False, default=True)


@attrs.frozen
class Aliased:
    value: int = attrs.field(alias="wert")


@dataclass
class Row:
    name: str
    size: InitVar[int] = 0
    tags: list[str] = field(default_factory=list)
    kind: ClassVar[str] = "row"
    total: int = field(init=False, default=0)


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    content: T


class Loose(TypedDict, total=False):
    name: Required[str]
    age: int


Names = TypeAliasType("Names", "list[str]")

INT, TEXT, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
TREE = {
    "type": "object",
    "properties": {
        "value": INT,
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
    },
    "required": ["value"],
    "additionalProperties": False,
}
HOUR = timedelta(hours=1)
IDENTIFIER = "12345678-1234-5678-1234-567812345678"


def an_object(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of a class with *properties*."""
    needed = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def a_list(items: Any = None, **more: Any) -> dict[str, Any]:
    """Return the schema of a list of *items*."""
    return {"type": "array", **({"items": items} if items else {}), **more}


ROWS: list[tuple[Any, dict[str, Any], Any, Any]] = [
    (str, TEXT, "é", "é"),
    (int, INT, 3.0, 3),
    (float, {"type": "number"}, 3, 3.0),
    (bool, {"type": "boolean"}, False, False),
    (None, NULL, None, None),
    (type(None), NULL, None, None),
    (Any, {}, {"a": [1, None]}, {"a": [1, None]}),
    (list, a_list(), [1, "x"], [1, "x"]),
    (list[int], a_list(INT), [1, 2.0], [1, 2]),
    (typing.List[int], a_list(INT), [1], [1]),  # noqa: UP006
    (dict, {"type": "object", "additionalProperties": True}, {"a": 1}, {"a": 1}),
    (dict[str, int], {"type": "object", "additionalProperties": INT}, {"a": 1}, {"a": 1}),
    (tuple, a_list(), [1, "x"], (1, "x")),
    (tuple[int, str], {"type": "array", "prefixItems": [INT, TEXT], "items": False, "minItems": 2}, [1, "x"], (1, "x")),
    (tuple[int, ...], a_list(INT), [1, 2], (1, 2)),
    (tuple[()], {"type": "array", "maxItems": 0}, [], ()),
    (set[int], a_list(INT, uniqueItems=True), [2, 1], {1, 2}),
    (frozenset[str], a_list(TEXT, uniqueItems=True), ["a"], frozenset({"a"})),
    (abc.Set[int], a_list(INT, uniqueItems=True), [1], frozenset({1})),
    (abc.Sequence[int], a_list(INT), [1], [1]),
    (typing.Sequence[int], a_list(INT), [1], [1]),
    (abc.Iterable[int], a_list(INT), [1], [1]),
    (abc.Mapping[str, int], {"type": "object", "additionalProperties": INT}, {"a": 1}, {"a": 1}),
    (Optional[int], {"anyOf": [INT, NULL]}, None, None),  # noqa: UP045
    (Union[int, str], {"anyOf": [INT, TEXT]}, "3", "3"),  # noqa: UP007
    (int | str, {"anyOf": [INT, TEXT]}, 3, 3),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}, None, None),
    (Literal[Color.RED], {"type": "string", "enum": ["red"]}, "red", Color.RED),
    (Color, {"type": "string", "enum": ["red", "green"]}, "red", Color.RED),
    (Level, {"type": "integer", "enum": [1, 2]}, 2, Level.HIGH),
    (Mood, {"type": "string", "enum": ["good", "bad"]}, "good", Mood.GOOD),
    (Aliased, an_object(["wert"], wert=INT), {"wert": 1}, Aliased(wert=1)),
    (Even, an_object(["number"], number=INT), {"number": 2}, Even(2)),
    (Box[int], an_object(["content"], content=INT), {"content": 1}, Box(1)),
    (Box[list[str]], an_object(["content"], content=a_list(TEXT)), {"content": ["a"]}, Box(["a"])),
    (Movie, an_object(["title"], title=TEXT, year=INT), {"title": "x"}, {"title": "x"}),
    (Loose, an_object(["name"], name=TEXT, age=INT), {"name": "x", "age": 3}, {"name": "x", "age": 3}),
    (Pair, an_object(["first"], first=INT, second={**TEXT, "default": "x"}), {"first": 1}, Pair(1)),
    (UserId, INT, 3, 3),
    (Names, a_list(TEXT), ["a"], ["a"]),
    (Tree, {"$ref": "#/$defs/Tree"}, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Json, {"$ref": "#/$defs/Json"}, {"a": [1, None]}, {"a": [1, None]}),
    (Path, TEXT, "a/b", Path("a/b")),
    (PurePosixPath, TEXT, "a/b", PurePosixPath("a/b")),
    (Annotated[int, "how many"], {**INT, "description": "how many"}, 3, 3),
    (Annotated[int, Ge(0), Le(9)], {**INT, "minimum": 0, "maximum": 9}, 9, 9),
    (Annotated[float, Gt(0), Lt(1)], {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5, 0.5),
    (Annotated[int, MultipleOf(3)], {**INT, "multipleOf": 3}, 9, 9),
    (Annotated[str, MinLen(1), MaxLen(3)], {**TEXT, "minLength": 1, "maxLength": 3}, "ab", "ab"),
    (Annotated[list[int], MinLen(1)], a_list(INT, minItems=1), [1], [1]),
    (Annotated[str, re.compile("^a+$")], {**TEXT, "pattern": "^a+$"}, "aa", "aa"),
    (list[Annotated[int, Ge(1)]], a_list({**INT, "minimum": 1}), [1], [1]),
    (dict[Color, Level], {"type": "object", "propertyNames": {"enum": ["red", "green"]},
                          "additionalProperties": {"type": "integer", "enum": [1, 2]}},
     {"red": 1}, {Color.RED: Level.LOW}),
]  # fmt: skip
"""Hint, schema, JSON, Python."""

AS_TEXT: list[tuple[Any, str | None, Any, Any]] = [
    (datetime, "date-time", "2026-01-02T03:04:05Z", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (datetime, "date-time", "2026-01-02T03:04:05.5+01:00", datetime(2026, 1, 2, 3, 4, 5, 500_000, timezone(HOUR))),
    (date, "date", "2026-01-02", date(2026, 1, 2)),
    (time, None, "03:04:05", time(3, 4, 5)),
    (time, None, "03:04:05-01:00", time(3, 4, 5, tzinfo=timezone(-HOUR))),
    (timedelta, None, "P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
    (timedelta, None, "-PT1H", -HOUR),
    (timedelta, None, "P2W", timedelta(weeks=2)),
    (UUID, "uuid", IDENTIFIER, UUID(IDENTIFIER)),
    (bytes, None, "AP8=", b"\x00\xff"),
    (bytes, None, "", b""),
]
"""Hint, format, text, Python."""


def schema_of(hint: Any) -> dict[str, Any]:
    """Return what the schema of a tool says of its parameter of type *hint*."""
    made: dict[str, Any] = echo(hint).parameters["properties"]["value"]
    return made


def value_of(hint: Any, value: Any) -> Any:
    """Return what the function gets for *value*, taken without repair."""
    result = ask(echo(hint), {"value": value}, strict_arguments=True)
    assert Outcome.OK is result.outcome, result.error
    return result.result


def refused(hint: Any, value: Any) -> bool:
    """Tell whether *value* is refused."""
    return Outcome.INVALID_ARGUMENTS is ask(echo(hint), {"value": value}, strict_arguments=True).outcome


class TestTable:
    @pytest.mark.parametrize(("hint", "schema", "_", "__"), ROWS, ids=lambda one: ascii(one)[:40])
    def test_schema(self, hint: Any, schema: dict[str, Any], _: Any, __: Any) -> None:
        """Each row has its JSON Schema."""
        assert schema == schema_of(hint)

    @pytest.mark.parametrize(("hint", "_", "value", "expected"), ROWS, ids=lambda one: ascii(one)[:40])
    def test_structuring(self, hint: Any, _: Any, value: Any, expected: Any) -> None:
        """Each row has its Python value, of the right type."""
        made = value_of(hint, value)

        assert expected == made
        assert type(expected) is type(made)

    @pytest.mark.parametrize(("hint", "form", "text", "expected"), AS_TEXT, ids=lambda one: ascii(one)[:40])
    def test_values_that_json_carries_as_text(self, hint: Any, form: str | None, text: str, expected: Any) -> None:
        """Times, identifiers and bytes are text in JSON, with their format where JSON Schema has one."""
        schema = schema_of(hint)

        assert ("string", form) == (schema["type"], schema.get("format"))
        assert expected == value_of(hint, text)
        assert refused(hint, f" {text}")

    @pytest.mark.parametrize(
        ("value", "expected"),
        [("1.50", Decimal("1.50")), (1.5, Decimal("1.5")), (3, Decimal(3)), (0.1, Decimal("0.1"))],
    )
    def test_a_decimal_is_text_or_number(self, value: Any, expected: Decimal) -> None:
        """A Decimal is what the text or number says, not the binary fraction next to it."""
        assert str(expected) == str(value_of(Decimal, value))
        assert ["string", "number"] == [one["type"] for one in schema_of(Decimal)["anyOf"]]

    def test_bytes_say_their_encoding(self) -> None:
        """The schema says base64."""
        assert "base64" == schema_of(bytes)["contentEncoding"]

    def test_recursive_classes_are_defined_once(self) -> None:
        """A class that holds itself stands in `$defs`."""
        assert {"Tree": TREE} == echo(Tree).parameters["$defs"]

    def test_a_description_of_a_class_comes_from_its_docstring(self) -> None:
        """What a class says of itself is in the schema, and only what its constructor takes."""
        schema = schema_of(Point)

        assert "A point." == schema["description"]
        assert ["x", "y"] == list(schema["properties"])

    def test_dataclass_fields(self) -> None:
        """InitVar is an argument; ClassVar and `init=False` are none; an empty factory is a default."""
        schema = schema_of(Row)

        assert {"name": TEXT, "size": {**INT, "default": 0}, "tags": {**a_list(TEXT), "default": []}} == schema[
            "properties"
        ]
        assert "init" not in str(schema)


class TestClasses:
    def test_a_private_attrs_field_is_named_by_its_argument(self) -> None:
        """`_y` is the argument `y`: JSON names what the constructor takes."""
        assert Point(1.0, 2) == value_of(Point, {"x": 1, "y": 2})
        assert refused(Point, {"x": 1, "_y": 2})

    def test_an_attrs_alias_is_the_name(self) -> None:
        """A field with an alias is given by it and by nothing else."""
        assert refused(Aliased, {"value": 1})

    def test_an_attribute_that_is_not_given_cannot_be(self) -> None:
        """Fields with `init=False` are no arguments."""
        assert refused(Point, {"x": 1, "seen": False})
        assert refused(Row, {"name": "x", "total": 1})

    def test_what_a_validator_refuses_is_a_bad_argument(self) -> None:
        """What the class itself raises is the fault of the value, at its place, with its text."""
        result = ask(echo(list[Even]), {"value": [{"number": 2}, {"number": 3}]})

        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert "$.value[1]" in str(result.error)
        assert "is odd" in str(result.error)

    @pytest.mark.parametrize("hint", [Point, Row, Movie, Pair, Tree, Box[int]])
    @pytest.mark.parametrize("value", [[], ["x"], "x", 1, None, True])
    def test_what_is_no_object_is_refused(self, hint: Any, value: Any) -> None:
        """A list or text where an object is wanted is a bad argument, never another error."""
        assert refused(hint, value)

    @pytest.mark.parametrize(
        ("hint", "value"), [(Point, {"x": 1}), (Row, {"name": "x"}), (Movie, {"title": "x"}), (Pair, {"first": 1})]
    )
    def test_unknown_keys_are_refused(self, hint: Any, value: dict[str, Any]) -> None:
        """No class takes a key that it does not have."""
        assert not refused(hint, value)
        assert refused(hint, {**value, "more": 1})

    def test_required_keys_are_known_under_string_annotations(self) -> None:
        """Required and NotRequired count although this module's hints are text."""
        assert refused(Loose, {"age": 3})
        assert not refused(Movie, {"title": "x"})

    def test_a_named_tuple_gets_typed_fields_under_string_annotations(self) -> None:
        """The fields of a NamedTuple are checked although this module's hints are text."""
        assert refused(Pair, {"first": "1"})
        assert Pair(1, "y") == value_of(Pair, {"first": 1, "second": "y"})

    def test_deep_recursion_stays_inside_of_the_limit(self) -> None:
        """A recursive class takes values up to the depth limit and refuses deeper ones."""
        value: dict[str, Any] = {"value": 0}
        for _ in range(25):
            value = {"value": 1, "children": [value]}

        assert 25 == value_of(Tree, value).children[0].value + 24
        for _ in range(25):
            value = {"value": 1, "children": [value]}
        assert refused(Tree, value)


class TestChoices:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [(Literal[1], True), (Literal[True], 1), (Literal[0], False), (Literal["1"], 1), (Level, True), (Level, 3),
         (Level, "LOW"), (Level, 1.5), (Color, "RED"), (Color, Color.RED), (Mood, "GOOD"), (Literal[None], 0)],
        ids=ascii,
    )  # fmt: skip
    def test_take_their_own_values_only(self, hint: Any, value: Any) -> None:
        """Python calls 1 and True equal; a choice does not."""
        assert refused(hint, value)

    def test_a_member_of_an_int_enum_is_that_member(self) -> None:
        """An IntEnum is not served as the int that it is, too."""
        assert value_of(Level, 1) is Level.LOW
        assert value_of(list[Level], [2])[0] is Level.HIGH

    def test_a_literal_keeps_1_and_true_apart(self) -> None:
        """Each value of a Literal keeps its own type."""
        hint = Literal[1, True]

        assert value_of(hint, True) is True
        assert [1, int] == [value_of(hint, 1), type(value_of(hint, 1))]


_MODULE = """
from dataclasses import dataclass
from typing import Annotated, NamedTuple, NotRequired, Optional, Required, TypedDict
from datetime import date
import attrs
from praval_tools import Tool

class Opts(TypedDict, total=False):
    name: Required[str]
    when: Optional[date]

class More(TypedDict):
    name: str
    size: NotRequired[Annotated[int, "how big"]]

class Span(NamedTuple):
    start: date
    end: date | None = None

@dataclass
class Node:
    opts: Opts
    more: "More | None" = None

@attrs.define
class Leaf:
    node: Node
    spans: list[Span]

def run(leaf: Leaf, count: "int" = 3, *, names: list[str] | None = None) -> dict[str, list[Span]]:
    '''Run.'''
    return {"spans": leaf.spans}
"""


def module(text: str, name: str, folder: Path) -> ModuleType:
    """Import *text* as the module *name*."""
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def both(tmp_path: Path) -> typing.Iterator[list[Tool[..., Any]]]:
    """The same tool of a module with plain hints and of one with text hints."""
    plain = module(_MODULE, "hints_plain", tmp_path)
    text = module("from __future__ import annotations\n" + _MODULE, "hints_text", tmp_path)
    yield [Tool.from_function(one.run) for one in (plain, text)]
    del sys.modules["hints_plain"], sys.modules["hints_text"]


class TestTextHints:
    def test_give_the_same_schemas(self, both: list[Tool[..., Any]]) -> None:
        """`from __future__ import annotations` changes neither schema nor fingerprint."""
        plain, text = both

        assert plain.parameters == text.parameters
        assert plain.result_schema == text.result_schema
        assert plain.fingerprint == text.fingerprint

    def test_give_the_same_metadata(self, both: list[Tool[..., Any]]) -> None:
        """The types in the metadata are the same Python text."""
        plain, text = both

        assert plain.metadata.parameters == text.metadata.parameters
        assert "list[str] | None" == text.metadata.parameters["names"]["type"]

    def test_give_the_same_values(self, both: list[Tool[..., Any]]) -> None:
        """Values are structured all the way down."""
        leaf = {"node": {"opts": {"name": "x", "when": "2026-01-01"}}, "spans": [{"start": "2026-01-02"}]}

        for one in both:
            spans = ask(one, {"leaf": leaf}).result["spans"]
            assert date(2026, 1, 2) == spans[0].start
            assert Outcome.INVALID_ARGUMENTS is ask(one, {"leaf": {**leaf, "spans": [{"end": None}]}}).outcome


class TestPydantic:
    def test_models_are_forms_where_pydantic_is_installed(self) -> None:
        """A pydantic model has a schema and is structured strictly."""
        pydantic = pytest.importorskip("pydantic")
        model = pydantic.create_model("Person", name=(str, ...), age=(int, 3), __config__={"extra": "forbid"})

        assert {"name", "age"} == schema_of(model)["properties"].keys()
        assert model(name="x", age=5) == value_of(model, {"name": "x", "age": 5})
        assert model(name="x", age=3) == value_of(model, {"name": "x"})
        for value in ({"name": 1}, {"name": "x", "age": "5"}, {"name": "x", "age": 1.5}, {}, [], {"name": "x", "b": 1}):
            assert refused(model, value)

    @pytest.mark.parametrize(
        ("hint", "value"),
        [(Literal[1], True), (Level, True), (set[int], [1, 1]), (datetime, "2026-01-01"), (datetime, "3"),
         (time, "10"), (timedelta, "1 day"), (UUID, "0" * 32), (int, "3"), (int, 3.5), (bool, 1),
         (list[int], ["1"])],
        ids=ascii,
    )  # fmt: skip
    def test_what_the_schema_of_a_model_refuses_is_refused(self, hint: Any, value: Any) -> None:
        """Schema and structuring agree inside of a model, too, although pydantic alone would take more."""
        pydantic = pytest.importorskip("pydantic")
        tool = echo(pydantic.create_model("Model", field=(hint, ...)))
        arguments = {"value": {"field": value}}

        assert not jsonschema_rs.validator_for(tool.parameters, validate_formats=True).is_valid(arguments)
        assert Outcome.INVALID_ARGUMENTS is ask(tool, arguments, strict_arguments=True).outcome


class Opaque:
    """A class without fields."""


class TestRefusedHints:
    @pytest.mark.parametrize(
        ("hint", "name", "instead"),
        [
            (abc.Callable[[], int], "Callable", "take the name of a function as str"),
            (object, "object", "Any"),
            (complex, "complex", "two floats"),
            (bytearray, "bytearray", "bytes"),
            (memoryview, "memoryview", "bytes"),
            (type[int], "type", "Literal"),
            (range, "range", "start and a stop"),
            (ModuleType, "module", "import it"),
            (Opaque, "Opaque", "attrs class, a dataclass or a TypedDict"),
            (re.Pattern, "Pattern", "attrs class, a dataclass or a TypedDict"),
            (Rights, "Rights", "set of an Enum"),
            (set[list[int]], "set[list[int]]", "list[list[int]]"),
            (set[Row], "Row", "list[Row]"),
            (dict[float | str, int], "float | str", "str, int"),
            (dict[tuple[int, int], int], "tuple[int, int]", "str, int"),
            (list[Opaque], "Opaque", "attrs class"),
            (dict[str, complex | None], "complex", "two floats"),
            (Annotated[int, MinLen(1)], "int", "check it in the function"),
            (Annotated[str, Ge(1)], "str", "check it in the function"),
        ],
        ids=ascii,
    )
    def test_are_named_with_what_to_use_instead(self, hint: Any, name: str, instead: str) -> None:
        """A hint without a JSON form is refused at definition: parameter, type, and what to use instead."""
        with pytest.raises(ToolDefinitionError) as caught:
            echo(hint)

        for part in ("'echo'", "'value'", name, instead):
            assert part in str(caught.value)
