"""After which results the recorded calls of coroutines beside each other were made."""

from __future__ import annotations

from praval_tools.journal.replay import Recording
from praval_tools.journal.replay_entry import ReplayEntry


def group_recorded_calls(recording: Recording) -> dict[str | None, list[tuple[int, ReplayEntry]]]:
    """
    Return the recorded calls by the call inside of which they were made; None for those of the program itself.

    Each with the number in the run of the last result that had reached a caller before it was made; where nobody knows
    that, of its own first record.
    """
    recorded = [entry for entry in list(recording.entries.values()) if entry.begun_number]
    by_position: dict[int | None, ReplayEntry] = {entry.first_position: entry for entry in recorded}
    by_position.update((entry.position, entry) for entry in recorded)
    calls: dict[str | None, list[tuple[int, ReplayEntry]]] = {}
    for entry in recorded:
        before = by_position.get(entry.after)
        number = 0 if entry.after == 0 else entry.begun_number
        if before is not None and before.result_number:
            number = min(number, before.result_number)
        calls.setdefault(recording.find_outer_call(entry.parent_id), []).append((number, entry))
    return calls
