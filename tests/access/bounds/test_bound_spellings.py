# Tests of: bound_spellings, bounded_values
"""A bound names a value in the spelling in which values are compared, or is refused with the spelling to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import IPv6Address
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, RootModel, create_model
from type_classes import Color, Level
from typing_extensions import TypedDict

from praval_tools import GrantError, Outcome, Secret, Tool, ToolCall, ToolRegistry
from praval_tools.names import OPERATOR
from praval_tools.tools.frames import get_current_actor

UPPER = "5F0C6A1E-0000-4000-8000-00000000000A"
LOWER = UPPER.lower()
BARE = UPPER.replace("-", "")
FORMS = ("parameter", "dataclass", "model")


class Key(NamedTuple):
    """A key of a vault."""

    vault: UUID


class Door(TypedDict):
    """A door of a vault."""

    vault: UUID


class VaultId(RootModel[UUID]):
    """The id of a vault."""


class Lowered(BaseModel):
    """A model whose texts become lower case."""

    model_config = ConfigDict(str_to_lower=True)
    name: str


class Bill(NamedTuple):
    """A bill."""

    amount: Decimal


def make_registry(hint: Any, form: str = "parameter") -> ToolRegistry:
    """Return a registry with a tool whose parameter, or the field `v` of it, has this hint."""
    kinds: dict[str, Any] = {"parameter": lambda: hint, "dataclass": lambda: make_dataclass("Box", [("v", hint)]),
                             "model": lambda: create_model("Box", v=(hint, ...))}  # fmt: skip

    def pay(p: Any) -> str:
        """Pay."""
        return repr(p)

    pay.__annotations__["p"] = kinds[form]()
    registry = ToolRegistry()
    registry.register_tool(Tool.from_function(pay, owned_by="boss"))
    return registry


def grant(hint: Any, bound: Mapping[str, Any], form: str = "parameter") -> ToolRegistry:
    """Return a registry whose intern may call the tool with what *bound* says of the value."""
    registry = make_registry(hint, form)
    registry.grant("pay", "intern", where={"p": bound if form == "parameter" else {"properties": {"v": bound}}})
    return registry


def call(registry: ToolRegistry, given: object, form: str = "parameter") -> Outcome:
    """Return how the intern's call ends."""
    arguments = {"p": given if form == "parameter" else {"v": given}}
    return registry.execute(ToolCall("1", "pay", arguments, "intern")).outcome


TEXTS: list[tuple[Any, str, str]] = [
    (UUID, UPPER, LOWER),
    (datetime, "2024-01-01T00:00:00+00:00", "2024-01-01T00:00:00Z"),
    (datetime, "2024-01-01T00:00:00.000Z", "2024-01-01T00:00:00Z"),
    (time, "10:00:00+00:00", "10:00:00Z"),
    (timedelta, "PT60M", "PT1H"),
    (Path, "a//b", "a/b"),
    (PurePosixPath, "./a", "a"),
    (UUID | None, UPPER, LOWER),
    (UUID | str, UPPER, LOWER),
    (Literal["none"] | UUID, UPPER, LOWER),
]


