"""
Puts the members of sets in what pydantic writes into an order that is the same in each process.

Pydantic writes them as Python yields them: by their hashes, which differ for texts from process to process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set

from praval_tools.schema.class_fields import has_class_fields, is_pydantic_model
from praval_tools.schema.json_values import SCALAR_TYPES, sort_json_items
from praval_tools.schema.scalars import make_iterator_error
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.type_hints import Hint


def write_model(model: object) -> object:
    """
    Return a model as pydantic writes it, the members of sets sorted.

    Raises:
        Unencodable: Naming the place of an iterator, which would be empty then.
    """
    kind: Hint = type(model)
    may_write_sets = _may_write_sets(model)
    written: object = kind.model_dump(model, mode="json", by_alias=True)
    return sort_sets(written, kind.model_dump(model, by_alias=True)) if may_write_sets else written


def sort_sets(written: object, value: object) -> object:
    """Return the JSON of *value*, a dump of pydantic's in Python, with the members of sets sorted."""
    if not isinstance(written, dict | list) or not isinstance(value, Mapping | Set | list | tuple | deque):
        return written
    if len(written) != len(value):  # a serializer writes another value in JSON
        return written
    if isinstance(written, dict) and isinstance(value, Mapping):
        return {key: sort_sets(item, of) for (key, item), of in zip(written.items(), value.values(), strict=True)}
    items = [sort_sets(item, of) for item, of in zip(written, value, strict=True)]
    return sort_json_items(items) if isinstance(value, Set) else items


def _may_write_sets(value: object) -> bool:
    """Tell whether a set is in *value*, or may be in what code of a model in it writes."""
    if isinstance(value, Iterator):
        raise make_iterator_error(value)
    if isinstance(value, Set):
        return True
    has_own_code = False
    if is_pydantic_model(type(value)):
        kind: Hint = type(value)
        marks = kind.__pydantic_decorators__
        has_own_code = bool(marks.computed_fields or marks.field_serializers or marks.model_serializers)
        items: Iterable[tuple[str | int, object]] = {**vars(value), **(value.__pydantic_extra__ or {})}.items()  # type: ignore[attr-defined]
    elif isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple | deque):
        items = enumerate(value)
    else:
        items = vars(value).items() if has_class_fields(type(value)) and hasattr(value, "__dict__") else ()
    may_write = has_own_code
    for step, item in items:
        try:
            may_write = (type(item) not in SCALAR_TYPES and _may_write_sets(item)) or may_write
        except Unencodable as error:
            raise error.prepend_step(step) from None
    return may_write
