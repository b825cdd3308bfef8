"""Imports one plugin and calls its hooks to collect everything that it brings, without activating any of it."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar, cast

import attrs
from attrs import define, field, frozen

from praval_tools.config.plugins import PluginsConfig
from praval_tools.execution.engines.jobs import Job
from praval_tools.execution.plugin_code import PluginObject, bind_function, bind_opener, take_value
from praval_tools.formats import FORMATS, Format
from praval_tools.names import shorten_repr
from praval_tools.plugins.admission import REGISTER_TOOLS_HOOK, extract_tools
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.plugin_hooks import HOOK_PREFIX, PluginHook, collect_hooks
from praval_tools.plugins.settings import build_settings
from praval_tools.plugins.staging import PluginModules, RequestedAgent, StagingRegistry, import_plugin, run_as_plugin
from praval_tools.schema.json_input import copy_json
from praval_tools.tools.tool import AnyTool

T = TypeVar("T")

_SETTINGS_HOOK: Final = f"{HOOK_PREFIX}settings"
_PLAIN_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")


@frozen
class _NameRules:
    """How the names of one kind of extension look, in words too, and which names are reserved."""

    pattern: re.Pattern[str]
    description: str
    reserved: frozenset[str] = frozenset()


_NAME_RULES: Final[Mapping[str, _NameRules]] = {
    "engines": _NameRules(re.compile(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+"), "with a dot, like 'acme.pool'"),
    "journals": _NameRules(
        re.compile(r"[a-z][a-z0-9+-]*"),
        "a URL scheme, like 'acme'",
        frozenset(("sqlite", "memory", "file", "postgresql", "postgres")),
    ),
    "formats": _NameRules(_PLAIN_NAME, "like 'acme-chat'", frozenset(FORMATS)),
    "sources": _NameRules(_PLAIN_NAME, "like 'acme'", frozenset(("mcp", "openapi", "python", "object"))),
}
EXTENSION_KINDS: Final = tuple(_NAME_RULES)


@define
class LoadProgress:
    """Which stage the loading of one plugin is at, and what its reports must not repeat."""

    stage: str = "find"
    secrets: set[str] = field(factory=set)


@frozen(kw_only=True)
class PluginContents:
    """
    Everything that one plugin brings; `extensions` are engines, journals, formats and sources, by kind and name.

    A tool may be among `tools` twice, and of a class whose code `admit_tools` refuses: until then none is even hashed.
    """

    tools: tuple[AnyTool, ...] = ()
    agents: tuple[RequestedAgent, ...] = ()
    hooks: Mapping[str, PluginHook] = field(factory=dict)
    extensions: Mapping[str, Mapping[str, Any]] = field(factory=dict)


def collect_plugin_contents(
    plugin: InstalledPlugin, progress: LoadProgress, modules: PluginModules, config: PluginsConfig, settings: object
) -> PluginContents:
    """
    Import a plugin and ask it for what it brings, in its name, with a default registry of its own.

    Raises:
        Exception: Whatever the plugin raises, `SystemExit` too; *progress* says where.
    """
    with run_as_plugin(plugin, StagingRegistry(plugin)) as staging:
        progress.stage = "import"
        plugin_object, declared = import_plugin(plugin, staging, modules)
        progress.stage = "hooks"
        hooks = collect_hooks(plugin, plugin_object)
        progress.stage = "settings"
        kind = hooks[_SETTINGS_HOOK](staging, {}) if _SETTINGS_HOOK in hooks else None
        own_settings = build_settings(plugin, kind, config, settings, progress.secrets)
        tools = list(declared.tools)
        if (register := hooks.get(REGISTER_TOOLS_HOOK)) is not None:
            progress.stage = REGISTER_TOOLS_HOOK
            tools += extract_tools(plugin, register(staging, {"settings": own_settings}))
            tools += modules.select_own_tools(plugin, staging.list_all_tools())
        extensions = {}
        for kind in EXTENSION_KINDS:
            if (hook := hooks.get(HOOK_PREFIX + kind)) is not None:
                progress.stage = hook.name
                extensions[kind] = _check_extensions(plugin, kind, hook(staging, {}))
        progress.stage = "tools"
    return PluginContents(tools=tuple(tools), agents=declared.agents, hooks=hooks, extensions=extensions)


def collect_source_contents(
    plugin: InstalledPlugin, loader: Callable[[dict[str, object]], object], table: Mapping[str, object]
) -> PluginContents:
    """Return the tools that a plugin's loader makes of one `[[sources]]` table."""
    with run_as_plugin(plugin, StagingRegistry(plugin)) as staging:
        tools = [*extract_tools(plugin, loader(copy.deepcopy(dict(table)))), *staging.list_all_tools()]
    return PluginContents(tools=tuple(tools))


