"""The limits that keep the code readable: sizes, imports inside functions, positional parameters."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import indent

import pytest
from source_tree import PACKAGE, Function

import praval_tools

MODULES = [*sorted(PACKAGE.rglob("*.py")), *sorted(PACKAGE.parent.glob("plugins/praval-tools-*/praval_tools_*/*.py"))]
MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_LINES_OF_MOST_FUNCTIONS = 30
MIN_SHARE_OF_SHORT_FUNCTIONS = 0.95
MAX_PUBLIC_METHODS = 12
WIDE = {"ToolRegistry": 50, "ToolCatalogue": 21, "AgentBase": 25, "Agent": 25}
"""Classes whose interfaces are given; `ToolCatalogue` is a part of that of `ToolRegistry`."""
MAX_OPTIONAL_POSITIONAL = 2
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
FOLDERS_THAT_IMPORT_LATE = ("cli", "testing")
MODULES_THAT_IMPORT_LATE = (PACKAGE / "__main__.py", PACKAGE / "__init__.py", PACKAGE / "cli" / "demo" / "command.py")
_MAPPING = {"keys", "values", "items", "get"}
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

Violations = Mapping[str, object]


@cache
def parse(source: str) -> ast.Module:
    """Return the syntax tree of a text."""
    return ast.parse(source)


@cache
def find_lines(source: str) -> set[int]:
    """Return the numbers of the lines that hold something: no blanks and comments."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SKIPPED:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def find_docstring_lines(source: str) -> set[int]:
    """Return the numbers of the lines of docstrings."""
    lines: set[int] = set()
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def list_functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module, each with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield f"{prefix}{node.name}", node
            yield from list_functions(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.ClassDef):
            yield from list_functions(node, f"{node.name}.")
        else:
            yield from list_functions(node, prefix)


@cache
def measure_functions(source: str) -> Mapping[str, int]:
    """Return how many lines of code each function has, without docstrings, blanks and comments."""
    lines = find_lines(source) - find_docstring_lines(source)
    return {
        f"{name}:{node.lineno}": len(lines & set(range(node.lineno, (node.end_lineno or 0) + 1)))
        for name, node in list_functions(parse(source))
    }


def find_long_module(source: str) -> Violations:
    """Return how many lines a module has, docstrings counted, where they are too many."""
    return {"lines": count} if (count := len(find_lines(source))) > MAX_MODULE_LINES else {}


def find_long_functions(source: str) -> Violations:
    """Return the functions that are too long, with the number of their lines."""
    return {name: size for name, size in measure_functions(source).items() if size > MAX_FUNCTION_LINES}


def find_wide_classes(source: str) -> Violations:
    """
    Return the classes with too many public methods, and how many.

    Attributes that are computed are no methods, nor is what the protocol of a mapping asks for.
    """
    wide: dict[str, int] = {}
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = {
                method.name
                for method in node.body
                if isinstance(method, Function)
                and not any("property" in ast.unparse(decorator) for decorator in method.decorator_list)
            }
            public = {name for name in methods - _MAPPING if not name.startswith("_")}
            if len(public) > WIDE.get(node.name, MAX_PUBLIC_METHODS):
                wide[node.name] = len(public)
    return wide


def find_late_imports(source: str) -> Violations:
    """Return the functions that import modules of the package."""
    return {
        f"{name}:{node.lineno}": ast.unparse(node)
        for name, function in list_functions(parse(source))
        for node in ast.walk(function)
        if (isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("praval_tools")))
        or (isinstance(node, ast.Import) and any(alias.name.startswith("praval_tools") for alias in node.names))
    }


def find_long_signatures(source: str) -> Violations:
    """Return the public functions with too many positional parameters that have defaults, and how many."""
    return {
        name: optional
        for name, node in list_functions(parse(source))
        if not any(part.startswith("_") and part != "__init__" for part in name.split("."))
        and (optional := len(node.args.defaults)) > SEED_SIGNATURES.get(name, MAX_OPTIONAL_POSITIONAL)
    }


def compute_share_of_short_functions(sources: list[str]) -> float:
    """Return how many of the functions have few lines, as a share of all."""
    sizes = [size for source in sources for size in measure_functions(source).values()]
    return sum(size <= MAX_LINES_OF_MOST_FUNCTIONS for size in sizes) / len(sizes)


def may_import_late(path: Path) -> bool:
    """Tell whether a module is one whose functions import on first use: commands, test helpers, the package itself."""
    return path.parent.name in FOLDERS_THAT_IMPORT_LATE or path in MODULES_THAT_IMPORT_LATE


