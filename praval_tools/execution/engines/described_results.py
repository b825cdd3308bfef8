"""Describes the result of a call as JSON, and makes a result of the same types of it in another process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from praval_tools.execution.engines.described_errors import describe_remote_error, restore_error
from praval_tools.execution.engines.messages import DescribedResult
from praval_tools.execution.failures import make_encoding_error, read_error_secrets
from praval_tools.execution.runtime import Runtime
from praval_tools.schema.json_values import is_json
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.union_members import NOT_READ_BACK
from praval_tools.tools.call import Outcome, ToolResult
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.function_address import get_function_address, import_function
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.return_values import write_complete
from praval_tools.tools.tool import Tool
from praval_tools.tools.value_codec import pack_value, unpack_value

_SAME_FIELDS: Final = (
    "tool_call_id", "name", "agent", "outcome", "error", "error_type", "latency_ms", "attempts", "replayed", "max_size",
    "approval_id", "run_id",
)  # fmt: skip
"""The fields that both a result and its description have."""


def describe_result(result: ToolResult, runtime: Runtime) -> DescribedResult:
    """Return the description of a result; a value that has no JSON form makes it a `tool_error`."""
    record = runtime.access_store.state.find_tool_record(result.name)
    implementation = None if record is None else record.tool.implementation
    written, marked_values = WrittenValue(), list[object]()
    if result.outcome is Outcome.OK:
        try:
            written = _write_result(implementation, result, marked_values)
        except (Exception, SystemExit) as error:  # what the tool returned may run code of its own
            failure = make_encoding_error(result.name, error)
            result = replace(
                result, outcome=Outcome.TOOL_ERROR, error=str(failure), error_type=failure.error_type, exception=failure
            )
    if result.exception is not None:
        written = WrittenValue(marked_values=pack_secrets(marked_values, result.exception))
    described = describe_result_without_value(result)
    return replace(described, function=_find_address(implementation), **written._asdict())


def describe_result_without_value(result: ToolResult) -> DescribedResult:
    """Return the description of what is known of a result beside the value that a tool returned."""
    decision = result.decision
    if decision is not None:
        source = None if decision.source is None else str(decision.source)
        decision = replace(decision, source=source, tried=())
    return DescribedResult(
        **{name: getattr(result, name) for name in _SAME_FIELDS}, decision=decision,
        exception=None if result.exception is None else describe_remote_error(result.name, result.exception),
    )  # fmt: skip


def _write_result(
    implementation: ToolImplementation | None, result: ToolResult, marked_values: list[object]
) -> WrittenValue:
    """Return the value of a result as JSON; what was recorded, or came of a process, may be JSON and nothing else."""
    try:
        return write_return_value(implementation, result.name, result.result, marked_values)
    except Unencodable:
        if not is_json(result.result):
            raise
        return WrittenValue(pack_value(result.result), NOT_READ_BACK)


class WrittenValue(NamedTuple):
    """A value as JSON, what is needed to read it, as `write_result` says, and what classes mark as secret in it."""

    value: object = None
    union_members: tuple[str, ...] = ()
    marked_values: tuple[object, ...] = ()


def write_return_value(
    implementation: ToolImplementation | None, tool: str, value: object, marked_values: list[object]
) -> WrittenValue:
    """
    Return what a tool returned as JSON, as a journal has it.

    Args:
        implementation: What ran; None: the tool is gone, and what it returned is JSON.
        tool: The name of the tool.
        value: What it returned.
        marked_values: Receives what classes mark as secret in the value, also where it cannot be written.

    Raises:
        Unencodable: It has no JSON form; its own code may raise anything else.
    """
    with activate_tool_frame(tool):
        write = _write_json if implementation is None else implementation.compiled.write_result
        _, json, members = write_complete(value, write, marked_values)
        return WrittenValue(pack_value(json), members, pack_secrets(marked_values))


def _write_json(value: object) -> tuple[object, tuple[str, ...]]:
    return value, ()


def pack_secrets(marked_values: Iterable[object], error: BaseException | None = None) -> tuple[object, ...]:
    """Return marked values as JSON, and after them what classes mark as secret in what a tool raised."""
    return tuple(map(pack_value, (*marked_values, *(() if error is None else read_error_secrets(error)))))


def _find_address(implementation: ToolImplementation | None) -> str:
    try:
        return "" if implementation is None else get_function_address(implementation)
    except ValueError:  # only its return hint is not known there
        return ""


def restore_result(described: DescribedResult) -> ToolResult:
    """Return the result; its value gets the types of the return hint where the function is found here."""
    exception = None if described.exception is None else restore_error(described.name, described.exception)
    return ToolResult(
        **{name: getattr(described, name) for name in _SAME_FIELDS}, decision=described.decision, exception=exception,
        result=_decode_value(described),
    )  # fmt: skip


def _decode_value(described: DescribedResult) -> object:
    value = unpack_value(described.value)
    if not described.function:
        return value
    try:
        found: object = import_function(described.function)
        with activate_tool_frame(described.name):  # classes of its return hint may run code of their own
            compiled = find_implementation(found, described.name).compiled
            return compiled.decode_result(value, described.union_members)
    except (Exception, SystemExit):  # the seam to any module, and to its classes: the value stays JSON
        return value


def find_implementation(found: object, name: str, description: str | None = None) -> ToolImplementation:
    """Return the implementation of the tool that was found by its address; of a function one that is made of it."""
    if isinstance(found, Tool):
        return found.implementation
    if not callable(found):
        raise LookupError(f"{name!r} is not a function there")
    return Tool.from_function(found, name, description or name, strict=False).implementation
