"""Arguments that came back from a strict mode: a null there may mean "use the default"."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.schema.json_pointer import resolve_pointer

_MAX_DEPTH: Final = 200


def drop_default_nulls(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """
    Return *arguments* without the nulls that stand for a default: those of properties that may be left out.

    A null that a property takes and that has no default stays.

    Args:
        schema: The tool's own, as it was before the strict mode.
        arguments: What the model wrote.
    """
    made = _drop_nulls(schema, arguments, schema, 0)
    return made if isinstance(made, dict) else arguments


def _drop_nulls(schema: Any, value: Any, root: dict[str, Any], level: int) -> Any:
    if not isinstance(schema, dict) or level > _MAX_DEPTH or not isinstance(value, dict | list):
        return value
    if "$ref" in schema:
        return _drop_nulls(resolve_pointer(root, schema["$ref"]), value, root, level + 1)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            branch = next((one for one in schema[key] if _is_branch_for(one, value, root)), None)
            return _drop_nulls(branch, value, root, level + 1)
    if isinstance(value, list):
        return [_drop_nulls(schema.get("items"), one, root, level + 1) for one in value]
    properties, required = schema.get("properties", {}), schema.get("required", ())
    made = {}
    for name, one in value.items():
        inner = properties.get(name)
        spare = one is None and name not in required and isinstance(inner, dict)
        if not (spare and ("default" in inner or not _allows_null(inner, root, 0))):
            made[name] = _drop_nulls(inner, one, root, level + 1)
    return made


def _allows_null(schema: Any, root: dict[str, Any], level: int) -> bool:
    if not isinstance(schema, dict) or level > _MAX_DEPTH:
        return True
    if "$ref" in schema:
        return _allows_null(resolve_pointer(root, schema["$ref"]), root, level + 1)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return any(_allows_null(one, root, level + 1) for one in schema[key])
    if "enum" in schema or "const" in schema:
        return None in schema.get("enum", [schema.get("const")])
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def _is_branch_for(schema: Any, value: Any, root: dict[str, Any], level: int = 0) -> bool:
    """Tell whether a branch of a union speaks of *value*: its type, its names, what tells it from the others."""
    while isinstance(schema, dict) and "$ref" in schema and level < _MAX_DEPTH:
        schema, level = resolve_pointer(root, schema["$ref"]), level + 1
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    if ("array" if isinstance(value, list) else "object") not in (kind if isinstance(kind, list) else [kind]):
        return False
    if isinstance(value, list):
        return True
    properties = schema.get("properties", {})
    if not properties.keys() >= value.keys() or any(name not in value for name in schema.get("required", ())):
        return False
    return all(
        one in known["enum"] if "enum" in (known := properties[name]) else "const" not in known or known["const"] == one
        for name, one in value.items()
        if isinstance(properties[name], dict) and one is not None
    )
