# Tests of: schema/lost_marks, schema/secret_marks
"""What the hints of pydantic classes mark as secret is hidden in refused calls, whatever their schemas leave out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest
from typing_extensions import TypeAliasType, TypedDict

from praval_tools import Secret, Tool, ToolCall, ToolRegistry

pytest.importorskip("pydantic", reason="pydantic is not installed")
from pydantic import BaseModel, Field, RootModel, WithJsonSchema
from pydantic import Secret as PydanticSecret
from pydantic.json_schema import SkipJsonSchema

TEXT = "zqXk9-77vw"
Shaped = Annotated[str, Secret, WithJsonSchema({"type": "string"})]
Alias = TypeAliasType("Alias", PydanticSecret[str])


class Whole(BaseModel):
    word: PydanticSecret[str]


class Inside(BaseModel):
    words: list[PydanticSecret[str]]
    more: dict[str, Shaped] = {}


class Pair(BaseModel):
    words: tuple[Annotated[str, Secret], Shaped]


class Skipped(BaseModel):
    word: SkipJsonSchema[Annotated[str, Secret]] = ""


class Contradicted(BaseModel):
    word: Annotated[str, Secret] = Field(json_schema_extra={"writeOnly": False})


class Removed(BaseModel):
    word: Annotated[str, Secret] = Field(json_schema_extra=lambda schema: schema.pop("writeOnly"))


class Aliased(BaseModel):
    word: Alias = Field(alias="code")


class OwnSchema(BaseModel):
    word: Annotated[str, Secret]

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        return {"type": "object", "properties": {"word": {"type": "string"}}}


class OtherSchema(BaseModel):
    word: Annotated[str, Secret]

    @classmethod
    def model_json_schema(cls, **options: Any) -> Any:
        return {"type": "object", "properties": {"word": {"type": "string"}}}


class Root(RootModel[list[PydanticSecret[str]]]):
    pass


class Outer(BaseModel):
    inner: Annotated[Whole, WithJsonSchema({"type": "object"})]


@dataclass
class Record:
    word: Shaped


class Table(TypedDict):
    word: Shaped


class Point(NamedTuple):
    word: Shaped


class Holder(BaseModel):
    record: Record | None = None
    table: Table | None = None
    point: Point | None = None


VALUES: list[tuple[type, Any]] = [
    (Whole, {"word": TEXT}),
    (Inside, {"words": ["x", TEXT]}),
    (Inside, {"words": [], "more": {"x": TEXT}}),
    (Pair, {"words": ["x", TEXT]}),
    (Skipped, {"word": TEXT}),
    (Contradicted, {"word": TEXT}),
    (Removed, {"word": TEXT}),
    (Aliased, {"code": TEXT}),
    (OwnSchema, {"word": TEXT}),
    (OtherSchema, {"word": TEXT}),
    (Root, [TEXT]),
    (Outer, {"inner": {"word": TEXT}}),
    (Holder, {"record": {"word": TEXT}}),
    (Holder, {"table": {"word": TEXT}}),
    (Holder, {"point": [TEXT]}),
]
MISFITS: list[tuple[type, Any]] = [(Whole, {"world": TEXT}), (Whole, [TEXT]), (Skipped, {"word": [TEXT]})]
DECLARATIONS = [(kind, value, is_supplied) for kind, value in VALUES + MISFITS for is_supplied in (False, True)]


def declare(registry: ToolRegistry, function: Callable[..., str], kind: Any, schema: Any) -> None:
    """Register a tool whose argument is of *kind*."""
    function.__annotations__ = {"login": kind, "count": int, "return": str}
    if schema is None:
        registry.tool("log_in", owned_by="clerk")(function)
    else:
        registry.register_tool(Tool("log_in", "Log in.", schema, function, owned_by="clerk"))


@pytest.mark.parametrize(
    ("kind", "value", "is_supplied"), DECLARATIONS, ids=lambda part: part.__name__ if isinstance(part, type) else None
)
@pytest.mark.parametrize(("agent", "tool", "count"), [
    ("clerk", "log_in", 1), ("clerk", "log_in", "x"), ("eve", "log_in", 1), ("clerk", "log_inn", 1),
])  # fmt: skip
def test_hide_what_they_mark(agent: str, tool: str, count: object, is_supplied: bool, kind: Any, value: Any) -> None:
    """Broken promise: the secret was in the record of a call that was refused before its class was made."""
    registry = ToolRegistry(journal="memory")

    def log_in(login: Any, count: int = 0) -> str:
        """Log in."""
        return "done"

    declare(registry, log_in, kind, {"type": "object"} if is_supplied else None)
    registry.execute(ToolCall(None, tool, {"login": value, "count": count}, agent))
    assert registry.journal is not None
    events = list(registry.journal.events())
    assert len(events) > 0
    assert TEXT not in str(events)


def test_marks_are_in_the_schema() -> None:
    """Whoever reads the schema learns what the journal hides."""
    registry = ToolRegistry()

    def log_in(login: Any, count: int = 0) -> str:
        """Log in."""
        return "done"

    declare(registry, log_in, Whole, None)
    (schema,) = registry.toolset("clerk").schemas()
    assert schema["function"]["parameters"]["properties"]["login"]["properties"]["word"]["writeOnly"] is True
