"""`AccessReader`: the registry and the journal as the views of access read them."""

from __future__ import annotations

from datetime import datetime

from praval_tools.access.state import AccessState
from praval_tools.access.transitions import apply_events
from praval_tools.clock import SystemClock
from praval_tools.journal.index.index import JournalIndex
from praval_tools.journal.storage.protocol import Store
from praval_tools.journal.stored_changes import read_stored_changes
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.report.command_line import CommandLine
from praval_tools.report.markup import Markup, build_code, build_element
from praval_tools.web.activity import parts
from praval_tools.web.activity.activity import Activity

MEMORY_JOURNAL_NAME = "memory"
"""The name of a journal that ends with its process."""


class AccessReader:
    """
    What the views show: who may call what, by a program's registry, and what the journal holds of it.

    Args:
        activity: The journal, and its index.
        registry: The program's registry, with this journal; None: no program is named, and only the journal is known.
        command_line: How the commands begin that the views name.
    """

    def __init__(
        self, activity: Activity, registry: ToolRegistry | None = None, command_line: CommandLine = CommandLine()
    ) -> None:
        self._activity, self.registry, self.command_line = activity, registry, command_line

    @property
    def index(self) -> JournalIndex:
        """The index of the journal."""
        return self._activity.index

    @property
    def store(self) -> Store:
        """The journal's store."""
        return self._activity.store

    @property
    def is_closed(self) -> bool:
        """Whether the server stops."""
        return self._activity.feed.is_closed

    @property
    def is_changeable(self) -> bool:
        """Whether a change that is made here would reach the program: both have one journal that lasts."""
        journal = None if self.registry is None else self.registry.journal
        return journal is not None and journal.name != MEMORY_JOURNAL_NAME

    def get_registry(self) -> ToolRegistry:
        """
        Return the registry.

        Raises:
            LookupError: No program is named.
        """
        if self.registry is None:
            raise LookupError("No program is named.")
        return self.registry

    def read_state(self) -> AccessState:
        """Return what is recorded now, with what other processes changed; without a program, what the journal holds."""
        if self.registry is not None:
            return get_runtime(self.registry).access_store.get_fresh_state()
        view = self._activity.store.state(0)
        return apply_events(AccessState(), list(read_stored_changes(AccessState(), view, is_first_read=True)))

    def now(self) -> datetime:
        """Return the present moment, by the clock that decides."""
        return (SystemClock() if self.registry is None else get_runtime(self.registry).clock).now()


def build_missing_program_note(access: AccessReader) -> Markup:
    """Return what is said where only a journal is known."""
    return build_element(
        "p",
        "Only the program knows which tools and agents there are, and this page was started for a journal alone. To "
        "see who may call what, start it with the program: ",
        build_code(access.command_line.write("ui", [], ["--app", "MODULE:REGISTRY"])),
        ". What is recorded is under ",
        parts.build_link("Audit", "/audit"),
        " and ",
        parts.build_link("Grants", "/grants"),
        ".",
        class_="message",
    )  # fmt: skip
