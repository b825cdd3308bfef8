"""Everything that is made of a signature at first use: schemas, structuring, encoding, the fast lane's lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import FunctionType, MethodType
from typing import Any

import msgspec
from attrs import NOTHING

from praval_tools.schema.arguments import check_values
from praval_tools.schema.codegen import FastBody, fast_body, taken_names
from praval_tools.schema.decode import Structurer, bounded, guarded
from praval_tools.schema.docstrings import parameter_descriptions
from praval_tools.schema.encode import Encoder, json_text
from praval_tools.schema.json_schema import SchemaWalk, parameters_schema
from praval_tools.schema.return_hints import returned_items
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import Encode, JsonSchema, Mismatch, Unencodable
from praval_tools.schema.validator import Validator


class Compiled(msgspec.Struct, frozen=True, eq=False, dict=True):
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
    def _structurer(self) -> Structurer:
        return Structurer()

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder()

    @cached_property
    def _result_hint(self) -> Any:
        returns = self.signature.returns
        return list if self.signature.is_generator and returns is Any else returned_items(returns)

    @cached_property
    def parameters_schema(self) -> JsonSchema:
        """The JSON Schema of the arguments; not to be changed."""
        walk = SchemaWalk(self._encoder, self._structurer)
        return parameters_schema(walk, self.signature, parameter_descriptions(self.doc))

    @cached_property
    def validator(self) -> Validator:
        """What judges arguments by it."""
        return Validator(self.parameters_schema)

    @cached_property
    def result_schema(self) -> JsonSchema | None:
        """The JSON Schema of the result; None where anything may come."""
        walk = SchemaWalk(self._encoder, self._structurer)
        return walk.finished(walk.of(self._result_hint)) or None

    @cached_property
    def _structures(self) -> dict[str, Callable[[Any], Any]]:
        normal = [one for one in self.signature.parameters if one.kind == "normal"]
        return {one.name: guarded(self._structurer.hook(one.hint)) for one in normal}

    @cached_property
    def _extra(self) -> Callable[[Any], Any] | None:
        found = [one.hint for one in self.signature.parameters if one.kind == "extra"]
        return guarded(self._structurer.hook(found[0])) if found else None

    @cached_property
    def _taken(self) -> frozenset[str]:
        return taken_names(self.signature)

    def structure(self, json_args: Mapping[str, Any]) -> dict[str, Any]:
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
            structure = self._structures.get(name) or self._extra
            if structure is None or name in self._taken:
                raise Mismatch("is no known parameter", str(name))
            try:
                made[_key(name)] = structure(value)
            except Mismatch as error:
                raise error.at(name) from None
        return made

    def mismatches(self, json_args: Mapping[str, Any]) -> list[Mismatch]:
        """Return why arguments that fit the schema cannot be structured: one reason for each parameter."""
        found = []
        for name, value in json_args.items():
            structure = self._structures.get(name) or self._extra
            try:
                if structure is not None:
                    structure(value)
            except Mismatch as error:
                found.append(error.at(name))
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
            default, encode = self._argument_encodes.get(name) or self._argument_encodes["**"]
            try:
                made[name] = encode(value)
            except Unencodable as error:
                if value is not default:
                    raise error.at(name) from None
        return made

    def json_of(self, name: str, value: Any) -> Any:
        """Return *value* of a parameter as JSON, if it has the parameter's Python type; else as it is."""
        encode = self._json_encodes.get(name)
        try:
            return value if encode is None else encode(value)
        except Unencodable:
            return value

    @cached_property
    def _json_encodes(self) -> dict[str, Encode]:
        return {one.name: self._encoder.hook(one.hint) for one in self.signature.parameters if one.kind == "normal"}

    @cached_property
    def _context_names(self) -> frozenset[str]:
        return frozenset(one.name for one in self.signature.parameters if one.kind == "context")

    @cached_property
    def _argument_encodes(self) -> dict[str, tuple[Any, Encode]]:
        encoder = Encoder(keep_decimal=True)
        names = {one.name if one.kind == "normal" else "**": one for one in self.signature.parameters}
        return {name: (one.default, encoder.hook(one.hint)) for name, one in names.items() if one.kind != "context"}

    @cached_property
    def _structure_result(self) -> Callable[[Any], Any]:
        return guarded(self._structurer.hook(self._result_hint))

    def structure_result(self, json: Any) -> Any:
        """Return the Python value that a recorded result stands for."""
        return self._structure_result(json)

    @cached_property
    def _encode_result(self) -> Encode:
        return self._encoder.hook(self._result_hint)

    def encode_result(self, value: Any) -> Any:
        """
        Return what the function gave as JSON, in its declared form.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        try:
            return self._encode_result(value)
        except Unencodable as declared:
            try:  # another type than declared is fine as long as its JSON is what was declared
                plain = self._encoder.value(value)
                self._structure_result(plain)
            except Mismatch:
                raise declared from None
            return plain

    @cached_property
    def result_json(self) -> Callable[[Any], bytes]:
        """
        Turns what the function gave into JSON text, in its declared form.

        Raises:
            Unencodable: It has no JSON form, or another one than declared; naming the place.
        """
        encode, write, encode_otherwise = self._encode_result, msgspec.json.encode, self.encode_result

        def result_json(value: Any) -> bytes:
            try:
                made = encode(value)
            except Unencodable:
                made = encode_otherwise(value)
            try:
                return write(made)
            except (OverflowError, ValueError):  # not around what encodes: what it reads may come only once
                return json_text(made)

        return result_json

    @cached_property
    def fast(self) -> FastBody:
        """The lines of the fast lane."""
        plain = isinstance(self.function, FunctionType | MethodType) and not hasattr(self.function, "__wrapped__")
        return fast_body(self.signature, self._lane_structure, by_name=not plain)

    @cached_property
    def named(self) -> FastBody:
        """The same, with a call that names every argument."""
        return fast_body(self.signature, self._lane_structure, by_name=True)

    def _lane_structure(self, hint: Any) -> Callable[[Any], Any]:
        structure = guarded(self._structurer.hook(hint))
        walk = SchemaWalk(self._encoder, self._structurer)
        return bounded(structure) if "$defs" in walk.finished(walk.of(hint)) else structure


class GivenSchema:
    """What `Compiled` is to a function, for a tool whose JSON Schema was given: values stay JSON."""

    result_schema: None = None

    def __init__(self, schema: dict[str, Any]) -> None:
        self.parameters_schema = schema
        self.validator = Validator(schema)
        self.encode_result: Callable[[Any], Any] = Encoder().value

    def structure(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with declared defaults filled in."""
        filled: dict[str, Any] = self.validator.fill(dict(arguments))
        return filled

    def json_of(self, name: str, value: Any) -> Any:
        """Return the value: it is JSON."""
        return value

    def mismatches(self, arguments: Mapping[str, Any]) -> list[Mismatch]:
        """Return nothing: what the schema takes, the function gets."""
        return []

    def encode_arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values: they are JSON."""
        return dict(values)

    def result_json(self, value: Any) -> bytes:
        """Return what the function gave as JSON text."""
        return json_text(self.encode_result(value))

    def structure_result(self, value: Any) -> Any:
        """Return the value: it is JSON."""
        return value

    @property
    def named(self) -> FastBody:
        """The lines of the fast lane, with a call that names every argument."""
        return self.fast

    @property
    def fast(self) -> FastBody:
        """The lines of the fast lane."""
        return FastBody(
            lines=(
                # whatever is wrong with a caller's objects, the pipeline says it
                "try:\n    if not is_valid(check(arguments)): return MISS\nexcept Exception: return MISS",
                "arguments = fill(arguments)",
            ),
            call="function(**arguments)",
            namespace={"is_valid": self.validator.is_valid, "fill": self.validator.fill, "check": check_values},
        )


def _key(name: Any) -> str:
    if type(name) is not str:
        raise Mismatch("is no text", repr(name))
    return name


def compile_signature(signature: Signature, function: Any, description_doc: str = "") -> Compiled:
    """Return what is made of *signature* at first use; *description_doc* is the docstring of *function*."""
    return Compiled(signature, function, description_doc or "")
