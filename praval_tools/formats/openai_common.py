"""Shared by both OpenAI formats: the rules of strict mode, and arguments as JSON text."""

from __future__ import annotations

from typing import Final

from praval_tools.formats.format import to_arguments_object
from praval_tools.formats.schema_root import add_missing_items, flatten_root
from praval_tools.formats.strict import StrictRules
from praval_tools.schema.encode import to_json_bytes
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.call import ToolCall

_NUMBER_KEYWORDS: Final = (
    "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"
)  # fmt: skip

STRICT_RULES: Final = StrictRules(
    keywords={
        "pattern": lambda value: isinstance(value, str),
        **dict.fromkeys(_NUMBER_KEYWORDS, lambda value: type(value) in (int, float)),
    },
    formats=frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")),
    type_lists=True, all_required=True, recursive=True, properties=5_000, depth=10, enums=1_000,
    letters=120_000, long_enum=15_000,
)  # fmt: skip


def prepare_schema(schema: JsonSchema) -> JsonSchema:
    """Return a schema that OpenAI takes outside strict mode."""
    prepared = add_missing_items(flatten_root(schema))
    return prepared if "properties" in prepared else {**prepared, "properties": {}}


def to_arguments_text(call: ToolCall) -> str:
    """Return the arguments of a call as the JSON text that OpenAI sends; text stays as the model wrote it."""
    arguments = call.arguments
    if isinstance(arguments, str) and arguments:
        return replace_surrogates(arguments)
    return to_json_bytes(to_arguments_object(call)).decode()
