"""
Writes the table of contents of each page of the reference: what the page documents, and what it is, in a line each.

The pages are made of directives, which only the built site fills; the table is there for whoever reads the file.
A class whose inherited members the page shows has a row for each of its public methods and properties.
"""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path

PAGES = sorted((Path(__file__).parents[2] / "docs" / "reference").glob("*.md"))
PACKAGE = Path(__file__).parents[2] / "praval_tools"
BEGIN, END = "<!-- contents -->", "<!-- end of contents -->"

_DOCUMENTED = (types.ModuleType, property)
_DIRECTIVE = re.compile(r"^::: ([\w.]+)\n((?: .*\n)*)", re.MULTILINE)
_TABLE = re.compile(rf"{BEGIN}\n.*?{END}\n\n", re.DOTALL)
_FIRST_DIRECTIVE = re.compile(r"^(?:## .*\n(?:(?!:::).*\n)*?)?::: ", re.MULTILINE)


def find_object(path: str) -> object:
    """Return what a dotted path names: the longest part of it that is a module, and attributes from there."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(find_object(module), name)


def read_summary(name: str, documented: object) -> str:
    """Return the first paragraph of a docstring; that of a variable stands below its assignment."""
    text = documented.__doc__ or ""
    if not (inspect.isclass(documented) or inspect.isroutine(documented) or isinstance(documented, _DOCUMENTED)):
        assignment = re.compile(rf'^{name}\b.* = .*\n(?:[ )\]].*\n)*"""([^"]*)"""', re.MULTILINE)
        sources = (path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py")))
        text = next((found[1] for source in sources if (found := assignment.search(source))), text)
    return " ".join(inspect.cleandoc(text).partition("\n\n")[0].split()).replace("|", r"\|")


def list_public_names(module: types.ModuleType) -> list[str]:
    """Return the names of `__all__`, or without one the public classes that a module defines."""
    classes = {name: value for name, value in vars(module).items() if inspect.isclass(value)}
    defined = [name for name, value in classes.items() if value.__module__ == module.__name__]
    return list(getattr(module, "__all__", [name for name in defined if not name.startswith("_")]))


def list_rows(text: str) -> Iterator[tuple[str, str]]:
    """Yield what a page documents, each with its summary."""
    for position, (path, options) in enumerate(_DIRECTIVE.findall(text)):
        documented, name = find_object(path), path.rpartition(".")[2]
        if isinstance(documented, types.ModuleType):
            yield path, read_summary(name, documented)
            for member in list_public_names(documented):
                yield member, read_summary(member, getattr(documented, member))
            continue
        yield name, read_summary(name, documented)
        if position == 0 and inspect.isclass(documented) and "inherited_members: true" in options:
            for member in sorted(dir(documented)):
                value = inspect.getattr_static(documented, member)
                function = getattr(value, "__func__", value)
                if not member.startswith("_") and (inspect.isfunction(function) or isinstance(value, property)):
                    yield f"{name}.{member}", read_summary(member, value)


def write_table(text: str) -> str:
    """Return the text of a page with its table as it should be; a page without directives has none."""
    text = _TABLE.sub("", text)
    if (first := _FIRST_DIRECTIVE.search(text)) is None:
        return text
    rows = "".join(f"| `{name}` | {summary} |\n" for name, summary in list_rows(text))
    table = f"{BEGIN}\n| name | what it is |\n|---|---|\n{rows}{END}\n\n"
    return text[: first.start()] + table + text[first.start() :]


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(write_table(page.read_text(encoding="utf-8")), encoding="utf-8")
