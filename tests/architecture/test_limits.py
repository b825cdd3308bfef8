"""The limits that keep the code readable: sizes, imports inside functions, positional parameters."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import praval_tools

HOME = Path(praval_tools.__file__).parent
MODULES = [*sorted(HOME.rglob("*.py")), *sorted(HOME.parent.glob("plugins/praval-tools-*/praval_tools_*/*.py"))]
WIDE = {"ToolRegistry": 50, "AgentBase": 25, "Agent": 25}
SEED_SIGNATURES = {
    "Tool.__init__": 4,  # Tool(name, description, parameters, callable)
    "Tool.from_function": 7,  # (function, name, description, namespace, method_name, metadata, strict)
    "ToolRegistry.register_object": 1,
    "ToolRegistry.search_tools": 5,  # Praval's
    "ToolRegistry.register": 3,  # PyWorkflow's
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


def lines_of(path: Path) -> set[int]:
    """Return the numbers of the lines that hold something: no blanks and comments."""
    text = path.read_text()
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def code_lines(path: Path) -> set[int]:
    """Return the numbers of the lines that hold code: no docstrings either."""
    return lines_of(path) - _docstring_lines(ast.parse(path.read_text()))


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
            for name, node in _functions(ast.parse(path.read_text()))
        }

        assert {} == {name: size for name, size in sizes.items() if size > 40}

    def test_classes_have_few_public_methods(self, path: Path) -> None:
        """
        A class does one thing; the registry and the agent, whose interfaces are given, may be wider.

        Attributes that are computed are no methods, nor is what the protocol of a mapping asks for.
        """
        wide = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = {one.name for one in node.body if isinstance(one, Function) and not _is_attribute(one)}
                public = {name for name in methods - _MAPPING if not name.startswith("_")}
                if len(public) > WIDE.get(node.name, 12):
                    wide[node.name] = len(public)

        assert {} == wide

    def test_imports_of_its_own_package_stand_on_top(self, path: Path) -> None:
        """No import inside a function hides a cycle; the command line loads its commands when they are used."""
        if path.parent.name in ("cli", "testing") or path.name == "__main__.py":
            return
        inside = [
            f"{name}: {ast.unparse(node)}"
            for name, function in _functions(ast.parse(path.read_text()))
            for node in ast.walk(function)
            if (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("praval_tools"))
            or (isinstance(node, ast.Import) and any(one.name.startswith("praval_tools") for one in node.names))
        ]

        assert [] == inside

    def test_public_functions_take_few_positional_parameters(self, path: Path) -> None:
        """At most two positional parameters with defaults, beyond the signatures that are given."""
        many = {}
        for name, node in _functions(ast.parse(path.read_text())):
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
            for _, node in _functions(ast.parse(path.read_text())):
                sizes.append(len([line for line in range(node.lineno, (node.end_lineno or 0) + 1) if line in lines]))

        assert sum(size <= 30 for size in sizes) / len(sizes) >= 0.95

    def test_public_names_are_the_listed_ones(self) -> None:
        """`__all__` is sorted, complete, and everything in it exists."""
        assert sorted(praval_tools.__all__) == list(praval_tools.__all__)
        assert [] == [name for name in praval_tools.__all__ if not hasattr(praval_tools, name)]
