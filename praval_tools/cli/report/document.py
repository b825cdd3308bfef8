"""Renders the HTML document of a report: the head and style sheet that all reports share, and its own content."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from string import Template

from praval_tools.report.markup import Markup, join_markup

_PACKAGE, _STYLE_PACKAGE = "praval_tools.cli.report", "praval_tools.report"


def render_document(title: str, package: str, parts: Mapping[str, object]) -> str:
    """
    Return the whole document.

    Args:
        title: Of the document.
        package: The package whose `page.html` is the template of the content.
        parts: What the template is filled with.
    """
    head = {"title": title, "style": Markup(_read_file(_STYLE_PACKAGE, "style.css"))}
    content = Markup(_fill_template(_read_file(package, "page.html"), parts))
    return _fill_template(_read_file(_PACKAGE, "document.html"), {**head, "content": content})


def _read_file(package: str, name: str) -> str:
    return (files(package) / name).read_text("utf-8")


def _fill_template(template: str, parts: Mapping[str, object]) -> str:
    return Template(template).substitute({name: join_markup(part) for name, part in parts.items()})
