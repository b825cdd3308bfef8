"""Loads plugins in two steps: their code runs first, and what they bring is put into force in one change."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from functools import partial
from typing import Any, Final

from attrs import define, evolve, field

from praval_tools.access.events import RecordsAdded
from praval_tools.config.plugins import PluginsConfig, PluginTable
from praval_tools.execution.approvals import ApprovalHandler
from praval_tools.execution.hooks import CallHooks, PluginContribution
from praval_tools.names import format_count, normalize_distribution_name
from praval_tools.plugins.activation import Activation, StagedPlugin, adopt_agents
from praval_tools.plugins.admission import Admission, admit_tools
from praval_tools.plugins.contents import (
    LoadProgress,
    PluginContents,
    collect_plugin_contents,
    collect_source_contents,
    run_with_timeout,
)
from praval_tools.plugins.discovery import InstalledPlugin, PluginKey, find_plugins
from praval_tools.plugins.plugin_hooks import HOOK_PREFIX
from praval_tools.plugins.report import CONTAINED_ERRORS, LEFT_OUT, PluginReport, build_failure_report
from praval_tools.plugins.report_store import PluginReportStore, get_report_store
from praval_tools.plugins.selection import PluginSelection
from praval_tools.plugins.settings import find_secrets
from praval_tools.plugins.staging import PluginModules, is_being_imported
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.source import SourceKind

DEBUG_VARIABLE: Final = "PRAVAL_TOOLS_DEBUG_PLUGINS"
_SOURCE_MARK: Final = ", sources["
"""What stands in the entry point of what a plugin loaded for a table, before the table's number."""


@define(eq=False, kw_only=True)
class _Step:
    """
    One plugin, or one table of `[[sources]]`, of a load.

    Args:
        plugin: The plugin.
        report: What became of it so far.
        progress: Its stage, and what its reports must not repeat.
        staged: What it brings; None: it failed, or is left out.
        source: The table; None: it is the plugin itself.
        provider: What identifies the plugin that loads the table.
        previous: What it brought before, as `activate` finds it; None: nothing.
        duration: How long its code took, in milliseconds.
    """

    plugin: InstalledPlugin
    report: PluginReport
    progress: LoadProgress = field(factory=LoadProgress)
    staged: StagedPlugin | None = None
    source: Mapping[str, object] | None = None
    provider: PluginKey | None = None
    previous: PluginContribution | None = None
    duration: float = 0.0

    def replaces(self, contribution: PluginContribution) -> bool:
        """Tell whether *contribution* is what it brought before: a table is known by what it says, not by its place."""
        if self.source is None:
            return contribution.source is None and self.plugin.key == _get_plugin_key(contribution)
        is_same_plugin = self.staged is None or self.plugin.distribution == contribution.distribution
        return is_same_plugin and self.source == contribution.source

    def fail(self, error: BaseException) -> None:
        """Report that it failed: what it brought before stays."""
        self.staged = None
        self.report = build_failure_report(self.plugin, self.progress.stage, error, self.progress.secrets)


class _PluginFailed(Exception):
    """Undoes what was put in beside a plugin that failed, to be put in again without it."""


