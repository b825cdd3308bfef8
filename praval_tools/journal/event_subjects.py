"""What an event is about: the columns by which a journal is searched."""

from __future__ import annotations

from attrs import frozen

from praval_tools.access import events
from praval_tools.journal.events import CallEvent, JournalEvent, LoopBegan, ModelReplied


@frozen(kw_only=True)
class EventSubject:
    """The run, call, agent and tool of an event, for the columns by which a journal is searched."""

    run_id: str | None = None
    tool_call_id: str | None = None
    agent: str | None = None
    tool: str | None = None


def get_subject(event: JournalEvent) -> EventSubject:
    """Return run, call, agent and tool of *event*; the end or the use of a grant names neither agent nor tool."""
    if isinstance(event, CallEvent):
        return EventSubject(
            run_id=event.run_id, tool_call_id=event.tool_call_id, agent=event.agent, tool=event.tool_name
        )
    if isinstance(event, LoopBegan | ModelReplied):
        return EventSubject(run_id=event.run_id, agent=event.agent)
    if isinstance(event, events.ToolDisabled | events.ToolEnabled):
        return EventSubject(tool=event.name if event.kind == "tool" else None)
    subject = event.grant if isinstance(event, events.ToolAssigned) else getattr(event, "block", event)
    return EventSubject(agent=getattr(subject, "agent", None), tool=getattr(subject, "tool", None))
