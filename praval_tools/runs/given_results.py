"""Writes the result that a person gives a call in doubt as its tool would have returned it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from praval_tools.errors import ToolUsageError
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.journal import EncodedResult, encode_value
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.value_codec import is_plain_json


def make_result_encoder(runtime: Runtime) -> Callable[[str, object], EncodedResult]:
    """Return what writes a result as JSON, by the name of its tool, in its declared form if the tool is known."""
    return partial(_encode_result, runtime)


def _encode_result(runtime: Runtime, tool: str, value: object) -> EncodedResult:
    """
    Return the result as JSON, and which members of unions wrote it.

    Raises:
        ToolUsageError: The tool could not have returned it.
    """
    record = runtime.access_store.state.find_tool_record(tool)
    if record is None or not record.tool.implementation.is_compilable:
        return encode_value(tool, value)
    compiled = record.tool.implementation.compiled
    try:
        with activate_tool_frame(record.tool.name):  # classes of its return hint may run code of their own
            return compiled.write_json_result(value) if is_plain_json(value) else compiled.write_result(value)
    except Unencodable as error:
        raise ToolUsageError(
            f"Tool {record.tool.name!r} could not have returned that: {error}. "
            f"Say result=… as the tool returns it, or as its JSON.",
            "no-such-result",
        ) from None
