"""
Prepares the arguments of a tool with a supplied schema for another process, and completes them there.

Defaults of its function were judged here. What is JSON is sent; any other stays the function's own, if it reads as it
did here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from praval_tools.errors import ToolError
from praval_tools.execution.approvals import write_exactly
from praval_tools.schema.function_defaults import find_passable_defaults
from praval_tools.schema.signature import Signature
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.type_hints import NOTHING
from praval_tools.schema.value_reader import ValueReader
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.supplied import SuppliedSchema
from praval_tools.tools.value_codec import is_plain_json


def split_values(schema: SuppliedSchema, values: Mapping[str, object]) -> tuple[Arguments, Arguments]:
    """Return the values that are JSON, and what was judged of the other ones, which are defaults of the function."""
    defaults, judged = schema.function_defaults, Arguments()
    sent = {
        name: value for name, value in values.items()
        if value is not defaults.get(name, NOTHING) or is_plain_json(value)
    }  # fmt: skip
    for name in values.keys() - sent.keys():
        try:
            judged |= schema.read_arguments({name: values[name]})
        except Unencodable:  # nobody judged it
            continue
    return sent, judged


def join_values(
    sent: Mapping[str, object], judged: Mapping[str, object], function: Callable[..., object], signature: Signature
) -> Arguments:
    """
    Return the values that were sent with the function's own defaults that were judged.

    Raises:
        ToolError: One of these is another here.
    """
    joined, reader = dict(sent), ValueReader()
    with activate_tool_frame("(arguments)"):  # members of enums are found by code of their classes
        defaults = find_passable_defaults(function, signature, judged.keys()) if judged else {}
        for name, value in judged.items():
            joined[name] = defaults.get(name, NOTHING)
            try:
                is_same = write_exactly({name: reader.read(joined[name])}) == write_exactly({name: value})
            except Unencodable:
                is_same = False
            if not is_same:
                raise ToolError(f"The default of {name!r} is another one here than was judged, so it did not run.")
    return joined
