"""Gemini: a `FunctionDeclaration` with `parameters_json_schema`, which takes JSON Schema as it is."""

from __future__ import annotations

from typing import Any

from praval_tools.naming import wire_name


def export(name: str, description: str, parameters: dict[str, Any], metadata: Any) -> dict[str, Any]:
    """Return the tool as a function declaration."""
    schema = {key: value for key, value in parameters.items() if key != "$schema"}
    return {"name": wire_name(name), "description": description, "parameters_json_schema": schema}
