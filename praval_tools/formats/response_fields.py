"""Reads fields of a provider's response, a dict or an object of its SDK; malformed ones are left out, not errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from praval_tools.names import has_type, to_plain_text
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.call import ToolCall

_MAX_CALLS: Final = 100_000
"""How many calls are read out of one reply."""

_NO_ARGUMENTS: Final[tuple[object, ...]] = (None, "", {})
"""What a streamed call begins with, or adds, of which the rest comes later."""


def get_member(value: object, *names: str) -> Any:
    """Return the member of a dict or object under the first of *names* that it has; None where it has none."""
    for name in names:
        member = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
        if member is not None:
            return member
    return None


def get_text(value: object, *names: str) -> str:
    """Return a member that is text; empty where it is something else."""
    member = get_member(value, *names)
    return member if isinstance(member, str) else ""


def join_arguments(whole: object, piece: object) -> object:
    """Add a streamed piece of arguments to the *whole*; some servers send an object, in one piece, instead of text."""
    if whole in _NO_ARGUMENTS or piece in _NO_ARGUMENTS:
        return whole if piece in _NO_ARGUMENTS else piece
    return whole + piece if isinstance(whole, str) and isinstance(piece, str) else f"{whole}{piece}"  # no JSON: refused


def get_items(value: object, *names: str) -> Sequence[Any]:
    """Return a member that is a list, or the value itself without *names*; empty where it is something else."""
    member = get_member(value, *names) if names else value
    return member if isinstance(member, list | tuple) else ()


def get_index(value: object, name: str) -> int | None:
    """Return a member that says to which part of a reply a chunk belongs; None where it is not a number."""
    member = get_member(value, name)
    return member if isinstance(member, int) else None


def get_first_candidate(candidates: Sequence[object]) -> Any:
    """Return the first of the answers that a model offers, by its index where it has one; None where it is not here."""
    return next((candidate for candidate in candidates if get_index(candidate, "index") in (None, 0)), None)


def to_plain_data(value: Any) -> Any:
    """Return what a provider sent as dicts and lists."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(exclude_none=True, by_alias=False, warnings=False)
    if isinstance(value, dict):
        return {key: to_plain_data(item) for key, item in value.items()}
    return [to_plain_data(item) for item in value] if isinstance(value, list | tuple) else value


def assign_call_ids(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """
    Return *calls* with an id each, and no id twice; the same for the same reply.

    A model leaves ids out, or gives the same one to several calls; a result must belong to one call.
    Halves of surrogate pairs are replaced in them.
    """
    calls = list(islice(calls, _MAX_CALLS))
    ids = [_get_call_id(call) for call in calls]
    given_ids = set(ids)
    used_ids: set[str] = set()
    identified: list[ToolCall] = []
    for number, (call, call_id) in enumerate(zip(calls, ids, strict=True), 1):
        if not call_id or call_id in used_ids:
            call_id = f"{call_id or 'call'}_{number}"
            while call_id in given_ids or call_id in used_ids:
                call_id += "_"
        if call_id is not call.tool_call_id:
            call = msgspec.structs.replace(call, tool_call_id=call_id)
        used_ids.add(call_id)
        identified.append(call)
    return identified


def _get_call_id(call: ToolCall) -> str:
    """Return the id of a call as a plain text; empty where it has none."""
    given: object = call.tool_call_id
    return replace_surrogates(to_plain_text(given)) if has_type(given, str) else ""
