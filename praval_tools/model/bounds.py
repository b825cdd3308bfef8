"""Interim: argument bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

from attrs import field, frozen

from praval_tools.errors import GrantError
from praval_tools.naming import near


@frozen
class Bounds:
    source: str
    _schema: Any = field(eq=False, default=None)
    _whole: bool = False

    @classmethod
    def compile(cls, where: Mapping[str, Any], parameters_schema: Mapping[str, Any], tool: str) -> Self:
        whole = where.get("type") == "object"
        known = parameters_schema.get("properties", {})
        names = where.get("properties", {}) if whole else where
        wrong = [f"unknown parameter {one!r} {near(one, known)}" for one in names if one not in known]
        if wrong:
            raise GrantError(tool, wrong)
        return cls(json.dumps(where, sort_keys=True), dict(where), whole)

    def violations(self, given: dict[str, Any], filled: dict[str, Any]) -> tuple[str, ...]:
        import jsonschema_rs

        schema = self._schema if self._whole else {"type": "object", "properties": self._schema, "required": list(self._schema)}
        return tuple(f"{'.'.join(map(str, e.instance_path))}: {e.message}" for e in jsonschema_rs.validator_for(schema).iter_errors(filled))

    def merged(self, parameters_schema: dict[str, Any]) -> dict[str, Any]:
        made = json.loads(json.dumps(parameters_schema))
        for name, part in ({} if self._whole else self._schema).items():
            made["properties"][name].update(part)
        return made


def satisfiable(bounds: Sequence[Bounds], parameters_schema: Mapping[str, Any]) -> bool:
    return True
