"""Records where a tool comes from, and recognizes when the same declaration runs again."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from praval_tools.errors import find_user_frame
from praval_tools.names import get_class_name, to_plain_text
from praval_tools.schema.json_values import replace_surrogates

_TEXT_FIELDS: Final = ("kind", "distribution", "version", "file", "declared_by")

SourceKind = Literal["code", "plugin", "config", "mcp", "openapi", "object"]


class Source(msgspec.Struct, frozen=True, gc=False):
    """
    Where a tool comes from: the kind, the distribution that ships it, and the place of its definition.

    Args:
        kind: `code` for a declaration in Python, else the mechanism that brought it.
        distribution: The installed distribution, empty for the host's own code.
        version: That distribution's version.
        file: The file of the definition, empty where there is none.
        line: Its line, from 1; 0 where there is none.
        trusted: False: a plugin brought it, and what it asks for the operator has not granted.
        declared_by: The agent or plugin whose code declared it while it ran, and may have chosen all the rest; empty
            where the operator's did.
    """

    kind: SourceKind = "code"
    distribution: str = ""
    version: str = ""
    file: str = ""
    line: int = 0
    trusted: bool = True
    declared_by: str = ""

    def __post_init__(self) -> None:
        if any(type(getattr(self, name)) is not str for name in _TEXT_FIELDS):  # texts with code of their own
            for name in _TEXT_FIELDS:
                msgspec.structs.force_setattr(self, name, to_plain_text(getattr(self, name)))
        if (self.distribution + self.version + self.file).isascii():
            return
        for name in ("distribution", "version", "file"):  # a file's name may be bytes that are not UTF-8
            msgspec.structs.force_setattr(self, name, replace_surrogates(getattr(self, name)))

    def __str__(self) -> str:
        parts = [
            f"{self.distribution} {self.version}".strip(), f"{self.file}:{self.line}" if self.file else "",
            f"declared by {self.declared_by!r}" if self.declared_by else "",
        ]  # fmt: skip
        return ", ".join(part for part in parts if part) or self.kind


class DeclarationSite(msgspec.Struct, frozen=True):
    """
    The place of a declaration.

    Args:
        source: Its file and line.
        module_run: Identifies one run of the module; None where the module does not tell its runs apart.
        module: The module's name.
        qualname: The name inside the module.
        is_notebook_cell: Whether it is a cell of a notebook.
        import_name: The name by which others import the module, also where it is the program that was started.
    """

    source: Source
    module_run: object
    module: str
    qualname: str
    is_notebook_cell: bool
    import_name: str = ""

    @property
    def address_problem(self) -> str | None:
        """Why another process cannot find a function that is declared here, as far as the place says; else None."""
        if self.module in ("__main__", "__mp_main__"):
            return "it is defined in the program itself (`__main__`): move it into a module that the program imports"
        if "<lambda>" in self.qualname:
            return "it is a lambda: write it as a function at the top of a module"
        if "<locals>" in self.qualname:
            return "it is defined inside another function: define it at the top of its module"
        return None

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
    """Return the place of the code outside this package that is calling."""
    frame, _ = find_user_frame()
    source = Source(file=frame.f_code.co_filename, line=frame.f_lineno)
    qualname = "<module>" if frame.f_code.co_name == "<module>" else "<locals>"
    return _build_site(source, frame.f_globals, to_plain_text(frame.f_globals.get("__name__", "")), qualname)


def find_declaration_site(function: object) -> DeclarationSite:
    """Return where *function* is defined."""
    inner: Any = function
    while (deeper := getattr(inner, "__wrapped__", None) or getattr(inner, "func", None)) is not None:
        inner = deeper
    inner = getattr(inner, "__func__", inner)
    code = getattr(inner, "__code__", None)
    if code is None:
        code = getattr(getattr(type(inner), "__call__", None), "__code__", None)  # noqa: B004
    source = Source(file=code.co_filename, line=code.co_firstlineno) if code is not None else Source()
    module = to_plain_text(getattr(inner, "__module__", None) or type(inner).__module__)
    scope = getattr(inner, "__globals__", None)
    if scope is None:
        scope = getattr(sys.modules.get(module), "__dict__", {})
    return _build_site(source, scope, module, to_plain_text(getattr(inner, "__qualname__", type(inner).__qualname__)))


def _build_site(source: Source, scope: Mapping[str, object], module: str, qualname: str) -> DeclarationSite:
    return DeclarationSite(
        source, scope.get("__spec__"), module, qualname, "get_ipython" in scope, _resolve_import_name(scope, module)
    )


def _resolve_import_name(scope: Mapping[str, object], module: str) -> str:
    """Return the name of *module*; of a program that was started, the one that it has when it is imported."""
    if module not in ("__main__", "__mp_main__"):
        return module
    if (name := getattr(scope.get("__spec__"), "name", None)) is not None:  # python -m
        return to_plain_text(name)
    file = str(scope.get("__file__") or "")
    if not file.endswith(".py") or "get_ipython" in scope:
        return module
    folder, _, stem = os.path.abspath(file).removesuffix(".py").rpartition(os.sep)
    parts = [stem]
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, _, name = folder.rpartition(os.sep)
        parts.insert(0, name)
    return ".".join(parts)


def find_function_name(function: object) -> str:
    """Return the name of a function, or of that of a `functools.partial`; of another callable, that of its class."""
    for named in (function, getattr(function, "func", None)):
        name = getattr(named, "__name__", None)
        if name is not None and (text := to_plain_text(name)):
            return text
    return get_class_name(type(function))
