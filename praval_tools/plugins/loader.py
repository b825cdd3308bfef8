"""Loading plugins: each by itself, all or none of it, reported."""

from __future__ import annotations

import copy
import os
import time
import warnings
from collections.abc import Iterable, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field
from pluggy import PluginManager

from praval_tools.access.commands import require_operator
from praval_tools.config.plugins import PluginsConfig, PluginTable, read_plugins_config
from praval_tools.errors import PluginError, PluginLoadError, PluginWarning, ToolUsageError, get_user_stacklevel
from praval_tools.execution.context import resolve_actor
from praval_tools.names import normalized
from praval_tools.plugins.activation import activate_plugin, deactivate_plugin
from praval_tools.plugins.admission import Admission, admit_tools, extract_tools
from praval_tools.plugins.contents import LoadProgress, PluginContents, collect_plugin_contents, run_with_timeout
from praval_tools.plugins.discovery import InstalledPlugin, find_plugins
from praval_tools.plugins.hook_caller import CONTAINED_ERRORS, HOOK_PREFIX, create_plugin_manager
from praval_tools.plugins.report import LEFT_OUT, PluginReport, build_failure_report
from praval_tools.plugins.report_store import PluginReportStore, write_trace
from praval_tools.plugins.selection import PluginSelection
from praval_tools.plugins.settings import find_secrets
from praval_tools.plugins.staging import PluginModules, StagingRegistry, act_as_plugin
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry

DEBUG_VARIABLE: Final = "PRAVAL_TOOLS_DEBUG_PLUGINS"

ConfigInput = str | Path | Mapping[str, Any] | PluginsConfig | None


@define(eq=False, kw_only=True)
class _LoadSession:
    """One run through the installed plugins."""

    registry: Any
    report_store: PluginReportStore
    config: PluginsConfig
    settings: Mapping[str, Any]
    timeout: float | None
    packages: PluginModules
    debug: bool
    plugin_manager: PluginManager = field(factory=create_plugin_manager)
    reports: list[PluginReport] = field(factory=list)


def load_plugins(
    registry: ToolRegistry | None = None, *, only: Iterable[str] | None = None, exclude: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None, config: ConfigInput = None, strict: bool = False,
    timeout: float | None = None,
) -> tuple[PluginReport, ...]:  # fmt: skip
    """
    Load the installed plugins into a registry, by distribution, then entry point; one that fails harms no other.

    Loaded again, a plugin's tools take the place of those that it brought before, all at once; where that fails, or
    the plugin is gone, those stay. One that is left out now loses them.

    Args:
        registry: None: the default one.
        only: Distributions or entry points; None: all. `PRAVAL_TOOLS_PLUGINS` narrows that further.
        exclude: Distributions or entry points that are left out.
        settings: By distribution, a table or an instance of the plugin's class; instead of the configuration's.
        config: A file or its tables; None: `praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`, of the
            working directory.
        strict: Raise where any plugin failed.
        timeout: Seconds that each may take to be imported and to contribute; then it is abandoned in its thread.

    Returns:
        What became of each; a failure is warned of as well.

    Raises:
        ConfigError: The configuration of the plugins has problems; nothing was loaded.
        PluginLoadError: With `strict`, once the others are loaded.
        NotOwnerError: It is not the operator who loads.
        ToolUsageError: A `change()` of the registry is open here.
    """
    home = registry if registry is not None else get_tool_registry()
    require_operator(resolve_actor(None, "load plugins"), "load plugins")
    _check_no_open_change(home)
    tables = config if isinstance(config, PluginsConfig) else read_plugins_config(config)
    with home._access_store.lock():
        if home._runtime.plugins is None:
            home._runtime.plugins = PluginReportStore(home)
    home._runtime.plugins.read_journal()
    installed = find_plugins(distributions())
    loading = _LoadSession(
        registry=home, report_store=home._runtime.plugins, config=tables, timeout=timeout, packages=PluginModules.from_plugins(installed),
        settings={normalized(name): one for name, one in (settings or {}).items()},
        debug=os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"),
    )  # fmt: skip
    chosen = PluginSelection(only, exclude, tables)
    for report in chosen.report_unknown_names(installed):
        _record_report(loading, report, ())
    for found in filter(chosen.is_requested, installed):
        reason = chosen.get_exclusion_reason(found)
        if reason:
            with loading.report_store.lock:
                deactivate_plugin(home, found)
            _record_report(loading, _build_left_out_report(found, reason), ())
        else:
            _load_plugin(loading, found, tables.get_table(found.distribution))
    for index, table in enumerate(tables.sources):
        _load_source(loading, index, table)
    return _warn_or_raise(loading, strict)


