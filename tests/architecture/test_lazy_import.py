"""Own modules are imported by name in one place only, from a short list."""

# Tests of: lazy_import

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

import praval_tools
from praval_tools.lazy_import import LAZY_MODULES, load

PACKAGE = Path(praval_tools.__file__).parent
MAX_LAZY_MODULES = 6
IMPORTS_BY_NAME = {"import_module", "__import__", "find_spec", "load", "resolve_name"}
_SUSPECT = re.compile(rf"\b(?:{'|'.join(sorted(IMPORTS_BY_NAME))})\b")
IMPORTERS_OF_FOREIGN_MODULES = {
    "cli/app_option.py",  # the user's app
    "compat/praval/tools.py",  # the user's tool modules
    "config_loading/functions.py",  # the module of a function that a file names
    "integrations/praval/praval_modules.py",  # Praval
    "lazy_import.py",
    "plugins/staging.py",  # a plugin's module
    "registry/discovery.py",  # the user's packages
    "tools/function_address.py",  # the module of a function that another process is to run
    "schema/type_hints.py",  # typing_extensions, where it is installed
}
"""The modules that may import others by name, and what they import."""


def _walk(source: str) -> Iterator[ast.AST]:
    """Yield the nodes of a module, or none of one in which no name of interest occurs."""
    return ast.walk(ast.parse(source)) if _SUSPECT.search(source) else iter(())


def find_imports_by_name(source: str) -> Iterator[tuple[str, str]]:
    """Return the calls in *source* that import by name: the function, and what it is called with."""
    for node in _walk(source):
        if isinstance(node, ast.Call) and node.args:
            function = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if function in IMPORTS_BY_NAME and not (function == "load" and isinstance(node.func, ast.Attribute)):
                yield function, ast.unparse(node.args[0])


def find_importers(source: str) -> Iterator[str]:
    """Yield each mention of a function that imports by name, also where it is handed on instead of called."""
    for node in _walk(source):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if name in IMPORTS_BY_NAME - {"load"}:
            yield name


def find_violations(file: str, source: str) -> list[str]:
    """Return the imports by name in *source* that break the rule."""
    calls = [
        f"{file}: {function}({argument})"
        for function, argument in find_imports_by_name(source)
        if (function != "load" and "praval_tools" in argument)
        or (function == "load" and not argument.lstrip("f").strip("'").startswith(LAZY_MODULES))
    ]
    return calls or [f"{file}: {name}" for name in find_importers(source) if file not in IMPORTERS_OF_FOREIGN_MODULES]


def find_wrong_entries(entries: Sequence[str], sources: Iterable[str]) -> list[str]:
    """Return what is wrong with a list of modules that are loaded by name: too many, or some that nobody loads."""
    loaded = {
        argument.lstrip("f").strip("'")
        for source in sources
        for function, argument in find_imports_by_name(source)
        if function == "load"
    }
    wrong = [f"{len(entries)} entries"] if len(entries) > MAX_LAZY_MODULES else []
    return wrong + [entry for entry in entries if not any(name.startswith(entry) for name in loaded)]


class TestLazyImports:
    def test_the_list_is_short(self) -> None:
        """Six entries at most, each of which is used, and each of which exists."""
        sources = (path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))

        assert [] == find_wrong_entries(LAZY_MODULES, sources)
        assert all(load(entry).__name__ == entry for entry in LAZY_MODULES)

    def test_a_planted_entry_is_seen(self) -> None:
        """The check fails at a seventh entry, and at one that nobody loads."""
        entries = [f"praval_tools.part_{number}" for number in range(7)]
        sources = [f"load('{entry}')" for entry in entries]

        assert [] == find_wrong_entries(entries[:6], sources)
        assert ["7 entries"] == find_wrong_entries(entries, sources)
        assert [entries[0]] == find_wrong_entries(entries[:6], sources[1:])

    def test_only_modules_on_the_list_can_be_loaded(self) -> None:
        """A module that is not on the list is refused, even one whose name begins like an entry."""
        for name in ("praval_tools.registry.registry", "praval_tools.formats_of_mine", "json", "praval_tools"):
            with pytest.raises(ValueError, match="is not one of the modules"):
                load(name)

    def test_no_other_import_by_name(self) -> None:
        """Imports by name hide edges from type checkers and from the layers: `load` has them all."""
        violations = [
            violation
            for path in sorted(PACKAGE.rglob("*.py"))
            for violation in find_violations(path.relative_to(PACKAGE).as_posix(), path.read_text())
        ]

        assert [] == violations

    @pytest.mark.parametrize(
        "source",
        [
            'import_module("praval_tools.runs.run")',
            'importlib.import_module(f"praval_tools.{name}")',
            '__import__("praval_tools.runs")',
            'load("praval_tools.registry.registry")',
            "load(name)",
        ],
    )
    def test_a_planted_import_is_seen(self, source: str) -> None:
        """The check fails on each way to import an own module by name, also in modules that import foreign ones."""
        assert 1 == len(find_violations("cli/app_option.py", source))
        assert 1 == len(find_violations("access/rules.py", source))

    @pytest.mark.parametrize(
        "source",
        ["import_module(name)", "Context().run(import_module, name)", "partial(importlib.import_module, name)"],
    )
    def test_a_planted_importer_is_seen(self, source: str) -> None:
        """So it does on a module that begins to import others by name, also by a function that it hands on."""
        assert 1 == len(find_violations("access/rules.py", source))
        assert [] == find_violations("cli/app_option.py", source)
