"""Fields of a NamedTuple that are named like a secret are hidden in pydantic classes, too, where it is an array."""

# Tests of: schema/model_schemas, schema/hidden_values, schema/marked_values, journal/secret_tree

from __future__ import annotations

import inspect
import json
import re
from collections import namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from approval_answers import execute_answered
from pydantic import BaseModel, RootModel, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic.json_schema import GenerateJsonSchema
from record_texts import read_journal
from typing_extensions import TypedDict

from praval_tools import Allow, Outcome, Tool, ToolCall, ToolRegistry
from praval_tools.formats import FORMATS

HIDDEN = "kT7vQ2xW9zRfoo"
DEFAULT = "zq7x-of-the-class"


class Login(NamedTuple):
    user: str
    password: str = DEFAULT
    max_tokens: int = 98765
    has_token: bool = True


class Outer(NamedTuple):
    count: int
    login: Login


class Key(NamedTuple):
    value: str


class Named(NamedTuple):
    user: str
    api_key: Key


Bare = namedtuple("Bare", ["user", "password"])  # one without hints


class Account(BaseModel):
    x: Login


class Listed(BaseModel):
    x: list[Login]


class Mapped(BaseModel):
    x: dict[str, Login]


class United(BaseModel):
    x: Login | int


class Tupled(BaseModel):
    x: tuple[Login, int]


class Nested(BaseModel):
    x: Outer


class InNamed(BaseModel):
    x: Named


class WithoutHints(BaseModel):
    x: Bare  # type: ignore[valid-type]


class Empty(NamedTuple):
    pass


class HoldsEmpty(BaseModel):
    x: Empty
    y: Login


class Root(RootModel[Login]):
    pass


class Inner(BaseModel):
    x: Root


class OwnGenerator(BaseModel):
    x: Login

    @classmethod
    def model_json_schema(cls, *args: Any, **options: Any) -> dict[str, Any]:
        return super().model_json_schema(*args, **{"schema_generator": GenerateJsonSchema, **options})


@pydantic_dataclass
class Pydantic:
    x: Login


@dataclass
class Plain:
    x: Account


class Typed(TypedDict):
    x: Account


LOGIN = ["annabel", HIDDEN]
CASES: dict[str, tuple[Any, Any]] = {
    "field": (Account, {"x": LOGIN}), "list": (Listed, {"x": [LOGIN]}), "dict": (Mapped, {"x": {"k": LOGIN}}),
    "union": (United, {"x": LOGIN}), "tuple": (Tupled, {"x": [LOGIN, 1]}), "nested": (Nested, {"x": [1, LOGIN]}),
    "named": (InNamed, {"x": ["annabel", [HIDDEN]]}), "no hints": (WithoutHints, {"x": LOGIN}), "root": (Root, LOGIN),
    "empty": (HoldsEmpty, {"x": [], "y": LOGIN}),
    "inner root": (Inner, {"x": LOGIN}), "own generator": (OwnGenerator, {"x": LOGIN}),
    "dataclass": (Plain, {"x": {"x": LOGIN}}), "TypedDict": (Typed, {"x": {"x": LOGIN}}),
    "list of models": (list[Account], [{"x": LOGIN}]),
}  # fmt: skip
MODES = ["return", "any", "text", "raise"]


def make_tool(hint: Any, mode: str, registry: ToolRegistry, **options: Any) -> None:
    def take(value: Any) -> Any:
        """Take."""
        if mode == "raise":
            raise ValueError(f"wrong: {value}")
        return f"got {value}" if mode == "text" else value

    take.__annotations__ |= {"value": hint, "return": hint if mode == "return" else Any}
    registry.tool(owned_by="ann", **options)(take)


class TestJournals:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("case", CASES)
    def test_do_not_hold_them(self, case: str, mode: str) -> None:
        """Broken promise: what pydantic wrote of such a field had no name any more, and was recorded as it is."""
        hint, value = CASES[case]
        with ToolRegistry(journal="memory") as registry:
            make_tool(hint, mode, registry)
            result = registry.execute(ToolCall("1", "take", {"value": value}, "ann"))
            written = read_journal(registry)

        assert (Outcome.TOOL_ERROR if mode == "raise" else Outcome.OK) is result.outcome
        assert HIDDEN not in written
        assert "annabel" in written

    @pytest.mark.parametrize(
        "more", [{"other": 1}, {"value": 5}, {"value": [[HIDDEN]]}, {"value": {"x": {"y": HIDDEN}}}]
    )
    @pytest.mark.parametrize("case", CASES)
    def test_do_not_hold_those_of_wrong_and_refused_calls(self, case: str, more: dict[str, Any]) -> None:
        """Neither those of a wrong call, nor of a call that its agent may not make, whose values fit or not."""
        hint, value = CASES[case]
        with ToolRegistry(journal="memory") as registry:
            make_tool(hint, "return", registry)
            results = [
                registry.execute(ToolCall(name, "take", arguments, name))
                for name in ("ann", "bob")
                for arguments in ({"value": value, **more}, json.dumps({"value": value, **more}))
            ]
            written = read_journal(registry)

        assert {Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN} == {result.outcome for result in results}
        assert HIDDEN not in written

    @pytest.mark.parametrize("is_later", [False, True], ids=["handler", "later"])
    @pytest.mark.parametrize("case", CASES)
    def test_do_not_hold_those_that_wait_for_approval(self, case: str, *, is_later: bool) -> None:
        """The request, its answer and what an approver edited hold none."""
        hint, value = CASES[case]
        with ToolRegistry(journal="memory") as registry:
            make_tool(hint, "text", registry, requires_approval=True)
            execute_answered(
                registry,
                ToolCall("1", "take", {"value": value}, "ann"),
                lambda _: Allow({"value": value}),
                is_later=is_later,
            )
            written = read_journal(registry)

        assert HIDDEN not in written

    def test_hold_amounts_and_truth_values(self) -> None:
        """What is only named like a secret and tells nothing is recorded, as in objects."""
        with ToolRegistry(journal="memory") as registry:
            make_tool(Account, "return", registry)
            registry.execute(ToolCall("1", "take", {"value": {"x": ["annabel", HIDDEN, 4321, False]}}, "ann"))
            (call,) = registry.journal.events(type="agent_tool_call")  # type: ignore[union-attr]

        user, password, *others = call.arguments["value"]["x"]
        assert ["annabel", 4321, False] == [user, *others]
        assert password.startswith("[secret ")

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("name", ["user", re.compile("^user$")], ids=str)
    def test_know_the_names_of_their_registry(self, name: str | re.Pattern[str], mode: str) -> None:
        """`secrets=` names such fields, as it names keys of objects."""
        with ToolRegistry(journal="memory", secrets=[name]) as registry:
            make_tool(Account, mode, registry)
            registry.execute(ToolCall("1", "take", {"value": {"x": [HIDDEN, "pass"]}}, "ann"))
            written = read_journal(registry)

        assert HIDDEN not in written

    @pytest.mark.parametrize(
        "value", [Account(x=Login("annabel", HIDDEN)), {"a": [Root(Login("annabel", HIDDEN))]}], ids=str
    )
    def test_do_not_hold_those_of_results_that_no_hint_names(self, value: Any) -> None:
        """Broken promise: where a tool returns `Any`, only its own classes say what an array holds."""
        with ToolRegistry(journal="memory") as registry:

            def give() -> Any:
                """Give."""
                return [value, f"for {HIDDEN}"]

            registry.tool(owned_by="ann")(give)
            assert registry.execute(ToolCall("1", "give", {}, "ann")).success
            written = read_journal(registry)

        assert HIDDEN not in written
        assert "98765" in written and "annabel" in written


