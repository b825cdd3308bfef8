"""The type table: the handler of every kind of type hint that has a JSON form."""

from __future__ import annotations

from typing import Final

from praval_tools.schema.containers import CONTAINER_HANDLERS
from praval_tools.schema.data_classes import CLASS_HANDLERS
from praval_tools.schema.scalars import SCALAR_HANDLERS
from praval_tools.schema.text_formats import TEXT_HANDLERS
from praval_tools.schema.type_handler import TypeHandler, match_nothing
from praval_tools.schema.type_hints import Hint
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
"""Every handler. Where two would match, the first counts."""

HANDLERS_BY_TYPE: Final[dict[Hint, TypeHandler]] = {
    kind: handler for handler in reversed(TYPE_HANDLERS) for kind in handler.types
}
PREDICATE_HANDLERS: Final = tuple(handler for handler in TYPE_HANDLERS if handler.matches is not match_nothing)
