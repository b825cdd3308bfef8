"""Where in a program something is declared, and whether that place runs again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from praval_tools.errors import find_user_frame
from praval_tools.tools.source import Source


class DeclarationSite(msgspec.Struct, frozen=True):
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
    module_run: object
    module: str
    qualname: str
    is_notebook_cell: bool
    import_name: str = ""

    def is_rerun_of(self, earlier: DeclarationSite) -> bool:
        """Tell whether this is the *earlier* declaration in another run of its module, or of its notebook cell."""
        if (self.module, self.qualname) != (earlier.module, earlier.qualname) or "<locals>" in self.qualname:
            return False
        if self.module_run is not None or earlier.module_run is not None:
            return self.module_run is not earlier.module_run
        return self.is_notebook_cell and (
            self.source.file != earlier.source.file or self.source.line == earlier.source.line
        )


def find_calling_site() -> DeclarationSite:
    """Return the place of the code outside of this package that is calling."""
    frame, _ = find_user_frame()
    source = Source(file=frame.f_code.co_filename, line=frame.f_lineno)
    outside = frame.f_code.co_name == "<module>"
    name = str(frame.f_globals.get("__name__", ""))
    return _build_site(source, frame.f_globals, name, "<module>" if outside else "<locals>")


def find_declaration_site(function: Any) -> DeclarationSite:
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
    return _build_site(source, scope, module, getattr(inner, "__qualname__", type(inner).__qualname__))


def _build_site(source: Source, scope: Mapping[str, Any], module: str, qualname: str) -> DeclarationSite:
    return DeclarationSite(
        source, scope.get("__spec__"), module, qualname, "get_ipython" in scope, _resolve_import_name(scope, module)
    )


def _resolve_import_name(scope: Mapping[str, Any], module: str) -> str:
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
