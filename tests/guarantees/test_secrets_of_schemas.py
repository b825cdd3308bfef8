"""What a supplied schema marks as secret: no model is shown its default or an example of it, and the tool gets it."""

# Tests of: schema/hidden_values, schema/secret_marks, schema/model_schemas, tools/compiled, tools/implementation

from __future__ import annotations

import copy
import inspect
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.json_schema import GenerateJsonSchema

from praval_tools import Outcome, Secret, Tool, ToolCall, ToolRegistry
from praval_tools.formats import FORMATS
from praval_tools.schema.secret_marks import hide_secret_values

SECRET = "kT7vQ2xW9zRfoo"
MARKED: dict[str, Any] = {"type": "string", "writeOnly": True}
REFERENCE = {"$ref": "#/$defs/pin"}
CASES: dict[str, dict[str, Any]] = {
    "default": {"pin": {**MARKED, "default": SECRET}},
    "password": {"pin": {"type": "string", "format": "password", "default": SECRET}},
    "examples": {"pin": {**MARKED, "examples": [SECRET], "example": SECRET}},
    "inside": {"pin": {"type": "object", "writeOnly": True, "properties": {"a": {"default": SECRET}}}},
    "around": {"pin": {"type": "object", "properties": {"a": MARKED}, "default": {"a": SECRET}}},
    "union": {"pin": {"anyOf": [MARKED, {"type": "null"}], "default": SECRET}},
    "list": {"pin": {"type": "array", "items": MARKED, "default": [SECRET]}},
    "reference": {"pin": {**REFERENCE, "default": SECRET}},
    "referred": {"pin": {**MARKED, "$ref": "#/$defs/text"}},
}
DEFINITIONS = {"pin": {**MARKED, "default": SECRET}, "text": {"type": "string", "default": SECRET}}


def log_in(pin: Annotated[str | None, Secret] = None, user: str = "") -> Any:
    """Log in."""
    return [pin, user]


def make_tool(properties: dict[str, Any]) -> Tool[..., Any]:
    """Return a tool of `ann` with a schema of its own, whose default for the user everybody may see."""
    examples = [{"pin": SECRET, "user": "bo"}]
    user = {"user": {"type": "string", "default": "everybody"}}
    schema = {"type": "object", "properties": {**properties, **user}, "examples": examples, "$defs": DEFINITIONS}
    return Tool(name="log_in", description="Log in.", parameters=schema, callable=log_in, owned_by="ann")


class TestModels:
    @pytest.mark.parametrize("case", [*CASES, "function"])
    def test_are_shown_no_secret(self, case: str) -> None:
        """Broken promise: the default of what a schema, or its function, marks was in every export."""
        registry = ToolRegistry(journal="memory")
        properties = {"pin": {"type": "string", "default": SECRET}}
        registry.register_tool(make_tool(CASES.get(case, properties)))

        shown: list[Any] = [
            registry.schemas("ann", form, strict=strict) for form in FORMATS for strict in (False, True)
        ]
        shown += [registry.get_tool("log_in").parameters, registry.toolset("ann")["log_in"].parameters]
        shown += [registry.get_tool_definitions_dict(), registry.get_tool("log_in").get_schema("mcp")]
        result = registry.execute(ToolCall("c", "log_in", {}, "ann"))

        assert SECRET not in json.dumps(shown)
        assert all("everybody" in json.dumps(one) for one in shown)
        assert Outcome.OK is result.outcome
        assert CASES.get(case, properties)["pin"].get("default") == result.result[0]
        assert SECRET not in repr(list(registry.journal.events()))

    @pytest.mark.parametrize("allowed", [{"const": SECRET}, {"enum": [SECRET, "x"]}, {"anyOf": [{"const": SECRET}]}])
    def test_and_no_record_lists_what_is_allowed(self, allowed: dict[str, Any]) -> None:
        """Broken promise: the error of a wrong value named the right ones, also of what is marked."""
        registry = ToolRegistry(journal="memory")
        registry.register_tool(make_tool({"pin": {**MARKED, **allowed}}))

        result = registry.execute(ToolCall("c", "log_in", {"pin": "wrong-one"}, "ann"))

        assert Outcome.INVALID_ARGUMENTS is result.outcome
        assert SECRET not in repr([result.error, result.exception, list(registry.journal.events())])


