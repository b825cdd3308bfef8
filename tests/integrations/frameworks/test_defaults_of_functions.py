# Tests of: registry/bound_tool, registry/function_parameters
"""Whatever a framework reads of the functions of a toolset, no model is shown a default that the schemas hide."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import agents
import pydantic_ai
import pytest
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass as pydantic_dataclass

from praval_tools import Agent, Secret, Tool, ToolContext, ToolRegistry

SECRET = "kT7vQ2xW9zRfoo"


@dataclass(frozen=True)
class Door:
    """Has a marked field, one with the name of a secret, and others."""

    floor: int = 1
    pin: Annotated[str, Secret] = SECRET
    api_token: str = SECRET
    sizes: list[int] = field(default_factory=lambda: [7])


class Row(NamedTuple):
    pin: Annotated[str, Secret] = SECRET


@pydantic_dataclass
class Window:
    pin: Annotated[str, Secret] = SECRET


class Login(BaseModel):
    user: str = "ann"
    password: str = Field(SECRET, examples=[SECRET])
    headers: dict[str, str] = {"Authorization": SECRET}


@dataclass
class Hotel:
    doors: list[Door] = field(default_factory=list)
    front: Door = Door()
    inner: Hotel | None = None


def write_plain(
    text: str, key: Annotated[str, Secret] = SECRET, api_token: str = SECRET,
    pin: Annotated[str | None, Secret] = SECRET, options: dict[str, str] = {"jwt": SECRET}, note: str | None = None,
    size: int = 3, context: ToolContext | None = None,
) -> str:  # fmt: skip
    """Write what was given."""
    return f"{text} {key} {api_token} {pin} {options['jwt']} {note} {size}"


def write_door(text: str, door: Door = Door(), other: Door | None = None) -> str:
    """Write what was given."""
    return f"{text} {door.pin} {door.api_token} {door.sizes} {other and other.pin}"


def write_others(text: str, row: Row = Row(), window: Window = Window(), login: Login = Login()) -> str:
    """Write what was given."""
    return f"{text} {row.pin} {window.pin} {login.password}"


def write_hotel(text: str, hotel: Hotel, more: list[Login]) -> str:
    """Write what was given."""
    return f"{text} {hotel.front.pin} {[item.password for item in more]}"


async def write_later(text: str, *, key: Annotated[str, Secret] = SECRET) -> str:
    """Write what was given."""
    return f"{text} {key}"


def write_extra(text: str, **extra: Door) -> str:
    """Write what was given."""
    return f"{text} {[door.pin for door in extra.values()]}"


def find_door(text: str) -> Door:
    """Find a door."""
    return Door()


def find_all(text: str) -> dict[str, list[Login | Row]]:
    """Find what there is."""
    return {text: [Login()]}


CASES = [write_plain, write_door, write_others, write_hotel, write_later, write_extra, find_door, find_all]


def make_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a toolset hands out for a tool."""
    registry = ToolRegistry()
    registry.tool("write", owned_by="ann")(function)
    (handed_out,) = Agent("ann", registry=registry).tools.functions()
    return handed_out


def show_to_langchain(function: Callable[..., Any]) -> object:
    names = {"coroutine" if inspect.iscoroutinefunction(function) else "func": function}
    return convert_to_openai_tool(StructuredTool.from_function(**names))


