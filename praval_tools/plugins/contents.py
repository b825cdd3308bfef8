"""One plugin, imported and asked for all that it brings; nothing of it counts yet."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from attrs import define, field, frozen
from pluggy import PluginManager

from praval_tools.config.plugins import PluginsConfig
from praval_tools.errors import PluginError
from praval_tools.execution.engines.threads import Job
from praval_tools.formats import FORMATS, Format
from praval_tools.names import shorten_repr
from praval_tools.plugins.admission import extract_tools
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.hook_caller import HOOK_PREFIX, PluginHook, collect_hooks
from praval_tools.plugins.settings import build_settings
from praval_tools.plugins.staging import PluginModules, RequestedAgent, StagingRegistry, act_as_plugin, import_plugin
from praval_tools.tools.tool import Tool

T = TypeVar("T")

REGISTER_TOOLS_HOOK: Final = f"{HOOK_PREFIX}register_tools"
_SETTINGS_HOOK: Final = f"{HOOK_PREFIX}settings"
_EXTENSION_RULES: Final[Mapping[str, tuple[re.Pattern[str], frozenset[str], str]]] = {
    "engines": (re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+"), frozenset(), "with a dot, like 'acme.pool'"),
    "journals": (
        re.compile(r"[a-z][a-z0-9+-]*"), frozenset(("sqlite", "memory", "file", "postgresql", "postgres")),
        "a URL scheme, like 'acme'",
    ),
    "formats": (re.compile(r"[a-z][a-z0-9_-]*"), frozenset(FORMATS), "like 'acme-chat'"),
    "sources": (
        re.compile(r"[a-z][a-z0-9_-]*"), frozenset(("mcp", "openapi", "python", "object")), "like 'acme'",
    ),
}  # fmt: skip
"""What comes by name: how names look, those that are taken, and that in words."""


@define
class LoadProgress:
    """Where the loading of one plugin is, and what its reports may not repeat."""

    stage: str = "find"
    secrets: set[str] = field(factory=set)


@frozen(kw_only=True)
class PluginContents:
    """All that one plugin brings."""

    tools: tuple[Tool[..., Any], ...] = ()
    agents: tuple[RequestedAgent, ...] = ()
    hooks: Mapping[str, PluginHook] = field(factory=dict)
    extensions: Mapping[str, Mapping[str, Any]] = field(factory=dict)


def collect_plugin_contents(
    found: InstalledPlugin, progress: LoadProgress, packages: PluginModules, known: PluginManager, config: PluginsConfig,
    settings: Any = None,
) -> PluginContents:  # fmt: skip
    """
    Import a plugin and ask it for what it brings, in its name, with a default registry of its own.

    Raises:
        Exception: Whatever the plugin raises, `SystemExit` too; *progress* says where.
    """
    staging = StagingRegistry(found)
    try:
        with act_as_plugin(found, staging):
            progress.stage = "import"
            plugin, declared = import_plugin(found, staging, packages)
            progress.stage = "hooks"
            hooks = collect_hooks(found, plugin, known)
            progress.stage = "settings"
            kind = hooks[_SETTINGS_HOOK](staging, {}) if _SETTINGS_HOOK in hooks else None
            mine = build_settings(found, kind, config, settings, progress.secrets)
            tools = list(declared.tools)
            if (register := hooks.get(REGISTER_TOOLS_HOOK)) is not None:
                progress.stage = REGISTER_TOOLS_HOOK
                tools += extract_tools(found, register(staging, {"settings": mine}))
                tools += packages.select_own_tools(found, staging.list_declared_tools())
            named = {}
            for what in _EXTENSION_RULES:
                if (hook := hooks.get(HOOK_PREFIX + what)) is not None:
                    progress.stage = hook.name
                    named[what] = _check_extensions(found, what, hook(staging, {}))
            progress.stage = "tools"
    finally:
        staging.seal()
    return PluginContents(tools=tuple(dict.fromkeys(tools)), agents=declared.agents, hooks=hooks, extensions=named)


def _check_extensions(found: InstalledPlugin, what: str, given: Any) -> dict[str, Any]:
    """Return what comes by name, checked."""
    if not isinstance(given, Mapping):
        raise PluginError(
            str(found), HOOK_PREFIX + what, f"it returned {shorten_repr(given)}, which is no mapping by name"
        )
    pattern, taken, looks = _EXTENSION_RULES[what]
    named = dict(given.items())  # asked for once: what was checked is what is taken
    for name, one in named.items():
        problem = ""
        if type(name) is not str or not pattern.fullmatch(name):
            problem = f"{shorten_repr(name)} is no name for one of its {what}: it is {looks}"
        elif name in taken:
            problem = f"the name {name!r} is taken by praval_tools itself"
        elif lacks := _describe_defect(what, one):
            problem = f"{name!r} is {shorten_repr(one)}, which {lacks}"
        if problem:
            raise PluginError(str(found), HOOK_PREFIX + what, problem)
    return named


def _describe_defect(what: str, one: Any) -> str:
    if what == "engines":
        return "" if callable(getattr(one, "submit", None)) else "has no submit()"
    if what == "formats":
        return "" if isinstance(one, Format) else "is no Format"
    return "" if callable(one) else "cannot be called"


def run_with_timeout(seconds: float | None, found: InstalledPlugin, progress: LoadProgress, work: Callable[[], T]) -> T:
    """
    Do *work* here or, with a limit, in a thread that is abandoned when it takes longer.

    Raises:
        PluginError: It took longer; what it does yet reaches nothing.
    """
    if seconds is None:
        return work()
    job = Job(work)
    threading.Thread(target=job.run, name=f"loading {found}", daemon=True).start()
    if not job.wait(seconds):
        text = f"it still was at {progress.stage!r} after {seconds:g} s and was abandoned; see why it hangs"
        raise PluginError(str(found), "timeout", text)
    if job.error is not None:
        raise job.error
    value: Any = job.value
    return value  # type: ignore[no-any-return]
