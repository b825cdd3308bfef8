"""A replayed result is the recorded one: equal in value and type, and the same text for a model."""

from __future__ import annotations

import json
import re
from collections import ChainMap, UserList, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import jsonschema_rs
import pytest
from annotated_types import Ge
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SerializeAsAny, computed_field
from replay_rig import iter_results, make_giver

from praval_tools import Content, Outcome, Secret, Tool, ToolCall, ToolRegistry
from praval_tools.formats import result_message

T = TypeVar("T")


class Point(NamedTuple):
    x: float


class Row(TypedDict):
    x: float


@dataclass
class Amount:
    x: float
    many: list[float]


@attrs.define
class Pair:
    x: float | str
    y: float | None


class Model(BaseModel):
    x: int | float
    y: Any


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Counted:
    """Has items and a number of them, and is of no type that has."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])

    def __len__(self) -> int:
        return 2


NUMBERS: list[tuple[Any, Any]] = [
    (float, 1), (float, 1.0), (float, 2**53 + 1), (int, 7.0), (float | None, 3), (float | str, 3),
    (list[float], [1, 1.0]),
    (dict[str, float], {"a": 1}), (tuple[float, float], (1, 1.0)), (Annotated[float, Ge(0)], 2), (Point, Point(1)),
    (Row, {"x": 1}), (Amount, Amount(1, [1, 2.0])), (Pair, Pair(1, 2)), (Model, Model(x=3.0, y=3.0)),
    (Model, Model(x=3, y=[1.0])), (list[Point | Amount], [Point(1)]),
]  # fmt: skip
LOOSE: list[Any] = [
    datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.50"), b"x", UUID(int=1), PurePosixPath("a/b"), timedelta(1), "text",
    (1, 2), {3, 1}, 1.0, Content.of_text("words"), Content.image(b"\x89PNG", "image/png"),
    ["see", Content.image(b"\x89PNG", "image/png")], [Content.link("https://x.test", "x")],
    Content.resource("a://b", data=b"x"),
    {"type": "text", "text": 5, "data": None, "mime_type": "", "uri": "", "name": ""},
    {"type": "video", "text": "", "data": None, "mime_type": "", "uri": "", "name": ""},
]  # fmt: skip
FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "mcp")


@dataclass
class Tenfold:
    amount: int

    def __post_init__(self) -> None:
        self.amount *= 10


@attrs.frozen
class Doubled:
    amount: int = attrs.field(converter=lambda value: value * 2)


class Raised(BaseModel):
    amount: Annotated[int, BeforeValidator(lambda value: value + 1)]


class Inner(BaseModel):
    at: str = Field(alias="when")

    @computed_field(alias="Size")  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return len(self.at)


class Written(BaseModel):
    inner: list[Inner] = []
    name: str = Field(serialization_alias="Name", validation_alias="NAME")
    amount: int = 5

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return self.amount * 2


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
    amount: int = Field(alias="Amount")


class Renamed(BaseModel):
    amount: int = Field(serialization_alias="Amount")


class Seconds(BaseModel):
    model_config = ConfigDict(ser_json_timedelta="float")
    span: timedelta


class Numbered(BaseModel):
    model_config = ConfigDict(ser_json_temporal="seconds")
    at: datetime


class Page(BaseModel, Generic[T]):
    rows: list[T]


@dataclass
class Book:
    page: Page[Annotated[int, Field(ge=0)]]  # another class each time the text is read


class Loose(BaseModel):
    model_config = ConfigDict(extra="allow")
    inner: Renamed
    word: str = Field("", exclude=True)


CHANGED: list[tuple[Any, Any]] = [
    (Tenfold, Tenfold(1)), (Doubled, Doubled(1)), (list[Tenfold], [Tenfold(1)]), (dict[float, int], {1: 1, 2.5: 2}),
    (Written, Written(NAME="x")), (Written, Written(NAME="x", inner=[Inner(when="now")])), (Inner, Inner(when="now")),
    (list[Inner | None], [None, Inner(when="now")]), (ByName, ByName(amount=5)), (list[ByName], [ByName(amount=5)]),
    (Loose, Loose(inner=Renamed(amount=5))), (Loose, Loose.model_validate({"inner": {"amount": 5}, "note": "x"})),
    (Loose | Renamed, Renamed(amount=5)), (Seconds, Seconds(span=timedelta(hours=1))),
    (list[Seconds], [Seconds(span=timedelta(seconds=0.5))]),
    (Book, Book(Page[Annotated[int, Field(ge=0)]](rows=[1]))),
]  # fmt: skip
"""Hint, and a value of which its class makes another one, or which it writes otherwise than it takes it."""


@dataclass
class Animal:
    name: str = "rex"


@dataclass
class Dog(Animal):
    legs: int = 4


@dataclass
class Shelf:
    first: Animal
    rest: list[Animal] = field(default_factory=list)


@attrs.frozen
class Pet:
    name: str = "tom"


@attrs.frozen
class Cat(Pet):
    lives: int = 9


@attrs.frozen
class Basket:
    first: Pet
    rest: list[Pet] = attrs.field(factory=list)


class Beast(BaseModel):
    name: str = "fox"


class Fox(Beast):
    tails: int = 1


@dataclass
class Den:
    first: Beast
    rest: list[Beast] = field(default_factory=list)


class Burrow(BaseModel):
    first: SerializeAsAny[Beast]
    rest: list[SerializeAsAny[Beast]]


@dataclass
class Tag:
    key: Annotated[int, Secret] = 7


@dataclass
class HiddenDog(Animal):
    word: Annotated[str, Secret] = "hush"
    pin: Annotated[int, Secret] = 42
    codes: Annotated[list[int | str], Secret] = field(default_factory=lambda: [41, "x", "hush hush"])
    by: Annotated[dict[str, str], Secret] = field(default_factory=lambda: {"k": "hush-value"})
    tags: list[Tag] = field(default_factory=lambda: [Tag()])
    part: Tag = field(default_factory=Tag)
    shown: str = "spot"


@attrs.frozen
class HiddenCat(Pet):
    word: Annotated[str, Secret] = "hush"
    pin: Annotated[int, Secret] = 42
    codes: Annotated[list[int | str], Secret] = attrs.field(factory=lambda: [41, "x", "hush hush"])
    by: Annotated[dict[str, str], Secret] = attrs.field(factory=lambda: {"k": "hush-value"})
    tags: list[Tag] = attrs.field(factory=lambda: [Tag()])
    part: Tag = attrs.field(factory=Tag)
    shown: str = "spot"


class HiddenFox(Beast):
    word: Annotated[str, Secret] = "hush"
    pin: Annotated[int, Secret] = 42
    codes: Annotated[list[int | str], Secret] = [41, "x", "hush hush"]
    by: Annotated[dict[str, str], Secret] = {"k": "hush-value"}
    tags: list[Tag] = [Tag()]
    part: Tag = Tag()
    shown: str = "spot"


DOG, CAT, FOX = {"name": "rex", "legs": 4}, {"name": "tom", "lives": 9}, {"name": "fox", "tails": 1}
SUBCLASSES: list[tuple[Any, Any, Any]] = [
    (Animal, Dog(), DOG), (Animal | None, Dog(), DOG), (list[Animal], [Animal(), Dog()], [{"name": "rex"}, DOG]),
    (dict[str, Animal], {"a": Dog()}, {"a": DOG}), (tuple[Animal, int], (Dog(), 1), [DOG, 1]),
    (Shelf, Shelf(Dog(), [Dog()]), {"first": DOG, "rest": [DOG]}), (Any, Shelf(Dog()), {"first": DOG, "rest": []}),
    (Pet, Cat(), CAT), (list[Pet], [Cat()], [CAT]), (Basket, Basket(Cat(), [Cat()]), {"first": CAT, "rest": [CAT]}),
    (Animal | Pet | int, Cat(), CAT), (Beast, Fox(), FOX), (list[Beast], [Fox()], [FOX]),
    (Den, Den(Fox(), [Fox()]), {"first": FOX, "rest": [FOX]}),
    (Burrow, Burrow(first=Fox(), rest=[Fox()]), {"first": FOX, "rest": [FOX]}),
]  # fmt: skip
"""Hint, a value with objects of subclasses that add fields, and its JSON."""


class TestNumbers:
    @pytest.mark.parametrize(("hint", "value"), NUMBERS, ids=str)
    def test_come_back_in_their_own_type(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: an int under `float` was 1 live and 1.0 replayed, and lost digits beyond 2**53."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, False, True) == (live.outcome, live.replayed, replayed.replayed)
        assert repr(value) == repr(live.result) == repr(replayed.result)
        assert live.for_model() == replayed.for_model()


class TestClasses:
    @pytest.mark.parametrize(("hint", "value"), CHANGED, ids=str)
    def test_come_back_as_they_were(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: a constructor changed a recorded value once more, and a computed field made it a dict."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert repr(value) == repr(replayed.result)
        assert live.for_model() == replayed.for_model()

    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (Raised, Raised(amount=1)), (Tenfold | Row, {"x": 1.0}),
            (Numbered, Numbered(at=datetime(2026, 1, 2, 3, 4, 5))),  # read back, it would have an offset
        ],
        ids=str,
    )  # fmt: skip
    def test_stay_json_where_they_would_be_another_value(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """What a class would make of it a second time is never taken for what was recorded."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert json.loads(live.for_model()) == replayed.result
        assert live.for_model() == replayed.for_model()

    @pytest.mark.parametrize(("hint", "value"), [*CHANGED, (Raised, Raised(amount=1))], ids=str)
    def test_are_what_the_result_schema_says(self, hint: Any, value: Any) -> None:
        """Broken promise: a tool's output broke its own schema by a computed field or an alias of its class."""
        compiled = Tool.from_function(make_giver(hint, value)).implementation.compiled

        assert jsonschema_rs.validator_for(compiled.result_schema).is_valid(compiled.encode_result(value))

    def test_may_be_given_as_json_without_defaults(self) -> None:
        """A tool that declares a model may return its JSON, defaults left out, and it fits the schema."""
        compiled = Tool.from_function(make_giver(Written, None)).implementation.compiled

        written = compiled.encode_result({"Name": "x"})

        assert jsonschema_rs.validator_for(compiled.result_schema).is_valid(written)