SHOWN = {
    "langchain": show_to_langchain,
    "pydantic-ai": lambda function: pydantic_ai.Tool(function).function_schema.json_schema,
    "openai-agents": lambda function: agents.function_tool(function, strict_mode=False).params_json_schema,
    "pydantic": lambda function: TypeAdapter(function).json_schema(),
    "results in pydantic-ai": lambda function: (
        pydantic_ai.Tool(function, include_return_schema=True).tool_def.return_schema,
        "text",
    ),
    "results in pydantic": lambda function: (
        TypeAdapter(inspect.signature(function).return_annotation).json_schema(mode="serialization"),
        "text",
    ),
    "results by annotations": lambda function: (
        TypeAdapter(function.__annotations__["return"]).json_schema(mode="validation"),
        "text",
    ),
    "inspect": lambda function: (inspect.signature(function), vars(function), function.__doc__, function.__defaults__),
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("function", CASES)
def test_show_no_secret(function: Callable[..., Any], show: Callable[..., object]) -> None:
    """Broken promise: frameworks make schemas of signatures, and these had the defaults of marked parameters."""
    shown = show(make_function(function))

    text = json.dumps(shown) if isinstance(shown, dict) else repr(shown)
    assert SECRET not in text
    assert "text" in text


@pytest.mark.parametrize("show", [SHOWN[name] for name in ("langchain", "pydantic-ai", "openai-agents")])
def test_show_what_is_no_secret(show: Callable[..., object]) -> None:
    """Other parameters and fields, and their defaults, are shown as before."""
    plain, door = json.dumps(show(make_function(write_plain))), json.dumps(show(make_function(write_door)))

    assert '"default": 3' in plain and "note" in plain and '"writeOnly": true' in plain
    assert '"default": 1' in door and "sizes" in door and '"writeOnly": true' in door


@pytest.mark.parametrize("name", ["langchain", "pydantic-ai", "openai-agents"])
def test_give_the_tool_its_defaults(name: str) -> None:
    """What a model leaves out, or gives as null, is what the tool has for it, in each framework."""
    calls = iter(
        [
            (write_plain, {"text": "a"}, f"a {SECRET} {SECRET} {SECRET} {SECRET} None 3"),
            (write_plain, {"text": "a", "key": "k", "pin": None}, f"a k {SECRET} {SECRET} {SECRET} None 3"),
            (write_door, {"text": "a"}, f"a {SECRET} {SECRET} [7] None"),
            (write_door, {"text": "a", "door": {"pin": "p"}, "other": {}}, f"a p {SECRET} [7] {SECRET}"),
            (write_others, {"text": "a", "login": {"user": "bo"}}, f"a {SECRET} {SECRET} {SECRET}"),
            (write_later, {"text": "a"}, f"a {SECRET}"),
        ]
    )
    for function, arguments, expected in calls:
        assert expected == asyncio.run(call_in(name, make_function(function), arguments))


async def call_in(name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> object:
    """Return what a framework gets of a call."""
    if name == "langchain":
        names = {"coroutine" if inspect.iscoroutinefunction(function) else "func": function}
        return await StructuredTool.from_function(**names).ainvoke(arguments)
    if name == "pydantic-ai":
        schema = pydantic_ai.Tool(function).function_schema
        return await schema.call(schema.validator.validate_python(arguments), None)  # type: ignore[arg-type]
    tool = agents.function_tool(function, strict_mode=False)
    context = agents.tool_context.ToolContext(None, tool_name=tool.name, tool_call_id="1", tool_arguments="{}")
    return await tool.on_invoke_tool(context, json.dumps(arguments))


@pytest.mark.parametrize("arguments", [(), (None,), ("k", None)], ids=repr)
def test_none_in_place_of_a_hidden_default(arguments: tuple[str | None, ...]) -> None:
    """By position or by name, None says that a parameter with a hidden default is left out; else it is None."""
    function, key = make_function(write_plain), next(iter(arguments), None) or SECRET

    assert f"a {key} {SECRET} {SECRET} {SECRET} None 3" == function("a", *arguments)
    assert f"a {SECRET} {SECRET} {SECRET} {SECRET} None 3" == function("a", pin=None, note=None)


def test_bound_tools_show_their_signature_without_them() -> None:
    """What a bound tool shows of its tool has the parameters of the function that is handed out."""
    registry = ToolRegistry()
    registry.tool("write", owned_by="ann")(write_plain)
    bound = Agent("ann", registry=registry).tools["write"]

    assert inspect.signature(make_function(write_plain)) == bound.tool.signature
    assert SECRET not in repr([bound.tool.signature, bound.metadata.parameters, bound.parameters])
    assert [3, None] == [bound.metadata.parameters[name]["default"] for name in ("size", "api_token")]


def iter_supplied() -> Iterator[Tool[..., Any]]:
    """Yield tools of which the schema was supplied, with secrets in it, or in their function."""
    properties = {"token": {"type": "string", "default": SECRET}, "n": {"type": "integer", "default": 4}}
    yield Tool("write", "Write.", {"type": "object", "properties": properties}, lambda **given: given, owned_by="ann")
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "key": {"type": "string"}}}
    yield Tool("write", "Write.", schema, lambda text="", key=SECRET: {"token": key, "n": 4}, owned_by="ann")


@pytest.mark.parametrize("tool", [*iter_supplied()])
def test_of_supplied_schemas(tool: Tool[..., Any]) -> None:
    """They show none either, in no metadata, and the function gets them."""
    registry = ToolRegistry()
    registry.register_tool(tool)
    bound = registry.toolset("ann")["write"]
    (function,) = registry.toolset("ann").functions()

    assert SECRET not in repr([inspect.signature(function), bound.tool.signature, bound.parameters])
    assert {"token": SECRET, "n": 4} == function()


