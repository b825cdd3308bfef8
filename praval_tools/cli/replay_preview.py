"""What would become of the calls of a run if it were opened now."""

from __future__ import annotations

from typing import Any, Literal

from attrs import asdict, frozen

from praval_tools import ToolRegistry
from praval_tools.journal.replay import Recording, ReplayEntry


@frozen
class CallPreview:
    """
    What would become of one recorded call.

    Args:
        call_id: The call.
        tool: Its tool.
        agent: Who called; None for the operator.
        word: It gets its recorded result, runs again, or stops the run.
        why: In a sentence.
    """

    call_id: str
    tool: str
    agent: str | None
    word: Literal["replays", "runs again", "stops"]
    why: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def preview_replay(recording: Recording, registry: ToolRegistry) -> list[CallPreview]:
    """Return what would become of each call of *recording*, with the tools of *registry*."""
    return [_preview_call(one, registry) for one in recording.entries.values() if one.status != "new"]


def _preview_call(entry: ReplayEntry, registry: ToolRegistry) -> CallPreview:
    tool = registry.get_tool(entry.tool)

    def make_preview(word: Literal["replays", "runs again", "stops"], why: str) -> CallPreview:
        return CallPreview(entry.call_id, entry.tool, entry.agent, word, why)

    gone = f"there is no tool {entry.tool!r} any more"
    if entry.status == "done":
        if tool is None:
            return make_preview("replays", f"{gone}; its result is recorded" if entry.start is not None else "")
        changed = bool(entry.fingerprint) and entry.fingerprint != tool.fingerprint
        return make_preview("replays", "its definition has changed; the recorded result stays" if changed else "")
    if entry.status == "doubt":
        if tool is not None and tool.metadata.idempotent is True:
            return make_preview("runs again", "in doubt, and its tool is idempotent: same idempotency key")
        return make_preview(
            "stops", f"in doubt, and {gone}" if tool is None else "in doubt, and its tool is not idempotent"
        )
    if entry.status == "rerun":
        return make_preview("runs again", "it was said that it may")
    return make_preview("runs again", "it waits for an approval and is asked again")
