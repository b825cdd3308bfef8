"""Names of classes, functions and files are texts of whoever wrote them: they have no rights when others read them."""

# Tests of: tools/source, execution/failures, plugins/report, schema/type_hints, schema/class_fields, schema/json_values

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NewType, TypeVar

import attrs
import pydantic
import pytest
from plugin_rig import HEAD, Site, loaded, site  # noqa: F401  # fixtures
from typing_extensions import TypeAliasType, TypedDict

from praval_tools import PluginWarning, Secret, Tool, ToolCall, ToolError, ToolRegistry
from praval_tools.tools.source import Source

shared: list[Callable[[], object]] = [lambda: None]
"""What a `Name` does, the last of them."""


class Name(str):
    """A text that shares a tool of somebody else, whatever is done with it."""

    def _share(self, *_: object) -> Any:
        with suppress(ToolError):
            shared[-1]()
        return self

    def __hash__(self) -> int:
        self._share()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        self._share()
        return str.__eq__(self, other)

    def __len__(self) -> int:
        self._share()
        return str.__len__(self)

    def __getitem__(self, key: Any) -> str:
        self._share()
        return str.__getitem__(self, key)

    def __str__(self) -> str:
        return str(self._share())

    def __format__(self, spec: str) -> str:
        self._share()
        return "x"


