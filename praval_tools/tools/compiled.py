"""Everything that is made of a signature at first use: schemas, structuring, encoding, the fast lane's lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any

import msgspec
from attrs import NOTHING

from praval_tools.schema.codegen import FastPathBody, collect_bound_names, generate_fast_path_body
from praval_tools.schema.decode import Decoder, with_depth_check, with_recursion_guard
from praval_tools.schema.docstrings import extract_parameter_descriptions
from praval_tools.schema.encode import Encoder, to_json_bytes
from praval_tools.schema.json_input import normalize_json
from praval_tools.schema.json_schema import JsonSchemaBuilder, build_parameters_schema
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import EncodeHook, Mismatch, Unencodable
from praval_tools.schema.type_hints import unwrap_return_hint
from praval_tools.schema.validator import Validator


class CompiledSignature(msgspec.Struct, frozen=True, eq=False, dict=True):
    """
    What a tool's function takes and gives, ready for use; each part is made when first asked for.

    Args:
        signature: What was read at the declaration; without problems.
        function: The function itself.
        doc: Its docstring, which may describe parameters.
    """

    signature: Signature
    function: Any
    doc: str = ""

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder()

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder()

    @cached_property
    def _result_hint(self) -> Any:
        returns = self.signature.returns
        return list if self.signature.is_generator and returns is Any else unwrap_return_hint(returns)

    @cached_property
    def parameters_schema(self) -> JsonSchema:
        """The JSON Schema of the arguments; not to be changed."""
        walk = JsonSchemaBuilder(self._encoder, self._decoder)
        return build_parameters_schema(walk, self.signature, extract_parameter_descriptions(self.doc))

    @cached_property
    def validator(self) -> Validator:
        """What judges arguments by it."""
        return Validator(self.parameters_schema)

    @cached_property
    def result_schema(self) -> JsonSchema | None:
        """The JSON Schema of the result; None where anything may come."""
        walk = JsonSchemaBuilder(self._encoder, self._decoder)
        return walk.finish(walk.build(self._result_hint)) or None

    @cached_property
    def _decode_hooks(self) -> dict[str, Callable[[Any], Any]]:
        normal = [one for one in self.signature.parameters if one.kind == "normal"]
        return {one.name: with_recursion_guard(self._decoder.get_hook(one.hint)) for one in normal}

    @cached_property
    def _extra_decode_hook(self) -> Callable[[Any], Any] | None:
        found = [one.hint for one in self.signature.parameters if one.kind == "extra"]
        return with_recursion_guard(self._decoder.get_hook(found[0])) if found else None

    @cached_property
    def _reserved_names(self) -> frozenset[str]:
        return collect_bound_names(self.signature)

    def decode_arguments(self, json_args: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the keyword arguments that *json_args* stands for; defaults are not added.

        Raises:
            Mismatch: The first value that does not fit, with its place.
        """
        for one in self.signature.parameters:
            if one.kind == "normal" and one.default is NOTHING and one.name not in json_args:
                raise Mismatch("is missing", one.name)
        made: dict[str, Any] = {}
        for name, value in json_args.items():
            structure = self._decode_hooks.get(name) or self._extra_decode_hook
            if structure is None or name in self._reserved_names:
                raise Mismatch("is no known parameter", str(name))
            try:
                made[_check_text_key(name)] = structure(value)
            except Mismatch as error:
                raise error.prepend_step(name) from None
        return made

    def find_mismatches(self, json_args: Mapping[str, Any]) -> list[Mismatch]:
        """Return why arguments that fit the schema cannot be structured: one reason for each parameter."""
        found = []
        for name, value in json_args.items():
            structure = self._decode_hooks.get(name) or self._extra_decode_hook
            try:
                if structure is not None:
                    structure(value)
            except Mismatch as error:
                found.append(error.prepend_step(name))
        return found

    def encode_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return *values*, Python keyword arguments, as JSON, `Decimal` left as it is.

        A default that has no JSON form is left out.

        Raises:
            Unencodable: Another value has none.
        """
        made: dict[str, Any] = {}
        for name, value in values.items():
            if name in self._context_names:
                continue
            default, encode = self._default_and_encode_hooks.get(name) or self._default_and_encode_hooks["**"]
            try:
                made[name] = encode(value)
            except Unencodable as error:
                if value is not default:
                    raise error.prepend_step(name) from None
        return made

    def try_encode_argument(self, name: str, value: Any) -> Any:
        """Return *value* of a parameter as JSON, if it has the parameter's Python type; else as it is."""
        encode = self._encode_hooks.get(name)
        try:
            return value if encode is None else encode(value)
        except Unencodable:
            return value

    @cached_property
    def _encode_hooks(self) -> dict[str, EncodeHook]:
        return {one.name: self._encoder.get_hook(one.hint) for one in self.signature.parameters if one.kind == "normal"}

    @cached_property
    def _context_names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.signature.parameters if one.kind == "context")

    @cached_property
    def _default_and_encode_hooks(self) -> dict[str, tuple[Any, EncodeHook]]:
        encoder = Encoder(keep_decimal=True)
        names = {one.name if one.kind == "normal" else "**": one for one in self.signature.parameters}
        return {name: (one.default, encoder.get_hook(one.hint)) for name, one in names.items() if one.kind != "context"}

    @cached_property
    def _result_decode_hook(self) -> Callable[[Any], Any]:
        return with_recursion_guard(self._decoder.get_hook(self._result_hint))

    def decode_result(self, json: Any) -> Any:
        """Return the Python value that a recorded result stands for."""
        return self._result_decode_hook(json)

    @cached_property
    def _result_encode_hook(self) -> EncodeHook:
        return self._encoder.get_hook(self._result_hint)

    def encode_result(self, value: Any) -> Any:
        """
        Return what the function gave as JSON, in its declared form.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        try:
            return self._result_encode_hook(value)
        except Unencodable as declared:
            try:  # another type than declared is fine as long as its JSON is what was declared
                plain = self._encoder.encode_value(value)
                self._result_decode_hook(plain)
            except Mismatch:
                raise declared from None
            return plain

    @cached_property
    def encode_result_text(self) -> Callable[[Any], bytes]:
        """
        Turns what the function gave into JSON text, in its declared form.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        encode, write, encode_otherwise = self._result_encode_hook, msgspec.json.encode, self.encode_result

        def encode_result_text(value: Any) -> bytes:
            try:
                made = encode(value)
            except Unencodable:
                made = encode_otherwise(value)
            try:
                return write(made)
            except (OverflowError, ValueError):  # not around what encodes: what it reads may come only once
                return to_json_bytes(made)

        return encode_result_text

    @cached_property
    def fast_path_code(self) -> FastPathBody:
        """The lines of the fast lane."""
        plain = isinstance(self.function, FunctionType | MethodType) and not hasattr(self.function, "__wrapped__")
        return generate_fast_path_body(self.signature, self._make_fast_path_decode_hook, by_name=not plain)

    @cached_property
    def keyword_fast_path_code(self) -> FastPathBody:
        """The same, with a call that names every argument."""
        return generate_fast_path_body(self.signature, self._make_fast_path_decode_hook, by_name=True)

    def _make_fast_path_decode_hook(self, hint: Any) -> Callable[[Any], Any]:
        structure = with_recursion_guard(self._decoder.get_hook(hint))
        walk = JsonSchemaBuilder(self._encoder, self._decoder)
        return with_depth_check(structure) if "$defs" in walk.finish(walk.build(hint)) else structure


