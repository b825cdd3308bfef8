"""`ToolContext`: what a tool can learn of the call that it serves, passed to it as a parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, cast

from attrs import field, frozen

from praval_tools.errors import ToolUsageError
from praval_tools.misuse import explain_misuse
from praval_tools.names import shorten_repr, to_plain_text
from praval_tools.schema.type_hints import Hint, format_hint, get_origin, is_union, unwrap_hint
from praval_tools.tools.reports import LOG_LEVELS, LogLevel

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", covariant=True, default=object)
else:
    from typing import TypeVar

    Deps = TypeVar("Deps", covariant=True)  # a default needs Python 3.13 to run, and only type checkers use it

NO_DEPS: Final[Any] = type("NO_DEPS", (), {"__repr__": lambda self: "NO_DEPS", "__slots__": ()})()
"""The deps of a context that has none."""


def _ignore_progress(done: float, total: float | None, message: str) -> None:
    return None


def _ignore_log(text: str, level: LogLevel) -> None:
    return None


def _is_never_cancelled() -> bool:
    return False


@explain_misuse
@frozen(kw_only=True)
class ToolContext(Generic[Deps]):
    """
    The call that a tool serves; declare a parameter of this type and it is passed in, never shown to a model.

    A tool that declares `ToolContext[Bank]` gets what the program passes as `deps=` where the call begins, and is
    refused without it. Deps are neither recorded nor shown: not to models, policies, hooks or the journal.

    Args:
        agent: The agent that calls, None for the operator.
        chain: The agents on whose behalf it calls, the nearest first.
        tool_call_id: The id of the call.
        run_id: The journaled run, if there is one.
        idempotency_key: Stays the same when this very call is run again. Calls of two runs never share one; outside
            of runs it is that of the principal, tool, arguments and id of the call.
        registry: The registry that the call went through.
        deps: What the program passed for the tool.
    """

    agent: str | None = None
    chain: tuple[str, ...] = ()
    tool_call_id: str = ""
    run_id: str | None = None
    idempotency_key: str = ""
    registry: Any = field(default=None, repr=False)
    _deps: Deps = field(default=NO_DEPS, alias="deps", repr=False, eq=False)
    _progress: Callable[[float, float | None, str], None] = field(default=_ignore_progress, repr=False)
    _log: Callable[[str, LogLevel], None] = field(default=_ignore_log, repr=False)
    _cancelled: Callable[[], bool] = field(default=_is_never_cancelled, repr=False)

    @property
    def deps(self) -> Deps:
        """
        What the program passed to the call, for a tool that declares `ToolContext[Deps]`.

        Raises:
            ToolUsageError: The tool declares a plain `ToolContext`, which comes without deps.
        """
        if self._deps is NO_DEPS:
            raise ToolUsageError(
                "This context has no deps: declare the parameter as ToolContext[Deps], and pass deps=… to the call.",
                "missing-deps",
            )
        return self._deps

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """
        Report progress: *done* of *total*, in the tool's own unit.

        Subscribers of the registry get it, and whoever drives the call, such as the stream of a loop; not once the
        call has ended.
        """
        self._progress(done, total, message)

    def log(self, text: str, level: LogLevel = "info") -> None:
        """
        Write a message for whoever called the tool, such as the client of an MCP server.

        Subscribers of the registry get it as a `ToolLog`, and whoever drives the call; not once the call has ended.
        It is not recorded.

        Args:
            text: The message.
            level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.

        Raises:
            ToolUsageError: There is no such level.
        """
        plain = cast("LogLevel", to_plain_text(level))  # once: a class of its own may say something else each time
        if plain not in LOG_LEVELS:
            text = f"{shorten_repr(level)} is not a level of log messages; pass one of {', '.join(LOG_LEVELS)}."
            raise ToolUsageError(text, "log-level")
        self._log(text, plain)

    @property
    def cancelled(self) -> bool:
        """Whether the caller has given up; a long sync tool should look now and then."""
        return self._cancelled()


def find_deps_hint(hint: Hint) -> Hint | None:
    """Return `Deps` of the hint `ToolContext[Deps]`, or of one with it inside; None where there is none."""
    inner = unwrap_hint(hint)
    if is_union(inner):
        return next((deps for member in inner.__args__ if (deps := find_deps_hint(member)) is not None), None)
    return inner.__args__[0] if get_origin(inner) is ToolContext else None


def choose_deps(tool: str, hint: Hint | None, deps: object) -> object:
    """
    Return the deps that a tool is passed, which declares *hint* for them, out of those of its call.

    Raises:
        ToolUsageError: It needs deps, and the call has none.
    """
    if hint is None:
        return NO_DEPS
    if hint is type(None):
        return None
    if deps is not NO_DEPS:
        return deps
    if is_union(hint) and type(None) in hint.__args__:
        return None
    raise ToolUsageError(
        f"Tool {tool!r} needs deps ({format_hint(hint)}) and its call has none; pass them where the call begins: "
        f"registry.toolset(agent, deps=…), agent.call({tool!r}, …, deps=…), loop.run(…, deps=…) "
        f"or loop.resume(…, deps=…).",
        "missing-deps",
    )