SCALARS = st.sampled_from(["public", 1, None, SECRET])
SCHEMAS = st.recursive(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"default": SCALARS, "writeOnly": st.booleans(), "examples": st.lists(SCALARS, max_size=2)},
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.sampled_from("abc"), inner, max_size=3)},
            optional={"default": SCALARS.map(lambda one: {"a": one}), "writeOnly": st.booleans()},
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}, optional={"default": SCALARS}),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}, optional={"examples": st.lists(SCALARS)}),
    ),
    max_leaves=8,
)


def hide_plainly(schema: dict[str, Any], is_inside: bool = False) -> tuple[dict[str, Any], bool]:
    """Return what `hide_secret_values` is to return, and whether anything in it is marked."""
    is_inside = is_inside or schema.get("writeOnly") is True
    plain, found = copy.deepcopy(schema), is_inside
    for name, part in schema.get("properties", {}).items():
        plain["properties"][name], is_marked = hide_plainly(part, is_inside)
        found = found or is_marked
    for place, part in enumerate(schema.get("anyOf", ())):
        plain["anyOf"][place], is_marked = hide_plainly(part, is_inside)
        found = found or is_marked
    if "items" in schema:
        plain["items"], is_marked = hide_plainly(schema["items"], is_inside)
        found = found or is_marked
    if found:
        plain.pop("default", None)
        plain.pop("examples", None)
    return plain, found


class TestSchemas:
    @settings(max_examples=300, deadline=None)
    @given(schema=SCHEMAS)
    def test_lose_secrets_and_nothing_else(self, schema: dict[str, Any]) -> None:
        """Defaults and examples go that are marked, or inside or around what is; all others stay."""
        before = copy.deepcopy(schema)

        assert hide_plainly(schema)[0] == hide_secret_values(schema)
        assert before == schema


class OwnSchema(BaseModel):
    """Makes its schema itself, and takes only the mode."""

    x: int = 1

    @classmethod
    def model_json_schema(cls, mode: str = "validation") -> dict[str, Any]:  # type: ignore[override]
        return {"type": "object", "properties": {"x": {"type": "integer", "description": "Mine."}}}


class Described(GenerateJsonSchema):
    def int_schema(self, schema: Any) -> dict[str, Any]:
        return {**super().int_schema(schema), "description": "Mine."}


class OwnGenerator(BaseModel):
    """Has a generator of schemas of its own."""

    x: int = 1
    key: SecretStr = SecretStr(SECRET)

    @classmethod
    def model_json_schema(cls, *args: Any, schema_generator: Any = Described, **options: Any) -> dict[str, Any]:
        return super().model_json_schema(*args, schema_generator=schema_generator, **options)


class Decorated(BaseModel):
    """Adds to the schema that pydantic makes."""

    x: int = 1
    key: SecretStr = SecretStr(SECRET)

    @classmethod
    def model_json_schema(cls, **options: Any) -> dict[str, Any]:
        schema = super().model_json_schema(**options)
        schema["properties"]["x"]["description"] = "Mine."
        return schema


@pytest.mark.parametrize("kind", [OwnSchema, OwnGenerator, Decorated])
def test_models_that_describe_themselves(kind: Any) -> None:
    """Broken promise: they raised, or were described in pydantic's words; secret defaults are left out all the same."""
    registry = ToolRegistry()

    def take(order: Any) -> None:
        """Take."""

    take.__annotations__["order"] = kind
    registry.tool("take", owned_by="ann")(take)
    shown = json.dumps(registry.schemas("ann"))
    assert "Mine." in shown and SECRET not in shown


class Login(BaseModel):
    user: str = "ann"
    pin: Annotated[str, Secret] = Field(SECRET, examples=[SECRET])


class Inside(BaseModel):
    text: str = Field(SECRET, examples=[SECRET])