class SuppliedSchema:
    """What `Compiled` is to a function, for a tool whose JSON Schema was given: values stay JSON."""

    result_schema: None = None

    def __init__(self, schema: dict[str, Any]) -> None:
        self.parameters_schema = schema
        self.validator = Validator(schema)
        self.encode_result: Callable[[Any], Any] = Encoder().encode_value

    def decode_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with declared defaults filled in."""
        filled: dict[str, Any] = self.validator.fill_defaults(dict(arguments))
        return filled

    def try_encode_argument(self, name: str, value: Any) -> Any:
        """Return the value: it is JSON."""
        return value

    def find_mismatches(self, arguments: Mapping[str, Any]) -> list[Mismatch]:
        """Return nothing: what the schema takes, the function gets."""
        return []

    def encode_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values: they are JSON."""
        return dict(values)

    def encode_result_text(self, value: Any) -> bytes:
        """Return what the function gave as JSON text."""
        return to_json_bytes(self.encode_result(value))

    def decode_result(self, value: Any) -> Any:
        """Return the value: it is JSON."""
        return value

    @property
    def keyword_fast_path_code(self) -> FastPathBody:
        """The lines of the fast lane, with a call that names every argument."""
        return self.fast_path_code

    @property
    def fast_path_code(self) -> FastPathBody:
        """The lines of the fast lane."""
        return FastPathBody(
            lines=(
                # whatever is wrong with a caller's objects, the pipeline says it
                "try:\n    if not is_valid(check(arguments)): return MISS\nexcept Exception: return MISS",
                "arguments = fill(arguments)",
            ),
            call="function(**arguments)",
            namespace={
                "is_valid": self.validator.is_valid,
                "fill": self.validator.fill_defaults,
                "check": normalize_json,
            },
        )


def _check_text_key(name: Any) -> str:
    if type(name) is not str:
        raise Mismatch("is no text", repr(name))
    return name


def compile_signature(signature: Signature, function: Any, docstring: str = "") -> CompiledSignature:
    """Return what is made of *signature* at first use; *description_doc* is the docstring of *function*."""
    return CompiledSignature(signature, function, docstring or "")
