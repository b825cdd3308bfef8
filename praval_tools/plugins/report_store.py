"""Stores the reports on a registry's plugins, writes them to the journal, and warns of hooks that fail at calls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Set
from typing import Any, Final

from attrs import define, evolve, field

from praval_tools.access.problems import RegistryProblem
from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import PluginWarning, ToolUsageError, get_user_stacklevel
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.codec import build_record
from praval_tools.journal.events import PluginFailed, PluginLoaded
from praval_tools.journal.process_name import get_process_name
from praval_tools.journal.storage.protocol import Item
from praval_tools.names import describe_registry, get_class_name
from praval_tools.plugins.discovery import InstalledPlugin, PluginKey
from praval_tools.plugins.report import PluginReport, build_failure_report
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.tool import AnyTool

CALL_HOOKS: Final = tuple(f"praval_tools_{name}" for name in ("before_call", "after_call", "authorize", "approve"))
"""The hooks that are called at calls, long after the plugin was loaded."""

_MAX_FAILURES_PER_HOOK: Final = 20
"""How many different failures of one hook are reported."""

PluginEvent = PluginLoaded | PluginFailed
EventDraft = tuple[type[PluginEvent], dict[str, object]]
"""The class of an event, and its fields but id, time and process."""


@define
class LastEvents:
    """What the journal recorded last of a plugin: that it was loaded, and whatever came of loading it."""

    loaded: PluginLoaded | None = None
    latest: PluginEvent | None = None


@define(eq=False)
class PluginReportStore:
    """
    The reports on the plugins of one registry.

    Args:
        registry: The registry.
        reports: The report of each plugin when it was loaded last.
        hook_failures: Hooks that failed since, each kind of failure once.
        secrets: What the reports of each plugin must not repeat.
        lock: Held while a plugin is activated; one at a time.
        last_events: What the journal recorded of each plugin, since `read_journal`.
        config: The tables that were loaded last.
        configured: The distributions that configurations name together; None: they say nothing of plugins.
        is_recording: False: the journal is read, and not written, as for a look at the registry.
    """

    registry: ToolRegistry
    reports: dict[PluginKey, PluginReport] = field(factory=dict)
    hook_failures: dict[tuple[str, ...], PluginReport] = field(factory=dict)
    secrets: dict[PluginKey, frozenset[str]] = field(factory=dict)
    lock: ForkSafeLock = field(factory=ForkSafeLock)
    last_events: dict[PluginKey, LastEvents] = field(factory=dict)
    config: PluginsConfig = PluginsConfig()
    configured: Set[str] | None = None
    is_recording: bool = True

    def read_journal(self) -> None:
        """Read what the journal recorded of plugins: once for all that are loaded together."""
        with self.lock:
            self.last_events.clear()
            if (journal := self.registry.journal) is not None:
                entries = (entry for kind in ("plugin_loaded", "plugin_failed") for entry in journal.read(type=kind))
                for entry in sorted(entries, key=lambda entry: entry.seq):
                    self._track_event(entry.event)

    def _track_event(self, event: object) -> None:
        if not isinstance(event, PluginEvent) or getattr(event, "stage", "") in CALL_HOOKS:
            return
        last = self.last_events.setdefault((event.distribution, event.plugin), LastEvents())
        last.latest = event
        if isinstance(event, PluginLoaded):
            last.loaded = event

    def record_hook_failure(self, plugin: InstalledPlugin, hook: str, error: BaseException) -> None:
        """Report that a hook failed at a call; the same failure is reported once, and recorded without its message."""
        key = (*plugin.key, hook, get_class_name(type(error)))
        failures = sum(other[:3] == key[:3] for other in list(self.hook_failures))
        if key in self.hook_failures or failures >= _MAX_FAILURES_PER_HOOK:
            return
        report = build_failure_report(plugin, hook, error, self.secrets.get(plugin.key, ()))
        if self.hook_failures.setdefault(key, report) is not report:
            return
        event_class, fields = _draft_failed_event(report)
        # the message may quote the call, and what is secret in that is known to the records of the call alone
        fields["error"] = f"it raised {report.error_type or 'PluginError'}"
        self._append_event(self._make_event(event_class, fields))
        try:
            warnings.warn(f"{report.error}; it goes on without.", PluginWarning, stacklevel=get_user_stacklevel())
        except PluginWarning:  # where warnings are errors; the call is not at fault, and the report stands
            return

    def list_problems(self) -> list[RegistryProblem]:
        """Return a problem for each plugin, or hook of one, that failed."""
        return [
            RegistryProblem("plugin", report.distribution, str(report.error))
            for report in (*self.reports.values(), *self.hook_failures.values())
            if report.error is not None
        ]

    def build_event(
        self, report: PluginReport, tools: Iterable[AnyTool]
    ) -> tuple[PluginReport, PluginEvent | None]:
        """Return a report, with what an upgrade changed, and its event; None where the journal need not get one."""
        if self.registry.journal is None or not (report.failed or report.loaded):
            return report, None
        last = self.last_events.get((report.distribution, report.entry_point or "?"), LastEvents())
        event_class, fields = _draft_failed_event(report) if report.failed else _draft_loaded_event(report, tools)
        if report.loaded and last.loaded is not None:
            before = zip(last.loaded.tools, last.loaded.fingerprints, strict=False)
            report = _add_upgrade(report, dict(before), tools, last.loaded.version)
        latest = last.latest
        is_new = type(latest) is not event_class or any(getattr(latest, name) != fields[name] for name in fields)
        return report, self._make_event(event_class, fields) if is_new and self.is_recording else None

    def keep_reports(
        self, reports: Iterable[PluginReport], is_outdated: Callable[[PluginKey], bool], left_out: Collection[str]
    ) -> None:
        """Keep *reports*, and forget older ones that are outdated, or of distributions that are left out."""
        for key in [key for key in self.reports if is_outdated(key) or key[0] in left_out]:
            del self.reports[key]
        self.reports.update({(report.distribution, report.entry_point): report for report in reports})

    def _make_event(self, event_class: type[PluginEvent], fields: dict[str, Any]) -> PluginEvent:
        clock = get_runtime(self.registry).clock
        return event_class(id=clock.new_id(), time=clock.now(), process=get_process_name(), **fields)

    def _append_event(self, event: PluginEvent) -> None:
        journal, runtime = self.registry.journal, get_runtime(self.registry)
        if journal is None or not self.is_recording:
            return
        with runtime.as_operator():  # it is the host that writes, whoever runs
            (answer,) = journal.store.append([Item((build_record(event),))])
        if answer.error is not None and runtime.access_store.persistence is not None:
            runtime.access_store.persistence.warn_or_raise(answer.error)


def get_report_store(registry: ToolRegistry) -> PluginReportStore:
    """Return the report store of a registry; refuse inside a change, whose undoing would leave hooks behind."""
    runtime = get_runtime(registry)
    if runtime.access_store.has_own_change():
        raise ToolUsageError(
            f"A change() of {describe_registry(registry.name)} is open here; load plugins before or after it.",
            "load-in-change",
        )
    with runtime.access_store.lock():
        if runtime.plugins is None:
            runtime.plugins = PluginReportStore(registry)
    store: PluginReportStore = runtime.plugins
    return store


def _add_upgrade(report: PluginReport, before: dict[str, str], tools: Iterable[AnyTool], version: str) -> PluginReport:
    """Return a report with the tools whose fingerprints changed, and the version that the journal recorded."""
    compilable = (tool for tool in tools if tool.implementation.is_compilable)
    changed = tuple(tool.name for tool in compilable if before.get(tool.name, tool.fingerprint) != tool.fingerprint)
    return evolve(report, changed=changed, upgraded_from=version if version != report.version else "")


def _draft_loaded_event(report: PluginReport, tools: Iterable[AnyTool]) -> EventDraft:
    compilable = [tool for tool in tools if tool.implementation.is_compilable]
    return PluginLoaded, {
        "plugin": report.entry_point,
        "distribution": report.distribution,
        "version": report.version,
        "tools": tuple(tool.name for tool in compilable),
        "fingerprints": tuple(tool.fingerprint for tool in compilable),
    }


def _draft_failed_event(report: PluginReport) -> EventDraft:
    return PluginFailed, {
        "plugin": report.entry_point or "?",
        "distribution": report.distribution,
        "version": report.version,
        "stage": report.stage,
        "error": report.error.problem if report.error is not None else "",
        "error_type": report.error_type,
    }
