"""Reading what a provider sent, as dicts or as the objects of its SDK; what is malformed is left out, never raised."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from praval_tools.tools.call import ToolCall

_MAX_CALLS: Final = 100_000
"""How many calls are read out of one reply."""


def get_member(value: Any, *names: str) -> Any:
    """Return the member of a dict or object under the first of *names* that it has; None: it has none."""
    for name in names:
        found = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def get_text(value: Any, *names: str) -> str:
    """Return a member that is text; empty where it is something else."""
    found = get_member(value, *names)
    return found if isinstance(found, str) else ""


def get_items(value: Any, *names: str) -> Sequence[Any]:
    """Return a member that is a list; empty where it is something else."""
    found = get_member(value, *names) if names else value
    return found if isinstance(found, list | tuple) else ()


def get_index(value: Any, name: str) -> int | None:
    """Return a member that says which part of a reply is meant; None where it is no number."""
    found = get_member(value, name)
    return found if isinstance(found, int) else None


def to_plain_data(value: Any) -> Any:
    """Return what a provider sent as dicts and lists."""
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(exclude_none=True, by_alias=False, warnings=False)
    if isinstance(value, dict):
        return {key: to_plain_data(one) for key, one in value.items()}
    return [to_plain_data(one) for one in value] if isinstance(value, list | tuple) else value


def assign_call_ids(calls: Iterable[ToolCall]) -> list[ToolCall]:
    """
    Return *calls* with an id each, and no id twice; the same for the same reply.

    A model leaves ids out, or gives one to several calls; their results must find back.
    """
    made: list[ToolCall] = []
    given = [one for one, _ in zip(calls, range(_MAX_CALLS), strict=False)]
    taken = {one.tool_call_id for one in given if isinstance(one.tool_call_id, str)}
    seen: set[str] = set()
    for at, one in enumerate(given, 1):
        name = one.tool_call_id
        if not isinstance(name, str) or not name or name in seen:
            base = name if isinstance(name, str) and name else "call"
            name = f"{base}_{at}"
            while name in taken or name in seen:
                name += "_"
            one = msgspec.structs.replace(one, tool_call_id=name)
        seen.add(name)
        made.append(one)
    return made
