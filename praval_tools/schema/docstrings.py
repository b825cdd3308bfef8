"""Reads descriptions for models from docstrings: that of the function and that of each parameter."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from inspect import cleandoc
from typing import Final

_SECTION_TITLES: Final = frozenset(
    {"args", "arguments", "parameters", "params", "keyword args", "keyword arguments", "other parameters", "returns"}
    | {"return", "raises", "raise", "except", "exceptions", "yields", "yield", "attributes"}
)
_SPHINX_FIELD: Final = (
    r":(?:param|parameter|arg|argument|key|keyword|type|raises?|except|exception|returns?|rtype|yields?|ytype)\b[^:]*:"
)
_PARAMETER_SECTION: Final = (
    r"^\s*:(?:param|parameter|arg|argument|key|keyword)\b"
    r"|^\s*(?:(?:Keyword )?Arg(?:ument)?s|(?:Other )?Parameters|Params|Attributes)\s*(?::\s*$|\n\s*-{3,})"
)


def _measure_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


@lru_cache(maxsize=4096)
def extract_description(doc: str | None) -> str:
    """
    Return the docstring *doc* without its parts on arguments, results and exceptions.

    Other sections stay: an example may help a model.
    """
    if not doc:
        return ""
    if "\n" not in doc:
        return doc.strip()
    lines = cleandoc(doc).split("\n")
    if ":" not in doc and "---" not in doc:
        return "\n".join(lines)
    lines_kept: list[str] = []
    position = 0
    while position < len(lines):
        end = _find_section_end(lines, position)
        if end is None:
            lines_kept.append(lines[position])
            position += 1
        else:
            position = end
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines_kept)).strip()


def _find_section_end(lines: list[str], start: int) -> int | None:
    """Return where the part that starts at *start* ends; None if none starts there."""
    line = lines[start]
    title = line.strip()
    if re.match(_SPHINX_FIELD, title):
        return _find_indented_end(lines, start + 1, _measure_indent(line))
    if title.rstrip(":").lower() not in _SECTION_TITLES:
        return None
    below = lines[start + 1] if start + 1 < len(lines) else ""
    if re.fullmatch(r"-{3,}", below.strip()):
        return _find_numpy_end(lines, start + 2)
    return _find_indented_end(lines, start + 1, _measure_indent(line)) if title.endswith(":") else None


def _find_indented_end(lines: list[str], start: int, indent: int) -> int:
    for position in range(start, len(lines)):
        if lines[position].strip() and _measure_indent(lines[position]) <= indent:
            return position
    return len(lines)


def _find_numpy_end(lines: list[str], start: int) -> int:
    for position in range(start, len(lines) - 1):
        if lines[position].strip() and re.fullmatch(r"-{3,}", lines[position + 1].strip()):
            return position
    return len(lines)


@lru_cache(maxsize=256)
def _parse_parameters(doc: str) -> tuple[tuple[str, str], ...]:
    import docstring_parser

    parameters = [parameter for parameter in docstring_parser.parse(doc).params if parameter.description]
    return tuple(
        (parameter.arg_name.lstrip("*"), " ".join(str(parameter.description).split())) for parameter in parameters
    )


def extract_parameter_descriptions(doc: str | None) -> dict[str, str]:
    """Return what the docstring *doc* says of each parameter, in Google, NumPy or Sphinx style."""
    if not doc or not re.search(_PARAMETER_SECTION, doc, re.MULTILINE | re.IGNORECASE):
        return {}
    return dict(_parse_parameters(doc))


def find_docstring(function: object) -> str | None:
    """Return the docstring of what is called in the end; a class and a partial have none of their own."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, type):
        return None
    if not hasattr(function, "__name__") and callable(function) and type(function).__call__.__doc__:
        function = type(function).__call__
    return getattr(function, "__doc__", None)
