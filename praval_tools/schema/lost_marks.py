"""Says in the schema that pydantic makes of a class what its hints mark as secret, where pydantic leaves that out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from praval_tools.schema.class_fields import get_all_fields, is_pydantic_model, list_extra_hints
from praval_tools.schema.model_marks import list_model_names
from praval_tools.schema.schema_tree import JsonSchema, iter_schemas
from praval_tools.schema.secret_marks import count_marks, marks_secret, read_model_hints
from praval_tools.schema.type_hints import Hint, HintError, Secret

_UNKNOWN: Hint = Annotated[object, Secret]


def add_lost_marks(schema: JsonSchema, kind: Hint, *, adds_members: bool) -> None:
    """
    Mark the members as secret, each as a whole, whose hints mark more than *schema* says of them.

    pydantic says nothing of its own `Secret[…]`; what annotations and classes write of a schema may leave marks out.

    Args:
        schema: The schema of *kind*; what is marked is written into it.
        kind: A pydantic model, dataclass or TypedDict.
        adds_members: Also describe members that are marked and that the schema leaves out.
    """
    if getattr(kind, "__pydantic_root_model__", False):
        if _loses_marks(schema, read_model_hints(kind)["root"]):
            schema["writeOnly"] = True
        return
    properties: JsonSchema = schema.get("properties", {})
    for names, hint in _iter_members(kind):
        described = [name for name in names if name in properties]
        for name in described:
            if isinstance(properties[name], dict) and _loses_marks(properties[name], hint):
                properties[name] = {**properties[name], "writeOnly": True}
        if adds_members and not described and _loses_marks({}, hint):
            schema["properties"] = properties
            properties.update(dict.fromkeys(names, {"writeOnly": True}))
    _add_lost_marks_of_extras(schema, kind, adds_members=adds_members)


def _add_lost_marks_of_extras(schema: JsonSchema, kind: Hint, *, adds_members: bool) -> None:
    """Mark the other keys of a TypedDict as `add_lost_marks` does members."""
    described = schema.get("additionalProperties", False)
    for hint in list_extra_hints(kind) if adds_members or described is not False else ():
        if _loses_marks(described if isinstance(described, dict) else {}, hint):
            schema["additionalProperties"] = {"writeOnly": True}


def _iter_members(kind: Hint) -> Iterator[tuple[set[str], Hint]]:
    """Yield the names that a member may have in schemas, with its hint."""
    if is_pydantic_model(kind):
        for name, hint in read_model_hints(kind).items():
            yield list_model_names(name, kind.model_fields[name]), hint
        return
    try:
        fields = get_all_fields(kind)
    except HintError:  # nobody can say what is marked
        fields = get_all_fields(kind, keeps_unresolved=True)
    for item in fields:
        yield {item.key}, _UNKNOWN if isinstance(item.hint, str) else item.hint


def _loses_marks(schema: JsonSchema, hint: Hint) -> bool:
    """Tell whether *schema* says less than *hint*; where its references lead, what the classes there mark is said."""
    parts = list(iter_schemas(schema))
    marks, marked_classes = count_marks(hint)
    return sum(map(marks_secret, parts)) < marks or sum("$ref" in part for part in parts) < marked_classes
