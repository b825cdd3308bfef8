"""Interim: arguments as JSON."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
from attrs import frozen

from praval_tools.errors import Problem


class BadArguments(Exception):
    def __init__(self, problems: Any) -> None:
        super().__init__(problems)
        self.problems = tuple(problems)


@frozen
class Repair:
    path: str
    given: str = ""
    became: str = ""
    reason: str = ""


def parse(raw: object, *, max_bytes: int = 1 << 20, max_depth: int = 64) -> dict[str, Any]:
    if isinstance(raw, dict):
        return raw
    if raw is None or raw in ("", b""):
        return {}
    if isinstance(raw, str | bytes):
        try:
            raw = msgspec.json.decode(raw)
        except Exception as error:
            raise BadArguments([Problem(path="$", reason=f"is not JSON: {error}")]) from None
        if raw is None:
            return {}
        if isinstance(raw, dict):
            return raw
    raise BadArguments([Problem(path="$", reason="is not an object")])


def _refuse(uri: str) -> Any:
    raise ValueError("remote references are not fetched")


class Validator:
    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema, self._v = schema, None

    @property
    def _validator(self) -> Any:
        if self._v is None:
            import jsonschema_rs

            self._v = jsonschema_rs.validator_for(self.schema, validate_formats=True, retriever=_refuse)
        return self._v

    def repair(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], tuple[Repair, ...]]:
        made, repairs = dict(arguments), []
        for name, part in self.schema.get("properties", {}).items():
            value, kind = made.get(name), part.get("type")
            if name not in made:
                continue
            if value is None and name not in self.schema.get("required", ()):
                del made[name]
                repairs.append(Repair(f"$.{name}", "null", "left out"))
            elif isinstance(value, str) and kind in ("integer", "number", "boolean", "array", "object"):
                try:
                    new = json.loads(value)
                except ValueError:
                    continue
                made[name] = new
                repairs.append(Repair(f"$.{name}", json.dumps(value), value))
        return made, tuple(repairs)

    def problems(self, arguments: dict[str, Any]) -> tuple[Problem, ...]:
        found = self._validator.iter_errors(arguments)
        return tuple(Problem(path="$" + "".join(f".{p}" for p in e.instance_path), reason=e.message) for e in found)

    def is_valid(self, arguments: dict[str, Any]) -> bool:
        return bool(self._validator.is_valid(arguments))

    def fill(self, arguments: dict[str, Any]) -> dict[str, Any]:
        made = dict(arguments)
        for name, part in self.schema.get("properties", {}).items():
            if isinstance(part, dict) and "default" in part:
                made.setdefault(name, copy.deepcopy(part["default"]))
        return made


def check_given_schema(schema: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    given = dict(schema)
    if not given:
        return {"type": "object", "properties": {}, "additionalProperties": False}, ()
    if given.get("type") != "object" and all(isinstance(one, str) for one in given.values()):
        return {"type": "object", "properties": {k: {"type": v} for k, v in given.items()}, "required": list(given)}, ()
    return given, () if given.get("type") == "object" else ("the root of the parameters is not an object",)
