"""The address of a tool's function, `module:name`, by which another process that imports the module finds it."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Final

from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.tool import Tool

_MISSING: Final = object()


def get_function_address(implementation: ToolImplementation) -> str:
    """
    Return the address of a tool's function.

    Raises:
        ValueError: Another process cannot find it; the text says why, and what to do.
    """
    module, qualname, problem = implementation.module, implementation.qualname, implementation.site.address_problem
    if problem is None and not _is_of(implementation, _find_attribute(sys.modules.get(module), qualname)):
        problem = (
            f"`{qualname}` of module `{module}` is something else there, as it is for a method of an object, "
            f"a functools.partial, or a function under another name: use a function of a module"
        )
    if problem is not None:
        raise ValueError(problem)
    return f"{module}:{qualname}"


def _is_of(implementation: ToolImplementation, found: object) -> bool:
    """Tell whether *found* is the tool, or its function."""
    if isinstance(found, Tool):
        return found.implementation is implementation or found.function is implementation.function
    return found is implementation.function


def _find_attribute(module: ModuleType | None, qualname: str) -> object:
    found: object = module
    for name in qualname.split("."):
        found = getattr(found, name, _MISSING)
    return found


def import_function(address: str) -> object:
    """
    Return the tool, or the function, at *address*, whose module is imported.

    Raises:
        LookupError: There is none.
        Exception: Whatever the module raises while it is imported.
    """
    module, _, qualname = address.partition(":")
    found = _find_attribute(import_module(module), qualname)
    if not callable(found):
        raise LookupError(f"there is no function {qualname!r} in module {module!r}")
    return found
