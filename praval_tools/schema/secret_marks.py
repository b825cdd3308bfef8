"""Tells of a hint whether anything in it is marked as secret, at any depth, also in the fields of classes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from typing import Annotated, Final, ForwardRef, Literal

from praval_tools.schema.class_fields import (
    get_all_fields,
    get_class_origin,
    has_class_fields,
    is_named_tuple,
    is_pydantic_model,
    is_pydantic_secret,
    list_extra_hints,
    resolve_class_hints,
)
from praval_tools.schema.schema_tree import JsonSchema, SchemaPart, iter_schemas, map_subschemas
from praval_tools.schema.type_hints import (
    Hint,
    HintError,
    get_origin,
    has_secret_mark,
    is_type_alias,
    resolve_alias,
    substitute_type_variables,
)

_MAX_PARTS: Final = 10_000
"""Parts of a hint that are looked at: an alias with parameters may expand without end."""


def contains_secret_mark(hint: Hint, *, looks_into_classes: bool = True) -> bool:
    """
    Tell whether anything in *hint* is marked as secret, or may be: nobody can say of what is unresolved.

    Args:
        hint: A resolved hint, or a text.
        looks_into_classes: Marks of the fields of classes count, too.
    """
    seen, stack, budget = set[Hint](), [hint], _MAX_PARTS
    while stack:
        part, budget = stack.pop(), budget - 1
        origin = get_origin(part)
        is_marked = origin is Annotated and has_secret_mark(part.__metadata__)
        if budget < 0 or is_marked or isinstance(part, str | ForwardRef):
            return True
        if origin is Literal:
            continue
        kind = get_class_origin(part)
        if isinstance(kind, type) and is_pydantic_secret(kind):
            return True
        if looks_into_classes and (is_pydantic_model(kind) or has_class_fields(kind)):
            if kind not in seen:
                seen.add(kind)
                if is_pydantic_model(kind) and _may_mark_secrets(kind):
                    return True
                try:
                    stack += _list_hints_of_members(part)
                except HintError:
                    return True
        elif is_type_alias(part):
            if part not in seen:
                seen.add(part)
                stack.append(resolve_alias(part))
        else:
            stack += _list_parts(part)
    return False


def count_marks(hint: Hint) -> tuple[int, int]:
    """Count the parts of a hint that are marked as secret, NamedTuples included, and other classes that mark any."""
    marks = marked_classes = 0
    stack, budget = [hint], _MAX_PARTS
    while stack and budget:
        part, budget = stack.pop(), budget - 1
        kind = get_class_origin(part)
        marks += get_origin(part) is Annotated and has_secret_mark(part.__metadata__)
        if isinstance(kind, type) and is_pydantic_secret(kind):
            marks += 1
        elif is_named_tuple(kind) and contains_secret_mark(part):
            stack += [item.hint for item in get_all_fields(part, keeps_unresolved=True)]
        elif is_pydantic_model(kind) or has_class_fields(kind):
            marked_classes += contains_secret_mark(part)
        elif is_type_alias(part):
            stack.append(resolve_alias(part))
        elif isinstance(part, str | ForwardRef):
            marks += 1
        elif get_origin(part) is not Literal:
            stack += _list_parts(part)
    return marks, marked_classes


def read_marked_names(hints: Mapping[str, Hint]) -> tuple[set[str], set[str]]:
    """Return the names whose hints mark anything as secret, and those whose hints do so outside of classes in them."""
    names = {name for name, hint in hints.items() if contains_secret_mark(hint)}
    return names, {name for name, hint in hints.items() if contains_secret_mark(hint, looks_into_classes=False)}


def list_field_names(hint: Hint) -> frozenset[str]:
    """Return the names of the fields of all classes in *hint*, at any depth: JSON has them as keys."""
    names, seen, stack, budget = set[str](), set[Hint](), [hint], _MAX_PARTS
    while stack and budget:
        part, budget = stack.pop(), budget - 1
        kind = get_class_origin(part)
        if is_pydantic_model(kind):
            if kind not in seen:
                names.update(*((name, item.alias or name) for name, item in kind.model_fields.items()))
                stack += [item.annotation for item in kind.model_fields.values()]
            seen.add(kind)
        elif has_class_fields(kind):
            if kind not in seen:
                fields = get_all_fields(part, keeps_unresolved=True)
                names.update(item.key for item in fields)
                stack += [*(item.hint for item in fields), *list_extra_hints(part)]
            seen.add(kind)
        elif is_type_alias(part):
            stack.append(resolve_alias(part))
        elif get_origin(part) is not Literal:
            stack += _list_parts(part)
    return frozenset(names)


def _list_hints_of_members(hint: Hint) -> list[Hint]:
    """Return the hints of all that instances of a class hold, also of what its constructor does not take or name."""
    if not is_pydantic_model(kind := get_class_origin(hint)):
        return [*(item.hint for item in get_all_fields(hint)), *list_extra_hints(hint)]
    return [*read_model_hints(kind).values(), *read_private_hints(kind).values()]


def read_model_hints(model: Hint) -> dict[str, Hint]:
    """Return the hints of the fields of a pydantic model, with their metadata."""
    return {name: Annotated[(item.annotation, item, *item.metadata)] for name, item in model.model_fields.items()}


def read_private_hints(model: Hint) -> dict[str, Hint]:
    """Return the hints of the private attributes of a pydantic model, as far as they resolve: pydantic needs none."""
    hints: dict[str, Hint] = {}
    for name in model.__private_attributes__:
        with suppress(HintError):
            hints |= resolve_class_hints(model, {name})
    arguments = dict[Hint, Hint]()
    for generic in (base.__dict__.get("__pydantic_generic_metadata__") for base in model.__mro__):
        if generic and generic["origin"] is not None:
            parameters = generic["origin"].__pydantic_generic_metadata__["parameters"]
            arguments = dict(zip(parameters, generic["args"], strict=False)) | arguments
    return {name: substitute_type_variables(hint, arguments) for name, hint in hints.items()}


def _may_mark_secrets(model: Hint) -> bool:
    try:
        return any(has_secret_schema(model.model_json_schema(mode=mode)) for mode in ("validation", "serialization"))
    except Exception:  # the seam to the classes of the program; nobody can say what such a one marks
        return True


def _list_parts(hint: Hint) -> Iterable[Hint]:
    if get_origin(hint) is Annotated:
        return (hint.__origin__,)
    if (supertype := getattr(hint, "__supertype__", None)) is not None:
        return (supertype,)
    return [part for part in getattr(hint, "__args__", ()) if not isinstance(part, list | tuple)]


def has_secret_schema(schema: object) -> bool:
    """Tell whether a JSON Schema marks anything as secret."""
    return any(map(marks_secret, iter_schemas(schema)))


def marks_secret(schema: Mapping[str, object]) -> bool:
    """Tell whether a JSON Schema marks its own values as secret."""
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def hide_secret_values(schema: JsonSchema, marked_names: Set[str] = frozenset()) -> JsonSchema:
    """
    Return *schema* without defaults and examples of what is marked as secret, of what is in that, and around it.

    Where a reference leads, nobody looks: it counts as marked in a schema that marks anything.

    Args:
        schema: The JSON Schema of the arguments of a tool.
        marked_names: Arguments that are secret besides those that the schema marks.
    """
    if not marked_names and not has_secret_schema(schema):
        return schema

    def hide(part: SchemaPart, is_inside: bool) -> tuple[SchemaPart, bool]:
        if isinstance(part, bool):
            return part, False
        is_inside = is_inside or marks_secret(part)
        has_marks = [is_inside or "$ref" in part]

        def hide_inner(inner: SchemaPart) -> SchemaPart:
            hidden, is_marked = hide(inner, is_inside)
            has_marks.append(is_marked)
            return hidden

        copied = map_subschemas(part, hide_inner)
        if any(has_marks):
            copied = {keyword: value for keyword, value in copied.items() if keyword not in _VALUE_KEYWORDS}
        return copied, any(has_marks)

    hidden, _ = hide(schema, False)
    assert isinstance(hidden, dict)
    for keyword in ("$defs", "definitions"):  # something secret may refer to each of them
        if keyword in hidden:
            hidden[keyword] = {name: hide(part, True)[0] for name, part in hidden[keyword].items()}
    for name in marked_names & hidden.get("properties", {}).keys():
        hidden["properties"][name] = hide(hidden["properties"][name], True)[0]
    return {keyword: value for keyword, value in hidden.items() if keyword not in _VALUE_KEYWORDS}


_VALUE_KEYWORDS: Final = ("default", "examples", "example")
