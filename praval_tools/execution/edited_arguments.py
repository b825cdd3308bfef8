"""
Compares arguments that an approver wrote with what the tool gets of them.

An approver is shown fields that classes make themselves, too, beside those that a constructor takes. Nobody can write
them: those that are as they were shown are left out, and any other makes the call invalid, or is found to be ignored.
So are defaults of a function with a supplied schema, which may not take them, or takes them as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple, TypeAlias

from praval_tools.errors import ToolArgumentsError
from praval_tools.execution.approvals import write_exactly
from praval_tools.schema.json_input import copy_json
from praval_tools.schema.json_pointer import format_json_path
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.spellings import have_same_reading
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.value_reader import NumberText, ObjectMembers, SetItems, ValueReader, ValueText
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import BoundArguments, ToolImplementation
from praval_tools.tools.supplied import SuppliedSchema

_Place: TypeAlias = tuple[str | int, ...]
_Object: TypeAlias = dict[str | int, object]
_MadeFields: TypeAlias = Mapping[_Place, _Object]
"""The place of each field that a class makes itself → the object that has it."""

_SHOWN_TYPES: Final = frozenset({*SCALAR_TYPES, Decimal, ValueText, NumberText})
_MAX_SPELLED_OTHERWISE: Final = 100
"""Items of a set and keys of a dict that may be written in another spelling: each is compared with all."""

_Binder: TypeAlias = Callable[[object], BoundArguments]
"""Makes of arguments, or of their JSON text, what the tool gets."""


class _LeftOutField(NamedTuple):
    """A made field that edited arguments are taken without; `is_alone` where the rest of its object is as shown."""

    place: _Place
    shown: _Object
    is_alone: bool


def leave_filled_in_out(
    implementation: ToolImplementation, edited: Arguments, asked: BoundArguments, bind: _Binder
) -> tuple[Arguments, BoundArguments | None]:
    """
    Return edited arguments without what is filled in again as it was shown: made fields, and a function's defaults.

    Where the approver changed nothing else of an object, its made fields have to be what was shown, too.

    Args:
        implementation: That of the tool.
        edited: What the approver wrote.
        asked: The arguments that it was shown.
        bind: Makes of arguments what the tool gets.

    Returns:
        The arguments, and what the tool gets of them; *edited* and None where they are to be taken as they are.
    """
    if isinstance(implementation.compiled, SuppliedSchema):
        return _leave_defaults_out(implementation.compiled, edited, asked), None
    if not implementation.runs_user_code:
        return edited, None
    try:
        rest, left_out = _leave_out(edited, _find_made_fields(implementation, asked))
        if left_out:
            bound = bind(rest)
            if _are_made_again(left_out, _find_made_fields(implementation, bound)):
                return rest, bound
    except (ToolArgumentsError, Unencodable):  # another class may take such a field; else binding *edited* reports it
        pass
    return edited, None


def _leave_defaults_out(schema: SuppliedSchema, edited: Arguments, asked: BoundArguments) -> Arguments:
    """Return edited arguments without those defaults of the function that an approver left as they were shown."""
    names = schema.function_defaults.keys() & edited.keys() - asked.arguments.keys()
    values = schema.complete_values(asked.values)
    shown = schema.read_arguments({name: values[name] for name in names})
    return {
        name: value
        for name, value in edited.items()
        if name not in names or not _are_written_alike(value, shown[name])
    }


def find_edit_problem(
    implementation: ToolImplementation, shown: Arguments, bound: BoundArguments, bind: _Binder
) -> str | None:
    """
    Return why the tool may get something else than an approver wrote; None where it gets just that.

    Args:
        implementation: That of the tool.
        shown: What an approver would be shown of what it wrote.
        bound: What the tool gets of it.
        bind: Makes of arguments what the tool gets.
    """
    if not implementation.runs_user_code:  # Python's own types change and ignore nothing
        return None
    try:
        written = write_exactly(implementation.render_for_review(bound, with_made_fields=False))
        is_read_back = _are_written_alike(implementation.render_for_review(bind(written)), shown)
        received = _read_received(implementation, bound)
    except (ToolArgumentsError, Unencodable):
        is_read_back = False
    if not is_read_back:
        return "A class of its parameters makes other values of what an approver is shown, so nobody can write them."
    place = next(_iter_changed_places(bound.arguments, received, ()), None)  # after repairs, such as of "5"
    if place is None:
        return None
    return f"A class of its parameters makes something else of {format_json_path(place)} than an approver wrote."


def _read_received(implementation: ToolImplementation, bound: BoundArguments) -> Arguments:
    """Return what the tool gets of what was given, with objects and times that are not taken for dicts and texts."""
    reader = ValueReader(marks_types=True)
    with activate_tool_frame(implementation.name):  # members of enums are found by code of their classes
        return {name: reader.read(bound.values[name]) for name in bound.arguments}


def _iter_changed_places(written: object, received: object, place: _Place) -> Iterator[_Place]:
    """Yield the places of what was written and is received as something else or not at all, and of keys put in."""
    if isinstance(written, dict) and isinstance(received, dict):
        found = _find_keys(written, received)
        for key, value in written.items():
            if (other := found[key]) is None:
                yield (*place, key)
            else:
                yield from _iter_changed_places(value, received[other], (*place, key))
        addable = received.keys() - received.extra_keys if isinstance(received, ObjectMembers) else ()
        expected = {*found.values(), *addable}
        yield from ((*place, key) for key in received if key not in expected)
    elif isinstance(written, list) and isinstance(received, SetItems):
        if not _have_same_items(written, received):
            yield place
    elif isinstance(written, list) and isinstance(received, list):
        for index, (item, received_item) in enumerate(zip(written, received, strict=False)):
            yield from _iter_changed_places(item, received_item, (*place, index))
        if len(written) != len(received):
            yield place
    elif not _are_spelled_alike(written, received):
        yield place


def _find_keys(written: _Object, received: _Object) -> dict[str | int, str | int | None]:
    """Return as which keys those that were written are received, such as "1.0" for "1"; None where there is none."""
    found: dict[str | int, str | int | None] = {key: key if key in received else None for key in written}
    rest = [key for key, other in found.items() if other is None]
    others = [key for key in received if isinstance(key, ValueText) and key not in written]
    if max(len(rest), len(others)) <= _MAX_SPELLED_OTHERWISE:
        for key in rest:
            found[key] = next((other for other in others if _are_keys_alike(key, other)), None)
    return found


def _are_keys_alike(written: object, received: ValueText) -> bool:
    if type(received) is NumberText and _are_one_number(written, received):
        return True
    return _are_spelled_alike(written, received)


def _have_same_items(written: list[object], received: list[object]) -> bool:
    """Tell whether a list was received as the items of a set, in another order and with each item once."""
    texts, received_texts = set(map(_write, written)), set(map(_write, received))
    rest = [item for item in written if _write(item) not in received_texts]
    received_rest = [item for item in received if _write(item) not in texts]
    return max(len(rest), len(received_rest)) <= _MAX_SPELLED_OTHERWISE and (
        all(any(_is_same_item(item, other) for other in received) for item in rest)
        and all(any(_is_same_item(item, other) for item in written) for other in received_rest)
    )


def _is_same_item(written: object, received: object) -> bool:
    return next(_iter_changed_places(written, received, ()), None) is None


def _are_spelled_alike(written: object, received: object) -> bool:
    """Tell whether two values are the same to Python's own types, such as "5" and 5.0, or two spellings of a time."""
    if _are_written_alike(written, received):
        return True
    if type(written) not in SCALAR_TYPES or type(received) not in _SHOWN_TYPES or written is None or received is None:
        return False
    if bool in (type(written), type(received)):
        return str(written).lower() == str(received).lower()
    if type(written) is str and isinstance(received, str):
        return type(received) is ValueText and have_same_reading(written, str(received))
    return _are_one_number(written, received)


