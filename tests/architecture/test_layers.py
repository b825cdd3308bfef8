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
    return [split_layer(layer) for layer in settings["contracts"][0]["layers"]]


def split_layer(layer: str) -> list[str]:
    """Return the packages of a layer; `|` stands between those that may not import each other, `:` between others."""
    return [name.strip() for name in layer.replace("|", ":").split(":")]


def find_places(package: Path) -> set[str]:
    """Return the packages and modules of a folder that need a layer."""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return modules | {path.parent.name for path in package.glob("*/__init__.py")}


def find_wrong_layers(layers: list[list[str]], places: set[str]) -> list[str]:
    """Return what is wrong with the layers: too many, or a package on none of them, or on two, or that is not there."""
    names = [name for layer in layers for name in layer]
    wrong = [f"{len(layers)} layers"] if len(layers) > MAX_FLOORS else []
    wrong += [f"{name} has no layer" for name in sorted(places - set(names))]
    wrong += [f"{name} does not exist" for name in sorted(set(names) - places)]
    return wrong + [f"{name} is on two layers" for name in sorted({name for name in names if names.count(name) > 1})]


def find_root_modules(package: Path) -> list[str]:
    """Return the modules at the root of a package, without those of Python's own names."""
    return sorted(path.stem for path in package.glob("*.py") if not path.stem.startswith("__"))


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
        assert [] == find_wrong_layers(read_layers(), find_places(PACKAGE))

    def test_planted_layers_are_seen(self, tmp_path: Path) -> None:
        """The check fails at an eleventh layer, and for a package or module that has none, has two, or is gone."""
        (tmp_path / "runs").mkdir()
        for file in ("__init__.py", "names.py", "runs/__init__.py"):
            (tmp_path / file).touch()
        ten = [["names"], ["runs"], *([] for _ in range(8))]

        assert [] == find_wrong_layers(ten, find_places(tmp_path))
        assert ["11 layers"] == find_wrong_layers([*ten, []], find_places(tmp_path))
        assert ["runs has no layer", "gone does not exist", "names is on two layers"] == find_wrong_layers(
            [["names", "gone"], ["names"]], find_places(tmp_path)
        )

    def test_the_root_holds_few_modules(self) -> None:
        """A subject has a package; the root holds what every package needs."""
        modules = find_root_modules(PACKAGE)

        assert len(modules) <= MAX_ROOT_MODULES, modules

    def test_a_planted_root_module_is_seen(self, tmp_path: Path) -> None:
        """Each module at the root counts, packages and `__main__` do not."""
        (tmp_path / "runs").mkdir()
        for name in ("__init__", "__main__", "runs/__init__", *(f"part_{number}" for number in range(9))):
            (tmp_path / f"{name}.py").touch()

        assert 9 == len(find_root_modules(tmp_path)) > MAX_ROOT_MODULES

    def test_packages_import_downwards(self) -> None:
        """The contracts of import-linter hold on the package."""
        done = run_import_linter(PACKAGE.parent)

        assert 0 == done.returncode, done.stdout

    @pytest.mark.parametrize(
        ("module", "planted", "problem"),
        [
            (
                "tools/metadata.py",
                "from praval_tools.registry.registry import ToolRegistry",
                "praval_tools.tools is not allowed to import praval_tools.registry",
            ),
            (
                "tools/metadata.py",
                "if TYPE_CHECKING:\n    from praval_tools.registry.registry import ToolRegistry",
                "praval_tools.tools is not allowed to import praval_tools.registry",
            ),
            (
                "tools/metadata.py",
                "def later():\n    from praval_tools.registry.registry import ToolRegistry",
                "praval_tools.tools is not allowed to import praval_tools.registry",
            ),
            (
                "formats/format.py",
                "from praval_tools.access.rules import resolve_access",
                "praval_tools.formats is not allowed to import praval_tools.access",
            ),
            ("access/rules.py", "import threading", "praval_tools.access.rules is not allowed to import threading"),
            ("planted/__init__.py", "", "praval_tools.planted"),
        ],
        ids=["plain", "for-types", "in-a-function", "sibling", "threads-in-the-rules", "package-without-a-layer"],
    )
    def test_a_planted_import_is_seen(self, module: str, planted: str, problem: str, tmp_path: Path) -> None:
        """Contracts break at an import from above or beside, wherever it stands, and at a package without a layer."""
        shutil.copytree(PACKAGE, tmp_path / "praval_tools", ignore=shutil.ignore_patterns("__pycache__"))
        path = tmp_path / "praval_tools" / module
        path.parent.mkdir(exist_ok=True)
        source = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(f"{source}\nfrom typing import TYPE_CHECKING\n{planted}\n", encoding="utf-8")

        done = run_import_linter(tmp_path)

        assert 1 == done.returncode
        assert problem in " ".join(done.stdout.split())


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