class Marked(BaseModel):
    model_config = ConfigDict(json_schema_extra={"examples": [{"key": SECRET}]})
    key: SecretStr = Field(SecretStr(SECRET), examples=[SECRET])
    words: list[Annotated[str, Secret]] = Field([SECRET], examples=[[SECRET]])
    login: Login = Field(Login(), examples=[{"user": "bo", "pin": SECRET}])
    more: list[Login] = Field([], examples=[[{"pin": SECRET}]])
    whole: Annotated[Inside, Secret] = Field(..., examples=[{"text": SECRET}])
    color: str = Field("public", examples=["red"])


class Named(BaseModel):
    password: str = Field(SECRET, examples=[SECRET])
    api_key: str | None = SECRET
    color: str = "public"


@dataclass
class NamedFields:
    tokens: list[str] = field(default_factory=lambda: [SECRET])
    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": SECRET, "Accept": "text"})
    color: str = "public"


def show_schema(hint: Any, default: Any = inspect.Parameter.empty) -> str:
    """Return the schema that a model is shown of a parameter."""
    registry = ToolRegistry()

    def take(order: Any) -> None:
        """Take."""

    take.__annotations__["order"] = hint
    if default is not inspect.Parameter.empty:
        take.__defaults__ = (default,)
    registry.tool("take", owned_by="ann")(take)
    return json.dumps(registry.schemas("ann"))


@pytest.mark.parametrize(
    "values", [(Marked,), (Named,), (NamedFields,), (Named, Named()), (NamedFields, NamedFields())], ids=str
)
def test_values_of_what_classes_mark_or_name_as_secrets(values: tuple[Any, ...]) -> None:
    """Broken promise: examples of marked fields, and defaults of those named like a secret, were shown to models."""
    shown = show_schema(*values)

    assert SECRET not in shown
    assert "public" in shown


def test_values_of_parameters_that_are_named_like_secrets() -> None:
    """Broken promise: the default of a `password` was shown to models, that of a marked parameter was not."""
    registry = ToolRegistry()

    @registry.tool(owned_by="ann")
    def log_in(
        password: str = SECRET, api_key: Annotated[str, Field(examples=[SECRET])] = "", max_tokens: int = 500,
        with_token: bool = True, cookie: str | None = None, options: dict[str, str] = {"jwt": SECRET},
    ) -> None:  # fmt: skip
        """Log in."""

    shown = registry.get_tool("log_in").parameters["properties"]

    assert {
        "api_key": "",
        "max_tokens": 500,
        "with_token": True,
        "cookie": None,
    } == {  # fmt: skip
        name: part["default"] for name, part in shown.items() if "default" in part
    }
    assert SECRET not in json.dumps(shown)


@pytest.mark.parametrize("reference", [False, True], ids=["in place", "by reference"])
def test_values_in_a_supplied_schema_that_are_named_like_secrets(reference: bool) -> None:
    """They are hidden as those are that the schema marks; the function gets its default."""
    key = {"type": "string", "default": SECRET, "examples": [SECRET]}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "api_key": {"anyOf": [{"$ref": "#/$defs/key"}]} if reference else key,
            "color": {"type": "string", "default": "public"},
        },
        "$defs": {"key": key} if reference else {},
    }
    tool = Tool("log_in", "Log in.", schema, lambda **given: given, owned_by="ann")
    registry = ToolRegistry()
    registry.register_tool(tool)

    shown = json.dumps(registry.schemas("ann"))
    assert SECRET not in shown and "public" in shown
    assert SECRET in json.dumps(schema)
    if not reference:
        assert SECRET == registry.execute(ToolCall("1", "log_in", {}, "ann")).result["api_key"]


class Lazy:
    """Raises whatever is read of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("working outside of request context")


@dataclass
class WithLazyMember:
    number: int = 1
    current: ClassVar[Any] = Lazy()


def test_other_members_of_a_class_are_not_read() -> None:
    """With a journal, a class attribute that raises ended each call as an error of the tool."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool(owned_by="ann")
        def give() -> WithLazyMember:
            """Give."""
            return WithLazyMember(4)

        assert registry.execute(ToolCall("c", "give", {}, "ann")).success
