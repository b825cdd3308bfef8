"""The `with` block of `registry.change()`: what a tool or other called code leaves open is undone."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final

import msgspec

from praval_tools.access.pending_change import PendingChange
from praval_tools.errors import ToolUsageError
from praval_tools.names import describe_registry
from praval_tools.tools.context_settings import ContextSetting, use_setting
from praval_tools.tools.frames import OPEN_CHANGES, Frame, current_frame, get_work_frame


class OpenChange(msgspec.Struct, eq=False):
    """
    A change that is open in a context.

    Args:
        store: The state store that it changes.
        change: What was changed up to now.
        is_undone: Whether it was undone, although its block goes on.
    """

    store: object
    change: PendingChange
    is_undone: bool = False


open_change: Final = ContextSetting[OpenChange]()
"""The innermost change that is open in a context."""


class ChangeBlock:
    """
    The `with` block of a change.

    A tool, or other code that the library calls, must leave it before it ends, waits or yields: what it leaves open
    is undone there, since others wait for the lock.

    Args:
        store: The state store that it changes.
        name: The name of its registry.
        held: Holds the lock for the change, and publishes it at the end.
    """

    def __init__(self, store: object, name: str, held: AbstractContextManager[PendingChange]) -> None:
        self._store, self._name, self._held = store, name, held
        self._frame: Frame | None = None

    def __enter__(self) -> None:
        self._opened = OpenChange(self._store, self._held.__enter__())
        frame = get_work_frame(current_frame.get())
        if frame is not None:
            if frame[OPEN_CHANGES] is None:
                frame[OPEN_CHANGES] = []
            frame[OPEN_CHANGES].append(self)
            self._frame = frame
        self._setting = use_setting(open_change, self._opened)
        self._setting.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        try:
            self._setting.__exit__()
        except BaseException as interrupt:  # it may come before the setting is taken back, and ends the change
            self._setting.__exit__()
            self._end(type(interrupt), interrupt, interrupt.__traceback__)
            raise
        return self._end(kind, error, traceback)

    def _end(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if not self._opened.is_undone:
            self._forget()
            return self._held.__exit__(kind, error, traceback)
        if kind is None:
            refuse_undone(self._opened, self._name)
        return None

    def undo(self) -> str:
        """Undo what was changed inside, and free the lock; return whose change it is, or "" in another thread."""
        if not self._opened.change.is_of_this_thread():  # which alone can free its lock
            return ""
        self._opened.is_undone = True
        self._forget()
        self._held.__exit__(GeneratorExit, GeneratorExit(), None)
        return describe_registry(self._name)

    def _forget(self) -> None:
        if self._frame is not None:
            self._frame[OPEN_CHANGES].remove(self)
            self._frame = None


def refuse_undone(opened: OpenChange, name: str) -> None:
    """
    Refuse to go on in a change that was undone.

    Raises:
        ToolUsageError: It was.
    """
    if opened.is_undone:
        raise ToolUsageError(
            f"This change() of {describe_registry(name)} was undone: the code inside waited, yielded or returned. "
            f"Do neither inside `with registry.change():`.",
            "change-left-open",
        )
