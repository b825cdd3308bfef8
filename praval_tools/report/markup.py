"""Builds HTML safely: every text is escaped unless it was built here."""

from __future__ import annotations

from html import escape
from typing import Final

from praval_tools.report.text import sanitize_text

_VOID_ELEMENTS: Final = {"img", "input", "link"}


class Markup(str):
    """Text that is HTML already, also to the templates of Jinja2."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the text, which templates insert as it is."""
        return self


def escape_text(value: object, *, max_length: int | None = None) -> Markup:
    """Return *value* as text: markup, control characters and invisible marks are shown, never interpreted."""
    return Markup(escape(sanitize_text(value, keep_line_breaks=True, max_length=max_length)))


def build_element(name: str, /, *children: object, **attributes: object) -> Markup:
    """
    Return an element.

    Args:
        name: Of the element.
        children: Markup, or what is shown as text; None is left out.
        attributes: A trailing underscore is dropped (`class_`), others become hyphens; None is left out.
    """
    names = {key: key.rstrip("_").replace("_", "-") for key, value in attributes.items() if value is not None}
    attribute_text = "".join(f' {name}="{escape_text(attributes[key])}"' for key, name in names.items())
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{attribute_text}>")
    return Markup(f"<{name}{attribute_text}>{join_markup(*children)}</{name}>")


def build_code(text: object) -> Markup:
    """Return *text* as code."""
    return build_element("code", text)


def build_row(*cells: object, class_: str | None = None) -> Markup:
    """Return a row of a table; what is not a cell yet becomes one."""
    is_cell = [isinstance(cell, Markup) and cell.startswith(("<td", "<th")) for cell in cells]
    filled = (cell if done else build_element("td", cell) for cell, done in zip(cells, is_cell, strict=True))
    return build_element("tr", *filled, class_=class_)


def join_markup(*children: object) -> Markup:
    """Return *children* one after the other."""
    present = (child for child in children if child is not None)
    return Markup("".join(child if isinstance(child, Markup) else escape_text(child) for child in present))
