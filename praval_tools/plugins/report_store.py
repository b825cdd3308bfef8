"""What happens to plugins, written down: in the journal, as reports, and as warnings."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any, Final

from attrs import define, evolve, field

from praval_tools.errors import PluginWarning, outside
from praval_tools.journal.codec import to_json
from praval_tools.journal.events import TYPES, PluginFailed, PluginLoaded, process
from praval_tools.journal.storage.protocol import Item, Record
from praval_tools.plugins.discovery import Found
from praval_tools.plugins.report import PluginReport, failure, kind_of
from praval_tools.tools.tool import Tool

AT_CALLS: Final = tuple(f"praval_tools_{one}" for one in ("before_call", "after_call", "authorize", "approve"))
"""The hooks that are called at calls, long after the plugin was loaded."""

_MOST_FAULTS: Final = 20
"""How many ways of failing of one hook are reported."""

Told = tuple[type[PluginLoaded] | type[PluginFailed], dict[str, Any]]
"""The class of an event, and what it says."""

Seen = tuple[PluginLoaded | None, PluginLoaded | PluginFailed | None]
"""How the journal saw a plugin loaded last, and what it says last of its loading."""

Place = tuple[str, str]
"""Distribution and entry point: what stands for a plugin."""


@define(eq=False)
class Notes:
    """
    What is known of the plugins of one registry.

    Args:
        home: The registry.
        reports: What became of each when it was loaded last.
        faults: Hooks that failed since, each way of failing once.
        secrets: What reports may not repeat.
        lock: Held while a plugin is put to work; one at a time.
        seen: What the journal knows of each, since `recall`.
    """

    home: Any
    reports: dict[Place, PluginReport] = field(factory=dict)
    faults: dict[tuple[str, ...], PluginReport] = field(factory=dict)
    secrets: dict[Place, frozenset[str]] = field(factory=dict)
    lock: Any = field(factory=threading.RLock)
    seen: dict[Place, Seen] = field(factory=dict)

    def recall(self) -> None:
        """Read what the journal knows of plugins: once for all that are loaded together."""
        journal = self.home.journal
        kinds = () if journal is None else ("plugin_loaded", "plugin_failed")
        with self.lock:
            self.seen.clear()
            for entry in sorted((one for kind in kinds for one in journal.read(type=kind)), key=lambda one: one.seq):
                self._see(entry.event)

    def _see(self, event: Any) -> None:
        if getattr(event, "stage", "") not in AT_CALLS:
            place = event.distribution, event.plugin
            loaded = event if isinstance(event, PluginLoaded) else self.seen.get(place, (None, None))[0]
            self.seen[place] = loaded, event

    def fault(self, found: Found, hook: str, error: BaseException) -> None:
        """Report that a hook failed at run time; the same failure is told once."""
        place = (found.distribution, found.entry_point)
        key = (*place, hook, kind_of(error))
        if key in self.faults or sum(one[:3] == key[:3] for one in list(self.faults)) >= _MOST_FAULTS:
            return
        report = failure(found, hook, error, self.secrets.get(place, ()))
        if self.faults.setdefault(key, report) is not report:
            return
        self._write(*_failed(report))
        try:
            warnings.warn(f"{report.error}; it goes on without.", PluginWarning, stacklevel=outside())
        except PluginWarning:  # where warnings are errors; the call is not at fault, and the report stands
            return

    def keep(self, report: PluginReport, tools: Iterable[Tool[..., Any]]) -> PluginReport:
        """Remember what became of a plugin, in the journal too; return the report, with what an upgrade changed."""
        place = (report.distribution, report.entry_point)
        if self.home.journal is not None and (report.failed or report.loaded):
            report = self._journaled(report, tuple(tools))
        self.reports[place] = report
        return report

    def _journaled(self, report: PluginReport, tools: tuple[Tool[..., Any], ...]) -> PluginReport:
        loaded, last = self.seen.get((report.distribution, report.entry_point or "?"), (None, None))
        if report.failed:
            kind, fresh = _failed(report)
        else:
            kind, fresh = _loaded(report, tools)
            if loaded is not None:
                before = dict(zip(loaded.tools, loaded.fingerprints, strict=False))
                now = zip(fresh["tools"], fresh["fingerprints"], strict=True)
                changed = tuple(name for name, print_ in now if before.get(name, print_) != print_)
                other = loaded.version if loaded.version != report.version else ""
                report = evolve(report, changed=changed, upgraded_from=other)
        if last is None or type(last) is not kind or any(getattr(last, name) != one for name, one in fresh.items()):
            self._write(kind, fresh)
        return report

    def _write(self, kind: type[PluginLoaded] | type[PluginFailed], fields: dict[str, Any]) -> None:
        journal, clock = self.home.journal, self.home._clock
        if journal is None:
            return
        head = {"id": clock.new_id(), "time": clock.now(), "process": process()}
        event = kind(**head, **fields)
        self._see(event)
        (answer,) = journal.store.append([Item((Record(type=TYPES[kind].value, body=to_json(event), **head),))])
        if answer.error is not None:
            self.home._ledger.keeper.excused(answer.error)


def _loaded(report: PluginReport, tools: tuple[Tool[..., Any], ...]) -> Told:
    usable = [one for one in tools if one.definition_.usable]
    return PluginLoaded, {
        "plugin": report.entry_point, "distribution": report.distribution, "version": report.version,
        "tools": tuple(one.name for one in usable), "fingerprints": tuple(one.fingerprint for one in usable),
    }  # fmt: skip


def _failed(report: PluginReport) -> Told:
    return PluginFailed, {
        "plugin": report.entry_point or "?", "distribution": report.distribution, "version": report.version,
        "stage": report.stage, "error": report.error.problem if report.error is not None else "",
        "error_type": report.error_type,
    }  # fmt: skip


def trace(text: str, *, on: bool) -> None:
    """Tell on stderr how loading goes, where the operator asks for it."""
    if on:
        sys.stderr.write(f"praval_tools: {text}\n")
