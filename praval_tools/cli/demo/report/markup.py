"""Making HTML that strangers cannot write into: every text is escaped unless it was made here."""

from __future__ import annotations

from html import escape
from typing import Final

from praval_tools.cli.common import sanitize_text

_VOID_ELEMENTS: Final = {"meta", "img"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escape_text(value: object, *, max_length: int | None = None) -> Markup:
    """Return *value* as text: markup, control characters and invisible marks are shown, never obeyed."""
    return Markup(escape(sanitize_text(value, keep_line_breaks=True, max_length=max_length)))


def build_element(name: str, /, *children: object, **attributes: object) -> Markup:
    """
    Return an element.

    Args:
        name: Of the element.
        children: Markup, or what is shown as text; None is left out.
        attributes: A trailing underscore is dropped (`class_`), others are hyphens; None is left out.
    """
    names = {key: key.rstrip("_").replace("_", "-") for key, value in attributes.items() if value is not None}
    given = "".join(f' {name}="{escape_text(attributes[key])}"' for key, name in names.items())
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join_markup(*children)}</{name}>")


def join_markup(*children: object) -> Markup:
    """Return *children* one after the other."""
    return Markup("".join(one if isinstance(one, Markup) else escape_text(one) for one in children if one is not None))
