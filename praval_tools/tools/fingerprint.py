"""Whether two definitions are the same, and whether one can take the place of the other."""

from __future__ import annotations

from typing import Any

from praval_tools.schema.json_values import to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema


def compute_fingerprint(
    name: str, description: str, parameters_schema: JsonSchema, result_schema: JsonSchema | None
) -> str:
    """Return the SHA-256 of a definition: equal exactly if all of it is equal."""
    from hashlib import sha256  # loads OpenSSL: only who asks pays for it

    whole: dict[str, Any] = {
        "name": name,
        "description": description,
        "parameters": parameters_schema,
        "result": result_schema,
    }
    return sha256(to_canonical_json(whole).encode()).hexdigest()
