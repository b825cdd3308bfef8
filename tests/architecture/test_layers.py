"""The layout: layers of packages, no import circle, few modules at the root."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest
from source_tree import PACKAGE, ROOT, get_module_name, list_package_files, read_tree

MAX_FLOORS = 10
MAX_ROOT_MODULES = 8

Imports = Mapping[str, set[str]]


def read_layers() -> list[list[str]]:
    """Return the packages of each layer, top to bottom, as pyproject.toml has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert settings["exclude_type_checking_imports"] is False
    return [[name.strip() for name in layer.split(":")] for layer in settings["contracts"][0]["layers"]]


def find_imports(name: str, tree: ast.Module, modules: set[str]) -> set[str]:
    """Return the own modules that a module imports, anywhere and for whatever reason."""
    targets: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                targets.add(submodule if submodule in modules else node.module)
        elif isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
    return targets & modules - {name}


def read_imports() -> Imports:
    """Return what each module of the package imports, imports for types included."""
    trees = {get_module_name(path): read_tree(path) for path in list_package_files()}
    return {name: find_imports(name, tree, set(trees)) for name, tree in trees.items()}


def find_circles(imports: Imports) -> set[frozenset[str]]:
    """Return the sets of modules that import each other, directly or by way of others (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: set[frozenset[str]] = set()

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for target in imports.get(name, ()):
            if target not in order:
                visit(target)
            if target in stack:
                lowest[name] = min(lowest[name], lowest[target])
        if lowest[name] == order[name]:
            members = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(members) > 1:
                circles.add(frozenset(members))

    for name in imports:
        if name not in order:
            visit(name)
    return circles


def run_import_linter(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts of pyproject.toml on the package in a folder."""
    program = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); "
        "from importlinter.cli import lint_imports_command as run; run()"
    )
    return subprocess.run(
        [sys.executable, "-c", program, str(folder), "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        capture_output=True,
        text=True,
        cwd=folder,
    )


class TestLayers:
    def test_there_are_few_floors(self) -> None:
        """Ten layers at most, and each package and root module stands on one of them."""
        layers = read_layers()
        known = {name for layer in layers for name in layer}
        present = {path.stem for path in PACKAGE.glob("*.py")} | {
            path.parent.name for path in PACKAGE.glob("*/__init__.py")
        }

        assert len(layers) <= MAX_FLOORS
        assert present - {"__init__", "__main__"} == known

    def test_the_root_holds_few_modules(self) -> None:
        """A subject has a package; the root holds what every package needs."""
        modules = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__"))

        assert len(modules) <= MAX_ROOT_MODULES, modules

    def test_packages_import_downwards(self) -> None:
        """The contracts of import-linter hold on the package."""
        done = run_import_linter(PACKAGE.parent)

        assert 0 == done.returncode, done.stdout

    @pytest.mark.parametrize(
        "planted",
        [
            "from praval_tools.registry.registry import ToolRegistry",
            "if TYPE_CHECKING:\n    from praval_tools.registry.registry import ToolRegistry",
            "def later():\n    from praval_tools.registry.registry import ToolRegistry",
        ],
        ids=["plain", "for-types", "in-a-function"],
    )
    def test_a_planted_upward_import_is_seen(self, planted: str, tmp_path: Path) -> None:
        """An import from a layer above breaks the contract: at the top, for types only, or inside a function."""
        shutil.copytree(PACKAGE, tmp_path / "praval_tools", ignore=shutil.ignore_patterns("__pycache__"))
        module = tmp_path / "praval_tools" / "tools" / "metadata.py"
        module.write_text(f"{module.read_text()}\nfrom typing import TYPE_CHECKING\n{planted}\n")

        done = run_import_linter(tmp_path)

        assert 1 == done.returncode
        assert "praval_tools.tools is not allowed to import praval_tools.registry" in done.stdout


class TestCircles:
    def test_there_is_none(self) -> None:
        """No two modules import each other, imports for types counted."""
        assert set() == find_circles(read_imports())

    def test_a_planted_circle_is_seen(self) -> None:
        """A circle of three modules is found, also when one of its imports is for types only."""
        modules = {"a", "b", "c", "d"}
        sources = {
            "a": "import b",
            "b": "if TYPE_CHECKING:\n    from c import C",
            "c": "def later():\n    import a",
            "d": "import a",
        }
        imports = {name: find_imports(name, ast.parse(source), modules) for name, source in sources.items()}

        assert {frozenset("abc")} == find_circles(imports)
