"""No module uses another module's private names: what others need has a public name."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_tree import PACKAGE, Function, list_package_files, read_tree

EXEMPT_FOLDERS = ("integrations", "compat")
"""They reach into other people's packages, which offer nothing public for it."""

NAMES_OF_PYTHON = {
    "_exit",
    "_getframe",
    "_get_running_loop",
    "_is_owned",
    "_field_defaults",
    "_value_",
    "_name_",
    "_replace",
    "_fields",
    "_asdict",
}
"""Names of the standard library that are documented, or without which there is no other way."""

NAMES_READ_BY_TEXT = {"_name", "_path"}
"""Of `typing` and `importlib.metadata`, where they are: read by `getattr` with a default."""


def find_own_names(tree: ast.Module) -> set[str]:
    """Return the private names that a module defines: functions, classes, variables, attributes, slots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("_"):
            names.add(node.value)
    return names


def find_imported_names(tree: ast.Module) -> set[str]:
    """Return the names that a module imports from other modules of the package."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("praval_tools")
        for alias in node.names
    }


def find_accesses(source: ast.Module) -> Iterator[tuple[int, str]]:
    """
    Yield each use of another module's private name, with its line: imports, attributes, `getattr` with a text.

    An attribute whose name the module defines itself counts as its own, unless it is read from a parameter that is
    annotated with an imported class.
    """
    own, imported = find_own_names(source), find_imported_names(source)
    foreign = _find_foreign_reads(source, imported)
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("praval_tools"):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Attribute) and _is_private(node.attr) and not _is_self(node.value):
            if node.attr not in own or node in foreign:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
            name = node.args[1]
            is_of_python = len(node.args) == 3 and ast.unparse(name).strip("'") in NAMES_READ_BY_TEXT
            if isinstance(name, ast.Constant) and _is_private(str(name.value)) and not _is_self(node.args[0]):
                if is_of_python:
                    continue
                yield node.lineno, str(name.value)


def _find_foreign_reads(tree: ast.Module, imported: set[str]) -> set[ast.Attribute]:
    reads: set[ast.Attribute] = set()
    for function in ast.walk(tree):
        if isinstance(function, Function):
            arguments = function.args
            typed = {
                parameter.arg
                for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                if parameter.annotation is not None and ast.unparse(parameter.annotation).strip("'\"") in imported
            }
            reads.update(
                node
                for node in ast.walk(function)
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in typed
            )
    return reads


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in NAMES_OF_PYTHON


class TestPrivateNames:
    def test_no_module_uses_those_of_another(self) -> None:
        """Outside of the integrations, a name with an underscore is used in its own module only."""
        accesses = [
            f"{path.relative_to(PACKAGE)}:{line}: {name}"
            for path in list_package_files()
            if path.relative_to(PACKAGE).parts[0] not in EXEMPT_FOLDERS
            for line, name in find_accesses(read_tree(path))
        ]

        assert [] == accesses

    @pytest.mark.parametrize(
        "planted",
        [
            "from praval_tools.registry.registry import _make_runtime",
            "registry._runtime.clock",
            "self.registry._runtime",
            "getattr(registry, '_runtime')",
            "from praval_tools.registry.registry import ToolRegistry\n"
            "class A:\n    def __init__(self, registry: ToolRegistry):\n        self._runtime = registry._runtime",
        ],
    )
    def test_a_planted_use_is_seen(self, planted: str) -> None:
        """Each way to reach another module's private name counts, also where the module has such a name itself."""
        assert 1 == len(list(find_accesses(ast.parse(planted))))

    def test_own_names_are_free(self) -> None:
        """A module may use its own private names, on `self` and on other objects of its classes."""
        source = "class A:\n    _x = 1\n    def f(self, other):\n        return self._x + other._x + _helper(self._y)"

        assert [] == list(find_accesses(ast.parse(source)))