def _check_no_open_change(home: ToolRegistry) -> None:
    """Refuse to load inside of a change that may yet be taken back: hooks would stay where tools go."""
    if home._access_store.has_own_change():
        raise ToolUsageError(
            f"A change() of registry {home.name!r} is open here; load plugins before or after it.", "load-in-change"
        )


def autoload(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Load the installed plugins into a registry, the default one, unless it has them; what the command line does."""
    home = registry if registry is not None else get_tool_registry()
    return load_plugins(home) if home._runtime.plugins is None else plugin_reports(home)


def plugin_reports(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Return what became of each plugin of a registry, and each hook that failed since."""
    notes: PluginReportStore | None = (registry if registry is not None else get_tool_registry())._runtime.plugins
    return () if notes is None else (*notes.reports.values(), *notes.hook_failures.values())


def _build_left_out_report(found: InstalledPlugin, reason: str) -> PluginReport:
    return PluginReport(
        distribution=found.distribution, version=found.version, entry_point=found.entry_point, stage=LEFT_OUT,
        reason=reason,
    )  # fmt: skip


def _load_plugin(loading: _LoadSession, found: InstalledPlugin, table: PluginTable) -> None:
    progress, started = LoadProgress(), time.monotonic()
    tools: tuple[Any, ...] = ()
    try:
        if found.problem:
            raise PluginError(str(found), "find", found.problem)
        given = loading.settings.get(found.distribution)
        brought = run_with_timeout(loading.timeout, found, progress, lambda: collect_plugin_contents(
            found, progress, loading.packages, loading.plugin_manager, loading.config, given))  # fmt: skip
        progress.stage = "tools"
        let_in = admit_tools(found, brought.tools, table)
        _store_secrets(loading, found, progress)
        fresh = _build_loaded_report(found, brought, let_in, table)
        with loading.report_store.lock:
            activate_plugin(loading.registry, found, brought, let_in, table, loading.report_store.record_hook_failure)
        tools, report = let_in.tools, fresh
    except CONTAINED_ERRORS as error:  # isolation: this plugin is kept out, the others are loaded
        report = build_failure_report(found, progress.stage, error, progress.secrets)
        if report.stage == "timeout":  # the thread that was abandoned may come back to this one
            loading.plugin_manager = create_plugin_manager()
    _record_report(loading, report, tools)
    taken = (time.monotonic() - started) * 1000
    write_trace(f"{found}: {report.stage}, {len(tools)} tools, {taken:.1f} ms", enabled=loading.debug)


def _store_secrets(loading: _LoadSession, found: InstalledPlugin, progress: LoadProgress) -> None:
    loading.report_store.secrets[found.distribution, found.entry_point] = frozenset(progress.secrets)


def _build_loaded_report(
    found: InstalledPlugin, brought: PluginContents, let_in: Admission, table: PluginTable
) -> PluginReport:
    wishes = list(let_in.wishes)
    if not table.trust:
        for one in brought.agents:
            listed = ", ".join(one.profile.tools)
            wishes.append(f"agent {one.profile.name!r}" + (f", listing {listed}" if listed else ""))
        if f"{HOOK_PREFIX}approve" in brought.hooks:
            wishes.append("answering approvals")
    return PluginReport(
        distribution=found.distribution, version=found.version, entry_point=found.entry_point,
        tools=tuple(one.name for one in let_in.tools), withheld=let_in.withheld, wishes=tuple(wishes),
        hooks=tuple(sorted(brought.hooks)),
    )  # fmt: skip


def _load_source(loading: _LoadSession, index: int, table: Mapping[str, Any]) -> None:
    """Load the tools of one `[[sources]]` table through the plugin that brings its kind."""
    kind, plugged = str(table["kind"]), loading.registry._runtime.hooks.contributions
    bringer = next((one for one in plugged if kind in one.sources), None)
    found = InstalledPlugin(distribution="configuration", entry_point=f"sources[{index}]")
    progress, secrets = LoadProgress(stage=f"{HOOK_PREFIX}sources"), set(find_secrets(table))
    tools: tuple[Any, ...] = ()
    try:
        if bringer is None:
            known = ", ".join(sorted(name for one in plugged for name in one.sources)) or "none"
            raise PluginError(str(found), "configuration", f"no loaded plugin brings kind {kind!r}; known are: {known}")
        place = bringer.distribution, bringer.entry_point
        mine = next((one for one in loading.packages.plugins if (one.distribution, one.entry_point) == place), None)
        if mine is None:
            text = f"{bringer.distribution}, which brings it, is not installed any more"
            raise PluginError(str(found), "configuration", f"kind {kind!r} cannot be loaded: {text}")
        secrets |= loading.report_store.secrets.get(place, frozenset())
        found = evolve(mine, entry_point=f"{mine.entry_point}, sources[{index}]")
        words = evolve(loading.config.get_table(found.distribution), allow=None, shared=())
        brought = run_with_timeout(
            loading.timeout, found, progress, lambda: _collect_from_source(found, bringer.sources[kind], table)
        )
        let_in = admit_tools(found, brought.tools, words, "config")
        fresh = _build_loaded_report(found, brought, let_in, words)
        with loading.report_store.lock:
            activate_plugin(loading.registry, found, brought, let_in, words, loading.report_store.record_hook_failure)
        tools, report = let_in.tools, fresh
    except CONTAINED_ERRORS as error:  # isolation: the tools of this table are left out
        report = build_failure_report(found, progress.stage, error, secrets)
    _record_report(loading, report, tools)


def _collect_from_source(found: InstalledPlugin, loader: Any, table: Mapping[str, Any]) -> PluginContents:
    staging = StagingRegistry(found)
    try:
        with act_as_plugin(found, staging):
            tools = [*extract_tools(found, loader(copy.deepcopy(dict(table)))), *staging.list_declared_tools()]
    finally:
        staging.seal()
    return PluginContents(tools=tuple(dict.fromkeys(tools)))


def _record_report(loading: _LoadSession, report: PluginReport, tools: Iterable[Any]) -> None:
    with loading.report_store.lock:
        loading.reports.append(loading.report_store.record_report(report, tools))


def _warn_or_raise(loading: _LoadSession, strict: bool) -> tuple[PluginReport, ...]:
    reports = tuple(loading.reports)
    errors = [one.error for one in reports if one.error is not None]
    if errors and strict:
        group = PluginLoadError(f"{len(errors)} of {len(reports)} plugins failed", errors)
        group.reports = reports
        raise group
    for report in reports:
        if report.error is not None:
            warnings.warn(str(report.error), PluginWarning, stacklevel=get_user_stacklevel())
        elif report.changed:
            since = f" since {report.upgraded_from}" if report.upgraded_from else ""
            text = f"{report.distribution} {report.version} changed {', '.join(report.changed)}{since}"
            warnings.warn(f"{text}; check who calls it.", PluginWarning, stacklevel=get_user_stacklevel())
    return reports
