"""
Errors and warnings: every exception and warning of the package, under one base.

Programs match on the class or on the stable `code`, never on the text, which names both parties and the fix.
Arguments are positional, so that every error survives pickling.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import FrameType


def find_user_frame() -> tuple[FrameType, int]:
    """Return the nearest frame outside this package, and how many frames above the caller it is."""
    depth, frame = 0, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("praval_tools."):
        frame, depth = frame.f_back, depth + 1
    return frame, depth


def get_user_stacklevel() -> int:
    """Return the `stacklevel` of the first frame outside this package, so that a warning names the user's line."""
    return find_user_frame()[1]


def format_suggestion(names: Sequence[str], prefix: str = " Did you mean ") -> str:
    """Return *prefix* and the *names* as a question; an empty text where there are none."""
    return f"{prefix}{' or '.join(map(repr, names))}?" if names else ""


class ToolError(Exception):
    """Base of every error that this package raises; programs match on its class or on its `code`."""

    code: ClassVar[str] = "tool-error"


class InvalidNameError(ToolError, ValueError):
    """A tool, agent or namespace name breaks the naming rules."""

    code: ClassVar[str] = "invalid-name"


class ToolDefinitionError(ToolError, ValueError):
    """
    A function cannot become a tool; `problems` lists every reason at once.

    `where` is the file and line of the definition, or empty where there is none.
    """

    code: ClassVar[str] = "tool-definition"

    def __init__(self, tool: str, problems: Iterable[str], where: str = "") -> None:
        problems = tuple(problems)
        super().__init__(tool, problems, where)
        self.tool, self.problems, self.where = tool, problems, where

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        if len(self.problems) == 1:
            return f"Tool {self.tool!r}{place}: {self.problems[0]}"
        listed = "".join(f"\n  - {problem}" for problem in self.problems)
        return f"Tool {self.tool!r}{place} has {len(self.problems)} problems:{listed}"


ToolValidationError = ToolDefinitionError
"""Another name of `ToolDefinitionError`."""


class DuplicateToolError(ToolError):
    """A tool name, or one whose wire name would clash with it, is already taken in this registry."""

    code: ClassVar[str] = "duplicate-tool"

    def __init__(
        self, tool: str, owner: str | None, source: str, new_owner: str | None, new_source: str, new_tool: str
    ) -> None:
        super().__init__(tool, owner, source, new_owner, new_source, new_tool)
        self.tool, self.owner, self.source = tool, owner, source
        self.new_owner, self.new_source, self.new_tool = new_owner, new_source, new_tool

    def __str__(self) -> str:
        ownership, new_ownership = (
            f"owned by {owner!r}" if owner else "without an owner" for owner in (self.owner, self.new_owner)
        )
        rival = f" The new one, {self.new_tool!r}, is {new_ownership} ({self.new_source})." if self.new_source else ""
        fix = " Give yours another name or a namespace, or pass replace=True to replace it."
        if self.new_tool != self.tool:
            rival += " Names that differ only by case, '-', '_' or '.' are one on the wire."
            fix = f" Give yours another name or a namespace, or unregister {self.tool!r} first."
        return f"Tool {self.tool!r} is already registered, {ownership} ({self.source}).{rival}{fix}"


class DuplicateAgentError(ToolError):
    """Two agents of one name were declared in one registry."""

    code: ClassVar[str] = "duplicate-agent"

    def __init__(self, agent: str, source: str, new_source: str = "") -> None:
        super().__init__(agent, source, new_source)
        self.agent, self.source, self.new_source = agent, source, new_source

    def __str__(self) -> str:
        rival = f" and again at {self.new_source}" if self.new_source else ""
        return (
            f"Agent {self.agent!r} is already declared at {self.source}{rival}. "
            f"Give one of them another name, or retire the first with registry.retire_agent({self.agent!r})."
        )