class TestTextsOfOtherTypes:
    """Broken promise: `not` refuses what it names. It admitted that, and `const` refused what it granted."""

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize(("hint", "other", "written"), TEXTS, ids=str)
    def test_have_one_spelling(self, hint: Any, other: str, written: str, form: str) -> None:
        """Another spelling is refused with the one to write, which grants and refuses each spelling of the value."""
        for bound in ({"const": other}, {"enum": [written, other]}, {"not": {"const": other}},
                      {"anyOf": [{"allOf": [{"not": {"enum": [other]}}]}]}):  # fmt: skip
            with pytest.raises(GrantError, match=f"is compared in another spelling: write '{written}'"):
                grant(hint, bound, form)

        for given in (other, written):
            assert Outcome.OK is call(grant(hint, {"const": written}, form), given, form)
            assert Outcome.FORBIDDEN is call(grant(hint, {"not": {"enum": [written]}}, form), given, form)

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize(
        ("hint", "bound"),
        [
            (list[UUID], {"const": [UPPER]}),
            (list[UUID], {"not": {"items": {"const": UPPER}}}),
            (tuple[int, UUID], {"not": {"const": [1, UPPER]}}),
            (tuple[UUID, ...], {"enum": [[], [UPPER]]}),
            (frozenset[UUID], {"not": {"const": [UPPER]}}),
            (dict[str, UUID], {"not": {"additionalProperties": {"const": UPPER}}}),
            (dict[str, UUID], {"not": {"properties": {"a": {"const": UPPER}}}}),
            (dict[str, list[UUID]], {"not": {"const": {"a": [UPPER]}}}),
            (dict[UUID, int], {"not": {"const": {UPPER: 1}}}),
            (dict[UUID, int], {"not": {"required": [UPPER]}}),
            (dict[UUID, int], {"properties": {UPPER: {"maximum": 5}}, "required": []}),
            (Door, {"not": {"properties": {"vault": {"const": UPPER}}}}),
            (list[Door], {"not": {"const": [{"vault": UPPER}]}}),
            (list[UUID] | None, {"items": {"enum": [UPPER]}}),
            (VaultId, {"not": {"const": UPPER}}),
            (list[VaultId], {"not": {"const": [UPPER]}}),
        ],
        ids=str,
    )
    def test_have_one_spelling_at_any_depth(self, hint: Any, bound: dict[str, Any], form: str) -> None:
        """It makes no difference where in a bound and in a value the text is."""
        with pytest.raises(GrantError, match=f"is compared in another spelling: write '{LOWER}'"):
            grant(hint, bound, form)

    def test_may_be_in_all_arguments(self) -> None:
        """A bound of all arguments is read as well, and names the place."""
        with pytest.raises(GrantError, match="where: p: .* is compared in another spelling"):
            make_registry(UUID).grant(
                "pay", "intern", where={"type": "object", "not": {"properties": {"p": {"const": UPPER}}}}
            )

    @pytest.mark.parametrize("bound", [{"const": BARE}, {"not": {"const": BARE}}, {"not": {"enum": [LOWER, "x"]}}])
    def test_that_are_none_are_refused(self, bound: dict[str, Any]) -> None:
        """A text that is never a value bounds nothing under `not`."""
        with pytest.raises(GrantError, match="is not a possible UUID"):
            grant(UUID, bound)

    @pytest.mark.parametrize(
        ("hint", "bound"),
        [
            (UUID, {"const": LOWER}),
            (UUID, {"pattern": "^5F"}),
            (str, {"const": UPPER}),
            (Any, {"const": UPPER}),
            (list[Any], {"const": [UPPER]}),
            (dict[str, int], {"const": {UPPER: 1}}),
            (date, {"enum": ["2024-01-01"]}),
            (date | str, {"enum": ["2024-01-01", "soon"]}),
            (bytes, {"const": "YQ=="}),
            (tuple[str, UUID], {"items": {"enum": [UPPER, LOWER]}}),
            (list[str] | dict[str, UUID], {"const": [UPPER]}),
            (set[int], {"const": [1, 2]}),
            (set[float], {"const": [9.5, 10.0]}),
        ],
        ids=str,
    )
    def test_leave_other_bounds_alone(self, hint: Any, bound: dict[str, Any]) -> None:
        """What some value is compared as may be named."""
        grant(hint, bound)

    def test_of_supplied_schemas_stay(self) -> None:
        """A tool with a schema of its own gets the text as it was given, so that it has no other spelling."""
        schema = {"type": "object", "properties": {"p": {"type": "string", "format": "uuid"}}}
        registry = ToolRegistry()
        registry.register_tool(
            Tool(name="pay", description="Pay.", parameters=schema, callable=lambda p: p, owned_by="boss")
        )
        registry.grant("pay", "intern", where={"p": {"not": {"const": UPPER}}})

        assert Outcome.FORBIDDEN is call(registry, UPPER)


