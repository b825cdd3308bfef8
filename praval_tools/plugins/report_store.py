"""What happens to plugins, written down: in the journal, as reports, and as warnings."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterable
from typing import Any, Final

from attrs import define, evolve, field

from praval_tools.errors import PluginWarning, get_user_stacklevel
from praval_tools.journal.codec import to_json
from praval_tools.journal.events import EVENT_TYPES, PluginFailed, PluginLoaded, get_process_name
from praval_tools.journal.storage.protocol import Item, Record
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.report import PluginReport, build_failure_report, get_class_name
from praval_tools.tools.tool import Tool

CALL_HOOKS: Final = tuple(f"praval_tools_{one}" for one in ("before_call", "after_call", "authorize", "approve"))
"""The hooks that are called at calls, long after the plugin was loaded."""

_MAX_FAILURES_PER_HOOK: Final = 20
"""How many ways of failing of one hook are reported."""

EventDraft = tuple[type[PluginLoaded] | type[PluginFailed], dict[str, Any]]
"""The class of an event, and what it says."""

LastEvents = tuple[PluginLoaded | None, PluginLoaded | PluginFailed | None]
"""How the journal saw a plugin loaded last, and what it says last of its loading."""

PluginKey = tuple[str, str]
"""Distribution and entry point: what stands for a plugin."""


@define(eq=False)
class PluginReportStore:
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

    registry: Any
    reports: dict[PluginKey, PluginReport] = field(factory=dict)
    hook_failures: dict[tuple[str, ...], PluginReport] = field(factory=dict)
    secrets: dict[PluginKey, frozenset[str]] = field(factory=dict)
    lock: Any = field(factory=threading.RLock)
    last_events: dict[PluginKey, LastEvents] = field(factory=dict)

    def read_journal(self) -> None:
        """Read what the journal knows of plugins: once for all that are loaded together."""
        journal = self.registry.journal
        kinds = () if journal is None else ("plugin_loaded", "plugin_failed")
        with self.lock:
            self.last_events.clear()
            for entry in sorted((one for kind in kinds for one in journal.read(type=kind)), key=lambda one: one.seq):
                self._track_event(entry.event)

    def _track_event(self, event: Any) -> None:
        if getattr(event, "stage", "") not in CALL_HOOKS:
            place = event.distribution, event.plugin
            loaded = event if isinstance(event, PluginLoaded) else self.last_events.get(place, (None, None))[0]
            self.last_events[place] = loaded, event

    def record_hook_failure(self, found: InstalledPlugin, hook: str, error: BaseException) -> None:
        """Report that a hook failed at run time; the same failure is told once."""
        place = (found.distribution, found.entry_point)
        key = (*place, hook, get_class_name(error))
        if (
            key in self.hook_failures
            or sum(one[:3] == key[:3] for one in list(self.hook_failures)) >= _MAX_FAILURES_PER_HOOK
        ):
            return
        report = build_failure_report(found, hook, error, self.secrets.get(place, ()))
        if self.hook_failures.setdefault(key, report) is not report:
            return
        self._append_event(*_draft_failed_event(report))
        try:
            warnings.warn(f"{report.error}; it goes on without.", PluginWarning, stacklevel=get_user_stacklevel())
        except PluginWarning:  # where warnings are errors; the call is not at fault, and the report stands
            return

    def record_report(self, report: PluginReport, tools: Iterable[Tool[..., Any]]) -> PluginReport:
        """Remember what became of a plugin, in the journal too; return the report, with what an upgrade changed."""
        place = (report.distribution, report.entry_point)
        if self.registry.journal is not None and (report.failed or report.loaded):
            report = self._journal_report(report, tuple(tools))
        self.reports[place] = report
        return report

    def _journal_report(self, report: PluginReport, tools: tuple[Tool[..., Any], ...]) -> PluginReport:
        loaded, last = self.last_events.get((report.distribution, report.entry_point or "?"), (None, None))
        if report.failed:
            kind, fresh = _draft_failed_event(report)
        else:
            kind, fresh = _draft_loaded_event(report, tools)
            if loaded is not None:
                before = dict(zip(loaded.tools, loaded.fingerprints, strict=False))
                now = zip(fresh["tools"], fresh["fingerprints"], strict=True)
                changed = tuple(name for name, print_ in now if before.get(name, print_) != print_)
                other = loaded.version if loaded.version != report.version else ""
                report = evolve(report, changed=changed, upgraded_from=other)
        if last is None or type(last) is not kind or any(getattr(last, name) != one for name, one in fresh.items()):
            self._append_event(kind, fresh)
        return report

    def _append_event(self, kind: type[PluginLoaded] | type[PluginFailed], fields: dict[str, Any]) -> None:
        journal, clock = self.registry.journal, self.registry._clock
        if journal is None:
            return
        head = {"id": clock.new_id(), "time": clock.now(), "process": get_process_name()}
        event = kind(**head, **fields)
        self._track_event(event)
        (answer,) = journal.store.append([Item((Record(type=EVENT_TYPES[kind].value, body=to_json(event), **head),))])
        if answer.error is not None:
            self.registry._access_store.persistence.warn_or_raise(answer.error)


def _draft_loaded_event(report: PluginReport, tools: tuple[Tool[..., Any], ...]) -> EventDraft:
    usable = [one for one in tools if one.implementation.is_compilable]
    return PluginLoaded, {
        "plugin": report.entry_point, "distribution": report.distribution, "version": report.version,
        "tools": tuple(one.name for one in usable), "fingerprints": tuple(one.fingerprint for one in usable),
    }  # fmt: skip


def _draft_failed_event(report: PluginReport) -> EventDraft:
    return PluginFailed, {
        "plugin": report.entry_point or "?", "distribution": report.distribution, "version": report.version,
        "stage": report.stage, "error": report.error.problem if report.error is not None else "",
        "error_type": report.error_type,
    }  # fmt: skip


def write_trace(text: str, *, enabled: bool) -> None:
    """Tell on stderr how loading goes, where the operator asks for it."""
    if enabled:
        sys.stderr.write(f"praval_tools: {text}\n")