class UnknownToolError(ToolError, LookupError):
    """There is no tool of this name, namespace, category or tag; `near` has similar names, `home` another registry."""

    code: ClassVar[str] = "unknown-tool"
    home: str = ""

    def __init__(self, tool: str, near: Iterable[str] = (), what: str = "tool") -> None:
        super().__init__(tool, near := tuple(near), what)
        self.tool, self.near, self.what = tool, near, what

    def __str__(self) -> str:
        fix = self.home or format_suggestion(self.near).lstrip() or "Register it first, or check the spelling."
        return f"{self.what.capitalize()} {self.tool!r} not found. {fix}"


class UnknownAgentError(ToolError, LookupError):
    """No agent of this name is declared or mentioned; `near` holds similar names."""

    code: ClassVar[str] = "unknown-agent"

    def __init__(self, agent: str, near: Iterable[str] = ()) -> None:
        near = tuple(near)
        super().__init__(agent, near)
        self.agent, self.near = agent, near

    def __str__(self) -> str:
        fix = format_suggestion(self.near) or " Declare it with @agent, or check the spelling."
        return f"Agent {self.agent!r} is not declared in this registry.{fix}"


class NotOwnerError(ToolError):
    """Somebody tried to change access who is neither the operator nor entitled to it by ownership or grant."""

    code: ClassVar[str] = "not-owner"

    def __init__(self, actor: str, verb: str, tool: str | None, owner: str | None, why: str = "") -> None:
        super().__init__(actor, verb, tool, owner, why)
        self.actor, self.verb, self.tool, self.owner, self.why = actor, verb, tool, owner, why

    def __str__(self) -> str:
        target = f" tool {self.tool!r}" if self.tool else ""
        names_owner = self.owner is not None and self.owner != self.actor
        owner = f"its owner {self.owner!r} or the operator" if names_owner else "the operator"
        reason = f" ({self.why})" if self.why else ""
        return (
            f"{self.actor!r} may not {self.verb}{target}{reason}. Only {owner} may; "
            f"in the host program, say so with `with registry.as_operator():`."
        )


class GrantError(ToolError, ValueError):
    """A grant's expiry, count or bounds make no sense; `problems` lists every reason at once."""

    code: ClassVar[str] = "grant"

    def __init__(self, tool: str, problems: Iterable[str]) -> None:
        super().__init__(tool, problems := tuple(problems))
        self.tool, self.problems = tool, problems

    def __str__(self) -> str:
        return f"This grant of {self.tool!r} cannot be made: " + "; ".join(self.problems) + "."


class UnknownGrantError(GrantError, LookupError):
    """There is no grant of this id."""

    code: ClassVar[str] = "unknown-grant"

    def __init__(self, grant: str) -> None:
        super().__init__(grant, ["there is none of this id"])
        self.args = (grant,)

    def __str__(self) -> str:
        return f"There is no grant {self.tool!r}; registry.grants(ended=True) lists all."


class UnknownFormatError(ToolError, ValueError):
    """No provider format of this name; `known` lists them."""

    code: ClassVar[str] = "unknown-format"

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = tuple(known)
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        return f"There is no format {self.name!r}; use one of {', '.join(self.known)}."


class ToolUsageError(ToolError, RuntimeError):
    """The package was used in a way that cannot work; the text says what to do instead."""

    code: ClassVar[str] = "tool-usage"

    def __init__(self, message: str, code: str = "tool-usage") -> None:
        super().__init__(message, code)
        self.message, self.code = message, code  # type: ignore[misc]

    def __str__(self) -> str:
        return self.message


class RegistryClosedError(ToolError, RuntimeError):
    """The registry was closed and takes no calls and no changes any more."""

    code: ClassVar[str] = "registry-closed"

    def __str__(self) -> str:
        name = f"Registry {self.args[0]!r}" if self.args[0] else "This registry"
        return f"{name} is closed. Make a new one with ToolRegistry()."