class TestSets:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("bound", [{"const": [2, 1]}, {"not": {"enum": [[2, 1]]}}], ids=str)
    def test_have_one_order(self, bound: dict[str, Any], form: str) -> None:
        """Broken promise: a set that a bound names is that set. In another order it was never met."""
        with pytest.raises(GrantError, match=r"a set is compared in one order: write \[1, 2\]"):
            grant(set[int], bound, form)

    def test_of_decimals_are_named_by_numbers(self) -> None:
        """The order that an error proposes can be written."""
        with pytest.raises(GrantError, match=r"write \[0.1, 1.5\]"):
            grant(set[Decimal], {"const": [1.5, 0.1]})
        with pytest.raises(GrantError, match=r"write \[1, 10000000000000001\]"):
            grant(set[Decimal], {"const": [10000000000000001, 1]})

        assert Outcome.OK is call(grant(set[Decimal], {"const": [0.1, 1.5]}), ["1.5", "0.1"])


@dataclass
class Target:
    host: str
    port: int = 443


@dataclass
class Seen:
    host: str
    port: int = 443
    url: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.url = f"{self.host}:{self.port}"


@dataclass
class Account:
    host: str
    password: Annotated[str, Secret] = "hunter2"


class Server(BaseModel):
    host: str
    port: int = Field(443, alias="po")
    others: list[Target] = []


class TestObjects:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize(
        ("hint", "given", "written"),
        [
            (Target, {"host": "prod"}, {"host": "prod", "port": 443}),
            (Target | None, {"host": "prod"}, {"host": "prod", "port": 443}),
            (Target | str, {"host": "prod"}, {"host": "prod", "port": 443}),
            (Target | dict[str, str], {"host": "prod"}, {"host": "prod", "port": 443}),
            (list[Target], [{"host": "prod"}], [{"host": "prod", "port": 443}]),
            (dict[str, Target], {"a": {"host": "prod"}}, {"a": {"host": "prod", "port": 443}}),
            (Server, {"host": "prod"}, {"host": "prod", "po": 443, "others": []}),
            (
                Server,
                {"host": "prod", "po": 1, "others": [{"host": "a"}]},
                {"host": "prod", "po": 1, "others": [{"host": "a", "port": 443}]},
            ),
        ],
        ids=str,
    )
    def test_have_all_of_their_fields(self, hint: Any, given: Any, written: Any, form: str) -> None:
        """Broken promise: an object that a bound forbids is that object. Without its defaults it was never met."""
        for bound in ({"const": given}, {"not": {"enum": [given]}}):
            with pytest.raises(GrantError, match="and is compared with its defaults"):
                grant(hint, bound, form)

        assert Outcome.FORBIDDEN is call(grant(hint, {"not": {"const": written}}, form), given, form)
        assert Outcome.OK is call(grant(hint, {"const": written}, form), given, form)

    @pytest.mark.parametrize("form", FORMS)
    def test_lack_nothing_that_their_class_makes(self, form: str) -> None:
        """What a constructor does not take is not compared."""
        bound = {"host": "prod", "port": 443}

        assert Outcome.FORBIDDEN is call(grant(Seen, {"not": {"const": bound}}, form), {"host": "prod"}, form)
        assert Outcome.OK is call(grant(Seen, {"const": bound}, form), {"host": "prod"}, form)
        with pytest.raises(GrantError, match="lacks 'port', and"):
            grant(Seen, {"const": {"host": "prod"}}, form)

    def test_defaults_are_not_shown(self) -> None:
        """They may be secrets, which a bound had better not name."""
        with pytest.raises(GrantError, match="lacks 'password', and") as error:
            grant(Account, {"not": {"const": {"host": "prod"}}})

        assert "hunter2" not in str(error.value)

    def test_of_other_types_are_as_they_are(self) -> None:
        """Nothing is filled in where a type declares no defaults."""
        for hint in (dict[str, str], Any):
            grant(hint, {"const": {"host": "prod"}})


