"""What a class takes and does not give back, so that bounds on arguments cannot see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from praval_tools.schema.class_fields import get_fields, is_attrs_or_dataclass
from praval_tools.schema.type_handler import TypeHandler
from praval_tools.schema.type_hints import is_union, unwrap_hint
from praval_tools.schema.type_lookup import find_type_handler


def find_write_only_fields(hint: Any) -> list[str]:
    """Return each field in *hint* that is lost when a value is written as JSON again, as `Order.amount`."""
    return list(dict.fromkeys(_iter_write_only_fields(hint, [])))


def _iter_write_only_fields(hint: Any, around: list[Any]) -> Iterator[str]:
    inner = unwrap_hint(hint)
    if any(one is inner for one in around):
        return
    around = [*around, inner]
    if isinstance(inner, type) and hasattr(inner, "model_fields"):
        yield from _iter_write_only_model_fields(inner, around)
        return
    if is_attrs_or_dataclass(inner):
        yield from (f"{inner.__name__}.{one.key}" for one in get_fields(inner) if not one.readable)
    form: TypeHandler | None = find_type_handler(inner)
    parts = get_args(inner) if is_union(inner) else form.get_inner_hints(inner) if form is not None else ()
    for part in parts:
        yield from _iter_write_only_fields(part, around)


def _iter_write_only_model_fields(model: Any, around: list[Any]) -> Iterator[str]:
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    for name, one in model.model_fields.items():
        taken, given = one.validation_alias or one.alias or name, one.serialization_alias or one.alias or name
        hidden = one.exclude or getattr(one, "exclude_if", None) is not None
        if hidden or taken != given or (by_name and name != given):
            yield f"{model.__name__}.{name}"
        yield from _iter_write_only_fields(one.annotation, around)
