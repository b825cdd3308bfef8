"""Model Context Protocol: a `Tool` as `tools/list` gives it; ownership travels in `_meta`."""

from __future__ import annotations

from typing import Any


def export(name: str, description: str, parameters: dict[str, Any], metadata: Any) -> dict[str, Any]:
    """Return the tool as an MCP server lists it; a title is always sent."""
    made: dict[str, Any] = {
        "name": name,
        "title": getattr(metadata, "title", "") or name,
        "description": description,
        "inputSchema": parameters,
    }
    if metadata is not None:
        hints = {
            "readOnlyHint": metadata.read_only,
            "destructiveHint": metadata.destructive,
            "idempotentHint": metadata.idempotent,
            "openWorldHint": metadata.open_world,
        }
        known = {key: value for key, value in hints.items() if value is not None}
        if known:
            made["annotations"] = known
        if metadata.owned_by:
            made["_meta"] = {"praval/owner": metadata.owned_by}
    return made
