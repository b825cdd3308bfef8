"""Loads the installed plugins into a registry: each separately, completely or not at all, with a report."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from attrs import define, evolve, field

from praval_tools.access.commands import require_operator
from praval_tools.config.plugins import PluginsConfig, PluginTable, read_plugins_config
from praval_tools.errors import (
    PluginError,
    PluginLoadError,
    PluginWarning,
    ToolError,
    ToolUsageError,
    get_user_stacklevel,
)
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.hooks import get_contribution_key
from praval_tools.misuse import explain_wrong_calls
from praval_tools.names import describe_registry, format_count, normalize_distribution_name
from praval_tools.plugins.activation import activate_plugin, deactivate_plugin, deactivate_sources
from praval_tools.plugins.admission import Admission, admit_tools
from praval_tools.plugins.contents import (
    LoadProgress,
    PluginContents,
    collect_plugin_contents,
    collect_source_contents,
    run_with_timeout,
)
from praval_tools.plugins.discovery import InstalledPlugin, find_plugins, read_allow_list
from praval_tools.plugins.plugin_hooks import HOOK_PREFIX
from praval_tools.plugins.report import CONTAINED_ERRORS, LEFT_OUT, PluginReport, build_failure_report
from praval_tools.plugins.report_store import PluginReportStore
from praval_tools.plugins.selection import PluginSelection
from praval_tools.plugins.settings import find_secrets
from praval_tools.plugins.staging import PluginModules
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.source import SourceKind
from praval_tools.tools.tool import AnyTool

DEBUG_VARIABLE: Final = "PRAVAL_TOOLS_DEBUG_PLUGINS"

ConfigInput = str | Path | Mapping[str, Any] | PluginsConfig | None


@explain_wrong_calls
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
        only: Distributions, entry points, or `distribution:entry-point`; None: all. `PRAVAL_TOOLS_PLUGINS` narrows
            that further.
        exclude: Those, likewise, that are left out.
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
    registry = registry if registry is not None else get_tool_registry()
    require_operator(resolve_actor(None, "load plugins"), "load plugins")
    report_store = _get_report_store(registry)
    tables = config if isinstance(config, PluginsConfig) else read_plugins_config(config)
    report_store.read_journal()
    installed = find_plugins()
    session = _LoadSession(
        registry=registry,
        report_store=report_store,
        config=tables,
        timeout=timeout,
        modules=PluginModules.from_plugins(installed),
        settings={normalize_distribution_name(name): value for name, value in (settings or {}).items()},
        is_traced=os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"),
    )
    selection = PluginSelection(only, exclude, tables)
    for report in selection.report_unknown_names(installed):
        session.record(report)
    for plugin in filter(selection.is_requested, installed):
        if reason := selection.get_exclusion_reason(plugin):
            session.exclude_plugin(plugin, reason)
        else:
            session.load_plugin(plugin)
    for index, table in enumerate(tables.sources):
        session.load_source(index, table)
    session.drop_sources(len(tables.sources))
    return _warn_or_raise(tuple(session.reports), strict)


def _get_report_store(registry: ToolRegistry) -> PluginReportStore:
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


@explain_wrong_calls
def autoload(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Load the installed plugins into a registry, by default the default one, unless it has them."""
    registry = registry if registry is not None else get_tool_registry()
    return load_plugins(registry) if get_runtime(registry).plugins is None else plugin_reports(registry)


def load_at_first_lookup(registry: ToolRegistry) -> None:
    """
    Load the installed plugins into the default registry, unless it has them or may have none.

    No failure reaches whoever looks up a tool: it is warned of, and among the reports and the registry's problems.
    """
    if get_runtime(registry).plugins is not None or read_allow_list() == frozenset():
        return
    try:
        config = read_plugins_config()
        if config.autoload:
            load_plugins(registry, config=config)
    except PluginWarning:  # where warnings are errors; the look-up is not at fault, and the reports stand
        return
    except ToolError as error:
        configuration = InstalledPlugin(distribution="configuration")
        report = build_failure_report(configuration, "find", configuration.make_error("find", str(error)))
        _get_report_store(registry).reports[configuration.key] = report
        with suppress(PluginWarning):
            _warn_or_raise((report,), strict=False)


def autoload_unrecorded(registry: ToolRegistry) -> tuple[PluginReport, ...]:
    """Load the installed plugins into a registry for a look at it, unless it has them; the journal is not written."""
    if get_runtime(registry).plugins is None:
        _get_report_store(registry).is_recording = False
        return load_plugins(registry)
    return plugin_reports(registry)


