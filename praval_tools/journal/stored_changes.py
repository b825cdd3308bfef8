"""Acts as rows of the store, and rows as acts: what was done at run time, and holds at the next start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from praval_tools.access import events
from praval_tools.access.records import Grant
from praval_tools.access.restore import portable
from praval_tools.access.state import State, ended_by, origin
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.storage.protocol import StateRow, StateView, Uses
from praval_tools.schema.json_values import compact

_SHARING: Final = (events.ToolShared, events.ToolUnshared)
_SWITCHING: Final = (events.ToolDisabled, events.ToolEnabled)
_ENDING: Final = (events.GrantRevoked, events.ToolUnassigned, events.ToolUnregistered, events.AgentRetired)

Rows = list[StateRow]


def rows_of(before: State, after: State, event: Any) -> tuple[Rows, list[Uses]]:
    """Return what *event*, which led from one state to the other, changes of the acts that the store keeps."""
    if isinstance(event, events.ToolAssigned):
        return _assigned(after, event)
    if isinstance(event, _ENDING):
        return _ended(before, after, event)
    return list(_others(before, after, event)), []


def _source(state: State, tool: str) -> str:
    record = state.record(tool)
    return "" if record is None else origin(record.tool)


def _assigned(after: State, event: events.ToolAssigned) -> tuple[Rows, list[Uses]]:
    grant = event.grant
    row = StateRow("grant", grant.id, _source(after, grant.tool), to_json(event))
    return [row], [Uses(grant.id, grant.max_calls)] if grant.max_calls is not None else []


def _ended(before: State, after: State, event: Any) -> tuple[Rows, list[Uses]]:
    rows: Rows = []
    uses = []
    for grant, source in _over(before, after, event):
        act = events.GrantRevoked(
            grant=grant.id, by=event.by, reason=event.reason, id=event.id, time=event.time, process=event.process
        )
        rows.append(StateRow("ended", grant.id, source, to_json(act)))
        if grant.max_calls is not None:
            uses.append(Uses(grant.id, None))
    if isinstance(event, events.ToolUnassigned):
        rows.append(StateRow("removed", compact([event.agent, event.tool]), "", to_json(event)))
    if isinstance(event, events.AgentRetired):
        rows.append(StateRow("retired", event.agent, "", to_json(event)))
    if isinstance(event, events.ToolUnregistered):
        source = _source(before, event.tool)
        rows += [StateRow(kind, event.tool, source, None) for kind in ("owner", "shared")]
    return rows, uses


def _over(before: State, after: State, event: Any) -> Iterator[tuple[Grant, str]]:
    """Yield the stored grants that *event* ended, with those that came from them, and the sources of their tools."""
    waiting: list[str] = []
    held: list[Any] = ended_by(before, event)
    yield from ((one.act.grant, one.source) for one in held)
    if isinstance(event, events.GrantRevoked):
        waiting = [event.grant] if event.grant in before.grants else []
    elif isinstance(event, events.ToolUnassigned):
        waiting = list(before.access(event.agent, event.tool).grants)
    elif isinstance(event, events.ToolUnregistered):
        holders = sorted(before.holders.get(event.tool) or ())
        waiting = [one for agent in holders for one in before.access(agent, event.tool).grants]
    else:
        waiting = [one for access in (before.accesses.get(event.agent) or {}).values() for one in access.grants]
    seen: set[str] = set()
    while waiting:
        this = waiting.pop()
        if this in seen:
            continue
        seen.add(this)
        waiting += before.children.get(this) or ()
        if before.grants[this].stored and after.grants[this].ended and not before.grants[this].ended:
            grant = before.grants[this].grant
            yield grant, _source(before, grant.tool)


def _others(before: State, after: State, event: Any) -> Iterator[StateRow]:
    if isinstance(event, events.ToolBlocked):
        block = event.block
        yield StateRow("block", compact([block.agent, block.tool, block.by]), "", to_json(event))
    elif isinstance(event, events.ToolUnblocked):
        for one in before.access(event.agent, event.tool).blocks:
            if event.setter in (None, one.by):
                yield StateRow("block", compact([one.agent, one.tool, one.by]), "", None)
    elif isinstance(event, events.OwnershipTransferred):
        yield StateRow("owner", event.tool, _source(after, event.tool), to_json(event))
    elif isinstance(event, _SHARING):
        yield StateRow("shared", event.tool, _source(after, event.tool), to_json(event))
    elif isinstance(event, _SWITCHING):
        body = to_json(event) if isinstance(event, events.ToolDisabled) else None
        yield StateRow("disabled", compact([event.kind, event.name]), "", body)
    elif isinstance(event, events.ToolConfigured):
        whole = msgspec.structs.replace(event, changes=portable(dict(after.tools[event.tool].configured)))
        yield StateRow("configured", event.tool, _source(after, event.tool), to_json(whole))


def read_acts(state: State, view: StateView, *, first: bool) -> Iterator[events.Event]:
    """
    Yield what the store says that *state* does not, in the order in which it was done.

    Args:
        state: What this process knows.
        view: What the store holds, or what changed there.
        first: The process looks for the first time: what it declared itself brings retired agents back.
    """
    left = {one.grant_id: one.left for one in view.uses}
    lent: dict[str, str] = {}
    for row in sorted(view.rows, key=lambda row: (row.revision, row.kind == "ended")):
        act: Any = None if row.body is None else from_json(row.body, event_id=row.key)
        if row.kind in _OF_TOOLS:
            tool = lent.get(row.key) or _tool_of(state, row, act)
            if tool is not None:
                if row.kind == "grant":
                    lent[row.key] = tool
                count = left.pop(row.key, None)
                yield events.ActKept(
                    tool=tool, source=row.source, kind=row.kind, key=row.key, act=act, left=count,
                    revision=row.revision,
                )  # fmt: skip
        elif not (first and row.kind == "retired" and state.profile(row.key).declared):
            yield from _plain(row, act)
    known = {grant: count for grant, count in left.items() if count is not None and grant in state.grants}
    if known:
        yield events.GrantsCounted(left=known)


_OF_TOOLS: Final = ("grant", "ended", "owner", "shared", "configured")


def _tool_of(state: State, row: StateRow, act: Any) -> str | None:
    if row.kind not in ("grant", "ended"):
        return row.key
    if row.kind == "grant" and act is not None:
        return str(act.grant.tool)
    known = state.grants.get(row.key)
    if known is not None:
        return known.grant.tool
    return next((tool for tool, acts in state.kept.items() if ("grant", row.key, row.source) in acts), None)


def _plain(row: StateRow, act: Any) -> Iterator[Any]:
    """Yield what a row about names changes: it counts for whatever tool has the name."""
    if act is not None:
        yield msgspec.structs.replace(act, stored=True)
    elif row.kind == "block":
        agent, tool, by = msgspec.json.decode(row.key)
        yield events.ToolUnblocked(tool=tool, agent=agent, setter=by, stored=True)
    elif row.kind == "disabled":
        kind, name = msgspec.json.decode(row.key)
        yield events.ToolEnabled(kind=kind, name=name, stored=True)
