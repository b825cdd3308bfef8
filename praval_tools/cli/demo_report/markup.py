"""Making HTML that strangers cannot write into: every text is escaped unless it was made here."""

from __future__ import annotations

from html import escape
from typing import Final

from praval_tools.cli.common import shown

_VOID: Final = {"meta", "img"}


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def text(value: object, *, most: int | None = None) -> Markup:
    """Return *value* as text: markup, control characters and invisible marks are shown, never obeyed."""
    return Markup(escape(shown(value, lines=True, most=most)))


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """
    Return an element.

    Args:
        name: Of the element.
        children: Markup, or what is shown as text; None is left out.
        attributes: A trailing underscore is dropped (`class_`), others are hyphens; None is left out.
    """
    names = {key: key.rstrip("_").replace("_", "-") for key, value in attributes.items() if value is not None}
    given = "".join(f' {name}="{text(attributes[key])}"' for key, name in names.items())
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{joined(*children)}</{name}>")


def joined(*children: object) -> Markup:
    """Return *children* one after the other."""
    return Markup("".join(one if isinstance(one, Markup) else text(one) for one in children if one is not None))
