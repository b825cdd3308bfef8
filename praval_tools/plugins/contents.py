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
from praval_tools.names import shorten
from praval_tools.plugins.admission import tools_in
from praval_tools.plugins.discovery import Found
from praval_tools.plugins.hook_caller import PREFIX, Hook, hooks_of
from praval_tools.plugins.settings import settings_of
from praval_tools.plugins.staging import Packages, Staging, Wished, imported, staged
from praval_tools.tools.tool import Tool

T = TypeVar("T")

REGISTER: Final = f"{PREFIX}register_tools"
_SETTINGS: Final = f"{PREFIX}settings"
_NAMED: Final[Mapping[str, tuple[re.Pattern[str], frozenset[str], str]]] = {
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
class Progress:
    """Where the loading of one plugin is, and what its reports may not repeat."""

    stage: str = "find"
    secrets: set[str] = field(factory=set)


@frozen(kw_only=True)
class Brought:
    """All that one plugin brings."""

    tools: tuple[Tool[..., Any], ...] = ()
    agents: tuple[Wished, ...] = ()
    hooks: Mapping[str, Hook] = field(factory=dict)
    named: Mapping[str, Mapping[str, Any]] = field(factory=dict)


def brought_by(
    found: Found, progress: Progress, packages: Packages, known: PluginManager, config: PluginsConfig,
    settings: Any = None,
) -> Brought:  # fmt: skip
    """
    Import a plugin and ask it for what it brings, in its name, with a default registry of its own.

    Raises:
        Exception: Whatever the plugin raises, `SystemExit` too; *progress* says where.
    """
    staging = Staging(found)
    try:
        with staged(found, staging):
            progress.stage = "import"
            plugin, declared = imported(found, staging, packages)
            progress.stage = "hooks"
            hooks = hooks_of(found, plugin, known)
            progress.stage = "settings"
            kind = hooks[_SETTINGS](staging, {}) if _SETTINGS in hooks else None
            mine = settings_of(found, kind, config, settings, progress.secrets)
            tools = list(declared.tools)
            if (register := hooks.get(REGISTER)) is not None:
                progress.stage = REGISTER
                tools += tools_in(found, register(staging, {"settings": mine}))
                tools += packages.sorted(found, staging.taken())
            named = {}
            for what in _NAMED:
                if (hook := hooks.get(PREFIX + what)) is not None:
                    progress.stage = hook.name
                    named[what] = _named(found, what, hook(staging, {}))
            progress.stage = "tools"
    finally:
        staging.seal()
    return Brought(tools=tuple(dict.fromkeys(tools)), agents=declared.agents, hooks=hooks, named=named)


def _named(found: Found, what: str, given: Any) -> dict[str, Any]:
    """Return what comes by name, checked."""
    if not isinstance(given, Mapping):
        raise PluginError(str(found), PREFIX + what, f"it returned {shorten(given)}, which is no mapping by name")
    pattern, taken, looks = _NAMED[what]
    named = dict(given.items())  # asked for once: what was checked is what is taken
    for name, one in named.items():
        problem = ""
        if type(name) is not str or not pattern.fullmatch(name):
            problem = f"{shorten(name)} is no name for one of its {what}: it is {looks}"
        elif name in taken:
            problem = f"the name {name!r} is taken by praval_tools itself"
        elif lacks := _lacks(what, one):
            problem = f"{name!r} is {shorten(one)}, which {lacks}"
        if problem:
            raise PluginError(str(found), PREFIX + what, problem)
    return named


def _lacks(what: str, one: Any) -> str:
    if what == "engines":
        return "" if callable(getattr(one, "submit", None)) else "has no submit()"
    if what == "formats":
        return "" if isinstance(one, Format) else "is no Format"
    return "" if callable(one) else "cannot be called"


def within(seconds: float | None, found: Found, progress: Progress, work: Callable[[], T]) -> T:
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
