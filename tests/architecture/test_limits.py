"""The limits that keep the code readable: sizes, imports inside functions, positional parameters."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from source_tree import read_tree

import praval_tools

HOME = Path(praval_tools.__file__).parent
MODULES = [*sorted(HOME.rglob("*.py")), *sorted(HOME.parent.glob("plugins/praval-tools-*/praval_tools_*/*.py"))]
WIDE = {"ToolRegistry": 50, "AgentBase": 25, "Agent": 25}
SEED_SIGNATURES = {
    "Tool.__init__": 4,  # Tool(name, description, parameters, callable)
    "Tool.from_function": 7,  # (function, name, description, namespace, method_name, metadata, strict)
    "ToolCatalogue.register_object": 1,
    "ToolCatalogue.search_tools": 5,  # Praval's
    "ToolRegistry.search_tools": 5,  # compat.praval's
    "ToolCatalogue.register": 3,  # PyWorkflow's
    "ToolRegistry.execute": 3,
    "ToolRegistry.aexecute": 3,
    "discover_tools": 4,
    "Agent.__init__": 6,
    "ToolCollection.__init__": 3,
    "tool": 11,  # Praval's
    "list_tools": 3,
}
_MAPPING = {"keys", "values", "items", "get"}
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _docstring_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


@cache
def lines_of(path: Path) -> set[int]:
    """Return the numbers of the lines that hold something: no blanks and comments."""
    text = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


@cache
def code_lines(path: Path) -> set[int]:
    """Return the numbers of the lines that hold code: no docstrings either."""
    return lines_of(path) - _docstring_lines(read_tree(path))


def _functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
            yield from _functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{node.name}.")
        else:
            yield from _functions(node, prefix)


def _is_attribute(function: Function) -> bool:
    return any("property" in ast.unparse(one) for one in function.decorator_list)


def _name(path: Path) -> str:
    return str(path.relative_to(HOME if path.is_relative_to(HOME) else HOME.parent / "plugins"))


@pytest.mark.parametrize("path", MODULES, ids=_name)
class TestModule:
    def test_has_at_most_400_lines(self, path: Path) -> None:
        """A module is read in one sitting, docstrings and all."""
        assert len(lines_of(path)) <= 400

    def test_functions_have_at_most_40_lines(self, path: Path) -> None:
        """A function fits on a screen."""
        lines = code_lines(path)
        sizes = {
            name: len([line for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in lines])
            for name, node in _functions(read_tree(path))
        }

        assert {} == {name: size for name, size in sizes.items() if size > 40}

    def test_classes_have_few_public_methods(self, path: Path) -> None:
        """
        A class does one thing; the registry and the agent, whose interfaces are given, may be wider.

        Attributes that are computed are no methods, nor is what the protocol of a mapping asks for.
        """
        wide = {}
        for node in ast.walk(read_tree(path)):
            if isinstance(node, ast.ClassDef):
                methods = {one.name for one in node.body if isinstance(one, Function) and not _is_attribute(one)}
                public = {name for name in methods - _MAPPING if not name.startswith("_")}
                if len(public) > WIDE.get(node.name, 12):
                    wide[node.name] = len(public)

        assert {} == wide

    def test_imports_of_its_own_package_stand_on_top(self, path: Path) -> None:
        """No import inside a function hides a cycle; commands, test helpers and plugins are imported on first use."""
        if path.parent.name in ("cli", "testing") or path in (HOME / "__main__.py", HOME / "__init__.py"):
            return
        inside = [
            f"{name}: {ast.unparse(node)}"
            for name, function in _functions(read_tree(path))
            for node in ast.walk(function)
            if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("praval_tools"))
            or (isinstance(node, ast.Import) and any(one.name.startswith("praval_tools") for one in node.names))
        ]

        assert [] == inside

    def test_public_functions_take_few_positional_parameters(self, path: Path) -> None:
        """At most two positional parameters with defaults, beyond the signatures that are given."""
        many = {}
        for name, node in _functions(read_tree(path)):
            if any(part.startswith("_") and part != "__init__" for part in name.split(".")):
                continue
            optional = len(node.args.defaults)
            if optional > SEED_SIGNATURES.get(name, 2):
                many[name] = optional

        assert {} == many


class TestPackage:
    def test_most_functions_are_short(self) -> None:
        """Nineteen of twenty functions have at most 30 lines."""
        sizes = []
        for path in MODULES:
            lines = code_lines(path)
            for _, node in _functions(read_tree(path)):
                sizes.append(len([line for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in lines]))

        assert sum(size <= 30 for size in sizes) / len(sizes) >= 0.95

    def test_public_names_are_the_listed_ones(self) -> None:
        """`__all__` is sorted, complete, and everything in it exists."""
        assert sorted(praval_tools.__all__) == list(praval_tools.__all__)
        assert [] == [name for name in praval_tools.__all__ if not hasattr(praval_tools, name)]


MAX_TEST_LINES = 500
SHARED_TEST_FOLDERS = {"architecture", "docs", "guarantees", "seeds", "support"}
"""Folders of tests that belong to no package: what crosses them."""
ROOT_MODULES_FOLDER = "foundation"
"""Where the tests of the modules at the package root are."""
TESTS = Path(__file__).parents[1]
MAX_LONG_TEST_FILES = 0
MAX_MODULES_WITHOUT_TESTS = 62


def find_untested_modules(modules: Iterator[str], test_files: set[str]) -> list[str]:
    """
    Return the modules whose tests cannot be found by name.

    `schema/coercion.py` has its tests in `tests/schema/test_coercion.py`, or, where small modules share a file, in one
    that says so: a line `# Tests of: coercion, encode` near its top.
    """
    return [
        module
        for module in modules
        if f"{module.rpartition('/')[0].partition('/')[0] or ROOT_MODULES_FOLDER}/{module.rpartition('/')[2]}"
        not in test_files
    ]


def read_tested_modules() -> set[str]:
    """Return what the tests cover by name: `folder/module`, from the names of the files and their `Tests of:` lines."""
    covered: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        folder = path.relative_to(TESTS).parts[0]
        home = ROOT_MODULES_FOLDER if folder == "architecture" else folder
        covered.add(f"{folder}/{path.stem.removeprefix('test_')}")
        for names in re.findall(r"^# Tests of: (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            covered.update(f"{home}/{name.strip()}" for name in names.split(","))
    return covered


class TestTests:
    def test_no_file_is_longer_than_500_lines(self) -> None:
        """A file of tests holds the promises of one subject, and is read in one sitting."""
        long = {
            str(path.relative_to(TESTS)): length
            for path in TESTS.rglob("*.py")
            if (length := len(path.read_text(encoding="utf-8").splitlines())) > MAX_TEST_LINES
        }

        assert len(long) <= MAX_LONG_TEST_FILES, long

    def test_folders_mirror_the_packages(self) -> None:
        """Each folder of tests is named after a package, or is one of the few that cross them."""
        packages = {path.parent.name for path in HOME.glob("*/__init__.py")}
        folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}

        assert set() == folders - packages - SHARED_TEST_FOLDERS - {ROOT_MODULES_FOLDER}

    def test_the_tests_of_a_module_are_found_by_its_name(self) -> None:
        """A reader of a module knows the file that tests it."""
        modules = (
            path.relative_to(HOME).with_suffix("").as_posix() for path in HOME.rglob("*.py") if path.stem[0] != "_"
        )
        untested = find_untested_modules(modules, read_tested_modules())

        assert len(untested) <= MAX_MODULES_WITHOUT_TESTS, untested

    def test_a_planted_module_without_tests_is_seen(self) -> None:
        """The check sees a module that no file of tests names, in a package, a subpackage and at the root."""
        modules = ["schema/coercion", "schema/planted", "journal/storage/planted", "planted", "names"]

        assert ["schema/planted", "journal/storage/planted", "planted"] == find_untested_modules(
            iter(modules), {"schema/coercion", "foundation/names"}
        )

    def test_the_slow_ones_exist(self) -> None:
        """`slow_tests.txt`, whose tests `make test-fast` leaves out, lists tests that exist, in order and once."""
        listed = (TESTS / "slow_tests.txt").read_text(encoding="utf-8").split()
        present = {
            "::".join(part for part in (class_name, node.name if node else "") if part)
            for path in TESTS.rglob("test_*.py")
            for class_name, node in find_tests(ast.parse(path.read_text(encoding="utf-8")))
        }

        folders = {f"{path.name}/" for path in TESTS.iterdir()}

        assert [] == [name for name in listed if name not in present | folders]
        assert sorted(set(listed)) == listed


def find_tests(tree: ast.Module) -> Iterator[tuple[str, Function | None]]:
    """Yield the tests of a module, each with the name of its class, and the classes."""
    for node in tree.body:
        if isinstance(node, Function):
            yield "", node
        elif isinstance(node, ast.ClassDef):
            yield node.name, None
            yield from ((node.name, test) for test in node.body if isinstance(test, Function))