class MissingExtraError(ToolError, ImportError):
    """A feature needs an optional dependency that is not installed."""

    code: ClassVar[str] = "missing-extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(feature, extra)
        self.feature, self.extra = feature, extra

    def __str__(self) -> str:
        return f"{self.feature} needs an extra: pip install 'praval-tools[{self.extra}]'."


class DiscoveryError(ExceptionGroup[Exception], ToolError):
    """Some files failed while tools were discovered; `found` holds the tools of the others."""

    code: ClassVar[str] = "discovery"
    found: tuple[Any, ...] = ()

    def derive(self, excs: Sequence[Exception], /) -> DiscoveryError:  # type: ignore[override]
        """Return a group of *excs*, a part of this one."""
        part = DiscoveryError(self.message, excs)
        part.found = self.found
        return part


# ── how a call can end ───────────────────────────────────────────────────────────────────────


class ToolCallError(ToolError):
    """Base of the errors that end a call; `result` is the `ToolResult` that reports the same."""

    code: ClassVar[str] = "tool-call"
    result: Any = None


class ToolAccessError(ToolCallError):
    """The agent may not call the tool; its text says by which rule, and `message` what a model may see."""

    code: ClassVar[str] = "tool-access"

    def __init__(self, message: str, decision: Any = None) -> None:
        super().__init__(message, decision)
        self.message, self.decision = message, decision

    def __str__(self) -> str:
        decision = self.decision
        return self.message if decision is None else str(decision.describe_refusal(self.message, self.code))


class UnknownToolCallError(ToolAccessError, LookupError):
    """The agent called a tool that does not exist; or one that is hidden from it, where refusals are."""

    code: ClassVar[str] = "unknown-tool"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """
    One thing that is wrong with the arguments of a call.

    Args:
        path: JSON path of the value, `$` for the whole: `$.rows[3].amount`.
        reason: What is wrong, in a few words.
        given: The value, as JSON text shortened to 80 characters.
        wanted: What would be right.
    """

    path: str
    reason: str
    given: str = ""
    wanted: str = ""

    def __str__(self) -> str:
        given = f" (given {self.given})" if self.given else ""
        wanted = f"; wanted {self.wanted}" if self.wanted else ""
        return f"{self.path}: {self.reason}{given}{wanted}"


class ToolArgumentsError(ToolCallError, ValueError):
    """The arguments do not fit; `problems` lists all, in the words of parameters' classes where `quotes_classes`."""

    code: ClassVar[str] = "invalid-arguments"
    _max_shown: ClassVar[int] = 10

    def __init__(self, tool: str, problems: Iterable[Problem], *, quotes_classes: bool = False) -> None:
        problems = tuple(problems)
        super().__init__(tool, problems)
        self.tool, self.problems, self.quotes_classes = tool, problems, quotes_classes

    def __str__(self) -> str:
        shown = "; ".join(map(str, self.problems[: self._max_shown]))
        more = len(self.problems) - self._max_shown
        return f"Arguments for {self.tool!r} are invalid: {shown}" + (f"; and {more} more" if more > 0 else "")


class ToolTimeoutError(ToolCallError, TimeoutError):
    """The tool did not finish in its time."""

    code: ClassVar[str] = "tool-timeout"


class ToolApprovalError(ToolCallError):
    """The call needs an approval that it does not have, or was denied."""

    code: ClassVar[str] = "approval-required"


class ToolLimitedError(ToolCallError):
    """A limit left no room for the call now."""

    code: ClassVar[str] = "limited"


class ToolExecutionError(ToolCallError):
    """
    The tool itself raised.

    Each instance is also an instance of the built-in exception class that the tool raised,
    so that `except ValueError` works as if the function had been called directly.
    `error_type` is the name of that class, `__cause__` the exception itself.
    """

    code: ClassVar[str] = "tool-execution"

    def __init__(self, message: str, error_type: str = "Exception", tool: str = "") -> None:
        super().__init__(message, error_type, tool)
        self.message, self.error_type, self.tool = message, error_type, tool

    def __str__(self) -> str:
        return self.message


