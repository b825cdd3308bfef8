"""Tools from objects: the public methods of an instance, or of a class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from praval_tools.errors import ToolDefinitionError, ToolUsageError
from praval_tools.names import normalize_name, suggest_names
from praval_tools.tools.source import Source
from praval_tools.tools.tool import Tool, ToolDefinition


def make_tools_from_object(
    source: Any, namespace: bool | str, include: set[str], exclude: set[str], strict: bool, metadata: Mapping[str, Any]
) -> list[Tool[..., Any]]:
    """
    Return a tool for each public method, base classes first, in the order of their definition.

    Raises:
        ToolDefinitionError: With every problem of every method.
        ToolUsageError: The class cannot be built without arguments, or a name is no method.
    """
    kind = source if isinstance(source, type) else type(source)
    methods = dict(_iter_public_methods(kind))
    for name in sorted((include | exclude) - methods.keys()):
        raise ToolUsageError(f"{kind.__name__} has no public method {name!r}.{suggest_names(name, methods)}")
    wanted = [name for name in methods if (name in include or not include) and name not in exclude]
    home = _instantiate_if_needed(source, [methods[name] for name in wanted])
    prefix = normalize_name(kind.__name__) if namespace is True else namespace or None
    made: list[Tool[..., Any]] = []
    problems: list[str] = []
    for name in wanted:
        try:
            tool: Tool[..., Any] = Tool.from_function(
                getattr(home, name), name, namespace=prefix, method_name=name, strict=strict, **metadata
            )
        except ToolDefinitionError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
        else:
            origin = replace(tool.metadata.source or Source(), kind="object")
            made.append(tool.with_metadata(source=origin))
    if problems:
        raise ToolDefinitionError(kind.__name__, problems)
    return made


def _iter_public_methods(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods as they stand in the classes; what a subclass hides or turns into data is left out."""
    found: dict[str, Any] = {}
    for one in reversed(kind.__mro__[:-1]):
        found |= vars(one)
    for name, value in found.items():
        plain = isinstance(value, staticmethod | classmethod) or (callable(value) and not isinstance(value, type))
        if plain and not name.startswith("_"):
            yield name, value


def _instantiate_if_needed(source: Any, methods: list[Any]) -> Any:
    """Return what the methods are taken from: the object, or the class where none of them needs one."""
    if not isinstance(source, type) or all(isinstance(one, staticmethod | classmethod) for one in methods):
        return source
    try:
        return source()
    except TypeError as error:
        raise ToolUsageError(
            f"{source.__name__} cannot be built without arguments ({error}); "
            f"pass an object: register_object({source.__name__}(…))."
        ) from error


def make_tool(name: str, function: Callable[..., Any] | None, definition: ToolDefinition | None) -> Tool[..., Any]:
    """
    Return the tool of a function under a name and definition.

    Raises:
        ToolUsageError: The definition has another name.
    """
    if definition is None:
        return Tool(name, callable=function)
    if definition.name != name:
        raise ToolUsageError(f"The tool is called {name!r} and its definition {definition.name!r}; give both one name.")
    return Tool(name, definition.description, definition.parameters, function)
