"""What a tool takes whose JSON Schema was supplied: the schema, and the defaults of its function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from praval_tools.schema.codegen import FastPathBody, list_reserved_names
from praval_tools.schema.encode import Encoder, to_json_bytes
from praval_tools.schema.function_defaults import find_passable_defaults
from praval_tools.schema.hidden_values import blank_values, hide_values_of_secrets
from praval_tools.schema.json_input import copy_json, normalize_json
from praval_tools.schema.offered_names import OfferedNames
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.secret_marks import hide_secret_values
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import Mismatch, Unencodable
from praval_tools.schema.type_hints import NOTHING
from praval_tools.schema.validator import Validator
from praval_tools.schema.value_reader import ValueReader
from praval_tools.tools.compiled import Arguments, ValueHook, add_defaults, compiled_property
from praval_tools.tools.content import Content, read_content
from praval_tools.tools.frames import activate_tool_frame


class SuppliedSchema:
    """
    The counterpart of `CompiledSignature` for a tool whose JSON Schema was supplied: values stay JSON.

    Args:
        schema: The schema of the arguments.
        get_function: Returns the function, and its signature. What is bound or injected there is no argument, unless
            the schema names it. Arguments that the schema names are checked without them.
        result_schema: The schema of the result, if one was supplied.
        marked_names: The parameters that the function marks as secret, where that is known.
    """

    def __init__(
        self, schema: JsonSchema, get_function: Callable[[], tuple[Callable[..., object], Signature]],
        result_schema: JsonSchema | None = None, marked_names: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.parameters_schema = hide_values_of_secrets(hide_secret_values(schema, marked_names))
        self._schema, self.result_schema = schema, result_schema
        self.validator = Validator(schema, self._list_taken_names)
        self._offered = OfferedNames(schema, self._list_taken_names)
        self._get_function, self._reader = get_function, ValueReader()
        self.encode_result: ValueHook = Encoder(takes_subclasses=True).encode_value
        self.fast_path_code = self.keyword_fast_path_code = FastPathBody(
            lines=_SUPPLIED_SCHEMA_LINES,
            call="function(**complete(arguments))",
            namespace={
                "is_valid": self.validator.is_valid, "fill": self.validator.fill_defaults, "check": normalize_json,
                "copy": copy_json, "complete": self.complete_values,
            },
        )  # fmt: skip

    def _list_taken_names(self) -> frozenset[str]:
        return list_reserved_names(self._get_function()[1])

    @compiled_property
    def blank_schema(self) -> JsonSchema:
        """The schema with null as each default, also as those that are hidden, and as those of the function."""
        blank = cast("JsonSchema", blank_values(self._schema))
        properties, defaults = blank.get("properties", {}), self.function_defaults
        with_defaults = {
            name: {**part, "default": None} if name in defaults and isinstance(part, dict) else part
            for name, part in properties.items()
        }
        return {**blank, "properties": with_defaults}

    def decode_arguments(self, arguments: Mapping[str, object]) -> Arguments:
        """Return the arguments with the defaults of the schema; the function is not imported for it."""
        return self.validator.fill_defaults(dict(arguments))

    def complete_values(self, values: Arguments) -> Arguments:
        """Return what the function is passed: *values*, and defaults of its own."""
        return add_defaults(values, self.function_defaults)

    @compiled_property
    def function_defaults(self) -> Arguments:
        """What the function is passed for what is neither given nor a default of the schema, if it can be judged."""
        function, signature = self._get_function()
        defaults = find_passable_defaults(function, signature, self._offered)
        return {name: value for name, value in defaults.items() if name in self._offered or self._is_readable(value)}

    def _is_readable(self, value: object) -> bool:
        try:
            self._reader.read(value)
        except Unencodable:
            return False
        return True

    def find_mismatches(self, arguments: Mapping[str, object]) -> list[Mismatch]:
        """Return nothing: what the schema accepts, the function gets."""
        return []

    def read_arguments(self, values: Mapping[str, object], *, with_made_fields: bool = True) -> Arguments:
        """
        Return the values as JSON, which all are but defaults of the function.

        Raises:
            Unencodable: One of those has no JSON form.
        """
        defaults, read = self.function_defaults, Arguments()
        with activate_tool_frame("(arguments)"):  # members of enums are found by code of their classes
            for name, value in values.items():
                try:
                    is_default = value is defaults.get(name, NOTHING)
                    read[name] = self._reader.read(value) if is_default else value
                except Unencodable as error:
                    raise error.prepend_step(name) from None
        return read

    def try_encode_argument(self, name: str, value: object) -> object:
        """Return the value: it is JSON."""
        return value

    def encode_result_text(self, value: object) -> bytes:
        """Return what the function returned as JSON text."""
        return to_json_bytes(self.encode_result(value))

    def write_result(self, value: object) -> tuple[object, tuple[str, ...]]:
        """Return what the function returned as JSON, which it stays unless it is `Content`."""
        return self.encode_result(value), self.find_union_members(value)

    def write_json_result(self, json: object) -> tuple[object, tuple[str, ...]]:
        """Return JSON that stands for what the function returned, which it stays."""
        return self.encode_result(json), ()

    def find_union_members(self, value: object) -> tuple[str, ...]:
        """Return what says that there is `Content` in the value; other values stay JSON."""
        items = value if isinstance(value, list | tuple) else (value,)
        return (_CONTENT,) if any(isinstance(item, Content) for item in items) else ()

    def decode_result(self, value: object, union_members: Sequence[str] = ()) -> object:
        """Return the value: it is JSON, or `Content` where it was that."""
        return read_content(value) if _CONTENT in union_members else value


_CONTENT: Final = Content.__name__
_SUPPLIED_SCHEMA_LINES: Final = (
    # whatever is wrong with a caller's objects, the pipeline reports it
    "try:\n    arguments = copy(check(arguments))\n    if not is_valid(arguments): return MISS\n"
    "except Exception: return MISS",
    "arguments = fill(arguments)",
)
