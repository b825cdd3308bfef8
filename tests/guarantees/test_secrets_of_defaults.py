"""Defaults and examples of which the journal would hide anything by name are shown to no model, and no others are."""

# Tests of: schema/hidden_values, schema/secret_names, schema/signature

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter
from redaction_rig import ANY, hidden, secret_texts

from praval_tools import Outcome, Tool, ToolCall, ToolRegistry
from praval_tools.formats import FORMATS
from praval_tools.schema.secret_names import DEFAULT_SECRET_NAMES, SecretNames

SECRET = "kT7vQ2xW9zRfoo"
NAMES = SecretNames(DEFAULT_SECRET_NAMES)


class HeaderName(Enum):
    COOKIE = "Cookie"


class Header(BaseModel):
    name: str
    value: str


class Request(BaseModel):
    headers: list[Header] = [Header(name="Authorization", value=SECRET)]
    more: list[dict[str, str]] = Field([], examples=[[{"name": "X-API-Key", "value": SECRET}]])
    color: str = "public"


class HeaderWithDefaults(BaseModel):
    name: str = "Cookie"
    value: str = SECRET


class CookieHeader(BaseModel):
    key: Literal["cookie"]
    value: str | None = Field(SECRET, examples=[SECRET])


class HeaderOfExamples(BaseModel):
    header: Annotated[str, Field(examples=["X-API-Key"])]
    value: Annotated[str, Field(examples=[SECRET])]


@dataclass
class CookieFields:
    name: Literal["Cookie"]
    value: str = SECRET


class HeaderTuple(NamedTuple):
    name: str = "Cookie"
    value: str = SECRET


HIDDEN: dict[str, Any] = {
    "pair": [{"name": "Cookie", "value": SECRET}],
    "pair with key": {"a": {"key": "password", "value": SECRET}},
    "pair with header": {"header": "X-API-Key", "value": [SECRET]},
    "JSON text": json.dumps({"password": SECRET}),
    "JSON text of a pair": json.dumps([{"name": "Cookie", "value": SECRET}]),
    "JSON text in JSON text": json.dumps({"body": json.dumps({"password": SECRET})}),
    "text": f"host=h;password={SECRET}",
    "address": [f"https://h/?user=bo&token={SECRET}"],
}
SHOWN = [
    "token", "password", "the token", "https://h/?token=", "password=None", "max_tokens=10", "token: true", "public",
    "", None, 5, True, 10.5, [], {}, {"max_tokens": 10}, {"password": None, "token": "", "cookies": 3},
    '{"max_tokens": 10}', '{"tokens": []}', '{"token": {}}', {"name": "Cookie", "value": ""},
    {"name": "Accept", "value": "text"}, {"name": "max_tokens", "value": 10}, {"name": "Cookie", "other": "text"},
    {"name": ["Cookie"], "value": "text"}, {"value": "text"},
]  # fmt: skip


def make_registry(hint: Any, default: Any) -> ToolRegistry:
    """Return a registry with a tool `take` of `ann`, whose parameter `given` has this hint and default."""

    def take_given(given: Any, color: str = "public") -> Any:
        """Take."""
        return given

    take_given.__annotations__["given"] = hint
    if default is not inspect.Parameter.empty:
        take_given.__defaults__ = (default, "public")
    registry = ToolRegistry(journal="memory")
    registry.tool("take", owned_by="ann")(take_given)
    return registry


def list_shown(registry: ToolRegistry) -> list[str]:
    """Return all that models, frameworks and programs are shown of the tool, each of which has the other default."""
    tool, toolset = registry.get_tool("take"), registry.toolset("ann")
    (function,) = toolset.functions()
    shown: list[Any] = [registry.schemas("ann", form, strict=strict) for form in FORMATS for strict in (False, True)]
    shown += [tool.parameters, toolset["take"].parameters, tool.metadata.parameters, registry.get_tool_info("take")]
    shown += [TypeAdapter(function).json_schema(), inspect.signature(function)]
    return list(map(repr, shown))


