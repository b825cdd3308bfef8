"""Configurations for tests: loaded, and judged by the JSON Schema that editors use."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from praval_tools import ToolRegistry
from praval_tools.config.json_schema import build_config_schema
from praval_tools.config_loading.source import ConfigurationSource


def write(folder: Path, text: str) -> str:
    """Write the configuration of a folder, and return its path."""
    (folder / "c.yml").write_text(text, encoding="utf-8")
    return "c.yml"


def load(folder: Path, text: str, **options: Any) -> tuple[ToolRegistry, ConfigurationSource]:
    """Return a registry with a configuration, and its source."""
    registry = ToolRegistry(**options)
    source = registry.configure_from(write(folder, text))
    assert isinstance(source, ConfigurationSource)
    return registry, source


def find_schema_problems(data: object) -> list[str]:
    """Return what the JSON Schema refuses of what a file holds."""
    errors = _build_validator().iter_errors(_to_json(data))
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in errors]


@cache
def _build_validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(build_config_schema())


def _to_json(value: Any, key: object = None) -> Any:
    """Return a value of YAML or TOML as JSON has it; a moment is a text where one is expected, and else neither."""
    if isinstance(value, dict):
        return {name: _to_json(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if value == float("inf"):
        return 1e300
    if isinstance(value, datetime) and key == "expires":
        return value.isoformat()
    return value if isinstance(value, str | int | float | bool | None) else {"neither text nor number": str(value)}
