"""The JSON Schema of the configuration, for editors: made of the classes that read it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs

from praval_tools.config.plugins import PluginTable
from praval_tools.config.system import SystemConfig

Schema: TypeAlias = dict[str, object]

_SCALARS: Final[Mapping[object, Schema]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string"},
    object: {},
    Any: {},
}
_ARGUMENT: Final = re.compile(r"^    (\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
_NULLABLE_SECTIONS: Final = ("agents", "categories")
"""Tables of names, each of which may stand without a value: `ann:`."""


def build_config_schema() -> Schema:
    """Return the JSON Schema of a configuration file: what keys it may have, and of which types."""
    definitions: dict[str, Schema] = {}
    root = _describe_class(SystemConfig, definitions)
    properties = root["properties"]
    assert isinstance(properties, dict)
    for name in properties:
        properties[name] = {"anyOf": [properties[name], {"type": "null"}]}
    table = _describe_hint(PluginTable, definitions)
    properties["plugins"] = {
        "description": _read_descriptions(SystemConfig)["plugins"],
        "type": ["object", "null"],
        "additionalProperties": table,
        "properties": {"autoload": {"anyOf": [{"type": "boolean"}, table]}},
    }
    properties["sources"] = {
        "description": _read_descriptions(SystemConfig)["sources"],
        "type": ["array", "null"],
        "items": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}}},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A configuration of praval_tools",
        **root,
        "$defs": definitions,
    }


def _describe_class(kind: type, definitions: dict[str, Schema]) -> Schema:
    hints, texts = get_type_hints(kind), _read_descriptions(kind)
    properties: dict[str, object] = {}
    required = []
    for attribute in attrs.fields(kind):
        schema = _describe_hint(hints[attribute.name], definitions)
        if attribute.name in _NULLABLE_SECTIONS:
            schema["additionalProperties"] = {"anyOf": [schema["additionalProperties"], {"type": "null"}]}
        properties[attribute.name] = {"description": texts[attribute.name], **schema}
        if attribute.default is attrs.NOTHING:
            required.append(attribute.name)
    described: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**described, "required": required} if required else described


def _describe_hint(hint: object, definitions: dict[str, Schema]) -> Schema:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, UnionType):
        arms = [_describe_hint(argument, definitions) for argument in arguments if argument is not type(None)]
        unique = [arm for position, arm in enumerate(arms) if arm not in arms[:position]]
        return unique[0] if len(unique) == 1 else {"anyOf": unique}
    if origin is tuple:
        return {"type": "array", "items": _describe_hint(arguments[0], definitions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _describe_hint(arguments[1], definitions) or True}
    assert isinstance(hint, type) and attrs.has(hint), hint
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}
        definitions[hint.__name__] = {"description": _read_summary(hint), **_describe_class(hint, definitions)}
    return {"$ref": f"#/$defs/{hint.__name__}"}


@cache
def _read_descriptions(kind: type) -> Mapping[str, str]:
    """Return the description of each field, as the docstring of the class has it."""
    _, _, arguments = cleandoc(kind.__doc__ or "").partition("Args:\n")
    return {name: " ".join(text.split()) for name, text in _ARGUMENT.findall(arguments)}


def _read_summary(kind: type) -> str:
    return cleandoc(kind.__doc__ or "").split("\n\n")[0].strip()
