"""The source files of the project, parsed once: what the checks of names, imports and layout read."""

from __future__ import annotations

import ast
import gc
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import praval_tools

PACKAGE = Path(praval_tools.__file__).parent
ROOT = Path(__file__).parents[2]
Function = ast.FunctionDef | ast.AsyncFunctionDef

_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


@cache
def read_tree(path: Path) -> ast.Module:
    """
    Return the syntax tree of a file.

    No garbage is collected meanwhile: a task of another test whose error nobody took would log it then. To show
    its lines, the traceback module of Python 3.11 parses them, and the parser that waits raises a `SystemError`.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    finally:
        if is_collecting:
            gc.enable()


@cache
def list_package_files() -> tuple[Path, ...]:
    """Return the modules of the package, sorted."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


def get_module_name(path: Path) -> str:
    """Return the name under which a file of the package is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def split_words(name: str) -> list[str]:
    """Return the words of an identifier or a text, in small letters."""
    return [word.lower() for word in _WORDS.findall(name)]


def list_functions(tree: ast.AST) -> Iterator[Function]:
    """Yield every function and method of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def find_identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the names that a module defines or uses, each with its line: also attributes, parameters and keywords."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.lineno, node.arg or ""
        elif isinstance(node, Function | ast.ClassDef):
            yield node.lineno, node.name


def find_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def find_strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and other strings of a module, each with the line on which it begins."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def find_tests(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the tests of a module, each after that of its class, and the classes."""
    for node in tree.body:
        if isinstance(node, Function):
            yield node.name
        elif isinstance(node, ast.ClassDef):
            yield node.name
            yield from (f"{node.name}::{test.name}" for test in node.body if isinstance(test, Function))
