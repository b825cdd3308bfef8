"""What a configuration sets of a registry besides tools, agents and access: options, limits, statistics, approvals."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import attrs
from attrs import define, field

from praval_tools.config.system import JournalConfig
from praval_tools.config_loading.declarations import Declarations, ProblemCollector
from praval_tools.config_loading.functions import FunctionImportError, FunctionReference
from praval_tools.errors import MissingExtraError, ToolUsageError
from praval_tools.execution.approvals import ApprovalHandler
from praval_tools.execution.limits import Limit, LimitKey
from praval_tools.execution.runtime import RegistryOptions
from praval_tools.journal.storage.open_store import parse_store_path
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.telemetry import TelemetryOptions, TracerFactory, make_telemetry

_RUN_OPTIONS = ("warn_run_events", "max_run_events")


@define
class RegistrySettings:
    """
    The settings of one registry: what configurations made of them, and what they were without.

    Args:
        registry: The registry.
        base_options: Its options without a configuration.
        base_handler: Its approval handler without one.
        has_journal: Whether the journal of the configuration is to be that of the registry; not for a mere check.
        limits: The limits that were set last.
        handler: The approval handler that was set last.
        telemetry: The telemetry that was set last.
        base_telemetry: Its telemetry without a configuration.
    """

    registry: ToolRegistry
    base_options: RegistryOptions
    base_handler: ApprovalHandler | None
    has_journal: bool = True
    limits: dict[LimitKey, Limit] = field(factory=dict)
    handler: ApprovalHandler | None = None
    telemetry: TracerFactory | None = None
    base_telemetry: TracerFactory | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.base_telemetry = self.registry.telemetry

    def prepare(self, declarations: Declarations, before: Declarations, problems: ProblemCollector) -> SettingsChange:
        """Return the change to what *declarations* say, with all that is wrong with it among *problems*."""
        handler = self._find_handler(declarations, problems)
        self._check_journal(declarations, before, problems)
        self._check_stats_file(declarations, problems)
        telemetry = self._make_telemetry(declarations, problems)
        options = self.base_options if problems.all else compute_options(self.base_options, declarations)
        return SettingsChange(self, declarations, options, handler, telemetry)

    def _find_handler(self, declarations: Declarations, problems: ProblemCollector) -> ApprovalHandler | None:
        entry = declarations.approvals
        module, _, function = ("", "", "") if entry is None else entry.value.handler.partition(":")
        if entry is None or not (module and function):
            return None
        try:
            return FunctionReference(module, function).find()
        except FunctionImportError as error:
            problems.report(entry, str(error), "handler")
            return None

    def _make_telemetry(self, declarations: Declarations, problems: ProblemCollector) -> TracerFactory | None:
        """Return the telemetry that is declared; None where none is."""
        entry = declarations.telemetry
        if entry is None or not entry.value.enabled or problems.all:
            return None
        options: TelemetryOptions = {
            "record_arguments": entry.value.record_arguments, "record_results": entry.value.record_results,
        }  # fmt: skip
        if entry.value.max_content_size is not None:
            options["max_content_size"] = entry.value.max_content_size
        try:
            return make_telemetry(**options)
        except MissingExtraError as error:
            problems.report(entry, str(error))
            return None

    def _check_journal(self, declarations: Declarations, before: Declarations, problems: ProblemCollector) -> None:
        """Report a journal that is not that of the registry, which it has from its beginning."""
        entry, journal = declarations.journal, self.registry.journal
        if entry is None or not self.has_journal:
            return
        is_changed = before.journal is not None and _get_fixed(before.journal.value) != _get_fixed(entry.value)
        if journal is None or is_changed or not _is_same_file(journal.name, entry.value.path):
            text = "a registry has its journal from its beginning: make it by ToolRegistry.from_config, or restart"
            problems.report(entry, text, "path")

    def _check_stats_file(self, declarations: Declarations, problems: ProblemCollector) -> None:
        """Report a file of statistics that is there and cannot be read."""
        entry = declarations.stats
        if entry is None or entry.value.storage_path is None:
            return
        try:
            with open(entry.value.storage_path, "rb"):
                return
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:  # a ValueError: a path with a NUL
            problems.report(entry, f"the file cannot be read ({type(error).__name__})", "storage_path")


class SettingsChange:
    """
    A change of the settings of a registry, in the two steps around the moment from which its new state counts.

    No call meets a new tool without the options, the limits and the approval handler that come with it.

    Args:
        settings: The settings.
        declarations: What is declared.
        options: The new options.
        handler: The new approval handler; None: none is declared.
        telemetry: The new telemetry; None: none is declared.
    """

    def __init__(
        self, settings: RegistrySettings, declarations: Declarations, options: RegistryOptions,
        handler: ApprovalHandler | None, telemetry: TracerFactory | None,
    ) -> None:  # fmt: skip
        self._settings, self._registry = settings, settings.registry
        self._runtime, self._declarations = get_runtime(settings.registry), declarations
        self._options, self._handler, self._telemetry = options, handler, telemetry
        entries = [entry.value for entry in declarations.limits]
        self._limits = {(entry.agent, entry.tool): Limit(**attrs.asdict(entry)) for entry in entries}
        self._undo: Callable[[], None] | None = None

    def enter(self) -> None:
        """
        Set what the new state needs, inside the change of the state: options, handler, and no limit wider than before.

        Fast paths look again by themselves once the state is published.
        """
        runtime, approvals = self._runtime, self._runtime.approvals
        options, handler, limits = runtime.options, approvals.handler, self._registry.limits.all()

        def undo() -> None:
            self._set_options(options)
            approvals.handler = handler
            runtime.limits.replace(self._limits, limits)

        self._undo = undo
        self._set_options(self._options)
        if self._handler is not None:
            approvals.handler = self._handler
        changed = [limit for key, limit in self._limits.items() if self._settings.limits.get(key) != limit]
        present = {(limit.agent, limit.tool): limit for limit in limits}
        runtime.limits.replace((), [_narrow(limit, present.get((limit.agent, limit.tool))) for limit in changed])

    def undo(self) -> None:
        """Set everything as it was before `enter`, if that was called."""
        if self._undo is not None:
            self._undo()

    def finish(self) -> None:
        """Set what widens or only counts, once the state is published: limits, no handler, statistics, telemetry."""
        settings, limits = self._settings, self._registry.limits
        present = limits.all()
        gone = [key for key, limit in settings.limits.items() if key not in self._limits and limit in present]
        changed = [limit for key, limit in self._limits.items() if settings.limits.get(key) != limit]
        if gone or changed:
            self._runtime.limits.replace(gone, changed)
            self._runtime.access_store.invalidate_snapshots()
        approvals = self._runtime.approvals
        if self._handler is None and settings.handler is not None and approvals.handler is settings.handler:
            approvals.handler = settings.base_handler
        settings.limits, settings.handler = self._limits, self._handler
        if self._telemetry is not settings.telemetry:
            self._registry.telemetry = settings.base_telemetry if self._telemetry is None else self._telemetry
            settings.telemetry = self._telemetry
        if (entry := self._declarations.stats) is not None:
            stats, path = self._registry.stats, entry.value.storage_path
            stats.track_usage = entry.value.track_usage
            if path is not None and stats.storage_path != Path(path):
                stats.storage_path = path

    def _set_options(self, options: RegistryOptions) -> None:
        self._runtime.options, self._runtime.exclusive_gate.timeout = options, options.timeout


def _narrow(limit: Limit, present: Limit | None) -> Limit:
    """Return *limit* with each number no greater than that of the present one."""
    numbers = {
        name: min(filter(None, (getattr(limit, name), getattr(present, name, None))), default=None)
        for name in ("per_minute", "concurrent", "per_run")
    }
    return Limit(agent=limit.agent, tool=limit.tool, **numbers)


def compute_options(base: RegistryOptions, declarations: Declarations) -> RegistryOptions:
    """Return *base* with what `execution` and `journal` say."""
    options: dict[str, object] = {}
    if (execution := declarations.execution) is not None:
        options = attrs.asdict(execution.value)
        options["retries"] = options.pop("max_retries")
    if (journal := declarations.journal) is not None:
        options |= {name: getattr(journal.value, name) for name in _RUN_OPTIONS}
    given = {name: value for name, value in options.items() if value is not None}
    return RegistryOptions(**{name: getattr(base, name) for name in base.__struct_fields__} | given)


def _get_fixed(entry: JournalConfig) -> tuple[object, ...]:
    """Return what a journal has for good."""
    return entry.path, entry.durability, entry.errors, entry.secrets


def _is_same_file(first: str, second: str) -> bool:
    """Tell whether the paths or URLs of two journals name the same one."""
    return first == second or _find_real_path(first) == _find_real_path(second)


def _find_real_path(location: str) -> str:
    try:
        path = parse_store_path(location)
    except ToolUsageError:  # the URL of a store that a plugin brings
        return location
    return location if path is None else os.path.realpath(path)