def _are_one_number(written: object, received: object) -> bool:
    left, right = _read_number(written), _read_number(received)
    return left is not None and left == right


def _read_number(value: object) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _find_made_fields(implementation: ToolImplementation, bound: BoundArguments) -> _MadeFields:
    """Return the made fields of arguments; none where those that can be given differ from them in more."""
    shown = implementation.render_for_review(bound)
    given = implementation.render_for_review(bound, with_made_fields=False)
    made_fields, rest = dict(_iter_made_fields(shown, given, ())), copy_json(shown)
    for place in made_fields:
        _remove(rest, place)
    return made_fields if _are_written_alike(rest, given) else {}  # sets of objects may be in another order


def _iter_made_fields(shown: object, given: object, place: _Place) -> Iterator[tuple[_Place, _Object]]:
    if isinstance(shown, dict) and isinstance(given, dict):
        for key, value in shown.items():
            if key in given:
                yield from _iter_made_fields(value, given[key], (*place, key))
            else:
                yield (*place, key), shown
    elif isinstance(shown, list) and isinstance(given, list):
        for index, (shown_item, given_item) in enumerate(zip(shown, given, strict=False)):
            yield from _iter_made_fields(shown_item, given_item, (*place, index))


def _leave_out(edited: Arguments, made_fields: _MadeFields) -> tuple[Arguments, list[_LeftOutField]]:
    """Return the arguments without the made fields that are as they were shown, and these."""
    rest, left_out = copy_json(edited), list[_LeftOutField]()
    for place, shown in made_fields.items():
        written, name = _find_object(edited, place), place[-1]
        if written is not None and name in written and _are_written_alike(written[name], shown[name]):
            _remove(rest, place)
            left_out.append(_LeftOutField(place, shown, _are_written_alike(written, shown)))
    return rest, left_out


def _are_made_again(left_out: list[_LeftOutField], made_fields: _MadeFields) -> bool:
    return all(
        field.place in made_fields and (not field.is_alone or _are_written_alike(field.shown, made_fields[field.place]))
        for field in left_out
    )


def _remove(value: object, place: _Place) -> None:
    """Remove the field at *place*, which is there."""
    if (holder := _find_object(value, place)) is not None:
        del holder[place[-1]]


def _find_object(value: object, place: _Place) -> _Object | None:
    """Return the object in *value* that may have the field at *place*; None where there is none."""
    for step in place[:-1]:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value if isinstance(value, dict) else None


def _are_written_alike(left: object, right: object) -> bool:
    try:
        return _write(left) == _write(right)
    except (TypeError, ValueError, RecursionError):  # an approver wrote what is no JSON
        return False


def _write(value: object) -> str:
    return write_exactly({"": value})