class RetryableToolError(ToolError):
    """Raise it in a tool to say that the same call may succeed when tried again."""

    code: ClassVar[str] = "retryable"


class ModelError(ToolError):
    """
    A model could not be reached, or what it sent is not a valid reply.

    `retryable` says whether the same request may succeed later, `retry_after` after how many seconds, where the
    provider says so.
    """

    code: ClassVar[str] = "model"

    def __init__(self, problem: str, retryable: bool = False, retry_after: float | None = None) -> None:
        super().__init__(problem, retryable, retry_after)
        self.problem, self.retryable, self.retry_after = problem, retryable, retry_after

    def __str__(self) -> str:
        return f"The model gave no reply: {self.problem}"


# ── the journal ──────────────────────────────────────────────────────────────────────────────────


class JournalError(ToolError):
    """
    The journal could not write or read; `store` names it, `problem` says why, `fix` what to do.

    `answers` holds the outcome of each item of a failed append, in the order of the items.
    """

    code: ClassVar[str] = "journal"
    answers: Sequence[Any] = ()

    def __init__(self, store: str, problem: str, fix: str) -> None:
        super().__init__(store, problem, fix)
        self.store, self.problem, self.fix = store, problem, fix

    def __str__(self) -> str:
        return f"Journal {self.store!r}: {self.problem}. {self.fix}"


class JournalFileError(JournalError):
    """The file is not a journal that this version can write; it was left as it is."""

    code: ClassVar[str] = "journal-file"


class JournalClosedError(JournalError):
    """The journal was closed and takes no records any more."""

    code: ClassVar[str] = "journal-closed"

    def __init__(self, store: str) -> None:
        JournalError.__init__(self, store, "it was closed", "Open it again with open_store().")
        self.args = (store,)


class RunBusyError(ToolError):
    """The run `run_id` is open elsewhere; `holder` says where."""

    code: ClassVar[str] = "run-busy"

    def __init__(self, run: str, holder: str) -> None:
        super().__init__(run, holder)
        self.run, self.run_id, self.holder = run, run, holder

    def __str__(self) -> str:
        return (
            f"Run {self.run!r} is open in {self.holder}, and a run is open in one place at a time. "
            f"Close it there, end that process, or use another run id."
        )


class ReplayMismatchError(ToolError):
    """A call is not the one recorded in its place, `call_id` of `run_id`; `recorded` and `asked` describe the two."""

    code: ClassVar[str] = "replay-mismatch"

    def __init__(self, run: str, call: str, recorded: str, asked: str) -> None:
        super().__init__(run, call, recorded, asked)
        self.run, self.call, self.recorded, self.asked = run, call, recorded, asked
        self.run_id, self.call_id = run, call

    def __str__(self) -> str:
        return (
            f"Run {self.run!r} recorded as call {self.call!r}: {self.recorded}; asked for is: {self.asked}. "
            f"They may differ in what is hidden or cut. Use the id for one call only, or another run for a new program."
        )


class UnusedCallsError(ToolError):
    """A strict replay of the run `run_id` ended, and the calls `call_ids` were not asked for again."""

    code: ClassVar[str] = "unused-calls"

    def __init__(self, run: str, calls: Sequence[str]) -> None:
        super().__init__(run, calls)
        self.run, self.run_id, self.calls, self.call_ids = run, run, tuple(calls), tuple(calls)

    def __str__(self) -> str:
        shown = ", ".join(map(repr, self.calls[:5])) + (" …" if len(self.calls) > 5 else "")
        return (
            f"Run {self.run!r} recorded calls that were not asked for again ({len(self.calls)}): {shown}. "
            f"The program is not the one that was recorded; open the run without strict=True to go on."
        )


class ToolInDoubtError(ToolCallError):
    """The call `call_id` of `run_id` was started before, and it is unknown whether its tool did its work."""

    code: ClassVar[str] = "in-doubt"

    def __init__(self, message: str, run: str | None = None, call: str | None = None) -> None:
        super().__init__(message)
        self.run, self.call, self.run_id, self.call_id = run, call, run, call


