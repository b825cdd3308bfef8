"""Keeps the fast functions of one principal, by tool, for as long as the access state is the same."""

from __future__ import annotations

from typing import Any, Final, Protocol

from praval_tools.access.other_registry import note_foreign_tool
from praval_tools.access.records import Principal
from praval_tools.access.store import StateStore
from praval_tools.execution.fast_path import FastFunction
from praval_tools.misuse import MISSING
from praval_tools.names import find_name, has_type, shorten_repr

_MAX_FAST_FUNCTIONS: Final = 16_384


class FastFunctionBuilder(Protocol):
    """Builds fast functions: the executor, or one whose calls belong to a run."""

    access_store: StateStore

    def build_fast_function(self, principal: Principal, name: str, *, is_async: bool) -> tuple[FastFunction, bool]:
        """Return the fast function for the present state, and whether it may be kept for as long as the state."""
        ...


class FastFunctionCache:
    """
    The fast functions of one principal by the tool's name: `sync_functions` for `call`, `async_functions` for `acall`.

    Plain dicts: each call reads one, and a subclass costs a whole bare call more. What is not in them is built by
    `find_function`. Where calls of a tool need the pipeline in the present state, a function that raises
    `FastPathMiss` is kept as well.
    """

    __slots__ = ("__weakref__", "_builder", "agent", "async_functions", "chain", "principal", "sync_functions")

    def __init__(self, builder: FastFunctionBuilder, principal: Principal) -> None:
        self._builder, self.principal = builder, principal
        self.agent, self.chain = principal.agent, principal.chain
        self.sync_functions: dict[object, FastFunction] = {}
        self.async_functions: dict[object, FastFunction] = {}

    def find_function(self, tool: object, *, is_async: bool = False) -> FastFunction:
        """Return the function of a tool, which is given by its name or itself; it is built where there is none."""
        functions = self.async_functions if is_async else self.sync_functions
        if type(tool) is str and (function := functions.get(tool)) is not None:
            return function
        if tool is MISSING:
            raise TypeError(f"{'acall' if is_async else 'call'}() needs 'name'.")
        if not has_type(tool, str):
            note_foreign_tool(self._builder.access_store, tool)
        name = find_name(tool) or f"<{shorten_repr(tool)}>"
        return functions.get(name) or self.build_function(name, is_async=is_async)

    def build_function(self, name: Any, *, is_async: bool = False) -> FastFunction:
        """Return the function of a tool for the present state."""
        functions = self.async_functions if is_async else self.sync_functions
        function, is_lasting = self._builder.build_fast_function(self.principal, name, is_async=is_async)
        if is_lasting:
            if len(functions) >= _MAX_FAST_FUNCTIONS:
                functions.clear()
            functions[name] = function
        else:
            functions.pop(name, None)
        return function
