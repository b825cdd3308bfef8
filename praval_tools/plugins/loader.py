"""Loads the installed plugins into a registry: each separately, completely or not at all, with a report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from praval_tools.access.commands import require_operator
from praval_tools.config.plugins import PluginsConfig, read_plugins_config
from praval_tools.errors import PluginError, PluginLoadError, PluginWarning, ToolError, get_user_stacklevel
from praval_tools.execution.context import resolve_actor
from praval_tools.misuse import explain_wrong_calls
from praval_tools.names import format_count
from praval_tools.plugins.discovery import InstalledPlugin, read_allow_list
from praval_tools.plugins.plugin_load import PluginLoad
from praval_tools.plugins.report import PluginReport, build_failure_report
from praval_tools.plugins.report_store import get_report_store
from praval_tools.plugins.selection import PluginSelection
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry, get_runtime

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
    tables = config if isinstance(config, PluginsConfig) else read_plugins_config(config)
    selection = PluginSelection(only, exclude, tables)
    load = PluginLoad(registry, tables, selection, settings=settings, timeout=timeout)
    store = get_runtime(registry).access_store
    with load.applying(), registry.as_operator(), store.change(is_whole=True, when_published=load.set_in_force):
        load.activate()
        load.record()
    return warn_or_raise(load.reports, strict)


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
        get_report_store(registry).reports[configuration.key] = report
        with suppress(PluginWarning):
            warn_or_raise((report,), strict=False)


def autoload_unrecorded(registry: ToolRegistry) -> tuple[PluginReport, ...]:
    """Load the installed plugins into a registry for a look at it, unless it has them; the journal is not written."""
    if get_runtime(registry).plugins is None:
        get_report_store(registry).is_recording = False
        return load_plugins(registry)
    return plugin_reports(registry)


@explain_wrong_calls
def plugin_reports(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Return what became of each plugin of a registry, and each hook that failed since."""
    store = get_runtime(registry if registry is not None else get_tool_registry()).plugins
    return () if store is None else (*store.reports.values(), *store.hook_failures.values())


def warn_or_raise(reports: tuple[PluginReport, ...], strict: bool) -> tuple[PluginReport, ...]:
    """Warn of plugins that failed or changed, or raise `PluginLoadError` where one failed; return the reports."""
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