class EventFormatError(ToolError, ValueError):
    """An event cannot be written as JSON or read from it; `problems` lists every reason at once."""

    code: ClassVar[str] = "event-format"

    def __init__(self, event_id: str, problems: Iterable[str], fix: str = "") -> None:
        super().__init__(event_id, problems := tuple(problems), fix)
        self.event_id, self.problems, self.fix = event_id, problems, fix

    def __str__(self) -> str:
        event = f"Event {self.event_id!r}" if self.event_id else "An event without an id"
        return (
            f"{event} is not a journal event that this release knows: {'; '.join(self.problems)}. {self.fix}".rstrip()
        )


class RedactionKeyError(ToolError, RuntimeError):
    """The key by which secrets are made unreadable cannot be used; nothing is journaled without it."""

    code: ClassVar[str] = "redaction-key"

    def __init__(self, place: str, problem: str, fix: str) -> None:
        super().__init__(place, problem, fix)
        self.place, self.problem, self.fix = place, problem, fix

    def __str__(self) -> str:
        return f"The key for redaction ({self.place}) cannot be used: {self.problem}. {self.fix}"


class ConfigError(ToolError, ValueError):
    """A configuration has values that cannot be used; `problems` lists every one, each with its place and the fix."""

    code: ClassVar[str] = "config"

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        problems = tuple(problems)
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        if len(self.problems) == 1:
            return str(self.problems[0])
        return f"{len(self.problems)} problems:" + "".join(f"\n  - {problem}" for problem in self.problems)


class ConfigProblem(msgspec.Struct, frozen=True):
    """
    One thing that is wrong in a configuration.

    Args:
        key: The path of the key: `plugins."praval-tools-sql".trust`.
        expected: What is expected there.
        file: The file; empty where it was given by the program.
        line: Its line, from 1; 0 where it is not known.
    """

    key: str
    expected: str
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        place = f"{self.file}, line {self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.key}: {self.expected}" if self.key else f"{place}{self.expected}"


class PluginError(ToolError):
    """A plugin, or one of its hooks, was rejected: which one, at which stage, and what to do."""

    code: ClassVar[str] = "plugin"

    def __init__(self, plugin: str, stage: str, problem: str) -> None:
        super().__init__(plugin, stage, problem)
        self.plugin, self.stage, self.problem = plugin, stage, problem

    def __str__(self) -> str:
        return f"Plugin {self.plugin} ({self.stage}): {self.problem}"


class PluginLoadError(ExceptionGroup[Exception], ToolError):
    """Some plugins failed and `strict=True` was asked for; the others are loaded, `reports` says which."""

    code: ClassVar[str] = "plugin-load"
    reports: tuple[Any, ...] = ()

    def derive(self, excs: Sequence[Exception], /) -> PluginLoadError:  # type: ignore[override]
        """Return a group of *excs*, a part of this one."""
        part = PluginLoadError(self.message, excs)
        part.reports = self.reports
        return part


# ── warnings ─────────────────────────────────────────────────────────────────────────────────────


class ToolDefinitionWarning(UserWarning):
    """A tool can be used, but its definition lacks something that models need."""


class UnknownToolWarning(UserWarning):
    """A permission names a tool that does not exist."""


class AccessWarning(UserWarning):
    """A change of access has no effect, or another one than it seems to have."""


class SubscriberWarning(RuntimeWarning):
    """A subscriber to changes raised; the change itself stays."""


class JournalWarning(RuntimeWarning):
    """The journal failed, and the operator chose to go on without it."""


class UntestedVersionWarning(UserWarning):
    """A framework is installed in another version than this release is tested with."""


class StatsWarning(RuntimeWarning):
    """A file of usage statistics could not be read and was set aside."""


class PluginWarning(RuntimeWarning):
    """A plugin failed and was rejected, a hook of one failed, or an upgrade changed the definition of a tool."""