class TestDefaults:
    @pytest.mark.parametrize("case", HIDDEN)
    def test_that_the_journal_would_hide(self, case: str) -> None:
        """Broken promise: of a pair, and of a text, the secret in the default was shown to models."""
        registry = make_registry(Any, HIDDEN[case])

        assert [] == [text for text in list_shown(registry) if SECRET in text or "public" not in text]
        assert HIDDEN[case] == registry.execute(ToolCall("1", "take", {}, "ann")).result
        result = registry.execute(ToolCall("2", "take", {"given": HIDDEN[case]}, "ann"))
        assert Outcome.OK is result.outcome
        assert SECRET not in repr(list(registry.journal.events()))

    @pytest.mark.parametrize("value", SHOWN, ids=repr)
    def test_that_the_journal_shows(self, value: Any) -> None:
        """Names of secrets alone, amounts and empty values are no secrets, and stay."""
        registry = make_registry(Any, value)

        assert value == registry.get_tool("take").parameters["properties"]["given"]["default"]
        assert value == registry.get_tool("take").metadata.parameters["given"]["default"]
        assert value == registry.execute(ToolCall("1", "take", {"given": value}, "ann")).result
        assert "[secret" not in repr(list(registry.journal.events()))

    @pytest.mark.parametrize("case", HIDDEN)
    def test_of_supplied_schemas(self, case: str) -> None:
        """Of their defaults and examples the same is hidden, and the function gets the default."""
        properties = {"given": {"default": HIDDEN[case]}, "color": {"default": "public", "examples": [HIDDEN[case]]}}
        schema = {"type": "object", "properties": properties}
        registry = ToolRegistry(journal="memory")
        registry.register_tool(Tool("take", "Take.", schema, lambda **given: given, owned_by="ann"))

        assert [] == [text for text in list_shown(registry) if SECRET in text]
        assert "public" in repr(registry.schemas("ann"))
        assert HIDDEN[case] == registry.execute(ToolCall("1", "take", {}, "ann")).result["given"]


class TestPairs:
    @pytest.mark.parametrize(
        ("hint", "default"),
        [
            (Header, Header(name="Cookie", value=SECRET)),
            (Request, Request()),
            (Request, inspect.Parameter.empty),
            (HeaderWithDefaults, inspect.Parameter.empty),
            (HeaderWithDefaults, HeaderWithDefaults()),
            (CookieHeader | None, None),
            (list[HeaderOfExamples], inspect.Parameter.empty),
            (CookieFields, inspect.Parameter.empty),
            (list[HeaderTuple], [HeaderTuple()]),
        ],
        ids=str,
    )
    def test_in_classes(self, hint: Any, default: Any) -> None:
        """Broken promise: the `value` of a class was shown, also where the default of its `name` is `Cookie`."""
        assert [] == [text for text in list_shown(make_registry(hint, default)) if SECRET in text]

    @pytest.mark.parametrize("name", ["Cookie", HeaderName.COOKIE], ids=repr)
    def test_of_parameters(self, name: Any) -> None:
        """Broken promise: the same was shown of a function with parameters `name` and `value`."""
        registry = ToolRegistry()

        def take(name: Any = name, value: str = SECRET) -> None:
            """Take."""

        take.__annotations__["name"] = type(name)
        registry.tool("take", owned_by="ann")(take)
        assert [] == [text for text in list_shown(registry) if SECRET in text or "Cookie" not in text]

    def test_of_other_names(self) -> None:
        """The value beside another name stays, and so does an amount."""

        @dataclass
        class Option:
            name: Literal["Accept", "Cookie"] = "Accept"
            value: str = "text"

        @dataclass
        class Amount:
            name: str = "max_tokens"
            value: int = 10

        for kind, value in ((Option, "text"), (Amount, 10)):
            shown = make_registry(kind, kind()).get_tool("take").parameters["properties"]["given"]
            assert value == shown["properties"]["value"]["default"] == shown["default"]["value"]


TEXTS = st.sampled_from([
    "token", "Cookie", "password=x1", "token: ", "max_tokens=5", "a=b", '{"token": "x1"}', '{"token": ""}', "[1]", "{",
    '"password=x1"', '{"token": 1, "token": 2}',
])  # fmt: skip
KEYS = st.sampled_from(["name", "key", "header", "value", "token", "max_tokens", "note", "password"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4) | inner.map(json.dumps),
    max_leaves=8,
)


class TestValues:
    @given(JSON)
    def test_hold_a_secret_where_the_journal_hides_one(self, value: Any) -> None:
        """Schemas and journals agree on what is a secret by its name."""
        assert NAMES.holds_secret(value) is (ANY.redact_result(value) != value)

    @given(secret_texts.flatmap(hidden))
    def test_with_a_secret_at_any_depth(self, value: Any) -> None:
        """Also in JSON text inside JSON text."""
        assert NAMES.holds_secret(json.loads(json.dumps(value)))

    def test_nested_without_end(self) -> None:
        """Neither a value nor a text that is nested deeper than Python calls functions makes the search fail."""
        value: Any = {"token": "x1"}
        for _ in range(5_000):
            value = [value]

        assert NAMES.holds_secret(value)
        assert NAMES.holds_secret('[{"note": ' * 5_000 + '"token=x1"')
