"""
Puts the members of sets in what pydantic writes into an order that is the same in each process.

Pydantic writes them as Python yields them: by their hashes, which differ for texts from process to process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Set

from praval_tools.names import get_class_name
from praval_tools.schema.class_fields import has_class_fields, is_attrs_or_dataclass, is_pydantic_model
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
    return sort_sets(written, model) if may_write_sets else written


def _may_write_sets(value: object) -> bool:
    """Tell whether a set is in *value*, or may be in what its models compute; iterators in it are refused."""
    if isinstance(value, Iterator):
        raise make_iterator_error(value)
    if isinstance(value, Set):
        return True
    found = False
    for step, item in _iter_members(value):
        try:
            found = (type(item) not in SCALAR_TYPES and _may_write_sets(item)) or found
        except Unencodable as error:
            raise error.prepend_step(step) from None
    computed: Mapping[str, Hint] = getattr(type(value), "__pydantic_computed_fields__", {})
    return found or any(all(field.return_type is not kind for kind in SCALAR_TYPES) for field in computed.values())


def _iter_members(value: object) -> Iterable[tuple[str | int, object]]:
    if isinstance(value, Mapping):
        return value.items()
    if isinstance(value, list | tuple | deque):
        return enumerate(value)
    return _read_fields(value).items()


def _read_fields(value: object) -> dict[str, object]:
    """Return what an object of a class with fields holds, by name; nothing for any other value."""
    kind: Hint = type(value)
    if is_pydantic_model(kind):
        return {**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})}
    if not has_class_fields(kind):
        return {}
    slots = [name for name in getattr(kind, "__dataclass_fields__", ()) if hasattr(value, name)]
    return {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}


def sort_sets(written: object, value: object) -> object:
    """Return *written*, the JSON that pydantic wrote of *value*, with the members of sets sorted."""
    if not isinstance(written, dict | list):
        return written
    if is_pydantic_model(type(value)) or is_attrs_or_dataclass(type(value)):
        return _sort_sets_in_fields(written, value)
    if not isinstance(value, Collection) or len(written) != len(value):
        return written
    if isinstance(written, dict):
        values: Iterable[object] = value.values() if isinstance(value, Mapping) else written.values()
        return {key: sort_sets(written[key], item) for key, item in zip(written, values, strict=True)}
    items = [sort_sets(item, of) for item, of in zip(written, value, strict=True)]
    return sort_json_items(items) if isinstance(value, Set) else items


def _sort_sets_in_fields(written: dict[str, object] | list[object], value: object) -> object:
    """Sort in what an object wrote; what plain serializers of its class wrote stays in their order."""
    kind: Hint = type(value)
    marks = getattr(kind, "__pydantic_decorators__", None)
    fields: Mapping[str, Hint] = getattr(kind, "__pydantic_fields__", {})
    if marks is not None and any(mark.info.mode == "plain" for mark in marks.model_serializers.values()):
        return written
    own_names = _list_plainly_written(marks, fields)
    values = {name: item for name, item in _read_fields(value).items() if name not in own_names}
    if getattr(kind, "__pydantic_root_model__", False):
        return sort_sets(written, values.get("root"))
    if isinstance(written, list):
        return written
    by_key = {_get_key(fields.get(name), name, written): item for name, item in values.items()}
    if not by_key.keys() & written.keys() and len(by_key) == len(written):  # a dataclass, with the aliases of a model
        by_key = dict(zip(written, values.values(), strict=True))
    for name, field in getattr(kind, "__pydantic_computed_fields__", {}).items():
        key = _get_key(field, name, written)
        if name not in own_names and isinstance(written.get(key), dict | list):
            by_key[key] = getattr(value, name)
    return {key: sort_sets(item, by_key.get(key)) for key, item in written.items()}


def _list_plainly_written(marks: Hint, fields: Mapping[str, Hint]) -> set[str]:
    """Return the names of the fields that plain serializers write."""
    serializers = [] if marks is None else [mark.info for mark in marks.field_serializers.values()]
    return {name for info in serializers if info.mode == "plain" for name in info.fields} | {
        name for name, field in fields.items()
        if any(get_class_name(type(mark)) == "PlainSerializer" for mark in field.metadata)
    }  # fmt: skip


def _get_key(field: Hint, name: str, written: dict[str, object]) -> str:
    alias = getattr(field, "serialization_alias", None) or getattr(field, "alias", None)
    return alias if alias in written else name