@explain_wrong_calls
def plugin_reports(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Return what became of each plugin of a registry, and each hook that failed since."""
    store = get_runtime(registry if registry is not None else get_tool_registry()).plugins
    return () if store is None else (*store.reports.values(), *store.hook_failures.values())


@define(eq=False, kw_only=True)
class _LoadSession:
    """One call of `load_plugins`, and the reports that it has made so far."""

    registry: ToolRegistry
    report_store: PluginReportStore
    config: PluginsConfig
    settings: Mapping[str, object]
    timeout: float | None
    modules: PluginModules
    is_traced: bool
    reports: list[PluginReport] = field(factory=list)

    def exclude_plugin(self, plugin: InstalledPlugin, reason: str) -> None:
        """Take a plugin out of the registry that is not to be loaded."""
        with self.report_store.lock:
            deactivate_plugin(self.registry, plugin)
        self.record(_build_report(plugin, stage=LEFT_OUT, reason=reason))

    def load_plugin(self, plugin: InstalledPlugin) -> None:
        """Load one installed plugin."""
        progress, settings = LoadProgress(), self.settings.get(plugin.distribution)

        def collect() -> PluginContents:
            if plugin.problem:
                raise plugin.make_error("find", plugin.problem)
            return collect_plugin_contents(plugin, progress, self.modules, self.config, settings)

        self._load(plugin, collect, progress, self.config.get_table(plugin.distribution), "plugin")

    def load_source(self, index: int, table: Mapping[str, object]) -> None:
        """Load the tools of one `[[sources]]` table through the plugin that brings its kind."""
        kind, contributions = str(table["kind"]), get_runtime(self.registry).hooks.contributions
        progress = LoadProgress(stage=f"{HOOK_PREFIX}sources", secrets=set(find_secrets(table)))
        unknown = InstalledPlugin(distribution="configuration", entry_point=f"sources[{index}]")
        provider = next((other for other in contributions if kind in other.sources), None)
        if provider is None:
            known = ", ".join(sorted(name for other in contributions for name in other.sources)) or "none"
            problem = f"no loaded plugin brings kind {kind!r}; known are: {known}"
        else:
            key = get_contribution_key(provider)
            plugin = next((other for other in self.modules.plugins if other.key == key), None)
            if plugin is not None:
                progress.secrets |= self.report_store.secrets.get(key, frozenset())
                words = evolve(self.config.get_table(plugin.distribution), allow=None, shared=())
                plugin = evolve(plugin, entry_point=f"{plugin.entry_point}, {unknown.entry_point}")
                loader = provider.sources[kind]
                self._load(plugin, lambda: collect_source_contents(plugin, loader, table), progress, words, "config")
                return
            text = f"{provider.distribution}, which brings it, is not installed any more"
            problem = f"kind {kind!r} cannot be loaded: {text}"
        error = unknown.make_error("configuration", problem)
        self.record(build_failure_report(unknown, "configuration", error, progress.secrets))

    def drop_sources(self, kept: int) -> None:
        """Take out what was loaded for `[[sources]]` tables that are not there any more."""
        with self.report_store.lock:
            deactivate_sources(self.registry, kept)

    def _load(
        self,
        plugin: InstalledPlugin,
        collect: Callable[[], PluginContents],
        progress: LoadProgress,
        table: PluginTable,
        kind: SourceKind,
    ) -> None:
        """Collect what a plugin brings, admit and activate it; one that fails is reported, and harms no other."""
        started, tools = time.monotonic(), tuple[AnyTool, ...]()
        store = self.report_store
        try:
            contents = run_with_timeout(self.timeout, plugin, progress, collect)
            admission = admit_tools(plugin, contents.tools, table, kind)
            store.secrets[plugin.key] = frozenset(progress.secrets)
            loaded = _build_loaded_report(plugin, contents, admission, table)
            with store.lock:
                activate_plugin(self.registry, plugin, contents, admission, table, store.record_hook_failure)
            tools, report = admission.tools, loaded
        except CONTAINED_ERRORS as error:  # isolation: this plugin is kept out, the others are loaded
            report = build_failure_report(plugin, progress.stage, error, progress.secrets)
        self.record(report, tools)
        if self.is_traced:
            duration = (time.monotonic() - started) * 1000
            count = format_count(len(tools), "tool")
            sys.stderr.write(f"praval_tools: {plugin}: {report.stage}, {count}, {duration:.1f} ms\n")

    def record(self, report: PluginReport, tools: Iterable[AnyTool] = ()) -> None:
        """Store a report, and add it to those of this session."""
        with self.report_store.lock:
            self.reports.append(self.report_store.record_report(report, tuple(tools)))


def _build_loaded_report(
    plugin: InstalledPlugin, contents: PluginContents, admission: Admission, table: PluginTable
) -> PluginReport:
    requests = list(admission.requests)
    if not table.trust:
        for requested in contents.agents:
            listed = ", ".join(requested.profile.tools)
            requests.append(f"agent {requested.profile.name!r}" + (f", listing {listed}" if listed else ""))
        if f"{HOOK_PREFIX}approve" in contents.hooks:
            requests.append("answering approvals")
    return _build_report(
        plugin,
        tools=tuple(tool.name for tool in admission.tools),
        withheld=admission.withheld,
        wishes=tuple(requests),
        hooks=tuple(sorted(contents.hooks)),
    )


def _build_report(plugin: InstalledPlugin, **fields: Any) -> PluginReport:
    return PluginReport(
        distribution=plugin.distribution, version=plugin.version, entry_point=plugin.entry_point, **fields
    )


def _warn_or_raise(reports: tuple[PluginReport, ...], strict: bool) -> tuple[PluginReport, ...]:
    errors: list[PluginError] = [report.error for report in reports if report.error is not None]
    if errors and strict:
        group = PluginLoadError(f"{len(errors)} of {format_count(len(reports), 'plugin')} failed", errors)
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