class FieldWithDefault(BaseModel):
    x: Login = Login("annabel", HIDDEN)


class FieldWithTuple(BaseModel):
    x: Login = ("annabel", HIDDEN)  # type: ignore[assignment]


class ListWithDefault(BaseModel):
    x: list[Login] = [Login("annabel", HIDDEN)]


def take_default(value: Account = Account(x=Login("annabel", HIDDEN))) -> str:
    """Take."""
    return value.x.password


def take_any(value: Any = Account(x=Login("annabel", HIDDEN))) -> Any:
    """Take."""
    return value


def take_fields(one: FieldWithDefault, two: FieldWithTuple, three: ListWithDefault) -> str:
    """Take."""
    return f"{one} {two} {three}"


def give_fields(text: str) -> dict[str, FieldWithDefault | FieldWithTuple | ListWithDefault]:
    """Give."""
    return {text: FieldWithDefault()}


def make_all_cases() -> dict[str, Any]:
    def make(hint: Any) -> Any:
        def take(value: Any) -> Any:
            """Take."""
            return value

        take.__annotations__ |= {"value": hint, "return": hint}
        return take

    cases = {name: make(hint) for name, (hint, _) in CASES.items()}
    return cases | {item.__name__: item for item in (take_default, take_any, take_fields, give_fields)}


FUNCTIONS = make_all_cases()


class TestModels:
    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_are_shown_no_default(self, name: str) -> None:
        """Broken promise: the defaults of such fields were in every schema, of arguments and of results."""
        registry = ToolRegistry()
        registry.tool("take", owned_by="ann")(FUNCTIONS[name])
        tool, (function,) = registry.get_tool("take"), registry.toolset("ann").functions()

        shown: list[Any] = [registry.schemas("ann", one, strict=strict) for one in FORMATS for strict in (False, True)]
        shown += [tool.parameters, tool.get_schema("mcp"), registry.get_tool_definitions_dict()]
        shown += [TypeAdapter(function).json_schema(), str(inspect.signature(function))]
        shown += [TypeAdapter(function.__annotations__["return"]).json_schema(mode="serialization")]

        assert not [one for one in shown if DEFAULT in str(one) or HIDDEN in str(one)]

    def test_are_shown_the_names_and_harmless_defaults(self) -> None:
        """An array says by a title what each of its items is; amounts and truth values stay, as in objects."""
        registry = ToolRegistry()
        make_tool(Account, "return", registry)

        items = registry.get_tool("take").parameters["$defs"]["Login"]["prefixItems"]

        assert ["user", "password", "max_tokens", "has_token"] == [item["title"] for item in items]
        assert [None, None, 98765, True] == [item.get("default") for item in items]


class TestSuppliedSchemas:
    @pytest.mark.parametrize("keyword", ["prefixItems", "items"])
    def test_name_items_by_titles(self, keyword: str) -> None:
        """Where pydantic made the schema elsewhere, as in an MCP server, its titles are the names."""
        items = [{"title": "User", "type": "string"}, {"title": "Api Key", "type": "string", "default": DEFAULT}]
        login = {"type": "array", keyword: items, "default": ["annabel", DEFAULT]}
        draft = {} if keyword == "prefixItems" else {"$schema": "http://json-schema.org/draft-07/schema#"}
        schema = {**draft, "type": "object", "properties": {"login": login}}
        with ToolRegistry(journal="memory") as registry:
            registry.register_tool(Tool("log_in", "Log in.", schema, lambda login: str(login), owned_by="ann"))
            registry.execute(ToolCall("1", "log_in", {"login": ["annabel", HIDDEN]}, "ann"))
            shown, written = json.dumps(registry.schemas("ann", "mcp")), read_journal(registry)

        assert HIDDEN not in written and "annabel" in written
        assert DEFAULT not in shown