class TestSubclasses:
    """Broken promise: an object of a subclass with more fields than declared ended the call, in a journal alone."""

    @pytest.mark.parametrize(("hint", "value", "json"), SUBCLASSES, ids=str)
    def test_are_recorded_with_all_their_fields(self, hint: Any, value: Any, json: Any, tmp_path: Path) -> None:
        """The caller gets the object, and later its JSON; a model reads the same as without a journal."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")
        with ToolRegistry() as registry:
            registry.tool(owned_by="ann")(make_giver(hint, value))
            plain = registry.execute(ToolCall("c", "give", {}, "ann"))

        assert (Outcome.OK, Outcome.OK, True) == (live.outcome, replayed.outcome, replayed.replayed)
        assert repr(value) == repr(live.result) == repr(plain.result)
        assert json == replayed.result
        assert plain.for_model() == live.for_model() == replayed.for_model()

    @pytest.mark.parametrize("kind", [HiddenDog, HiddenCat, HiddenFox], ids=str)
    @pytest.mark.parametrize("wrap", [
        lambda kind, value: (kind, value), lambda kind, value: (list[kind], [value]),
        lambda kind, value: (dict[str, kind | None], {"a": value}), lambda kind, value: (kind | int, value),
    ])  # fmt: skip
    def test_hide_what_their_added_fields_mark(self, kind: Any, wrap: Any, tmp_path: Path) -> None:
        """As a field of the declared class is hidden: whatever it is, and however short."""
        hint, value = wrap(kind.__base__, kind())

        live, replayed = iter_results(hint, value, tmp_path / "j.db")
        text = json.dumps(replayed.result)
        written = b"".join(path.read_bytes() for path in tmp_path.glob("j.db*") if path.is_file())

        assert Outcome.OK is live.outcome is replayed.outcome
        assert repr(value) in repr(live.result)
        assert b"hush" not in written and b'"spot"' in written
        assert 6 == len(re.findall(r'"(?:word|pin|codes|by|key)": "\[secret \w+\]"', text))

    @pytest.mark.parametrize(("hint", "value"), [(Animal, Dog()), (list[Animal], [Dog()]), (Shelf, Shelf(Dog()))])
    def test_are_no_arguments(self, hint: Any, value: Any) -> None:
        """What a tool takes is of the declared class: a subclass with more fields does not fit."""

        def take(value: Any) -> None:
            """Take."""

        take.__annotations__["value"] = hint
        with ToolRegistry() as registry:
            registry.tool(owned_by="ann")(take)
            result = registry.execute(ToolCall("c", "take", {"value": value}, "ann"))

        assert Outcome.INVALID_ARGUMENTS is result.outcome


class TestWhatAModelReads:
    @pytest.mark.parametrize("value", LOOSE, ids=lambda one: ascii(one)[:40])
    def test_is_the_same_text_under_any_type(self, value: Any, tmp_path: Path) -> None:
        """Broken promise: under `Any` a live time was quoted and a replayed one not, an image became its JSON."""
        live, replayed = iter_results(Any, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert live.for_model() == replayed.for_model()
        assert live.for_model(20) == replayed.for_model(20)
        for api_format in FORMATS:
            assert result_message(api_format, live) == result_message(api_format, replayed)


HINTS: list[Any] = [
    Any, bool, int, float, str, bytes, Decimal, Decimal | float, datetime, timedelta, UUID, PurePosixPath, Level,
    Literal["a", 1], list[int], list[Decimal], dict[str, int], tuple[int, ...], set[int], int | str,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, 0, -0.0, 1, 1.0, 1.5, 1e16, 5e-324, 2**53 + 1, 10**30, "", "a", "1", "null", b"", b"x",
    Decimal("1.50"), Decimal("1E+2"), Decimal("-0"), datetime(2026, 1, 1), timedelta(-1, microseconds=1), UUID(int=1),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), PurePosixPath("a"), Level.HIGH, [],
    [1, 1.0], (1, 2), {3, 1}, range(2), deque([1]), {"a": 1}, {1: 2}, {"a": 1}.keys(), {"a": 1}.values(),
    {"a": 1}.items(), MappingProxyType({"a": 1}), ChainMap({"a": 1}), UserList([1]), Counted(),
]  # fmt: skip
"""Values, each of which is returned under each hint: those that it is none of, too."""


class TestOtherTypesThanDeclared:
    @pytest.mark.parametrize("hint", HINTS, ids=str)
    def test_come_back_as_they_were_read(self, hint: Any) -> None:
        """Broken promise: under `Decimal`, `1e16` was `1E+16` replayed; of `dict.values()` a model read an error."""
        for value in VALUES:
            with ToolRegistry(journal="memory") as registry:
                registry.tool(owned_by="ann")(make_giver(hint, value))
                results = []
                for _ in range(2):
                    with registry.run("r"):
                        results.append(registry.execute(ToolCall("c", "give", {}, "ann")))

            live, replayed = results
            assert (live.outcome, True) == (replayed.outcome, replayed.replayed)
            assert live.for_model() == replayed.for_model()
            for api_format in FORMATS:
                assert result_message(api_format, live) == result_message(api_format, replayed)


class TestWhatAToolKeeps:
    def test_is_not_what_its_caller_has(self) -> None:
        """Broken promise: a tool that returns its own list changed results that were recorded before, as live ones."""
        kept: dict[str, list[Any]] = {"rows": []}

        with ToolRegistry(journal="memory") as registry:

            @registry.tool(owned_by="ann")
            def add(number: int) -> dict[str, list[list[int]]]:
                """Add a row."""
                kept["rows"].append([number])
                kept["rows"][0].append(number)
                return kept

            calls = [ToolCall(f"c{number}", "add", {"number": number}, "ann") for number in range(3)]
            with registry.run("r"):
                live = [registry.execute(call) for call in calls]
            with registry.run("r"):
                replayed = [registry.execute(call) for call in calls]

        assert [{"rows": [[0, 0]]}, {"rows": [[0, 0, 1], [1]]}] == [result.result for result in live[:2]]
        assert [result.for_model() for result in replayed] == [result.for_model() for result in live]


@pytest.mark.parametrize("arguments", [{"name": "x" * 200}, {"n": "wrong"}])
def test_errors_of_tools_whose_results_are_cut(arguments: dict[str, Any]) -> None:
    """The limit of a result is none of an error: a model reads it again as it read it first."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(shared=True, max_result_size=30)
        def look(name: str) -> str:
            """Look."""
            raise ValueError(f"there is no {name}")

        texts = []
        for _ in range(2):
            with registry.run("look"):
                result = registry.execute(ToolCall("call-1", "look", arguments, "ann"))
            texts.append((result.for_model(), result.replayed))

    assert texts == [(texts[0][0], False), (texts[0][0], True)]
    assert len(texts[0][0]) > 30