@pytest.fixture(params=["memory", None], ids=["journal", "no journal"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """A registry with a tool that clerk may not share."""
    made = ToolRegistry(journal=request.param)
    made.tool("pay", owned_by="bank", description="Pay.")(lambda: "paid")
    shared.append(lambda: made.share_tool("pay"))
    return made


def read_all(registry: ToolRegistry) -> None:
    """Do what a host does with a tool."""
    registry.get_tool_info("mine")
    registry.explain("boss", "mine")
    registry.problems()
    registry.grant("mine", "boss")
    registry.execute(ToolCall(None, "mine", {}, "boss"))
    registry.share_tool("mine")
    with suppress(ToolError):
        registry.tool("mine", description="Again.")(lambda: 1)
    registry.unregister_tool("mine")


@pytest.mark.parametrize("place", ["__qualname__", "__module__", "co_filename", "hint"])
def test_of_functions(registry: ToolRegistry, place: str) -> None:
    """Broken promise: they ran as the operator where it was read where a function is declared."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Declare a tool."""

        class Kind(str):
            pass

        def mine(text: Any = "x") -> str:
            return "mine"

        if place == "hint":
            Kind.__name__ = Name("Kind")
            mine.__annotations__["text"] = Kind
        elif place == "co_filename":
            mine.__code__ = mine.__code__.replace(co_filename=Name("mine.py"))
        else:
            setattr(mine, place, Name("mine"))
        registry.tool("mine", owned_by="clerk", description="Mine.")(mine)

    registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    if registry.get_tool("mine") is not None:
        read_all(registry)
    assert not registry.explain("clerk", "pay").allowed


def test_of_exceptions(registry: ToolRegistry) -> None:
    """Broken promise: it ran as the operator where the result was recorded, and `execute` raised after the tool ran."""

    class Broken(Exception):
        pass

    Broken.__name__ = Name("Broken")

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Fail."""
        raise Broken("no")

    result = registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    assert ("tool_error", "Broken", str) == (result.outcome.value, result.error_type, type(result.error_type))
    assert not registry.explain("clerk", "pay").allowed


def test_of_exceptions_of_hooks(registry: ToolRegistry, site: Site) -> None:
    """Broken promise: it ran as the operator where the failure of the hook was reported."""
    body = "class E(Exception): pass\nE.__name__ = test_plain_names.Name('E')\n@hookimpl\n"
    hook = "def praval_tools_before_call():\n    raise E('x')\n"
    site.install("acme", f"{HEAD}import sys\ntest_plain_names = sys.modules[{__name__!r}]\n{body}{hook}")
    loaded(registry)
    registry.tool("note", owned_by="clerk", description="Note.")(lambda: 1)
    with pytest.warns(PluginWarning):
        registry.execute(ToolCall(None, "note", {}, "clerk"))
    assert not registry.explain("clerk", "pay").allowed


def make_dataclass() -> Any:
    """A dataclass with a `Name` as field."""
    return dataclasses.make_dataclass("Note", [(Name("text"), str)])


def make_attrs_class() -> Any:
    """An attrs class with a `Name` as alias."""
    return attrs.make_class("Note", {"text": attrs.field(type=str, alias=Name("words"))})


def make_typed_dict() -> Any:
    """A TypedDict with a `Name` as key."""
    hints = {Name("text"): str}
    kind: Any = types.new_class("Note", (TypedDict,), exec_body=lambda body: body.update(__annotations__=hints))
    return kind


def make_named_tuple() -> Any:
    """A NamedTuple with a `Name` as field."""
    kind: Any = collections.namedtuple("Note", "text")  # type: ignore[name-match]
    kind.__annotations__, kind._fields = {Name("text"): str}, (Name("text"),)
    return kind


def make_model(**field: Any) -> Any:
    """A model of pydantic whose field is described by *field*."""
    return pydantic.create_model("Note", text=(str, pydantic.Field(**field)))


def make_model_with_field() -> Any:
    """A model of pydantic with a `Name` as field."""
    fields: dict[str, Any] = {Name("text"): (str, ...)}
    return pydantic.create_model("Note", **fields)


def make_model_with_extra() -> Any:
    """A model of pydantic with keywords of its own in its schema."""
    return pydantic.create_model(
        "Note",
        __config__=pydantic.ConfigDict(json_schema_extra={Name("x-of"): {Name("a"): [Name("b")]}}),
        text=(str, ...),
    )


CLASSES: dict[str, Callable[[], Any]] = {
    "dataclass": make_dataclass,
    "attrs": make_attrs_class,
    "TypedDict": make_typed_dict,
    "NamedTuple": make_named_tuple,
    "alias": lambda: make_model(alias=Name("words")),
    "validation alias": lambda: make_model(validation_alias=Name("words")),
    "serialization alias": lambda: make_model(serialization_alias=Name("words")),
    "description": lambda: make_model(description=Name("Some text.")),
    "field extra": lambda: make_model(json_schema_extra={Name("x-of"): Name("a")}),
    "model field": make_model_with_field,
    "model extra": make_model_with_extra,
    "annotated": lambda: Annotated[str, Name("Some text.")],
    "marked field": lambda: dataclasses.make_dataclass("Note", [(Name("text"), Annotated[str, Secret])]),
    "marked alias": lambda: make_model(alias=Name("words"), json_schema_extra={"writeOnly": True}),
    "marked model": lambda: make_model(json_schema_extra={Name("format"): Name("password")}),
}


def collect_types(value: Any) -> set[type]:
    """The types in a value."""
    parts = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return {type(value)}.union(*map(collect_types, parts))


@pytest.mark.parametrize("place", CLASSES)
def test_of_classes_of_parameters(registry: ToolRegistry, place: str) -> None:
    """Broken promise: they ran as the operator where the schema was read, and `schemas` raised."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Declare a tool."""
        kind = CLASSES[place]()

        def mine(note: Any) -> Any:
            return note

        mine.__annotations__ = {"note": kind, "return": kind}
        registry.tool("mine", owned_by="clerk", description="Mine.")(mine)

    registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    assert registry.get_tool("mine") is not None
    for api_format in ("openai-chat", "anthropic", "gemini", "mcp"):
        registry.schemas("clerk", api_format)
    (schema,) = registry.get_schemas("mine")
    assert collect_types(schema) <= {str, bool, int, dict, list}
    key = next(iter(schema["function"]["parameters"]["properties"]["note"].get("properties", {})), None)
    note = "a" if key is None else {key: "a"}
    result = registry.execute(ToolCall(None, "mine", {"note": note}, "clerk"))
    assert result.outcome.value in ("ok", "invalid_arguments", "tool_error"), result
    registry.get_tool_definitions_dict()
    registry.explain("clerk", "mine", {"note": note})
    read_all(registry)
    assert not registry.explain("clerk", "pay").allowed


@pytest.mark.parametrize("place", ["key", "value", "keyword", "default", "description", "tag"])
def test_of_supplied_schemas(registry: ToolRegistry, place: str) -> None:
    """A schema that comes with a tool has plain texts alone, as have its description and tags."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Declare a tool."""
        text: dict[str, Any] = {"type": "string"}
        key = "text"
        if place == "key":
            key = Name("text")
        elif place == "value":
            text["type"] = Name("string")
        elif place == "keyword":
            text[Name("x-of")] = "a"
        elif place == "default":
            text["default"] = Name("a")
        schema = {"type": "object", "properties": {key: text}}
        description = Name("Mine.") if place == "description" else "Mine."
        tags = [Name("mine")] if place == "tag" else []
        tool = Tool("mine", description, schema, lambda text="": text, owned_by="clerk", tags=tags)
        registry.register_tool(tool)

    result = registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    if registry.get_tool("mine") is None:
        assert result.error is not None and "is not" in result.error  # JSON
        return
    assert collect_types(registry.schemas("clerk")) <= {str, bool, int, dict, list}
    registry.execute(ToolCall(None, "mine", {"text": "a"}, "clerk"))
    read_all(registry)
    assert not registry.explain("clerk", "pay").allowed


def test_of_exceptions_of_approval_handlers(registry: ToolRegistry) -> None:
    """Broken promise: it ran as the operator where the failure of the handler was said."""

    class Broken(Exception):
        pass

    Broken.__name__ = Name("Broken")

    def approve(*_: object) -> None:
        raise Broken("no")

    registry.set_approval_handler(approve)
    registry.tool("ask", owned_by="clerk", description="Ask.", requires_approval=True)(lambda: 1)
    result = registry.execute(ToolCall(None, "ask", {}, "clerk"))
    assert result.error is not None and "the handler raised Broken: no" in result.error
    assert not registry.explain("clerk", "pay").allowed


def test_of_exceptions_of_policies(registry: ToolRegistry) -> None:
    """Broken promise: it ran as the operator where the failure of the policy was said."""

    class Broken(Exception):
        pass

    Broken.__name__ = Name("Broken")

    def judge(*_: object) -> None:
        raise Broken("no")

    remove_policy = registry.add_policy(judge)
    registry.tool("ask", owned_by="clerk", description="Ask.")(lambda: 1)
    assert registry.execute(ToolCall(None, "ask", {}, "clerk")).outcome.value == "forbidden"
    remove_policy()
    assert not registry.explain("clerk", "pay").allowed


def test_of_interruptions(registry: ToolRegistry) -> None:
    """Broken promise: it ran as the operator where the end of the call was recorded."""

    class Stop(BaseException):
        pass

    Stop.__name__ = Name("Stop")

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Stop everything."""
        raise Stop

    with suppress(Stop):
        registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    assert not registry.explain("clerk", "pay").allowed


class Text(Name):
    """A text that is its own text."""

    def __str__(self) -> str:
        return self


@pytest.mark.parametrize("kind", [ValueError, ToolError, TimeoutError, LookupError])
def test_of_messages_of_errors(registry: ToolRegistry, kind: Any) -> None:
    """Broken promise: it ran as the operator, or as who called the tool, where the result was read."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Fail."""
        raise kind(Text("no"))

    result = registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    assert type(result.error) is str
    result.for_model()
    with suppress(ToolError):
        registry.toolset("clerk").call("attempt")
    assert not registry.explain("clerk", "pay").allowed


SOURCES = {
    "distribution": Source(distribution=Name("acme")),
    "version": Source(distribution="acme", version=Name("1")),
    "kind": Source(kind=Name("code")),  # type: ignore[arg-type]
    "file": Source(file=Name("a.py")),
}
FIELDS = {"engine": "thread", "risk_level": "high", "speed": "fast", "safety": "native", "errors": "masked"}
HINTS: dict[str, Callable[[], Any]] = {
    "TypeVar": lambda: TypeVar(Name("Value")),  # type: ignore[misc]
    "NewType": lambda: NewType(Name("Value"), str),  # type: ignore[misc]
    "list of NewType": lambda: list[NewType(Name("Value"), str)],  # type: ignore[misc]
    "alias": lambda: TypeAliasType(Name("Value"), str),  # type: ignore[misc]
}


@pytest.mark.parametrize("place", [*SOURCES, *FIELDS, *HINTS])
def test_of_declarations(registry: ToolRegistry, place: str) -> None:
    """Broken promise: they ran as the operator where it granted, shared or configured the tool."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Declare a tool."""

        def mine(text: Any = "x") -> str:
            return "mine"

        fields: dict[str, Any] = {}
        if place in SOURCES:
            fields["source"] = SOURCES[place]
        elif place in FIELDS:
            fields[place] = Name(FIELDS[place])
        else:
            mine.__annotations__["text"] = HINTS[place]()
        registry.tool("mine", owned_by="clerk", description="Mine.", **fields)(mine)

    result = registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    if registry.get_tool("mine") is not None:
        registry.configure("mine", timeout=3)
        registry.schemas("clerk", "mcp")
        read_all(registry)
    else:
        assert place in FIELDS and result.error is not None and "pass it as a plain text" in result.error
    assert not registry.explain("clerk", "pay").allowed


@pytest.mark.parametrize("place", ["api_format", "tags", "exclude_tags"])
def test_of_exports(registry: ToolRegistry, place: str) -> None:
    """Broken promise: the next export of the host compared its options with them as the operator."""

    @registry.tool(owned_by="clerk")
    def attempt() -> None:
        """Export tools."""
        options: dict[str, Any] = {"api_format": "mcp", place: Name("mcp") if place == "api_format" else [Name("mcp")]}
        with suppress(ToolError):
            registry.schemas("clerk", **options)

    registry.execute(ToolCall(None, "attempt", {}, "clerk"))
    registry.schemas("clerk", "mcp", tags=["mcp"])
    registry.schemas("clerk", "mcp", exclude_tags=["mcp"])
    registry.schemas("clerk", "mcp")
    assert not registry.explain("clerk", "pay").allowed
