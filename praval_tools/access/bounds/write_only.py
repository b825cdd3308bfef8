"""What a class takes and does not give back, so that bounds on arguments cannot see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from praval_tools.schema.class_fields import fields_of, is_record
from praval_tools.schema.type_handler import Form
from praval_tools.schema.type_hints import bare, is_union
from praval_tools.schema.type_lookup import form_of


def one_way(hint: Any) -> list[str]:
    """Return each field in *hint* that is lost when a value is written as JSON again, as `Order.amount`."""
    return list(dict.fromkeys(_lost(hint, [])))


def _lost(hint: Any, around: list[Any]) -> Iterator[str]:
    inner = bare(hint)
    if any(one is inner for one in around):
        return
    around = [*around, inner]
    if isinstance(inner, type) and hasattr(inner, "model_fields"):
        yield from _lost_of_model(inner, around)
        return
    if is_record(inner):
        yield from (f"{inner.__name__}.{one.key}" for one in fields_of(inner) if not one.readable)
    form: Form | None = form_of(inner)
    parts = get_args(inner) if is_union(inner) else form.parts(inner) if form is not None else ()
    for part in parts:
        yield from _lost(part, around)


def _lost_of_model(model: Any, around: list[Any]) -> Iterator[str]:
    by_name = model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name")
    for name, one in model.model_fields.items():
        taken, given = one.validation_alias or one.alias or name, one.serialization_alias or one.alias or name
        hidden = one.exclude or getattr(one, "exclude_if", None) is not None
        if hidden or taken != given or (by_name and name != given):
            yield f"{model.__name__}.{name}"
        yield from _lost(one.annotation, around)