class TestTextsInModels:
    @pytest.mark.parametrize(
        ("hint", "other", "written"),
        [
            (datetime, "2026-12-24T18:00:00.0", "2026-12-24T18:00:00"),
            (list[datetime], ["2026-12-24t18:00:00"], ["2026-12-24T18:00:00"]),
            (IPv6Address, "::0001", "::1"),
            (AnyUrl, "http://EXAMPLE.com", "http://example.com/"),
            (list[IPv6Address], ["::0001"], ["::1"]),
            (dict[int, int], {"01": 1}, {"1": 1}),
            (Key, [UPPER], [LOWER]),
        ],
        ids=str,
    )
    def test_are_read_by_pydantic(self, hint: Any, other: Any, written: Any) -> None:
        """Types that only pydantic reads have one spelling, too."""
        with pytest.raises(GrantError, match="is compared in another spelling: write "):
            grant(hint, {"not": {"const": other}}, "model")

        assert Outcome.FORBIDDEN is call(grant(hint, {"not": {"const": written}}, "model"), other, "model")

    def test_are_read_as_the_model_says(self) -> None:
        """What a model configures counts: a text that becomes lower case is named in lower case."""
        with pytest.raises(GrantError, match="write 'ann'"):
            grant(Lowered, {"properties": {"name": {"not": {"const": "Ann"}}}})

    def test_that_no_spelling_names_are_refused(self) -> None:
        """The bytes of a model are given as text and compared as base64."""
        with pytest.raises(GrantError, match="so no text can be named here"):
            grant(bytes, {"not": {"const": "YQ=="}}, "model")

    @pytest.mark.parametrize(
        ("hint", "bound"),
        [
            (bytes, {"pattern": "^hi"}), (bytes | None, {"not": {"pattern": "^hi"}}), (bytes, {"maxLength": 3}),
            (list[bytes], {"items": {"not": {"minLength": 2}}}),
        ],
        ids=str,
    )  # fmt: skip
    def test_patterns_and_lengths_of_bytes_are_refused(self, hint: Any, bound: dict[str, Any]) -> None:
        """Broken promise: a pattern and a length were met by, or kept from, the base64 of the bytes that were given."""
        with pytest.raises(GrantError, match="applies to text; bytes of a pydantic model are compared as base64"):
            grant(hint, bound, "model")
        grant(hint, {"type": ["string", "array", "null"]}, "model")


class TestDecimalsOfModels:
    """Broken promise: a bound says a `Decimal` as a number, or is refused. In models it bounded nothing."""

    @pytest.mark.parametrize(
        ("hint", "bound"),
        [
            *((hint, bound) for hint in (Decimal, Decimal | None, int | Decimal) for bound in (
                {"const": "100"}, {"not": {"const": "100"}}, {"not": {"enum": ["100", "200"]}}, {"pattern": "^1"},
                {"not": {"pattern": "^1"}}, {"not": {"type": "string"}}, {"type": ["string", "null"]},
            )),
            (list[Decimal], {"not": {"const": ["100"]}}),
            (list[Decimal], {"not": {"items": {"maxLength": 3}}}),
            (dict[str, Decimal], {"not": {"const": {"a": "100"}}}),
            (dict[str, Decimal], {"not": {"additionalProperties": {"type": "string"}}}),
            (tuple[str, Decimal], {"not": {"const": ["100", "100"]}}),
            (create_model("Inner", amount=(Decimal, 0)), {"not": {"properties": {"amount": {"const": "100"}}}}),
            (Bill, {"not": {"const": ["100"]}}),
        ],
        ids=str,
    )  # fmt: skip
    def test_are_no_text(self, hint: Any, bound: dict[str, Any]) -> None:
        """What applies to text is refused with advice, as it is for parameters and dataclasses."""
        with pytest.raises(GrantError, match=r"p\.v.* applies to text; a Decimal is compared as a number"):
            grant(hint, bound, "model")

    def test_are_numbers(self) -> None:
        """The number that is named is refused, however it is given."""
        registry = grant(Decimal, {"not": {"const": 100}}, "model")

        assert [Outcome.FORBIDDEN, Outcome.FORBIDDEN, Outcome.OK] == [
            call(registry, given, "model") for given in (100, "100.0", "101")
        ]


@dataclass
class ById:
    v: UUID


@dataclass
class ByNumber:
    v: int | bool | None | list[int]


class BytesModel(BaseModel):
    v: bytes


class NumberModel(BaseModel):
    v: int