@pytest.mark.parametrize("value", [Login(), Door(), [Door()], {"token": SECRET}, {"a": [Login()]}], ids=repr)
def test_metadata_hides_what_is_named_like_a_secret(value: object) -> None:
    """Broken promise: the metadata of a tool showed defaults that no schema shows."""

    def take(value: Any = value, api_token: str = SECRET, max_tokens: int = 5, with_token: bool = True) -> None:
        """Take."""

    tool = Tool.from_function(take)

    assert SECRET not in repr(tool.metadata.parameters)
    assert [None, None, 5, True] == [part["default"] for part in tool.metadata.parameters.values()]


@dataclass
class Plain:
    """Hides nothing."""

    sizes: list[int] = field(default_factory=lambda: [7])
    note: str = "none"


def test_other_hints_and_defaults_stay_as_they_are() -> None:
    """What hides nothing is in the signature as the function has it."""

    def take(plain: Plain, count: int | None = None, name: str = "ann", max_tokens: int = 5) -> str:
        """Take."""
        return name

    taken = inspect.signature(make_function(take)).parameters.values()

    assert [Plain, int | None, str, int] == [parameter.annotation for parameter in taken]
    assert [inspect.Parameter.empty, None, "ann", 5] == [parameter.default for parameter in taken]


class Node(BaseModel):
    """Contains itself, and has a default that is hidden."""

    pin: Annotated[str, Secret] = SECRET
    kids: list[Node] = []


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_classes_that_contain_themselves_stay_as_they_are(show: Callable[..., object]) -> None:
    """Broken promise: pydantic wrote the schema of the function into the class, and later tools knew no secrets."""

    def write_node(text: str, node: Node) -> Node:
        """Write what was given."""
        return node

    before = Node.model_json_schema()
    show(make_function(write_node))

    assert before == Node.model_json_schema() and "pin" in str(before)


class Pass(BaseModel):
    """Is secret."""

    pin: Annotated[str, Secret]


class HeldPass(BaseModel):
    """Has a default that holds a secret."""

    held: Pass = Pass(pin=SECRET)


def test_the_result_shows_no_default_of_a_class_inside() -> None:
    """Broken promise: a default that holds what is marked was in pydantic's schema of the result."""

    def open_account() -> HeldPass:
        """Open an account."""
        return HeldPass()

    returned = inspect.signature(make_function(open_account)).return_annotation
    assert SECRET not in str(TypeAdapter(returned).json_schema())


EXAMPLES = ConfigDict(json_schema_extra={"examples": [{"pin": SECRET, "password": SECRET, "size": 7}]})


class Key(BaseModel):
    """Has a marked field, no default, and an example of the whole."""

    model_config = EXAMPLES
    pin: Annotated[str, Secret]
    size: int


class Entry(BaseModel):
    """The same, with the name of a secret."""

    model_config = EXAMPLES
    password: str


class Lock(BaseModel):
    """Says a default itself."""

    model_config = ConfigDict(json_schema_extra={"default": {"pin": SECRET}})
    pin: Annotated[str, Secret]


@pydantic_dataclass(config=EXAMPLES)
class Card:
    pin: Annotated[str, Secret]


@dataclass
class Box:
    """A plain dataclass with what only pydantic reads."""

    __pydantic_config__ = EXAMPLES
    password: str


@pydantic_dataclass(config=ConfigDict(json_schema_extra={"examples": [{"size": 7}]}))
class Size:
    """Has an example and no secret."""

    size: int


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
@pytest.mark.parametrize("kind", [Key, Entry, Lock, Card, Box, list[Key], dict[str, Card]], ids=str)
def test_show_no_example_of_a_whole_class(kind: Any, show: Callable[..., object]) -> None:
    """Broken promise: the function showed an example of a model that the tool's own schema hides."""

    def write(text: str, given: Any) -> Any:
        """Write what was given."""
        return given

    write.__annotations__ |= {"given": kind, "return": kind}
    shown = show(make_function(write))

    assert SECRET not in (json.dumps(shown) if isinstance(shown, dict) else repr(shown))


def test_an_example_of_a_dataclass_without_secrets_is_shown() -> None:
    """The tool's own schema and those of frameworks say it."""

    def write(size: Size) -> Size:
        """Write what was given."""
        return size

    registry = ToolRegistry()
    registry.tool("write", owned_by="ann")(write)
    bound = registry.toolset("ann")["write"]
    function = make_function(write)
    shown = [bound.parameters, bound.tool.result_schema, *(SHOWN[name](function) for name in ("langchain", "pydantic"))]
    assert all("examples" in str(schema) for schema in shown)
