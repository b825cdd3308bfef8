"""The table of types: every hint that has a JSON form, row by row."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.schema.containers import CONTAINER_HANDLERS
from praval_tools.schema.data_classes import CLASS_HANDLERS
from praval_tools.schema.scalars import SCALAR_HANDLERS
from praval_tools.schema.text_formats import TEXT_HANDLERS
from praval_tools.schema.type_handler import TypeHandler, match_nothing
from praval_tools.schema.type_lookup import get_constrainable_types
from praval_tools.schema.wrappers import ALIAS_HANDLER, TRANSPARENT_HANDLER, UNION_HANDLER, make_annotated_handler

_WRAPPER_HANDLERS: Final = (
    UNION_HANDLER,
    make_annotated_handler(get_constrainable_types),
    TRANSPARENT_HANDLER,
    ALIAS_HANDLER,
)
TYPE_HANDLERS: Final[tuple[TypeHandler, ...]] = (
    *SCALAR_HANDLERS,
    *TEXT_HANDLERS,
    *CONTAINER_HANDLERS,
    *_WRAPPER_HANDLERS,
    *CLASS_HANDLERS,
)
"""Every row. Where two would fit, the first counts."""

HANDLERS_BY_TYPE: Final[dict[Any, TypeHandler]] = {
    kind: form for form in reversed(TYPE_HANDLERS) for kind in form.types
}
PREDICATE_HANDLERS: Final = tuple(form for form in TYPE_HANDLERS if form.matches is not match_nothing)
