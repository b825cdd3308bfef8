"""What became of each plugin."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Final

from attrs import frozen

from praval_tools.errors import ConfigError, PluginError
from praval_tools.installed import Found
from praval_tools.naming import shorten

LOADED: Final = "loaded"
LEFT_OUT: Final = "left out"

_MOST: Final = 4_000
_FRAMES: Final = 20
_MARK: Final = "[secret]"


@frozen(kw_only=True)
class PluginReport:
    """
    What became of one plugin, or of one hook of it.

    Args:
        distribution: What ships it, the normalized name.
        version: Of that distribution.
        entry_point: The name of its entry point.
        stage: `loaded`; `left out` (the operator wants it so, `reason` says where); else where it failed: `find`,
            `configuration`, `import`, `hooks`, `settings`, `tools`, `clash`, `timeout`, or the name of a hook.
        tools: The names of its tools.
        withheld: Tools that the operator's `allow` leaves out, by the names that the plugin gives them.
        wishes: What it asks for and has not: owners, sharing, categories, agents, answering approvals.
        hooks: The hooks that it implements.
        changed: Tools that are not what they were when the journal saw the plugin last.
        upgraded_from: The version that the journal saw then, where it was another one.
        reason: Why it was left out.
        error: What went wrong; None: nothing did.
        error_type: The class of the plugin's exception; empty where there was none.
        traceback: Of the plugin's exception, shortened; without any value of its settings.
    """

    distribution: str
    version: str = ""
    entry_point: str = ""
    stage: str = LOADED
    tools: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    wishes: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    upgraded_from: str = ""
    reason: str = ""
    error: PluginError | None = None
    error_type: str = ""
    traceback: str = ""

    @property
    def loaded(self) -> bool:
        """Whether its tools and hooks are in force."""
        return self.stage == LOADED

    @property
    def failed(self) -> bool:
        """Whether something went wrong."""
        return self.error is not None

    def __str__(self) -> str:
        name = f"{self.distribution} {self.version}".strip()
        if self.error is not None:
            return str(self.error)
        return f"{name}: {self.stage}" + (f" ({self.reason})" if self.reason else "")


def failure(found: Found, stage: str, error: BaseException, secrets: Iterable[str] = ()) -> PluginReport:
    """Return the report of a plugin that failed at *stage*; nothing of it repeats one of *secrets*."""
    hidden = tuple(secrets)
    own = isinstance(error, PluginError | ConfigError)
    said = error.problem if isinstance(error, PluginError) else str(error) if own else _said(error)
    return PluginReport(
        distribution=found.distribution, version=found.version, entry_point=found.entry_point, stage=stage,
        error=PluginError(str(found), stage, cut(without(said, hidden))),
        error_type="" if own else type(error).__name__[:128],
        traceback="" if own else cut(without(_trace(error), hidden)),
    )  # fmt: skip


def without(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with each of *secrets* replaced by a mark, the longest first."""
    for secret in sorted({one for one in secrets if one}, key=len, reverse=True):
        for form in {secret, repr(secret)[1:-1]}:
            text = text.replace(form, _MARK)
    return text


def cut(text: str, most: int = _MOST) -> str:
    """Return *text*, or its beginning and end where it is long."""
    if len(text) <= most:
        return text
    return f"{text[: most // 3]}\n… {len(text) - most:,} characters …\n{text[-(most - most // 3) :]}"


def _said(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:  # the seam to an exception of strangers
        text = f"a message that cannot be shown: {type(broken).__name__}"
    if isinstance(error, SystemExit):
        return f"it called sys.exit({shorten(error.code)})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-_FRAMES))
    except Exception as broken:  # the seam to an exception of strangers
        return f"a traceback that cannot be shown: {type(broken).__name__}"
