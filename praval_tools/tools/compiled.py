"""Compiles a function's signature at first use: JSON Schemas, decoding, encoding, and code for the fast path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from types import FunctionType, MethodType
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec

from praval_tools.forks import first_use_property
from praval_tools.names import get_class_name
from praval_tools.schema.codegen import FastPathBody, generate_fast_path_body, list_reserved_names
from praval_tools.schema.decode_hooks import DecodeHooks, with_depth_check, with_recursion_guard, with_union_results
from praval_tools.schema.docstrings import extract_parameter_descriptions
from praval_tools.schema.encode import Encoder, to_json_bytes
from praval_tools.schema.function_defaults import list_defaults
from praval_tools.schema.hidden_values import blank_values, list_places_of_values
from praval_tools.schema.json_schema import JsonSchemaBuilder, build_parameters_schema
from praval_tools.schema.json_values import to_canonical_json, to_step
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import EncodeHook, Mismatch, Unencodable
from praval_tools.schema.type_hints import NOTHING, unwrap_return_hint
from praval_tools.schema.type_lookup import has_only_builtin_types
from praval_tools.schema.union_members import (
    NOT_READ_BACK,
    decode_with_members,
    has_ambiguous_union,
    list_union_members,
)
from praval_tools.schema.validator import Validator
from praval_tools.schema.value_reader import ValueReader
from praval_tools.schema.whole_values import (
    is_handed_on_whole,
    is_read_back_whole,
    make_whole_check,
    may_change_objects,
)
from praval_tools.tools.content import has_content
from praval_tools.tools.frames import activate_tool_frame

ValueHook: TypeAlias = Callable[[object], object]
"""Converts one value, or raises `Mismatch` or `Unencodable`."""

Arguments: TypeAlias = dict[str, Any]
"""The arguments of a call by name."""

_ENCODE_JSON: Final = msgspec.json.Encoder().encode

T = TypeVar("T")


class compiled_property(first_use_property[T]):
    """A part that is compiled on first use, by whoever that is: classes in hints, which may run code, get no rights."""

    def __init__(self, compile_part: Callable[[Any], T]) -> None:
        @wraps(compile_part)
        def compile_without_rights(compiled: object) -> T:
            with activate_tool_frame("(schema)"):
                return compile_part(compiled)

        super().__init__(compile_without_rights)


class CompiledSignature(msgspec.Struct, frozen=True, eq=False, dict=True):
    """
    What a tool's function takes and returns, ready for use; each part is made when first asked for.

    Args:
        signature: What was read at the declaration; without problems.
        function: The function itself.
        doc: Its docstring, which may describe parameters.
    """

    signature: Signature
    function: Callable[..., object]
    doc: str = ""

    @first_use_property
    def _decoder(self) -> DecodeHooks:
        return DecodeHooks()

    @first_use_property
    def _encoder(self) -> Encoder:
        return Encoder()

    @compiled_property
    def _result_hint(self) -> Any:
        returns = self.signature.returns
        return list if self.signature.is_generator and returns is Any else unwrap_return_hint(returns)

    @compiled_property
    def parameters_schema(self) -> JsonSchema:
        """The JSON Schema of the arguments; not to be changed."""
        return self._build_parameters_schema(True)

    def _build_parameters_schema(self, hides_values: bool) -> JsonSchema:
        builder = JsonSchemaBuilder(self._encoder, self._decoder, hides_values=hides_values)
        return build_parameters_schema(builder, self.signature, extract_parameter_descriptions(self.doc))

    @compiled_property
    def _unhidden_schema(self) -> JsonSchema:
        """The schema of the arguments with the defaults and examples of secrets; shown to nobody."""
        return self._build_parameters_schema(False)

    @first_use_property
    def blank_schema(self) -> JsonSchema:
        """The schema of the arguments with null as each default, also as those that are hidden, or made by code."""
        return cast("JsonSchema", blank_values(self._unhidden_schema))

    @first_use_property
    def has_hidden_fields(self) -> bool:
        """Whether a class in a hint has defaults or examples that the schema does not show."""
        hidden = list_places_of_values(self._unhidden_schema) - list_places_of_values(self.parameters_schema)
        optional = [parameter.name for parameter in self.signature.parameters if parameter.default is not NOTHING]
        return not hidden <= {("properties", name, "default") for name in optional}

    @first_use_property
    def validator(self) -> Validator:
        """The validator of the arguments."""
        return Validator(self.parameters_schema)

    @compiled_property
    def result_schema(self) -> JsonSchema | None:
        """The JSON Schema of the result; None where it may be anything, or content blocks, which are not JSON."""
        return None if has_content(self._result_hint) else self._build_schema(self._result_hint, True) or None

    @compiled_property
    def has_hidden_result_fields(self) -> bool:
        """Whether a class in the hint of the result has defaults or examples that the schema does not show."""
        if self.result_schema is None:
            return False
        unhidden = self._build_schema(self._result_hint, True, hides_values=False)
        return not list_places_of_values(unhidden) <= list_places_of_values(self.result_schema)

    def _build_schema(
        self, hint: object, describes_results: bool = False, *, hides_values: bool = True
    ) -> JsonSchema:  # fmt: skip
        builder = JsonSchemaBuilder(
            self._encoder, self._decoder, describes_results=describes_results, hides_values=hides_values
        )
        return builder.finish(builder.build(hint))

    @compiled_property
    def _decode_hooks(self) -> dict[str, ValueHook]:
        """The hook of each parameter that a model sees, that of `**kwargs` under `**`."""
        return {
            parameter.name if parameter.kind == "normal" else "**": self._make_decode_hook(parameter.hint)
            for parameter in self.signature.parameters
            if parameter.kind != "context"
        }

    def _make_decode_hook(self, hint: object, decoder: DecodeHooks | None = None) -> ValueHook:
        decode = with_recursion_guard((decoder or self._decoder).get_hook(hint))
        return with_union_results(decode) if self._may_contain_itself(hint) else decode

    def _may_contain_itself(self, hint: object) -> bool:
        return not has_only_builtin_types(hint) and "$defs" in self._build_schema(hint)

    def _find_decode_hook(self, name: str) -> ValueHook | None:
        return self._decode_hooks.get(name) or self._decode_hooks.get("**")

    @first_use_property
    def _reserved_names(self) -> frozenset[str]:
        return list_reserved_names(self.signature)

    def decode_arguments(self, arguments: Mapping[str, object]) -> Arguments:
        """
        Return the keyword arguments that *arguments*, as JSON, stand for; defaults are not added.

        Raises:
            Mismatch: The first value that does not fit, with its place.
        """
        for parameter in self.signature.parameters:
            if parameter.kind == "normal" and parameter.default is NOTHING and parameter.name not in arguments:
                raise Mismatch("is missing", parameter.name)
        values: Arguments = {}
        for name, value in arguments.items():
            if type(name) is not str:
                raise Mismatch("is not a text", to_step(name)).prepend_step(to_step(name))
            decode = self._find_decode_hook(name)
            if decode is None or name in self._reserved_names:
                raise Mismatch("is not a known parameter", name)
            try:
                values[name] = decode(value)
            except Mismatch as error:
                raise error.prepend_step(name) from None
        return values

    def complete_values(self, values: Arguments) -> Arguments:
        """Return what the function is passed: *values*, and its defaults, as a wrapper may have others than it."""
        return add_defaults(values, self.function_defaults)

    def find_mismatches(self, arguments: Mapping[str, object]) -> list[Mismatch]:
        """Return why arguments that fit the schema cannot be decoded: one reason for each parameter."""
        mismatches = []
        for name, value in arguments.items():
            try:
                if (decode := self._find_decode_hook(name)) is not None:
                    decode(value)
            except Mismatch as error:
                mismatches.append(error.prepend_step(name))
        return mismatches

    def read_arguments(self, values: Mapping[str, object], *, with_made_fields: bool = True) -> Arguments:
        """
        Return *values*, Python keyword arguments, as JSON that no code of theirs writes, `Decimal` left as it is.

        A default that has no JSON form is left out.

        Args:
            values: The keyword arguments.
            with_made_fields: As well as what constructors take, the fields that they do not.

        Raises:
            Unencodable: Another value has none.
        """
        read: Arguments = {}
        reader = self._reader if with_made_fields else self._reader_of_given_fields
        with activate_tool_frame("(arguments)"):  # members of enums are found by code of their classes
            for name, value in values.items():
                if name in self._context_names:
                    continue
                try:
                    read[name] = reader.read(value)
                except Unencodable as error:
                    if value is not self.function_defaults.get(name, NOTHING):
                        raise error.prepend_step(name) from None
        return read

    def try_encode_argument(self, name: str, value: object) -> object:
        """Return *value* of a parameter as JSON, if it has the parameter's Python type; else as it is."""
        encode = self._encode_hooks.get(name)
        try:
            encoded = value if encode is None else encode(value)
        except Unencodable:
            return value
        is_safe = encode is None or name not in self._compared_names or self._is_read_as_written(name, value, encoded)
        return encoded if is_safe else value

    def _is_read_as_written(self, name: str, value: object, encoded: object) -> bool:
        """Tell whether the tool gets *value*, and objects of the classes in it where unions do not tell them apart."""
        mark = self._member_hooks.get(name)
        try:
            with activate_tool_frame("(arguments)"):  # classes of parameters may run code of their own
                read = self._decode_hooks[name](encoded)
                if name in self._names_of_models and not is_handed_on_whole(value, read):
                    return False
                if mark is None:
                    return True
                written_members = list_union_members(mark(value), of_objects=True)
                return written_members == list_union_members(mark(read), of_objects=True)
        except Exception:  # the seam to these classes: what is wrong with the value is said where it is decoded
            return True

    @first_use_property
    def _compared_names(self) -> frozenset[str]:
        """The parameters whose objects may reach the tool as others."""
        return self._names_of_models | self._member_hooks.keys()

    @compiled_property
    def _names_of_models(self) -> frozenset[str]:
        """The parameters with models that may make other objects of the fields of those that are given."""
        return frozenset(
            parameter.name for parameter in self.signature.parameters
            if parameter.kind == "normal" and may_change_objects(parameter.hint)
        )  # fmt: skip

    @compiled_property
    def _member_hooks(self) -> dict[str, EncodeHook]:
        """For each parameter with a union whose members write alike, what writes its values with their members."""
        schema, encoder = self.parameters_schema, Encoder(reads_models=True, marks_members=True)
        return {
            parameter.name: encoder.get_hook(parameter.hint)
            for parameter in self.signature.parameters
            if parameter.kind == "normal" and has_ambiguous_union(schema["properties"][parameter.name], schema)
        }

    @compiled_property
    def _encode_hooks(self) -> dict[str, EncodeHook]:
        parameters = [parameter for parameter in self.signature.parameters if parameter.kind == "normal"]
        encoder = Encoder(reads_models=True)
        return {parameter.name: encoder.get_hook(parameter.hint) for parameter in parameters}

    @first_use_property
    def _context_names(self) -> frozenset[str]:
        return frozenset(parameter.name for parameter in self.signature.parameters if parameter.kind == "context")

    @first_use_property
    def function_defaults(self) -> Arguments:
        """What the function is passed for what is not given."""
        return list_defaults(self.signature)

    @first_use_property
    def _reader(self) -> ValueReader:
        return ValueReader()

    @first_use_property
    def _reader_of_given_fields(self) -> ValueReader:
        return ValueReader(reads_made_fields=False)

    @compiled_property
    def _result_decode_hook(self) -> ValueHook:
        return self._make_decode_hook(self._result_hint, DecodeHooks(reads_results=True))

    def decode_result(self, json: object, union_members: Sequence[str] = ()) -> object:
        """
        Return the Python value that a recorded result stands for; *union_members* are what was found in it.

        Raises:
            Mismatch: There is none, or the types in it make another value of it than was recorded: the tool returned
                another type than it declares, or a class changes its values, or holds more than it writes.
        """
        value = self._read_result(json, union_members)
        if value is json:
            return value
        try:
            is_same = _has_same_text(self.encode_result(value), json)
        except Exception as error:  # the seam to serializers of the program's classes
            raise Mismatch(f"cannot be compared with what was recorded: {get_class_name(type(error))}") from error
        if not is_same:
            raise Mismatch("is not what was recorded")
        return value

    def _read_result(self, json: object, union_members: Sequence[str]) -> object:
        decode = self._result_decode_hook
        return decode_with_members(decode, json, union_members) if union_members else decode(json)

    @compiled_property
    def _result_encode_hook(self) -> EncodeHook:
        encode = self._encoder.get_hook(self._result_hint)
        return with_union_results(encode) if self._may_contain_itself(self._result_hint) else encode

    def encode_result(self, value: object) -> object:
        """
        Return what the function returned as JSON, in its declared form.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        try:
            return self._result_encode_hook(value)
        except Unencodable as error:
            return self._encode_other_result(value, error)

    def _encode_other_result(self, value: object, declared: Unencodable) -> object:
        try:  # another type than declared is fine as long as its JSON is what was declared
            plain = self._encoder.encode_value(value)
            with activate_tool_frame("(result)"):  # the declared classes may run code, for a plain value, too
                self._result_decode_hook(plain)
        except Mismatch:
            return self._encode_subclasses(value, declared)
        return plain

    def _encode_subclasses(self, value: object, declared: Unencodable) -> object:
        try:
            return self._subclass_encode_hook(value)
        except Unencodable:
            raise declared from None

    @compiled_property
    def _subclass_encode_hook(self) -> EncodeHook:
        """Writes a result whose objects may be of subclasses, with fields that the declared classes do not have."""
        encode = Encoder(takes_subclasses=True).get_hook(self._result_hint)
        return with_union_results(encode) if self._may_contain_itself(self._result_hint) else encode

    def write_result(self, value: object) -> tuple[object, tuple[str, ...]]:
        """
        Return what the function returned as JSON, in its declared form, and what `decode_result` needs to read it.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        try:
            json, is_declared = self._result_encode_hook(value), True
        except Unencodable as error:
            json, is_declared = self._encode_other_result(value, error), False
        members = self.find_union_members(value)
        if is_declared and self._is_result_whole is None:
            return json, members
        return json, members if self._is_read_back(value, json, members, is_declared) else NOT_READ_BACK

    def write_json_result(self, json: object) -> tuple[object, tuple[str, ...]]:
        """Return *json*, which stands for a result, as `write_result` writes that: sets in order, defaults there."""
        json, members = self.encode_result(json), self.find_union_members(json)
        try:
            return (json, members) if members else self.write_result(self._read_result(json, ()))
        except (Mismatch, Unencodable):
            return json, members

    @compiled_property
    def _is_result_whole(self) -> Callable[[object], bool] | None:
        return make_whole_check(self._result_hint)

    def _is_read_back(self, value: object, json: object, members: Sequence[str], is_declared: bool) -> bool:
        is_whole = self._is_result_whole
        try:
            if is_declared and is_whole is not None and is_whole(value):
                return True
            with activate_tool_frame("(result)"):  # classes of the result may run code of their own
                return is_read_back_whole(value, self._read_result(json, members))
        except Exception:  # the seam to the classes of the program, which may not be comparable
            return False

    @compiled_property
    def _has_ambiguous_result(self) -> bool:
        return has_ambiguous_union(self.result_schema, self.result_schema)

    @compiled_property
    def _result_member_hook(self) -> EncodeHook:
        encode = Encoder(marks_members=True).get_hook(self._result_hint)
        return with_union_results(encode) if self._may_contain_itself(self._result_hint) else encode

    def find_union_members(self, value: object) -> tuple[str, ...]:
        """Return which members of unions write *value*, a result; nothing where its JSON says it."""
        if not self._has_ambiguous_result:
            return ()
        try:
            return tuple(list_union_members(self._result_member_hook(value)))
        except Exception:  # the seam to the classes of the program: of another type than declared, or in a set
            return ()

    @compiled_property
    def encode_result_text(self) -> Callable[[object], bytes]:
        """
        Turns what the function returned into JSON text, in its declared form.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        encode, write, encode_otherwise = self._result_encode_hook, _ENCODE_JSON, self.encode_result

        def encode_result_text(value: object) -> bytes:
            try:
                encoded = encode(value)
            except Unencodable:
                encoded = encode_otherwise(value)
            try:
                return write(encoded)
            except (OverflowError, ValueError):  # not around the encoding: an iterator can be read only once
                return to_json_bytes(encoded)

        return encode_result_text

    @compiled_property
    def fast_path_code(self) -> FastPathBody:
        """The code of the fast path."""
        plain = isinstance(self.function, FunctionType | MethodType) and not hasattr(self.function, "__wrapped__")
        return generate_fast_path_body(self.signature, self._make_fast_path_decode_hook, by_name=not plain)

    @compiled_property
    def keyword_fast_path_code(self) -> FastPathBody:
        """The same, with a call that names every argument."""
        return generate_fast_path_body(self.signature, self._make_fast_path_decode_hook, by_name=True)

    def _make_fast_path_decode_hook(self, hint: object) -> ValueHook:
        decode = self._make_decode_hook(hint)
        return with_depth_check(decode) if self._may_contain_itself(hint) else decode


def _has_same_text(first: object, second: object) -> bool:
    """Tell whether two JSON values are written alike, other than 1 and 1.0; members may be in any order."""
    return to_json_bytes(first) == to_json_bytes(second) or to_canonical_json(first) == to_canonical_json(second)


def add_defaults(values: Arguments, defaults: Arguments) -> Arguments:
    """Return *values*, and after them what they lack of *defaults*."""
    return values | {name: default for name, default in defaults.items() if name not in values}
