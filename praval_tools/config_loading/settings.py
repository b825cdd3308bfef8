"""What a configuration sets of a registry besides tools, agents and access: options, limits, statistics, approvals."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
from attrs import define, field

from praval_tools.config.system import JournalConfig
from praval_tools.config_loading.declarations import Declarations, ProblemCollector
from praval_tools.config_loading.functions import FunctionImportError, FunctionReference
from praval_tools.execution.limits import Limit
from praval_tools.execution.runtime import RegistryOptions
from praval_tools.registry.registry import ToolRegistry, get_runtime

_RUN_OPTIONS = ("warn_run_events", "max_run_events")


@define
class RegistrySettings:
    """
    The settings of one registry.

    Args:
        registry: The registry.
        base_options: Its options without a configuration.
        has_journal: Whether the journal of the configuration is to be that of the registry; not for a mere check.
        limits: The limits that were set last.
    """

    registry: ToolRegistry
    base_options: RegistryOptions
    has_journal: bool = True
    limits: dict[tuple[str | None, str | None], Limit] = field(factory=dict)

    def find_handler(self, declarations: Declarations, problems: ProblemCollector) -> object:
        """Return the approval handler, imported; None where there is none, with what is wrong among *problems*."""
        entry = declarations.approvals
        module, _, function = ("", "", "") if entry is None else entry.value.handler.partition(":")
        if entry is None or not (module and function):
            return None
        try:
            return FunctionReference(module, function).find()
        except FunctionImportError as error:
            problems.report(entry, str(error), "handler")
            return None

    def check_journal(self, declarations: Declarations, before: Declarations, problems: ProblemCollector) -> None:
        """Report a journal that is not that of the registry, which it has from its beginning."""
        entry, journal = declarations.journal, self.registry.journal
        if entry is None or not self.has_journal:
            return
        is_changed = before.journal is not None and _get_fixed(before.journal.value) != _get_fixed(entry.value)
        if journal is None or is_changed or not _is_same_file(journal.name, entry.value.path):
            text = "a registry has its journal from its beginning: make it by ToolRegistry.from_config, or restart"
            problems.report(entry, text, "path")

    def apply(self, declarations: Declarations) -> None:
        """Set everything."""
        self._set_options(compute_options(self.base_options, declarations))
        self._set_limits(declarations)
        if (entry := declarations.stats) is not None:
            stats, path = self.registry.stats, entry.value.storage_path
            stats.track_usage = entry.value.track_usage
            if path is not None and stats.storage_path != Path(path):
                stats.storage_path = path

    def _set_options(self, options: RegistryOptions) -> None:
        runtime = get_runtime(self.registry)
        if options != runtime.options:
            runtime.options, runtime.exclusive_gate.timeout = options, options.timeout
            runtime.access_store.invalidate_snapshots()  # fast paths look again

    def _set_limits(self, declarations: Declarations) -> None:
        entries = [entry.value for entry in declarations.limits]
        new = {(entry.agent, entry.tool): Limit(**attrs.asdict(entry)) for entry in entries}
        limits = self.registry.limits
        present = limits.all()
        for key, limit in self.limits.items():
            if key not in new and limit in present:
                limits.set(agent=key[0], tool=key[1])
        for key, limit in new.items():
            if self.limits.get(key) != limit:
                limits.set(
                    agent=limit.agent, tool=limit.tool, per_minute=limit.per_minute, concurrent=limit.concurrent,
                    per_run=limit.per_run,
                )  # fmt: skip
        self.limits = new


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
    return first == second or os.path.realpath(first) == os.path.realpath(second)