class TestTextsOfNumbers:
    """A text that is named for what is never text denied nothing, also beside a type that has texts."""

    @pytest.mark.parametrize("hint", [int, float | None, bool, list[int], dict[str, int]], ids=str)
    @pytest.mark.parametrize(
        "bound", [{"not": {"const": "1"}}, {"enum": ["1", 1]}, {"not": {"enum": ["1", "2"]}}], ids=str
    )
    def test_are_refused(self, hint: Any, bound: dict[str, Any]) -> None:
        """Broken promise: 1 and "1" met a bound that forbids "1"."""
        with pytest.raises(GrantError, match="'1' is text, which no"):
            grant(hint, bound)

    @pytest.mark.parametrize("hint", [Level, int | Level, Literal[1, 2], Literal[True] | None], ids=str)
    def test_are_refused_for_choices(self, hint: Any) -> None:
        """Broken promise: 1 met a bound that forbids "1"."""
        with pytest.raises(GrantError, match="'1' is text, which no"):
            grant(hint, {"not": {"const": "1"}})

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("hint", [Color, Literal["red", "green"], Color | UUID, Color | None, Color | int], ids=str)
    @pytest.mark.parametrize("bound", [{"not": {"const": "RED"}}, {"enum": ["red", "RED"]}], ids=str)
    def test_that_are_no_choice_are_refused(self, hint: Any, bound: dict[str, Any], form: str) -> None:
        """Broken promise: the name of a member in place of its value denied nothing."""
        with pytest.raises(GrantError, match="'RED' is not a possible"):
            grant(hint, bound, form)

    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("hint", [Color, Literal["red", "green"], Color | UUID, Color | int], ids=str)
    def test_that_are_choices_may_be_named(self, hint: Any, form: str) -> None:
        """The value of a member is refused as the bound says."""
        registry = grant(hint, {"not": {"const": "red"}}, form)
        assert [Outcome.FORBIDDEN, Outcome.OK] == [call(registry, given, form) for given in ("red", "green")]

    @pytest.mark.parametrize("hint", [ById | ByNumber, ByNumber | ById], ids=str)
    def test_of_another_class_change_nothing(self, hint: Any) -> None:
        """Broken promise: a UUID in capitals was admitted by the bound that forbids it, beside a class with numbers."""
        with pytest.raises(GrantError, match="is compared in another spelling"):
            grant(hint, {"not": {"properties": {"v": {"const": UPPER}}}})

    def test_patterns_of_bytes_beside_numbers(self) -> None:
        """Broken promise: so was the text of bytes that a pattern forbids."""
        with pytest.raises(GrantError, match="compared as base64"):
            grant(BytesModel | NumberModel, {"not": {"properties": {"v": {"pattern": "^abc"}}}})


def test_code_of_a_class_runs_without_rights() -> None:
    """Broken promise: what describes a class to pydantic ran as the operator who granted its tool."""
    registry, seen = ToolRegistry(), list[str]()

    class Marker:
        """Describes a text to pydantic by code of its own."""

        def __get_pydantic_core_schema__(self, source: object, handler: Any) -> Any:
            seen.append(get_current_actor())
            return handler(source)

    def pay(order: Any) -> str:
        """Pay."""
        return str(order)

    pay.__annotations__["order"] = create_model("Order", code=(Annotated[str, Marker()], ...))
    registry.tool("pay", owned_by="boss")(pay)
    assert registry.toolset("boss").schemas()  # described once before
    seen.clear()
    registry.grant("pay", "intern", where={"order": {"properties": {"code": {"const": "x"}}}})
    assert seen and OPERATOR not in seen


@pytest.mark.parametrize(
    ("hint", "default"),
    [(Decimal | Literal["all"], "all"), (Decimal | str, "some"), (Decimal | date, date(2024, 1, 1))],
    ids=str,
)
def test_defaults_beside_numbers(hint: Any, default: object) -> None:
    """Broken promise: an agent with a bounded grant could list none of its tools: the default was read as a number."""
    registry = ToolRegistry()

    def pay(to: str, amount: Any = default) -> str:
        """Pay."""
        return f"{to} {amount}"

    pay.__annotations__["amount"] = hint
    registry.tool("pay", owned_by="boss")(pay)
    registry.grant("pay", "intern", where={"to": {"enum": ["ann"]}})

    (schema,) = registry.schemas("intern", "mcp")
    assert {"type": "string", "enum": ["ann"]} == schema["inputSchema"]["properties"]["to"]
