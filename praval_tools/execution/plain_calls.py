"""Makes calls plain: whoever decides, records or shows a call reads texts and principals without code of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from praval_tools.access.records import Principal
from praval_tools.names import (
    call_or_default,
    get_class_name,
    get_plain_type,
    has_type,
    is_valid_tool_name,
    shorten_repr,
    to_plain_scalar,
    to_plain_text,
)
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.call import ToolCall
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.values.builtin_iteration import iterate_without_overrides


class _ShownObject:
    """Stands for an object where a name is expected: it shows itself as the object did, but names nothing."""

    __slots__ = ("_text",)

    def __init__(self, value: object) -> None:
        text = shorten_repr(value)
        self._text = f"<{text}>" if is_valid_tool_name(text) else text

    def __repr__(self) -> str:
        return self._text


def to_plain_call(call: ToolCall) -> ToolCall:
    """
    Return *call* as a plain one, with plain texts in it.

    Whoever reads the call later, such as a hook or a journal, would run the code of such classes, and could read
    something else each time.
    """
    chain = call.on_behalf_of
    if (
        type(call) is ToolCall
        and type(call.name) is str
        and type(chain) is tuple
        and _are_texts((call.tool_call_id, call.agent, call.run_id, call.parent_id, call.reason, call.engine, *chain))
    ):
        return call
    values = {name: read(call) for name, read in _FIELD_READERS.items()}  # a class of its own may have properties
    make: Callable[..., ToolCall] = ToolCall
    return make(**{name: _FIELD_CONVERTERS.get(name, _to_plain)(value) for name, value in values.items()})


def _are_texts(values: Iterable[object]) -> bool:
    """Tell whether all *values* are plain texts or None."""
    return all(value is None or type(value) is str for value in values)


def _to_plain(value: object) -> object:
    """Return a text or number as a plain one, and of anything else, such as a UUID, its text."""
    plain = to_plain_scalar(value)
    if get_plain_type(plain) in SCALAR_TYPES:
        return plain
    return call_or_default(partial(to_plain_text, plain), get_class_name(type(plain)))


def _to_plain_name(value: object) -> object:
    """Return a name as a plain text, and of anything else what names nothing."""
    return to_plain_text(value) if has_type(value, str) else _ShownObject(value)


def _to_plain_agent(value: object) -> object:
    """Return the name or the principal of an agent; of anything else, what names nothing."""
    if value is None or type(value) is Principal:
        return value
    if has_type(value, str):
        return to_plain_text(value)
    try:
        with activate_tool_frame("(call)"):
            principal, name = getattr(value, "principal", None), getattr(value, "name", None)
    except KeyboardInterrupt:
        raise
    except BaseException:  # isolation: the class of the object may raise anything
        return _ShownObject(value)
    return principal if type(principal) is Principal else _to_plain_name(value if name is None else name)


def _to_plain_agents(value: object) -> object:
    """Return a tuple or list of names as a tuple of plain ones; anything else names nobody."""
    if has_type(value, (tuple, list)):
        return tuple(map(_to_plain_name, iterate_without_overrides(value)))
    return None if value is None else _to_plain_name(value)


_FIELD_READERS: Final = {name: getattr(ToolCall, name).__get__ for name in ToolCall.__struct_fields__}
_FIELD_CONVERTERS: Final[dict[str, Callable[[object], object]]] = {
    "name": _to_plain_name, "agent": _to_plain_agent, "on_behalf_of": _to_plain_agents,
    "arguments": lambda value: value,
}  # fmt: skip
"""What makes the fields plain that may hold objects; arguments are copied where they are used."""
