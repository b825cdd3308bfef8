"""Calls and results: a request to run a tool, how it ended, and what a model reads of it."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from praval_tools.misuse import explain_misuse
from praval_tools.names import get_class_name, get_plain_type, has_type, to_plain_text
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.json_values import SCALAR_TYPES, replace_surrogates
from praval_tools.schema.scalars import SCALAR_ENCODE_HOOKS
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.content import Content, describe_blocks, to_content_blocks
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.shown_fields import list_shown_fields, write_repr
from praval_tools.tools.truncation import truncate_json, truncate_text

if TYPE_CHECKING:
    from praval_tools.schema.coercion import Repair
    from praval_tools.tools.decision import Decision

_MAX_ERROR_LENGTH: Final = 4_000
"""Most characters of an error that a model sees."""
_SHOWN_FIELDS: Final = ("tool_call_id", "name", "agent", "outcome", "result", "error", "error_type")
"""What the `repr` of a result shows; of result and error only the type, since either may hold a secret."""


class Outcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    TOOL_ERROR = "tool_error"
    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    FORBIDDEN = "forbidden"
    DISABLED = "disabled"
    APPROVAL_REQUIRED = "approval_required"
    APPROVAL_DENIED = "approval_denied"
    LIMITED = "limited"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    ENGINE_LOST = "engine_lost"


_OK: Final = Outcome.OK  # a member of an enum is not found as fast


class ToolCall(msgspec.Struct, frozen=True):
    """
    One request of an agent to run a tool.

    Making one never fails: `arguments` may be a dict, JSON text, bytes or anything else; the call checks them.
    Its `repr` shows their names alone, since a log must hold no secret.

    Args:
        tool_call_id: Identifies this call; None: one is made where something needs it.
        name: The tool's name.
        arguments: A dict, or JSON text of an object; None and empty text mean none.
        agent: Who calls; None is forbidden, except through an agent or its toolset, which fill in their own name.
        run_id: The journaled run that it belongs to.
        on_behalf_of: The agents on whose behalf it calls, the nearest first.
        parent_id: The id of the call from whose tool this one was made; filled in by the call.
        reason: Why the model makes it, where it was asked; recorded in the journal, not passed to the tool.
        engine: Where its function is to run; None: as its tool says, or else the registry.
    """

    tool_call_id: str | None = None
    name: str = ""
    arguments: Any = None
    agent: str | None = None
    run_id: str | None = None
    on_behalf_of: tuple[str, ...] = ()
    parent_id: str | None = None
    reason: str = ""
    engine: str | None = None

    def with_id(self) -> ToolCall:
        """Return the call with an id; a new one where it has none, or one that is not a text."""
        if type(self.tool_call_id) is str and self.tool_call_id:
            return self
        return msgspec.structs.replace(self, tool_call_id=os.urandom(16).hex())

    def __repr__(self) -> str:
        return write_repr(self, self.__rich_repr__())

    def __rich_repr__(self) -> list[tuple[str, object]]:
        defaults = dict(zip(self.__struct_fields__, self.__struct_defaults__, strict=True))
        fields = list_shown_fields(self, hidden=("arguments", "reason"))
        return [(name, value) for name, value in fields if getattr(self, name) is not defaults[name]]


@explain_misuse
class ToolResult(msgspec.Struct, frozen=True):
    """
    The outcome of one call; `success` is true where the tool ran and returned.

    Its `repr` shows how the call ended, and of value and error only the type, since either may hold a secret.

    Args:
        tool_call_id: The id of the call, None where none was given and nothing needed one.
        name: The tool's name as it was called.
        agent: Who called; None for the operator.
        outcome: How it ended.
        result: The tool's value, as Python.
        error: Text for a model; None where the outcome is ok. A result with an error is a failure: made without an
            outcome, its outcome is `tool_error`.
        error_type: The class of the tool's exception, or the error's stable code.
        latency_ms: Milliseconds from the request to the result.
        attempts: How often the function was entered.
        repairs: What was repaired in the arguments.
        replayed: The value was recorded earlier and the tool did not run.
        decision: Why the agent could call it, or not.
        exception: What the tool raised, as it is; for the host program alone.
        max_size: Characters of the value that a model sees; None: all.
        approval_id: The id of the request that waits, where the outcome is `approval_required`, or that has ended with
            the call, where an MCP client's user denied it.
        run_id: The journaled run that the call belongs to; None outside runs.
    """

    tool_call_id: str | None
    name: str
    agent: str | None = None
    outcome: Outcome = Outcome.OK
    result: Any = None
    error: str | None = None
    error_type: str | None = None
    latency_ms: float | None = None
    attempts: int = 0
    repairs: tuple[Repair, ...] = ()
    replayed: bool = False
    decision: Decision | None = None
    exception: BaseException | None = None
    max_size: int | None = None
    approval_id: str | None = None
    run_id: str | None = None

    def __post_init__(self) -> None:
        if self.error is None:
            return
        if type(self.error) is not str:  # what an error says may be a text with code of its own
            msgspec.structs.force_setattr(self, "error", to_plain_text(self.error))
        if self.outcome is Outcome.OK:  # made by hand, with nothing but an error
            msgspec.structs.force_setattr(self, "outcome", Outcome.TOOL_ERROR)

    @property
    def success(self) -> bool:
        """Whether the outcome is `ok`."""
        return self.outcome is _OK

    def for_model(self, limit: int | None = None) -> str:
        """
        Return the text that a model reads: the value as JSON or text, or type and message of the error.

        Never a traceback, and never an exception: a value that has no JSON form is said to have none.
        JSON that is cut stays valid.

        Args:
            limit: Most characters; None: the tool's `max_result_size`, 4,000 for an error.
        """
        if limit is None:
            limit = self.max_size
        if self.outcome is not Outcome.OK:
            kind = f"{self.error_type}: " if self.error_type and self.outcome is Outcome.TOOL_ERROR else ""
            return truncate_text(
                replace_surrogates(f"{kind}{self.error or self.outcome.value}"),
                min(limit or _MAX_ERROR_LENGTH, _MAX_ERROR_LENGTH),
            )
        try:
            blocks = list_content_blocks(self)
            if blocks is None and not has_type(self.result, str):
                value = encode_value(self)
            else:
                value = str.__str__(self.result) if blocks is None else describe_blocks(blocks)
            if type(value) is str:  # a time, a path or a number is shown as its text, as it is when it is replayed
                text = replace_surrogates(value)
                return text if limit is None else truncate_text(text, limit)
            return to_json_bytes(value).decode() if limit is None else truncate_json(value, limit)
        except (Exception, SystemExit) as error:  # the seam to whatever a tool returned
            with activate_tool_frame(self.name):
                problem = str(error) if has_type(error, Unencodable) else get_class_name(type(error))
            return truncate_text(
                f"The tool returned what cannot be written as JSON: {problem}", limit or _MAX_ERROR_LENGTH
            )

    def __reduce__(self) -> tuple[type[ToolResult], tuple[object, ...]]:
        # the tool's exception may be anything, and stays in its process
        names = self.__struct_fields__
        return ToolResult, tuple(None if name == "exception" else getattr(self, name) for name in names)

    def __repr__(self) -> str:
        with activate_tool_frame(self.name):
            return write_repr(self, self.__rich_repr__())

    def __rich_repr__(self) -> list[tuple[str, object]]:
        with activate_tool_frame(self.name):
            fields = list_shown_fields(self, hidden=("result", "error"))
        return [(name, value) for name, value in fields if name in _SHOWN_FIELDS and value is not None]


def list_content_blocks(result: ToolResult) -> list[Content] | None:
    """Return the value of a result as content blocks, or None where it is something else, as `encode_value` does."""
    if get_plain_type(result.result) in SCALAR_TYPES:  # has no code of its own
        return None
    with activate_tool_frame(result.name):
        return to_content_blocks(result.result)


def encode_value(result: ToolResult) -> Any:
    """
    Return the value of a result as JSON; code of its own has no rights in any registry, whoever asks.

    Raises:
        Unencodable: It has no JSON form; its own code may raise anything else.
    """
    encode_scalar = SCALAR_ENCODE_HOOKS.get(get_plain_type(result.result))
    if encode_scalar is not None:  # it has no code of its own
        return encode_scalar(result.result)
    with activate_tool_frame(result.name):
        return encode(result.result, takes_subclasses=True)
