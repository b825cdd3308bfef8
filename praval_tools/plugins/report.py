"""Reports of whether each plugin was loaded, and what went wrong, without secrets in their texts."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, quote_plus

from attrs import frozen

from praval_tools.errors import ConfigError, PluginError
from praval_tools.execution.plugin_code import run_as
from praval_tools.misuse import explain_misuse
from praval_tools.names import get_class_name, shorten_repr, to_plain_text
from praval_tools.plugins import hookspecs
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.tools.truncation import truncate_text

LOADED: Final = "loaded"
LEFT_OUT: Final = "left out"

_MAX_TEXT_LENGTH: Final = 4_000
_MAX_FRAMES: Final = 20
_STAGES: Final = frozenset((
    "find", "configuration", "import", "hooks", "settings", "tools", "clash", "timeout",
    *(name for name in vars(hookspecs) if name.startswith(f"{hookspecs.PROJECT_NAME}_")),
))  # fmt: skip
_REDACTED: Final = "[secret]"
CONTAINED_ERRORS: Final = (Exception, SystemExit)
"""What a plugin may raise without harm to others; Ctrl-C and the like pass."""


@explain_misuse
@frozen(kw_only=True)
class PluginReport:
    """
    What became of one plugin, or of one hook of it.

    Args:
        distribution: The normalized name of the distribution that ships it.
        version: The version of that distribution.
        entry_point: The name of its entry point.
        stage: `loaded`; `left out` (the operator wants it so, `reason` says where); else where it failed: `find`,
            `configuration`, `import`, `hooks`, `settings`, `tools`, `clash`, `timeout`, or the name of a hook.
        tools: The names of its tools.
        withheld: Tools that the operator's `allow` leaves out, by the names that the plugin gives them.
        wishes: What it requests and was not granted: owners, sharing, categories, agents, answering approvals.
        hooks: The hooks that it implements.
        changed: Tools that differ from those that the journal recorded for the plugin last.
        upgraded_from: The version that the journal recorded then, where it was another one.
        reason: Why it was left out.
        error: What went wrong; None where nothing did.
        error_type: The class of the plugin's exception; empty where there was none.
        traceback: The traceback of the plugin's exception, shortened; without any value of its settings.
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


def build_failure_report(
    plugin: InstalledPlugin, stage: str, error: BaseException, secrets: Iterable[str] = ()
) -> PluginReport:
    """Return the report of a plugin that failed at *stage*; none of its texts repeats one of *secrets*."""
    hidden = tuple(secrets)

    def clean(text: str) -> str:
        return escape_unprintable(truncate_text(redact_secrets(text, hidden), _MAX_TEXT_LENGTH))

    with run_as(plugin.principal):  # the texts of an error may be code of the plugin
        host_error = _read_host_error(plugin, stage, error)
        stage, text = host_error or (stage, _describe_error(error))
        details = "" if host_error else _format_traceback(error)
    return PluginReport(
        distribution=plugin.distribution,
        version=plugin.version,
        entry_point=plugin.entry_point,
        stage=stage,
        error=plugin.make_error(stage, clean(text)),
        error_type="" if host_error else escape_unprintable(get_class_name(type(error))[:128]),
        traceback=clean(details),
    )


def _read_host_error(plugin: InstalledPlugin, stage: str, error: BaseException) -> tuple[str, str] | None:
    """Return stage and problem of an error that the host raised; None for one of the plugin, whatever its class."""
    if type(error) is ConfigError and stage == "settings":
        return stage, _get_message(error)
    if type(error) is not PluginError or [type(argument) for argument in error.args] != [str, str, str]:
        return None
    name, stage, problem = error.args
    return (stage, problem) if name == str(plugin) and stage in _STAGES else None


def redact_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return *text* with each of *secrets* replaced by a placeholder, the longest first."""
    for secret in sorted(filter(None, set(secrets)), key=len, reverse=True):
        for spelling in _list_spellings(secret):
            text = text.replace(spelling, _REDACTED)
    return text


def _list_spellings(secret: str) -> list[str]:
    """Return the spellings in which errors show a text, the longest first."""
    try:
        in_urls = {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    except UnicodeEncodeError:  # half of a surrogate pair is in no URL
        in_urls = set()
    quoted = (repr(secret), ascii(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False))
    return sorted({secret, *in_urls, *(text[1:-1] for text in quoted)}, key=len, reverse=True)


def escape_unprintable(text: str) -> str:
    """Return *text* with control characters and lone surrogates escaped, as any terminal and file takes it."""
    return "".join(letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in text)


def _get_message(error: BaseException) -> str:
    try:
        return to_plain_text(error)
    except CONTAINED_ERRORS as broken:  # the seam to an exception of strangers
        return f"a message that cannot be shown: {get_class_name(type(broken))}"


def _describe_error(error: BaseException) -> str:
    if issubclass(type(error), SystemExit):
        return f"it called sys.exit({shorten_repr(getattr(error, 'code', None))})"
    text = _get_message(error)
    return f"{get_class_name(type(error))}: {text}" if text else get_class_name(type(error))


def _format_traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-_MAX_FRAMES))
    except CONTAINED_ERRORS as broken:  # the seam to an exception of strangers
        return f"a traceback that cannot be shown: {get_class_name(type(broken))}"
