"""Where in a program something is declared, and whether that place runs again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from praval_tools.tools.source import Source


class Place(msgspec.Struct, frozen=True):
    """
    The place of a declaration.

    Args:
        source: Its file and line.
        run: Stands for one run of the module; None where the module does not tell its runs apart.
        module: The module's name.
        qualname: The name inside of the module.
        notebook: Whether it is a cell of a notebook.
        home: The name by which others import the module, where it is the program that was started.
    """

    source: Source
    run: object
    module: str
    qualname: str
    notebook: bool
    home: str = ""

    def again(self, earlier: Place) -> bool:
        """Tell whether this is the *earlier* declaration in another run of its module, or of its notebook cell."""
        if (self.module, self.qualname) != (earlier.module, earlier.qualname) or "<locals>" in self.qualname:
            return False
        if self.run is not None or earlier.run is not None:
            return self.run is not earlier.run
        return self.notebook and (self.source.file != earlier.source.file or self.source.line == earlier.source.line)


def calling_place() -> Place:
    """Return the place of the code outside of this package that is calling."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("praval_tools."):
        frame = frame.f_back
    source = Source(file=frame.f_code.co_filename, line=frame.f_lineno)
    outside = frame.f_code.co_name == "<module>"
    name = str(frame.f_globals.get("__name__", ""))
    return _place(source, frame.f_globals, name, "<module>" if outside else "<locals>")


def place_of(function: Any) -> Place:
    """Return where *function* is defined."""
    inner = function
    while (deeper := getattr(inner, "__wrapped__", None) or getattr(inner, "func", None)) is not None:
        inner = deeper
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is None:
        code = getattr(getattr(type(inner), "__call__", None), "__code__", None)  # noqa: B004
    source = Source(file=code.co_filename, line=code.co_firstlineno) if code is not None else Source()
    module = getattr(inner, "__module__", None) or type(inner).__module__
    scope = getattr(inner, "__globals__", None)
    if scope is None:
        scope = getattr(sys.modules.get(module), "__dict__", {})
    return _place(source, scope, module, getattr(inner, "__qualname__", type(inner).__qualname__))


def _place(source: Source, scope: Mapping[str, Any], module: str, qualname: str) -> Place:
    return Place(source, scope.get("__spec__"), module, qualname, "get_ipython" in scope, _home(scope, module))


def _home(scope: Mapping[str, Any], module: str) -> str:
    """Return the name of *module*; of a program that was started, the one that it has when it is imported."""
    if module not in ("__main__", "__mp_main__"):
        return module
    if (name := getattr(scope.get("__spec__"), "name", None)) is not None:  # python -m
        return str(name)
    file = str(scope.get("__file__") or "")
    if not file.endswith(".py") or "get_ipython" in scope:
        return module
    folder, _, stem = os.path.abspath(file).removesuffix(".py").rpartition(os.sep)
    parts = [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, _, name = folder.rpartition(os.sep)
        parts.insert(0, name)
    return ".".join(parts)
