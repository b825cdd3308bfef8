"""The attributes by which a toolset gives its tools: `agent.tools.csv_parse`."""

from __future__ import annotations

from collections.abc import Container, Iterable
from keyword import iskeyword
from typing import Final

_SEPARATORS: Final = str.maketrans({"-": "_", ".": "_"})


def to_attribute_name(tool: str, taken: Container[str]) -> str | None:
    """
    Return the attribute that stands for a tool of this name; None for one that begins with `_`.

    It is the name with `_` for `-` and `.`, and with a `_` behind it where it is a keyword or *taken*.
    """
    name = tool.translate(_SEPARATORS)
    if name.startswith("_"):
        return None
    return f"{name}_" if iskeyword(name) or name in taken else name


def map_attributes(tools: Iterable[str], taken: Container[str]) -> dict[str, str]:
    """
    Return the tool that each attribute stands for.

    Where two tools have the same attribute, such as `call` and `call_`, it stands for the one with exactly this name.
    """
    found: dict[str, str] = {}
    for tool in tools:
        attribute = to_attribute_name(tool, taken)
        if attribute is not None and found.get(attribute) != attribute:
            found[attribute] = tool
    return found
