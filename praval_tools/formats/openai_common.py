"""What both of OpenAI's formats have in common: the rules of strict mode, and arguments as JSON text."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.formats.format import to_arguments_object
from praval_tools.formats.schema_root import add_missing_items, flatten_root
from praval_tools.formats.strict import StrictRules
from praval_tools.schema.encode import to_json_bytes
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


STRICT_RULES: Final = StrictRules(
    keywords={
        "pattern": lambda value: isinstance(value, str), "multipleOf": _is_number, "minimum": _is_number, "maximum": _is_number,
        "exclusiveMinimum": _is_number, "exclusiveMaximum": _is_number, "minItems": _is_number, "maxItems": _is_number,
    },
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
    type_lists=True, all_required=True, recursive=True, properties=5_000, depth=10, enums=1_000,
    letters=120_000, long_enum=15_000,
)  # fmt: skip


def prepare_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that OpenAI takes outside of strict mode."""
    made: dict[str, Any] = add_missing_items(flatten_root(schema))
    return made if "properties" in made else {**made, "properties": {}}


def to_arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as the JSON text that OpenAI sends; text stays as the model wrote it."""
    given = call.arguments
    return (
        replace_surrogates(given)
        if isinstance(given, str) and given
        else to_json_bytes(to_arguments_object(call)).decode()
    )
