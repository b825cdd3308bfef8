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

from praval_tools.access.commands import operator_only
from praval_tools.config.plugins import PluginsConfig, PluginTable, plugins_config
from praval_tools.errors import PluginError, PluginLoadError, PluginWarning, ToolUsageError, outside
from praval_tools.execution.context import actor
from praval_tools.names import normalized
from praval_tools.plugins.activation import plug, unplug
from praval_tools.plugins.admission import Passed, passed, tools_in
from praval_tools.plugins.contents import Brought, Progress, brought_by, within
from praval_tools.plugins.discovery import Found, find
from praval_tools.plugins.hook_caller import CONTAINED, PREFIX, manager
from praval_tools.plugins.report import LEFT_OUT, PluginReport, failure
from praval_tools.plugins.report_store import Notes, trace
from praval_tools.plugins.selection import Choice
from praval_tools.plugins.settings import secrets_in
from praval_tools.plugins.staging import Packages, Staging, staged
from praval_tools.registry.default import get_tool_registry
from praval_tools.registry.registry import ToolRegistry

DEBUG: Final = "PRAVAL_TOOLS_DEBUG_PLUGINS"

Config = str | Path | Mapping[str, Any] | PluginsConfig | None


@define(eq=False, kw_only=True)
class _Loading:
    """One run through the installed plugins."""

    home: Any
    notes: Notes
    config: PluginsConfig
    settings: Mapping[str, Any]
    timeout: float | None
    packages: Packages
    debug: bool
    known: PluginManager = field(factory=manager)
    reports: list[PluginReport] = field(factory=list)


