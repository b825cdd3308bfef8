import dataclasses
import datetime
import decimal
import enum
import pathlib
from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

from praval_tools import Agent, Tool, ToolContext, ToolRegistry

registry = ToolRegistry(name="stubs")


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float = 0.0


class Options(TypedDict, total=False):
    depth: int


@registry.tool("csv_parse", shared=True)
def csv_parse(path: str, limit: int | None = None, *, sep: Literal[",", ";"] = ",") -> list[dict[str, str]]:
    """Parse a "CSV" file. \\ Done.

    Ends with a quote: \"\"\"x\"\"\""""
    return [{"path": path, "n": str(limit)}]


@registry.tool("sql.query", shared=True)
async def sql_query(text: str, ctx: ToolContext, args: Sequence[int] = ()) -> int:
    """Ask."""
    return len(args)


@registry.tool("class", shared=True)
def klass(
    point: Point,
    color: Color = Color.RED,
    options: Options | None = None,
    when: datetime.date | None = None,
    path: pathlib.Path = pathlib.Path("."),
    n: decimal.Decimal = decimal.Decimal(1),
) -> Point:
    """Make."""
    return point


@registry.tool("keys", shared=True)
def keys(list: list[str], str: dict[str, int], **more: int) -> Iterator[int]:
    """Clash."""
    yield 1


@registry.tool("_hidden", shared=True)
def hidden() -> None:
    """Hide."""


def local() -> None:
    @dataclasses.dataclass
    class Local:
        a: int
        b: "list[int]"

    @registry.tool("use_local", shared=True)
    def use_local(value: Local, many: list[Local] = []) -> Local:
        """Use."""
        return value


local()

registry.register_tool(
    Tool(
        "mcp-tool",
        "Foreign.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string"},
                "limit": {"type": ["integer", "null"], "default": None},
                "mode": {"enum": ["a", "b", None, 3]},
                "filter": {
                    "type": "object",
                    "properties": {
                        "field": {"type": "string"},
                        "x-y": {"type": "number"},
                        "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                    },
                    "required": ["field"],
                },
                "node": {"$ref": "#/$defs/Node"},
                "self": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "meta": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "required": ["query"],
            "$defs": {
                "Node": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                    },
                    "required": ["name"],
                }
            },
        },
        lambda **kw: kw,
        shared=True,
    )
)
registry.register_tool(
    Tool(
        "odd",
        "Odd names.",
        {"type": "object", "properties": {"user-id": {"type": "string"}, "ok": {"type": "string"}}},
        lambda **kw: kw,
        owned_by="data bot",
    )
)
Agent("analyst", registry=registry)
Agent("any", registry=registry)
Agent("données-2", registry=registry)
Agent("intern", registry=registry, auto_discover_tools=False)
