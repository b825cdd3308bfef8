"""Reads what a tool gets in every spelling in which Python writes it, in order to search for it elsewhere."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeAlias

from praval_tools.schema.function_defaults import list_defaults
from praval_tools.schema.marked_values import iter_marked_values
from praval_tools.schema.spellings import read_spellings
from praval_tools.schema.written_secrets import JsonPlace, find_written_secrets
from praval_tools.tools.compiled import Arguments
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.value_codec import is_plain_json, normalize_value

MarkedPlaces: TypeAlias = tuple[tuple[JsonPlace, object], ...]
"""Secrets in JSON, each after its place."""


def read_argument_spellings(implementation: ToolImplementation, values: Arguments) -> Arguments:
    """Return values of parameters in every spelling."""
    with activate_tool_frame(implementation.name):  # their classes may have code of their own
        return {name: read_spellings(value) for name, value in values.items()}


def read_default_spellings(implementation: ToolImplementation) -> Arguments:
    """Return the spellings of what the tool gets for each parameter that is left out."""
    read = read_argument_spellings(implementation, _list_defaults(implementation))
    return read if implementation.supplied_schema is None else read | implementation.validator.fill_defaults({})


def read_marked_defaults(implementation: ToolImplementation) -> tuple[object, ...]:
    """Return the values in the defaults of parameters that classes mark as secret, as `read_marked_arguments` does."""
    return read_marked_arguments(_list_defaults(implementation))


def _list_defaults(implementation: ToolImplementation) -> Arguments:
    return list_defaults(implementation.signature) | implementation.compiled.function_defaults


def read_marked_arguments(arguments: object) -> tuple[object, ...]:
    """Return the values in *arguments* that classes mark as secret, in every spelling, as far as they can be read."""
    if is_plain_json(arguments):
        return ()
    values: list[object] = []
    with suppress(Exception, SystemExit), activate_tool_frame("(arguments)"):  # the seam to any objects of a caller
        for value in iter_marked_values(arguments):
            values.append(read_spellings(value))  # those before one that cannot be read are kept
    return tuple(values)


def find_marked_places(arguments: object, written: object = None) -> MarkedPlaces:
    """
    Return what classes mark as secret in *arguments*, as it is in their JSON, with its place there.

    Args:
        arguments: What was given.
        written: Their JSON, where that is known.
    """
    if not is_plain_json(arguments):
        with suppress(Exception, SystemExit), activate_tool_frame("(arguments)"):  # the seam to any objects of a caller
            json = written if is_plain_json(written) and written is not None else normalize_value(arguments)
            return tuple(find_written_secrets(arguments, json))
    return ()
