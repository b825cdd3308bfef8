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
    "_initializing",
    "_is_owned",
    "_field_defaults",
    "_value_",
    "_name_",
    "_replace",
    "_fields",
    "_asdict",
    "_asyncio_future_blocking",
    "_at_fork_reinit",
}
"""Names of the standard library that are documented, or without which there is no other way."""

NAMES_READ_BY_TEXT = {"_name", "_path", "_is_coroutine", "_is_coroutine_mark"}
"""Of `typing`, `importlib.metadata`, `asyncio` and `inspect`, where they are: read by `getattr` with a default."""

INHERITED_NAMES = {"registry/registry.py": {"_access_store", "_changes", "_clock", "_current_state"}}
"""What `ToolRegistry` has from `ToolCatalogue`, its one base, which no other module uses."""

MAKERS = {"cls", "type(self)", "object.__new__", "copy.copy"}
"""What makes an object of the class in which it is called."""


def find_accesses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """
    Yield each use of another module's private name, with its line: imports, attributes, `getattr` with a text.

    An attribute counts as the module's own if a class of the module defines it, and if it is read from `self`, from a
    class of the module, or from a variable that is known to be an object of one: by its annotation, by what it is
    assigned, or by an `isinstance`.
    """
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    members = find_members(tree)
    own = {id(name) for function, names in find_own_objects(tree, classes) for name in _find_names(function, names)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and ((node.module or "").startswith("praval_tools") or node.level):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_private(alias.name))
        elif isinstance(node, ast.Attribute) and _is_private(node.attr):
            is_own = id(node.value) in own or ast.unparse(node.value) in {"self", "cls", "super()", *classes}
            if node.attr not in members or not is_own:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and _is_name(node.func, {"getattr", "setattr", "hasattr", "delattr"}):
            name = node.args[1]
            is_of_python = len(node.args) == 3 and ast.unparse(name).strip("'") in NAMES_READ_BY_TEXT
            if isinstance(name, ast.Constant) and _is_private(str(name.value)) and not is_of_python:
                if str(name.value) not in members or not _is_name(node.args[0], {"self", "cls"}):
                    yield node.lineno, str(name.value)


def find_members(tree: ast.Module) -> set[str]:
    """Return the names that the classes of a module define: methods, variables, attributes of `self`, `__slots__`."""
    members: set[str] = set()
    for node in (node for scope in ast.walk(tree) if isinstance(scope, ast.ClassDef) for node in ast.walk(scope)):
        if isinstance(node, Function | ast.ClassDef):
            members.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            members.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if _is_name(node.value, {"self", "cls"}):
                members.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            members.add(node.value)  # `__slots__`, and what `object.__setattr__` sets
    return members


def find_own_objects(tree: ast.Module, classes: set[str]) -> Iterator[tuple[Function, set[str]]]:
    """Yield the functions of a module, each with the variables that hold objects of classes of the module."""
    for function in (node for node in ast.walk(tree) if isinstance(node, Function)):
        names: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.arg) and _is_own_type(node.annotation, classes):
                names.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and _is_own_type(node.annotation, classes):
                names.add(ast.unparse(node.target))
            elif isinstance(node, ast.Assign):
                names.update(_find_assigned(node.targets[0], node.value, classes))
            elif isinstance(node, ast.Call) and _is_name(node.func, {"isinstance"}):
                if _is_own_type(node.args[1], classes):
                    names.add(ast.unparse(node.args[0]))
        yield function, names


def _find_assigned(target: ast.expr, value: ast.expr, classes: set[str]) -> Iterator[str]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for part, part_value in zip(target.elts, value.elts, strict=False):
            yield from _find_assigned(part, part_value, classes)
    elif isinstance(value, ast.Call) and ast.unparse(value.func) in MAKERS | classes:
        yield ast.unparse(target)


def _is_own_type(annotation: ast.expr | None, classes: set[str]) -> bool:
    """Tell whether an annotation names a class of the module, or that and `None`, and nothing else."""
    if annotation is None:
        return False
    parts = {part.strip("'\" ").partition("[")[0] for part in ast.unparse(annotation).strip("'\"").split("|")}
    return bool(parts - {"None"}) and parts - {"None"} <= classes


def _find_names(function: Function, names: set[str]) -> Iterator[ast.Name]:
    return (node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in names)


def _is_name(node: ast.expr, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


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
            if name not in INHERITED_NAMES.get(path.relative_to(PACKAGE).as_posix(), ())
        ]

        assert [] == accesses

    @pytest.mark.parametrize(
        "planted",
        [
            "from praval_tools.registry.registry import _make_runtime",
            "from .registry import _make_runtime",
            "registry._runtime.clock",
            "self.registry._runtime",
            "getattr(registry, '_runtime')",
            "getattr(registry, '_runtime', None)",
            "def f(registry: ToolRegistry):\n    return registry._runtime",
            "def f(registry: ToolRegistry | None):\n    return registry._runtime",
            "def f(registry: 'ToolRegistry | A'):\n    return registry._runtime",
            "def f(registry):\n    return registry._runtime",
            "def f():\n    registry: ToolRegistry = make()\n    return registry._runtime",
            "def f():\n    registry = ToolRegistry()\n    return registry._runtime",
            "def f():\n    for registry in list_registries():\n        registry._runtime = None",
            "def f(a: A):\n    return a.registry._runtime",
            "def f(a: A):\n    return a._clock",
            "class B(ToolRegistry):\n    def f(self):\n        return self._clock",
            "lambda registry: registry._runtime",
        ],
    )
    def test_a_planted_use_is_seen(self, planted: str) -> None:
        """Each way to reach another module's private name counts, although the module has such a name itself."""
        own_class = (
            "class A:\n    def __init__(self, registry: ToolRegistry):\n        self._runtime = registry.runtime\n"
        )

        assert 1 == len(list(find_accesses(ast.parse(own_class + planted))))

    @pytest.mark.parametrize(
        "use",
        [
            "def f(a: A):\n    return a._x",
            "def f(a: 'A | None'):\n    return a._x",
            "def f(a: A[int]):\n    return a._x",
            "def f(a: object):\n    return isinstance(a, A) and a._x",
            "def f():\n    a, b = A(), 1\n    return a._x",
            "def f():\n    a = object.__new__(A)\n    a._x = 1",
            "A._x",
        ],
    )
    def test_own_names_are_free(self, use: str) -> None:
        """A module may use its own private names, on `self` and on objects known to be of its classes."""
        own_class = "class A:\n    _x = 1\n    def f(self):\n        return self._x + _helper(self._x)\n"

        assert [] == list(find_accesses(ast.parse(own_class + use)))