class PluginLoad:
    """
    The plugins that one call loads: staged as this is made, then activated inside a change of the registry.

    Args:
        registry: The registry.
        config: The operator's tables.
        selection: Which plugins are loaded.
        settings: By distribution, what the program says of its settings.
        timeout: Seconds that each may take.
        forgotten: Distributions that nothing names any more: their older reports go.

    Raises:
        ToolUsageError: A `change()` of the registry is open here.
    """

    def __init__(
        self, registry: ToolRegistry, config: PluginsConfig, selection: PluginSelection, *,
        settings: Mapping[str, object] | None = None, timeout: float | None = None,
        forgotten: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.store: PluginReportStore = get_report_store(registry)
        self._registry, self._config, self._selection = registry, config, selection
        self._settings = {normalize_distribution_name(name): value for name, value in (settings or {}).items()}
        self._timeout, self._runtime = timeout, get_runtime(registry)
        self._hooks, self._forgotten = self._runtime.hooks, forgotten
        self._steps: list[_Step] = []
        self._is_in_force = False
        self.store.read_journal()
        installed = find_plugins()
        self._modules = PluginModules.from_plugins(installed)
        self._left_out: set[PluginKey] = set()
        self._stage(installed)

    # ── the code of the plugins ──────────────────────────────────────────────────────────────────

    def _stage(self, installed: Collection[InstalledPlugin]) -> None:
        gone = self._list_gone_plugins(installed)
        for report in self._selection.report_unknown_names([*installed, *gone]):
            plugin = InstalledPlugin(distribution=report.distribution, entry_point=report.entry_point)
            self._steps.append(_Step(plugin=plugin, report=report))
        for plugin in filter(self._selection.is_requested, installed):
            if reason := self._selection.get_exclusion_reason(plugin):
                self._leave_out(plugin, reason)
            elif is_being_imported(plugin):  # what it brought before stays, until the load that imports it is done
                text = "its module is being imported by another load, which brings it"
                self._steps.append(_Step(plugin=plugin, report=_build_report(plugin, stage=LEFT_OUT, reason=text)))
            else:
                self._stage_plugin(plugin)
        for plugin in gone:
            self._leave_out(plugin, self._selection.get_exclusion_reason(plugin))
        for index, table in enumerate(self._config.sources):
            self._stage_source(index, table)

    def _list_gone_plugins(self, installed: Iterable[InstalledPlugin]) -> list[InstalledPlugin]:
        """Return the plugins in force that are not installed any more, and are to be left out."""
        known = {plugin.key for plugin in installed}
        keys = {_get_plugin_key(one) for one in self._runtime.hooks.contributions} - known
        plugins = [InstalledPlugin(distribution=name, entry_point=entry) for name, entry in sorted(keys)]
        select = self._selection
        return [one for one in plugins if select.is_requested(one) and select.get_exclusion_reason(one)]

    def _leave_out(self, plugin: InstalledPlugin, reason: str) -> None:
        self._left_out.add(plugin.key)
        self._steps.append(_Step(plugin=plugin, report=_build_report(plugin, stage=LEFT_OUT, reason=reason)))

    def _stage_plugin(self, plugin: InstalledPlugin) -> None:
        step = _Step(plugin=plugin, report=_build_report(plugin))
        settings = self._settings.get(plugin.distribution)

        def collect() -> PluginContents:
            if plugin.problem:
                raise plugin.make_error("find", plugin.problem)
            return collect_plugin_contents(plugin, step.progress, self._modules, self._config, settings)

        self._collect(step, collect, self._config.get_table(plugin.distribution), "plugin")

    def _stage_source(self, index: int, table: Mapping[str, object]) -> None:
        """Stage the tools of one `[[sources]]` table through the plugin that brings its kind."""
        kind, loaders = str(table["kind"]), self._find_loaders()
        progress = LoadProgress(stage=f"{HOOK_PREFIX}sources", secrets=set(find_secrets(table)))
        unknown = InstalledPlugin(distribution="configuration", entry_point=f"sources[{index}]")
        step = _Step(plugin=unknown, report=_build_report(unknown), progress=progress, source=table)
        if kind not in loaders:
            known = ", ".join(sorted(loaders)) or "none"
            problem = f"no loaded plugin brings kind {kind!r}; known are: {known}"
        else:
            step.provider, loader = loaders[kind]
            plugin = next((other for other in self._modules.plugins if other.key == step.provider), None)
            if plugin is not None:
                progress.secrets |= self.store.secrets.get(plugin.key, frozenset())
                words = evolve(self._config.get_table(plugin.distribution), allow=None, shared=())
                step.plugin = named = evolve(plugin, entry_point=f"{plugin.entry_point}, {unknown.entry_point}")
                self._collect(step, lambda: collect_source_contents(named, loader, table), words, "config")
                return
            text = f"{step.provider[0]}, which brings it, is not installed any more"
            problem = f"kind {kind!r} cannot be loaded: {text}"
        progress.stage = "configuration"
        step.fail(unknown.make_error("configuration", problem))
        self._steps.append(step)

    def _find_loaders(self) -> dict[str, tuple[PluginKey, Callable[..., object]]]:
        """Return what loads each kind of table: of plugins in force that stay as they are, then of staged ones."""
        staged = [step.staged for step in self._steps if step.staged is not None and step.source is None]
        replaced = {one.plugin.key for one in staged} | self._left_out
        brought = [(_get_plugin_key(one), one.sources) for one in self._runtime.hooks.contributions]
        brought = [(key, sources) for key, sources in brought if key not in replaced]
        brought += [(one.plugin.key, one.contents.extensions.get("sources", {})) for one in staged]
        loaders: dict[str, tuple[PluginKey, Callable[..., object]]] = {}
        for key, sources in brought:
            for kind, loader in sources.items():
                loaders.setdefault(kind, (key, loader))
        return loaders

    def _collect(
        self, step: _Step, collect: Callable[[], PluginContents], table: PluginTable, kind: SourceKind
    ) -> None:
        """Collect and admit what a plugin brings; one that fails is reported, and harms no other."""
        started, plugin, store = time.monotonic(), step.plugin, self.store
        self._steps.append(step)
        try:
            contents = run_with_timeout(self._timeout, plugin, step.progress, collect)
            admission = admit_tools(plugin, contents.tools, table, kind)
            # with those of before: hooks in force report their failures until this takes their place
            store.secrets[plugin.key] = store.secrets.get(plugin.key, frozenset()) | step.progress.secrets
            step.report = _build_loaded_report(plugin, contents, admission, table)
            step.staged = StagedPlugin(
                plugin=plugin, contents=contents, admission=admission, table=table, source=step.source
            )
        except CONTAINED_ERRORS as error:  # isolation: this plugin is kept out, the others are loaded
            step.fail(error)
        step.duration = (time.monotonic() - started) * 1000

    # ── the change ───────────────────────────────────────────────────────────────────────────────

    @plain_manager
    def applying(self) -> Iterator[None]:
        """Let no other thread activate plugins meanwhile; what is activated inside is complete at the end."""
        with self.store.lock:
            approver = self._runtime.approvals.fallback_handler
            try:
                yield
            finally:
                try:
                    self._complete_or_restore(approver)
                except BaseException:  # an interrupt: once more, since it may be half done
                    self._complete_or_restore(approver)
                    raise

    def activate(self, files: Set[str] = frozenset()) -> None:
        """
        Take out what is not there any more, then put in what was staged: inside `registry.change()`.

        Args:
            files: What stands for the files that are loaded: their grants of tools that leave end.
        """
        activation = Activation(self._registry, files, self.store.record_hook_failure)
        contributions = activation.hooks.contributions
        left_out = [one for one in contributions if _get_plugin_key(one) in self._left_out]
        others = [one for one in contributions if one not in left_out]
        for step in self._steps:
            step.previous = next(filter(step.replaces, others), None)
            if step.previous is not None:
                others.remove(step.previous)
        unnamed_tables = [one for one in others if one.source is not None]  # other plugins may be loaded, and stay
        for contribution in (*left_out, *unnamed_tables):
            activation.take_out(contribution)
        failed, hooks, is_complete = set[PluginKey](), activation.hooks, False
        while not is_complete:
            activation.hooks = hooks
            with suppress(_PluginFailed), self._registry.change():
                self._put_in_all(activation, failed)
                is_complete = True
        self._hooks = activation.hooks
        self._narrow_approvals(self._runtime.hooks, activation.hooks)

    def _put_in_all(self, activation: Activation, failed: set[PluginKey]) -> None:
        """
        Put in what is staged, all that goes taken out first: a name may go from one plugin to another.

        Raises:
            _PluginFailed: Some failed, and are not staged any more: what they brought before stays, and has its names.
        """
        steps = [(step, step.staged) for step in self._steps if step.staged is not None]
        for step, staged in steps:
            if step.previous is not None:
                activation.make_room(staged, step.previous)
        is_complete = True
        for step, staged in steps:
            try:
                if step.provider in failed:
                    raise step.plugin.make_error("configuration", "the plugin that brings its kind is not loaded")
                activation.put_in(staged, step.previous)
            except CONTAINED_ERRORS as error:  # isolation: as above
                is_complete = False
                failed.add(step.plugin.key)
                step.fail(error)
        if not is_complete:
            raise _PluginFailed

    def _narrow_approvals(self, before: CallHooks, after: CallHooks) -> None:
        """Have calls approved only by plugins of before and after together, until the hooks of after count."""
        if before.approve is not after.approve:
            both = before.approve and after.approve
            self._runtime.approvals.fallback_handler = partial(before.ask_both, after) if both else None

    def record(self) -> None:
        """Have the journal get what became of each, together with the change."""
        records = list[object]()
        for step in self._steps:
            tools = () if step.staged is None else step.staged.admission.tools
            step.report, event = self.store.build_event(step.report, tools)
            records += () if event is None else (event,)
        if records:
            added = RecordsAdded(records=tuple(records))
            self._runtime.access_store.commit(lambda _: [added])

    def set_in_force(self) -> None:
        """Take note that the change counts."""
        self._is_in_force = True

    def _complete_or_restore(self, approver: ApprovalHandler | None) -> None:
        """Complete what is in force by now; else restore *approver*, the handler of approvals from before."""
        if self._is_in_force:
            self._complete()
        else:
            self._runtime.approvals.fallback_handler = approver

    def _complete(self) -> None:
        """Have calls use the hooks of what is in force now, and keep the reports."""
        self._runtime.install_hooks(self._hooks)
        for step in self._steps:
            if step.staged is not None:
                try:
                    adopt_agents(self._registry, step.staged)
                except CONTAINED_ERRORS as error:  # isolation: a class of the plugin
                    step.fail(error)
            if step.source is not None or step.plugin.value:
                self._trace(step)
        self.store.config = self._config
        self.store.keep_reports(self.reports, is_of_source, self._forgotten)

    def _trace(self, step: _Step) -> None:
        if os.environ.get(DEBUG_VARIABLE, "") in ("", "0") or step.report.stage == LEFT_OUT:
            return
        count = format_count(len(step.report.tools), "tool")
        sys.stderr.write(f"praval_tools: {step.plugin}: {step.report.stage}, {count}, {step.duration:.1f} ms\n")

    @property
    def reports(self) -> tuple[PluginReport, ...]:
        """What became of each."""
        return tuple(step.report for step in self._steps)


def _get_plugin_key(contribution: PluginContribution) -> PluginKey:
    """Return what identifies the plugin that brought something, for a table too."""
    return contribution.distribution, contribution.entry_point.split(_SOURCE_MARK)[0]


def is_of_source(key: PluginKey) -> bool:
    """Tell whether a report is about a `[[sources]]` table."""
    return _SOURCE_MARK in key[1] or (key[0] == "configuration" and key[1].startswith("sources["))


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
