"""What a configuration sets of a registry besides tools, agents and access: options, limits, statistics, approvals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import attrs
from attrs import define, field, frozen

from praval_tools.config.system import JournalConfig, StatsConfig
from praval_tools.config_loading.declarations import Declarations, ProblemCollector
from praval_tools.config_loading.functions import FunctionImportError, FunctionReference
from praval_tools.errors import MissingExtraError, ToolUsageError
from praval_tools.execution.approvals import UNANSWERED, ApprovalHandler
from praval_tools.execution.limits import Limit, LimitKey
from praval_tools.execution.runtime import RegistryOptions
from praval_tools.forks import ForkSafeLock
from praval_tools.journal.storage.open_store import parse_store_path
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.telemetry import TelemetryOptions, TracerFactory, make_telemetry

_RUN_OPTIONS = ("warn_run_events", "max_run_events")


@frozen
class DeclaredSettings:
    """
    The settings that one configuration, or several, declare.

    Args:
        options: The options of the registry, by name.
        limits: The limits, by whose calls of what they count.
        handler: The approval handler; None: none is declared.
        telemetry: The telemetry; None: none is declared.
        stats: The statistics; None: nothing is declared of them.
    """

    options: Mapping[str, object] = field(factory=dict)
    limits: Mapping[LimitKey, Limit] = field(factory=dict)
    handler: ApprovalHandler | None = None
    telemetry: TracerFactory | None = None
    stats: StatsConfig | None = None


def _join_settings(parts: Iterable[DeclaredSettings]) -> DeclaredSettings:
    """Return what several configurations declare together: the narrower limit, and of all else what comes last."""
    joined = DeclaredSettings()
    for part in parts:
        limits = {key: _narrow(limit, joined.limits.get(key)) for key, limit in part.limits.items()}
        joined = DeclaredSettings(
            {**joined.options, **part.options},
            {**joined.limits, **limits},
            joined.handler if part.handler is None else part.handler,
            joined.telemetry if part.telemetry is None else part.telemetry,
            joined.stats if part.stats is None else part.stats,
        )
    return joined


@define
class RegistrySettings:
    """
    The settings of one registry: what configurations made of them, and what they were without.

    Args:
        registry: The registry.
        base_options: Its options without a configuration.
        declared: What each configuration declares, in the order in which they were loaded first.
        in_force: What they declare together, as it was put into force last.
        base_handler: The approval handler that one of a configuration took the place of.
        base_telemetry: The telemetry, likewise.
        lock: Held while a configuration that names plugins is put into force: what all of them name together counts.
    """

    registry: ToolRegistry
    base_options: RegistryOptions
    declared: dict[object, DeclaredSettings] = field(factory=dict)
    in_force: DeclaredSettings = DeclaredSettings()
    base_handler: ApprovalHandler | None = None
    base_telemetry: TracerFactory | None = None
    lock: ForkSafeLock = field(factory=ForkSafeLock)

    @classmethod
    def of(cls, registry: ToolRegistry) -> RegistrySettings:
        """Return the settings of *registry*, which all its configurations share."""
        runtime = get_runtime(registry)
        with runtime.access_store.lock():
            if runtime.settings is None:
                runtime.settings = cls(registry, runtime.options)
        settings: RegistrySettings = runtime.settings
        return settings

    def prepare(
        self, source: object, declarations: Declarations, before: Declarations, problems: ProblemCollector, *,
        has_journal: bool,
    ) -> SettingsChange:  # fmt: skip
        """
        Return the change to what *declarations* say, with all that is wrong with it among *problems*.

        Args:
            source: The configuration.
            declarations: What it declares.
            before: What it declared until now.
            problems: Receives what is wrong.
            has_journal: Whether the journal of the configuration is to be that of the registry; not for a mere check.
        """
        handler = self._find_handler(declarations, problems)
        if has_journal:
            self._check_journal(declarations, before, problems)
        self._check_stats_file(declarations, problems)
        telemetry = self._make_telemetry(declarations, problems)
        entries = [] if problems.all else [entry.value for entry in declarations.limits]
        limits = {(entry.agent, entry.tool): Limit(**attrs.asdict(entry)) for entry in entries}
        options = {} if problems.all else _read_options(declarations)
        stats = None if declarations.stats is None else declarations.stats.value
        return SettingsChange(self, source, DeclaredSettings(options, limits, handler, telemetry, stats))

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
        if entry is None:
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

    Until then nothing of it counts but limits that are narrower, and nobody is asked for approvals whose handler
    changes; then all of it, before anybody hears of a new tool.

    Args:
        settings: The settings.
        source: The configuration that is loaded.
        declared: What it declares now.
    """

    def __init__(self, settings: RegistrySettings, source: object, declared: DeclaredSettings) -> None:
        self._settings, self._source, self._declared = settings, source, declared
        self._registry, self._runtime = settings.registry, get_runtime(settings.registry)
        self._undo: Callable[[], None] | None = None

    def enter(self) -> None:
        """Set what narrows, inside the change of the state."""
        settings, approvals, limits = self._settings, self._runtime.approvals, self._runtime.limits
        declared, handler = settings.declared.get(self._source), approvals.handler
        present = self._get_limits()
        settings.declared[self._source] = self._declared
        joined, in_force = _join_settings(settings.declared.values()), settings.in_force
        changed = {key: limit for key, limit in joined.limits.items() if in_force.limits.get(key) != limit}
        narrowed = {key: _narrow(limit, present.get(key)) for key, limit in changed.items()}

        def undo() -> None:
            """Set back what nobody else has set meanwhile."""
            if declared is None:
                settings.declared.pop(self._source, None)
            else:
                settings.declared[self._source] = declared
            if approvals.handler is _ask_nobody:
                approvals.handler = handler
            own = [key for key, limit in self._get_limits().items() if narrowed.get(key) == limit]
            limits.replace(own, [present[key] for key in own if key in present])

        self._undo = undo
        limits.replace((), narrowed.values())
        is_of_program = in_force.handler is None or handler is not in_force.handler
        if joined.handler is in_force.handler or (in_force.handler is not None and is_of_program):
            return  # nothing changes, or the program has set one since
        if is_of_program:
            settings.base_handler = handler
        approvals.handler = _ask_nobody

    def _get_limits(self) -> dict[LimitKey, Limit]:
        return {(limit.agent, limit.tool): limit for limit in self._runtime.limits.all()}

    def undo(self) -> None:
        """Set everything as it was before `enter`, if that was called."""
        if self._undo is not None:
            self._undo()

    def finish(self) -> None:
        """Set all the rest, as the new state begins to count."""
        self._undo = None
        settings, registry, approvals = self._settings, self._registry, self._runtime.approvals
        before, now = settings.in_force, _join_settings(settings.declared.values())
        present = registry.limits.all()
        gone = [key for key, limit in before.limits.items() if key not in now.limits and limit in present]
        changed = [limit for key, limit in now.limits.items() if before.limits.get(key) != limit]
        self._runtime.limits.replace(gone, changed)
        options = _change_options(settings.base_options, now.options)
        self._runtime.options, self._runtime.exclusive_gate.timeout = options, options.timeout
        if approvals.handler is _ask_nobody:
            approvals.handler = settings.base_handler if now.handler is None else now.handler
        self._runtime.access_store.invalidate_snapshots()  # fast paths know options and limits
        if now.telemetry is not before.telemetry:
            if before.telemetry is None and registry.telemetry is not now.telemetry:  # it may be called again
                settings.base_telemetry = registry.telemetry
            registry.telemetry = settings.base_telemetry if now.telemetry is None else now.telemetry
        settings.in_force = now
        if now.stats is not None:
            stats, path = registry.stats, now.stats.storage_path
            stats.track_usage = now.stats.track_usage
            if path is not None and stats.storage_path != Path(path):
                stats.storage_path = path


def _ask_nobody(request: object) -> object:
    """Let a request wait: who is to be asked changes at this moment."""
    return UNANSWERED


def _narrow(limit: Limit, present: Limit | None) -> Limit:
    """Return *limit* with each number no greater than that of the present one."""
    numbers = {
        name: min(filter(None, (getattr(limit, name), getattr(present, name, None))), default=None)
        for name in ("per_minute", "concurrent", "per_run")
    }
    return Limit(agent=limit.agent, tool=limit.tool, **numbers)


def _change_options(base: RegistryOptions, changed: Mapping[str, object]) -> RegistryOptions:
    return RegistryOptions(**{name: getattr(base, name) for name in base.__struct_fields__} | dict(changed))


def _read_options(declarations: Declarations) -> dict[str, object]:
    """Return the options that `execution` and `journal` set."""
    options: dict[str, object] = {}
    if (execution := declarations.execution) is not None:
        options = attrs.asdict(execution.value)
        options["retries"] = options.pop("max_retries")
    if (journal := declarations.journal) is not None:
        options |= {name: getattr(journal.value, name) for name in _RUN_OPTIONS}
    return {name: value for name, value in options.items() if value is not None}


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
