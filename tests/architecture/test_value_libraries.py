"""One library for values in a module: msgspec for hot records, attrs for what users make and configure."""

from __future__ import annotations

import ast

import pytest
from source_tree import PACKAGE, list_package_files, read_tree

LIBRARIES = {"attrs", "msgspec"}
MAX_MODULES_WITH_BOTH = 7
"""Modules that change values of both kinds, or read the fields of users' classes of both; goes down only."""


def find_libraries(tree: ast.Module) -> set[str]:
    """Return the libraries for values that a module imports, anywhere in it."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add((node.module or "").partition(".")[0])
    return {"attrs" if name == "attr" else name for name in imported} & LIBRARIES


def find_libraries_of_classes(tree: ast.Module) -> set[str]:
    """Return the libraries with which a module defines classes of its own."""
    libraries: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if any(ast.unparse(base).removeprefix("msgspec.") == "Struct" for base in node.bases):
                libraries.add("msgspec")
            for decorator in node.decorator_list:
                name = ast.unparse(decorator).partition("(")[0].removeprefix("attrs.")
                if name in {"frozen", "define", "mutable"}:
                    libraries.add("attrs")
    return libraries


class TestValueLibraries:
    def test_few_modules_import_both(self) -> None:
        """Few modules need to know both libraries."""
        both = [
            path.relative_to(PACKAGE).as_posix()
            for path in list_package_files()
            if find_libraries(read_tree(path)) == LIBRARIES
        ]

        assert len(both) <= MAX_MODULES_WITH_BOTH, both

    def test_no_module_defines_classes_of_both(self) -> None:
        """The values of one module are of one kind."""
        both = [
            path.relative_to(PACKAGE).as_posix()
            for path in list_package_files()
            if find_libraries_of_classes(read_tree(path)) == LIBRARIES
        ]

        assert [] == both

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("import msgspec\nfrom attrs import frozen", LIBRARIES),
            ("from msgspec.structs import replace\ndef f():\n    import attr", LIBRARIES),
            ("import msgspec.json, attrs.validators", LIBRARIES),
            ("from attrs import evolve\nimport msgspec_other", {"attrs"}),
        ],
    )
    def test_planted_imports_are_seen(self, source: str, expected: set[str]) -> None:
        """Imports count in each form and in each place."""
        assert expected == find_libraries(ast.parse(source))

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("class A(msgspec.Struct, frozen=True): ...\n@frozen(kw_only=True)\nclass B: ...", LIBRARIES),
            ("class A(Struct): ...\ndef f():\n    @attrs.define\n    class B: ...", LIBRARIES),
            ("class A(Structure): ...\n@dataclass\nclass B: ...", set()),
        ],
    )
    def test_planted_classes_are_seen(self, source: str, expected: set[str]) -> None:
        """Classes count wherever they stand, with and without the name of the library."""
        assert expected == find_libraries_of_classes(ast.parse(source))