def load_plugins(
    registry: ToolRegistry | None = None, *, only: Iterable[str] | None = None, exclude: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None, config: Config = None, strict: bool = False,
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
    operator_only(actor(None, "load plugins"), "load plugins")
    _refuse_change(home)
    tables = config if isinstance(config, PluginsConfig) else plugins_config(config)
    with home._ledger._lock:
        if home._runtime.plugins is None:
            home._runtime.plugins = Notes(home)
    home._runtime.plugins.recall()
    installed = find(distributions())
    loading = _Loading(
        home=home, notes=home._runtime.plugins, config=tables, timeout=timeout, packages=Packages.of(installed),
        settings={normalized(name): one for name, one in (settings or {}).items()},
        debug=os.environ.get(DEBUG, "") not in ("", "0"),
    )  # fmt: skip
    chosen = Choice(only, exclude, tables)
    for report in chosen.unknown(installed):
        _kept(loading, report, ())
    for found in filter(chosen.asked, installed):
        reason = chosen.reason(found)
        if reason:
            with loading.notes.lock:
                unplug(home, found)
            _kept(loading, _left_out(found, reason), ())
        else:
            _load(loading, found, tables.of(found.distribution))
    for index, table in enumerate(tables.sources):
        _load_source(loading, index, table)
    return _finished(loading, strict)


def _refuse_change(home: ToolRegistry) -> None:
    """Refuse to load inside of a change that may yet be taken back: hooks would stay where tools go."""
    change = home._ledger._mine()
    if change is not None and not change.draft:
        raise ToolUsageError(
            f"A change() of registry {home.name!r} is open here; load plugins before or after it.", "load-in-change"
        )


def autoload(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Load the installed plugins into a registry, the default one, unless it has them; what the command line does."""
    home = registry if registry is not None else get_tool_registry()
    return load_plugins(home) if home._runtime.plugins is None else plugin_reports(home)


def plugin_reports(registry: ToolRegistry | None = None) -> tuple[PluginReport, ...]:
    """Return what became of each plugin of a registry, and each hook that failed since."""
    notes: Notes | None = (registry if registry is not None else get_tool_registry())._runtime.plugins
    return () if notes is None else (*notes.reports.values(), *notes.faults.values())


def _left_out(found: Found, reason: str) -> PluginReport:
    return PluginReport(
        distribution=found.distribution, version=found.version, entry_point=found.entry_point, stage=LEFT_OUT,
        reason=reason,
    )  # fmt: skip


def _load(loading: _Loading, found: Found, table: PluginTable) -> None:
    progress, started = Progress(), time.monotonic()
    tools: tuple[Any, ...] = ()
    try:
        if found.problem:
            raise PluginError(str(found), "find", found.problem)
        given = loading.settings.get(found.distribution)
        brought = within(loading.timeout, found, progress, lambda: brought_by(
            found, progress, loading.packages, loading.known, loading.config, given))  # fmt: skip
        progress.stage = "tools"
        let_in = passed(found, brought.tools, table)
        _remember(loading, found, progress)
        fresh = _loaded(found, brought, let_in, table)
        with loading.notes.lock:
            plug(loading.home, found, brought, let_in, table, loading.notes.fault)
        tools, report = let_in.tools, fresh
    except CONTAINED as error:  # isolation: this plugin is kept out, the others are loaded
        report = failure(found, progress.stage, error, progress.secrets)
        if report.stage == "timeout":  # the thread that was abandoned may come back to this one
            loading.known = manager()
    _kept(loading, report, tools)
    taken = (time.monotonic() - started) * 1000
    trace(f"{found}: {report.stage}, {len(tools)} tools, {taken:.1f} ms", on=loading.debug)


def _remember(loading: _Loading, found: Found, progress: Progress) -> None:
    loading.notes.secrets[found.distribution, found.entry_point] = frozenset(progress.secrets)


def _loaded(found: Found, brought: Brought, let_in: Passed, table: PluginTable) -> PluginReport:
    wishes = list(let_in.wishes)
    if not table.trust:
        for one in brought.agents:
            listed = ", ".join(one.profile.tools)
            wishes.append(f"agent {one.profile.name!r}" + (f", listing {listed}" if listed else ""))
        if f"{PREFIX}approve" in brought.hooks:
            wishes.append("answering approvals")
    return PluginReport(
        distribution=found.distribution, version=found.version, entry_point=found.entry_point,
        tools=tuple(one.name for one in let_in.tools), withheld=let_in.withheld, wishes=tuple(wishes),
        hooks=tuple(sorted(brought.hooks)),
    )  # fmt: skip


def _load_source(loading: _Loading, index: int, table: Mapping[str, Any]) -> None:
    """Load the tools of one `[[sources]]` table through the plugin that brings its kind."""
    kind, plugged = str(table["kind"]), loading.home._runtime.hooks.plugged
    bringer = next((one for one in plugged if kind in one.sources), None)
    found = Found(distribution="configuration", entry_point=f"sources[{index}]")
    progress, secrets = Progress(stage=f"{PREFIX}sources"), set(secrets_in(table))
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
        secrets |= loading.notes.secrets.get(place, frozenset())
        found = evolve(mine, entry_point=f"{mine.entry_point}, sources[{index}]")
        words = evolve(loading.config.of(found.distribution), allow=None, shared=())
        brought = within(loading.timeout, found, progress, lambda: _sourced(found, bringer.sources[kind], table))
        let_in = passed(found, brought.tools, words, "config")
        fresh = _loaded(found, brought, let_in, words)
        with loading.notes.lock:
            plug(loading.home, found, brought, let_in, words, loading.notes.fault)
        tools, report = let_in.tools, fresh
    except CONTAINED as error:  # isolation: the tools of this table are left out
        report = failure(found, progress.stage, error, secrets)
    _kept(loading, report, tools)


def _sourced(found: Found, loader: Any, table: Mapping[str, Any]) -> Brought:
    staging = Staging(found)
    try:
        with staged(found, staging):
            tools = [*tools_in(found, loader(copy.deepcopy(dict(table)))), *staging.taken()]
    finally:
        staging.seal()
    return Brought(tools=tuple(dict.fromkeys(tools)))


def _kept(loading: _Loading, report: PluginReport, tools: Iterable[Any]) -> None:
    with loading.notes.lock:
        loading.reports.append(loading.notes.keep(report, tools))


def _finished(loading: _Loading, strict: bool) -> tuple[PluginReport, ...]:
    reports = tuple(loading.reports)
    errors = [one.error for one in reports if one.error is not None]
    if errors and strict:
        group = PluginLoadError(f"{len(errors)} of {len(reports)} plugins failed", errors)
        group.reports = reports
        raise group
    for report in reports:
        if report.error is not None:
            warnings.warn(str(report.error), PluginWarning, stacklevel=outside())
        elif report.changed:
            since = f" since {report.upgraded_from}" if report.upgraded_from else ""
            text = f"{report.distribution} {report.version} changed {', '.join(report.changed)}{since}"
            warnings.warn(f"{text}; check who calls it.", PluginWarning, stacklevel=outside())
    return reports
