"""OpenAI Chat Completions: `{"type": "function", "function": {...}}`."""

from __future__ import annotations

from typing import Any

from praval_tools.naming import wire_name


def export(name: str, description: str, parameters: dict[str, Any], metadata: Any) -> dict[str, Any]:
    """Return the tool as a member of `tools` in a chat completion request."""
    return {
        "type": "function",
        "function": {"name": wire_name(name), "description": description, "parameters": parameters},
    }
