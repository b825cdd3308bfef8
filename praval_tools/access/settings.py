"""Sets what is not part of the access state, such as limits, as part of a change of it."""

from __future__ import annotations

from collections.abc import Callable

from praval_tools.access.change_block import open_change, refuse_undone
from praval_tools.access.store import StateStore


def apply_setting(store: StateStore, apply: Callable[[], object]) -> None:
    """
    Call *apply*, which sets what is not in the state, such as a limit; inside a change at its end, if that counts.

    Raises:
        ToolUsageError: The change that is open here was undone, or another task of this thread holds one open.
    """

    def apply_and_invalidate() -> None:
        store.invalidate_snapshots()  # refused while another task of this thread changes something
        apply()
        store.invalidate_snapshots()  # fast paths know limits

    if (opened := open_change.get()) is not None and opened.store is store:
        refuse_undone(opened, store.name)
    if store.has_own_change(counts_drafts=True):
        with store.change(when_published=apply_and_invalidate):
            pass
    else:
        apply_and_invalidate()
