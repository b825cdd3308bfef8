"""JSON Schema 2020-12 from hints: one walk over the table of types."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import NOTHING

from praval_tools.lazy_regex import Pattern
from praval_tools.schema.decode import Structurer
from praval_tools.schema.encode import Encoder
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import JsonSchema, Mismatch
from praval_tools.schema.type_hints import order_key
from praval_tools.schema.type_lookup import row_of

_REF: Final = "#/$defs/"
_UNFIT: Final = Pattern(r"[^A-Za-z0-9_.-]+")


class SchemaWalk:
    """
    Writes schemas and collects what they refer to.

    A class that occurs once and not inside itself is written in place; any other goes to `$defs`.
    """

    def __init__(self, encoder: Encoder, structurer: Structurer) -> None:
        self._encoder, self._structurer = encoder, structurer
        self._names: dict[Any, str] = {}
        self._defs: dict[str, JsonSchema] = {}
        self._uses: dict[str, int] = {}
        self._open: list[str] = []
        self._kept: set[str] = set()

    def of(self, hint: Any) -> JsonSchema:
        """Return the schema of *hint*."""
        return row_of(hint).schema(hint, self)

    def named(self, hint: Any, name: str, build: Callable[[], JsonSchema]) -> JsonSchema:
        """Return a reference to the schema that *build* makes once for *hint*."""
        key = order_key(hint) if type(hint) is not tuple else hint
        if key not in self._names:
            name = self._names[key] = self._free(_UNFIT.sub("_", name).strip("_") or "Type")
            self._uses[name] = 0
            self._open.append(name)
            self._defs[name] = build()
            self._open.pop()
        name = self._names[key]
        self._uses[name] += 1
        if name in self._open or type(hint) is tuple:
            self._kept.add(name)
        return {"$ref": _REF + name}

    def fill(self, hint: Any, schema: JsonSchema) -> None:
        """Replace the schema that was made for *hint*, for schemas that refer to each other."""
        self._defs[self._names[hint]] = schema

    def default(self, hint: Any, value: Any, into: JsonSchema) -> None:
        """Put *value* into the schema as its default, if it has a JSON form there and is no secret."""
        if value is NOTHING or (value is not None and _is_secret(into)):
            return
        try:
            plain = self._encoder.hook(hint)(value)
            self._structurer.hook(hint)(plain, None)
        except (Mismatch, RecursionError):
            return
        into["default"] = plain

    def finished(self, schema: JsonSchema) -> JsonSchema:
        """Return *schema* with single uses written in place and the rest under `$defs`."""
        kept = {name for name in self._defs if name in self._kept or self._uses[name] > 1}
        made: JsonSchema = self._folded(schema, kept)
        defs = {name: self._folded(self._defs[name], kept) for name in self._defs if name in kept}
        return {**made, "$defs": dict(sorted(defs.items()))} if defs else made

    def _folded(self, node: Any, kept: set[str]) -> Any:
        if isinstance(node, list):
            return [self._folded(one, kept) for one in node]
        if not isinstance(node, dict):
            return node
        reference = node.get("$ref")
        name = reference.removeprefix(_REF) if isinstance(reference, str) else ""
        if name in self._defs and name not in kept:
            rest = {key: one for key, one in node.items() if key != "$ref"}
            return {**self._folded(self._defs[name], kept), **rest}
        return {key: one if key in ("default", "enum") else self._folded(one, kept) for key, one in node.items()}

    def _free(self, name: str) -> str:
        taken, number, wanted = set(self._names.values()), 2, name
        while name in taken:
            name, number = f"{wanted}_{number}", number + 1
        return name


def _is_secret(schema: JsonSchema) -> bool:
    return schema.get("writeOnly") is True or any(map(_is_secret, schema.get("anyOf", ())))


def parameters_schema(walk: SchemaWalk, signature: Signature, descriptions: Mapping[str, str]) -> JsonSchema:
    """Return the schema of the arguments of a function, an object."""
    properties: JsonSchema = {}
    required: list[str] = []
    made: JsonSchema = {"type": "object", "properties": properties}
    extra: Any = False
    for one in signature.parameters:
        if one.kind == "extra":
            extra = walk.of(one.hint) or True
        elif one.kind == "normal":
            properties[one.name] = schema = walk.of(one.hint)
            if one.name in descriptions:
                schema.setdefault("description", descriptions[one.name])
            if one.default is NOTHING:
                required.append(one.name)
            else:
                walk.default(one.hint, one.default, schema)
    if required:
        made["required"] = required
    made["additionalProperties"] = extra
    if extra is not False and signature.taken:
        made["propertyNames"] = {"not": {"enum": list(signature.taken)}}
    return walk.finished(made)
