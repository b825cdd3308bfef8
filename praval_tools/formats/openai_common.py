"""What both of OpenAI's formats have in common: the rules of strict mode, and arguments as JSON text."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.formats.format import arguments_of, writable
from praval_tools.formats.schema_root import flat, with_items
from praval_tools.formats.strict import Rules
from praval_tools.schema.encode import json_text
from praval_tools.tools.call import ToolCall


def _number(value: Any) -> bool:
    return type(value) in (int, float)


STRICT: Final = Rules(
    keywords={
        "pattern": lambda value: isinstance(value, str), "multipleOf": _number, "minimum": _number, "maximum": _number,
        "exclusiveMinimum": _number, "exclusiveMaximum": _number, "minItems": _number, "maxItems": _number,
    },
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
    type_lists=True, all_required=True, recursive=True, properties=5_000, depth=10, enums=1_000,
    letters=120_000, long_enum=15_000,
)  # fmt: skip


def prepare(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that OpenAI takes outside of strict mode."""
    made: dict[str, Any] = with_items(flat(schema))
    return made if "properties" in made else {**made, "properties": {}}


def arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as the JSON text that OpenAI sends; text stays as the model wrote it."""
    given = call.arguments
    return writable(given) if isinstance(given, str) and given else json_text(arguments_of(call)).decode()
