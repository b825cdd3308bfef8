"""Fields of forms that hold what a person typed, exactly: a form that was refused is shown again with it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from praval_tools.report.markup import Markup, build_element, build_row


def build_input(typed: str = "", **attributes: object) -> Markup:
    """Return a field of one line that holds *typed*."""
    element = build_element("input", type="text", autocomplete="off", **attributes)
    return Markup(f'{element[:-1]} value="{escape(typed)}">') if typed else element


def build_area(typed: str = "", **attributes: object) -> Markup:
    """Return a field of several lines that holds *typed*."""
    text = Markup(f"\n{escape(typed)}") if typed else ""  # browsers drop the first line break
    return build_element("textarea", text, spellcheck="false", **attributes)


def build_typed_list(fields: Mapping[str, str], titles: Mapping[str, str]) -> Markup | None:
    """Return what was typed into a form that is not on the page any more, to be copied; None where it was nothing."""
    rows = [
        build_row(
            build_element("th", title, scope="row"),
            build_element("td", build_element("pre", Markup(f"\n{escape(fields[name])}"))),
        )
        for name, title in titles.items()
        if fields.get(name, "").strip()
    ]
    if not rows:
        return None
    caption = build_element("caption", "What you typed", class_="fine")
    return build_element("table", caption, build_element("tbody", *rows), class_="facts")
