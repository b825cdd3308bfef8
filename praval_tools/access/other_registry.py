"""Finds the other registry in which an unknown tool is registered, to name it in errors and explanations."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from praval_tools.access.store import StateStore
from praval_tools.names import describe_registry, describe_two_registries
from praval_tools.tools.decision import Decision
from praval_tools.tools.plain_tool import find_class_problem
from praval_tools.tools.tool import AnyTool

_default_store_finders: list[Callable[[], StateStore | None]] = []


def set_default_store_finder(find: Callable[[], StateStore | None]) -> None:
    """Have *find* return the store of the default registry, if there is one; `registry.default` does."""
    _default_store_finders[:] = [find]


def is_default_store(store: StateStore) -> bool:
    """Tell whether *store* is that of the default registry."""
    return any(find() is store for find in _default_store_finders)


def note_foreign_tool(store: StateStore, tool: object) -> None:
    """Note a tool that was given as object and is not in *store*, so that later refusals can say where it is."""
    if not find_class_problem(tool):
        known: AnyTool = cast("AnyTool", tool)
        if known.name not in store.get_current_state().tools:
            store.foreign_tools[known.name] = known.implementation


def describe_other_registry(store: StateStore, tool: str | AnyTool) -> str:
    """
    Return where a tool is that *store* does not have, and what to do; an empty text where that is not known.

    Known are a tool that is given as object, or was before, and what the default registry has. A store without any
    tool is most likely not the one in which the program declares its tools.
    """
    other = _find_other_store(store, tool)
    if other is None:
        here = describe_registry(store.name)
        text = f"There are no tools in {here}: if yours are in another one, use agents of that: Agent(…, registry=…)."
        return "" if store.get_current_state().tools else text
    here, there = describe_two_registries(store.name, other.name)
    return f"It is in {there}, not in {here}: register it here too, or use agents of the other registry."


def with_other_registry(decision: Decision, store: StateStore, tool: str | AnyTool) -> Decision:
    """Return the refusal of an unknown tool, with what names the registry that has it, where that is known."""
    remedy = describe_other_registry(store, tool)
    if not remedy:
        return decision
    other = _find_other_store(store, tool) or store
    return replace(decision, source=describe_registry(other.name), remedy=remedy)


def _find_other_store(store: StateStore, tool: str | AnyTool) -> StateStore | None:
    name = tool if isinstance(tool, str) else tool.name
    implementation = store.foreign_tools.get(name) if isinstance(tool, str) else tool.implementation
    finders = [] if implementation is None else [implementation.find_store]
    for find in (*finders, *_default_store_finders):
        other = find() if find is not None else None
        if isinstance(other, StateStore) and other is not store and name in other.get_current_state().tools:
            return other
    return None