def _check_extensions(plugin: InstalledPlugin, kind: str, value: object) -> dict[str, object]:
    """Return the extensions of one kind by name, checked."""
    hook, rules = HOOK_PREFIX + kind, _NAME_RULES[kind]
    if not isinstance(value, Mapping):
        raise plugin.make_error(hook, f"it returned {shorten_repr(value)}, which is not a mapping by name")
    extensions = dict(value.items())  # read once: what was checked is what is taken
    for name, extension in extensions.items():
        problem = ""
        if type(name) is not str or not rules.pattern.fullmatch(name):
            problem = f"{shorten_repr(name)} is not a valid name for one of its {kind}: it is {rules.description}"
        elif name in rules.reserved:
            problem = f"the name {name!r} is taken by praval_tools itself"
        elif defect := _describe_defect(kind, extension):
            problem = f"{name!r} is {shorten_repr(extension)}, which {defect}"
        if problem:
            raise plugin.make_error(hook, problem)
    bind = _BINDERS[kind]
    return {name: bind(extension, plugin.principal) for name, extension in extensions.items()}


def _bind_format(value: Format, actor: str) -> Format:
    """Return a format whose functions, those of its rules too, run in the name of *actor*, and give plain values."""

    def write(function: Callable[..., object]) -> Callable[..., object]:
        return bind_function(lambda *args: copy_json(function(*args)), actor)

    fields = {field.name: getattr(value, field.name) for field in attrs.fields(Format)}
    functions = {name: write(function) for name, function in fields.items() if callable(function)}
    functions["calls"] = bind_function(lambda *args: list(value.calls(*args)), actor)
    values = take_value({name: fields[name] for name in fields.keys() - functions.keys()}, actor)
    return Format(**{**values, **functions})


_BINDERS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    "engines": PluginObject,
    "journals": bind_opener,
    "formats": _bind_format,
    "sources": lambda loader, _: loader,  # `collect_source_contents` calls it, and reads what it returns, in that name
}
"""Puts an extension of each kind into the name of its plugin."""


def _describe_defect(kind: str, extension: object) -> str:
    if kind == "engines":
        return "" if callable(getattr(extension, "submit", None)) else "has no submit()"
    if kind == "formats":
        return "" if isinstance(extension, Format) else "is not a Format"
    return "" if callable(extension) else "cannot be called"


def run_with_timeout(
    seconds: float | None, plugin: InstalledPlugin, progress: LoadProgress, work: Callable[[], T]
) -> T:
    """
    Run *work* here or, with a time-out, in a thread that is abandoned when it takes longer.

    Raises:
        PluginError: It took longer; whatever it still does has no effect.
    """
    if seconds is None:
        return work()
    job = Job(work)
    threading.Thread(target=job.run, name=f"loading {plugin}", daemon=True).start()
    if not job.wait(seconds):
        text = f"it still was at {progress.stage!r} after {seconds:g} s and was abandoned; see why it hangs"
        raise plugin.make_error("timeout", text)
    if job.error is not None:
        raise job.error
    return cast(T, job.value)