def make_function(lines: int, signature: str = "f()") -> str:
    """Return the source of a function with that many lines of code, a docstring, a comment and a blank line."""
    return f'def {signature}:\n    """Do\n    nothing."""\n    # why\n\n' + "    pass\n" * (lines - 1)


def make_class(name: str, methods: int) -> str:
    """Return the source of a class with that many public methods, and with others that do not count."""
    others = "    def get(self): ...\n    def _f(self): ...\n    @property\n    def p(self): ...\n"
    return f"class {name}:\n{others}" + "".join(f"    def f{number}(self): ...\n" for number in range(methods))


LIMITS: dict[str, Callable[[str], Violations]] = {
    "lines of a module": find_long_module,
    "lines of a function": find_long_functions,
    "public methods of a class": find_wide_classes,
    "imports inside of functions": find_late_imports,
    "positional parameters": find_long_signatures,
}


class TestLimits:
    @pytest.mark.parametrize("limit", LIMITS)
    def test_holds_in_each_module(self, limit: str) -> None:
        """Modules and functions are short, classes do one thing, no import hides a circle, calls are explicit."""
        violations = {
            str(path): found
            for path in MODULES
            if not (limit == "imports inside of functions" and may_import_late(path))
            and (found := LIMITS[limit](path.read_text(encoding="utf-8")))
        }

        assert {} == violations

    @pytest.mark.parametrize(
        ("limit", "source", "expected"),
        [
            ("lines of a module", "\n# why\nx = 1\n" * 400, {}),
            ("lines of a module", '"""Doc\n\nstring."""\n' + "x = 1\n" * 398, {"lines": 401}),
            ("lines of a function", make_function(40), {}),
            ("lines of a function", make_function(41), {"f:1": 41}),
            ("lines of a function", "class A:\n" + indent("async " + make_function(41), "    "), {"A.f:2": 41}),
            ("public methods of a class", make_class("A", 12), {}),
            ("public methods of a class", make_class("A", 13), {"A": 13}),
            ("public methods of a class", make_class("ToolRegistry", 50), {}),
            ("public methods of a class", make_class("ToolRegistry", 51), {"ToolRegistry": 51}),
            ("imports inside of functions", "import praval_tools.errors", {}),
            ("imports inside of functions", "def f():\n    import json", {}),
            (
                "imports inside of functions",
                "class A:\n    def f(self):\n        from praval_tools import names",
                {"A.f:3": "from praval_tools import names"},
            ),
            ("imports inside of functions", "def f():\n    from . import names", {"f:2": "from . import names"}),
            ("imports inside of functions", "def f():\n    import praval_tools", {"f:2": "import praval_tools"}),
            ("positional parameters", make_function(2, "f(a, b=1, c=2, *, d=3, e=4)"), {}),
            ("positional parameters", make_function(2, "_f(a=1, b=2, c=3)"), {}),
            ("positional parameters", make_function(2, "f(a=1, b=2, c=3)"), {"f": 3}),
            ("positional parameters", make_function(2, "list_tools(a=1, b=2, c=3, d=4)"), {"list_tools": 4}),
        ],
    )
    def test_a_planted_violation_is_seen(self, limit: str, source: str, expected: Violations) -> None:
        """Each limit holds for what just keeps to it, and fails for what is just beyond it."""
        assert expected == LIMITS[limit](source)

    def test_most_functions_are_short(self) -> None:
        """Nineteen of twenty functions have at most 30 lines."""
        sources = [path.read_text(encoding="utf-8") for path in MODULES]

        assert compute_share_of_short_functions(sources) >= MIN_SHARE_OF_SHORT_FUNCTIONS

    def test_planted_long_functions_are_seen(self) -> None:
        """Two of twenty functions with 31 lines are too many, one is not."""
        short, long = [make_function(30)], [make_function(31)]

        assert compute_share_of_short_functions(19 * short + long) >= MIN_SHARE_OF_SHORT_FUNCTIONS
        assert compute_share_of_short_functions(18 * short + 2 * long) < MIN_SHARE_OF_SHORT_FUNCTIONS

    def test_few_modules_import_late(self) -> None:
        """Commands and test helpers import on first use, and nothing else does."""
        folders = {
            path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if may_import_late(path)
        }

        assert {".", "cli", "cli/demo", "testing"} == folders


class TestPublicNames:
    def test_are_the_listed_ones(self) -> None:
        """`__all__` is sorted, complete, and everything in it exists."""
        assert sorted(praval_tools.__all__) == list(praval_tools.__all__)
        assert [] == [name for name in praval_tools.__all__ if not hasattr(praval_tools, name)]
