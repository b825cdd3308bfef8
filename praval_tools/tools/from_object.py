"""Makes tools of the public methods of an object or class, or of a function and a definition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partialmethod, singledispatchmethod
from typing import Any, Final

from msgspec.structs import replace

from praval_tools.errors import ToolDefinitionError, ToolUsageError
from praval_tools.names import check_name_part, normalize_name, suggest_names
from praval_tools.tools.implementation import ToolDefinition
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool, Tool

_METHOD_TYPES: Final = (staticmethod, classmethod, partialmethod, singledispatchmethod)
"""What a class holds of methods, besides functions and other callables."""


def make_tools_from_object(
    source: object, namespace: bool | str, include: set[str], exclude: set[str], strict: bool,
    metadata: Mapping[str, Any],
) -> list[AnyTool]:  # fmt: skip
    """
    Return a tool for each public method, base classes first, in the order of their definition.

    Raises:
        ToolDefinitionError: With every problem of every method.
        ToolUsageError: The class cannot be built without arguments, or there is no public method of a name.
    """
    cls = source if isinstance(source, type) else type(source)
    methods = dict(_iter_public_methods(cls))
    for name in sorted((include | exclude) - methods.keys()):
        raise ToolUsageError(f"{cls.__name__} has no public method {name!r}.{suggest_names(name, methods)}")
    names = [name for name in methods if (name in include or not include) and name not in exclude]
    owner = _instantiate_if_needed(source, [methods[name] for name in names])
    prefix = normalize_name(cls.__name__) if namespace is True else check_name_part(namespace)
    tools: list[AnyTool] = []
    problems: list[str] = []
    for name in names:
        if isinstance(methods[name], singledispatchmethod):
            problems.append(
                f"{name}: a singledispatchmethod has a signature for each type; write a method that takes a union of "
                f"the types, or leave it out with exclude=[{name!r}]"
            )
            continue
        try:
            tool: AnyTool = Tool.from_function(
                getattr(owner, name), name, namespace=prefix, method_name=name, strict=strict, **metadata
            )
        except ToolDefinitionError as error:
            problems += [f"{name}: {problem}" for problem in error.problems]
        else:
            tools.append(tool.with_metadata(source=replace(tool.metadata.source or Source(), kind="object")))
    if problems:
        raise ToolDefinitionError(cls.__name__, problems)
    return tools


def _iter_public_methods(cls: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods as the classes hold them; what a subclass hides or turns into data is left out."""
    members: dict[str, object] = {}
    for base in reversed(cls.__mro__[:-1]):
        members |= vars(base)
    for name, value in members.items():
        is_method = isinstance(value, _METHOD_TYPES) or (callable(value) and not isinstance(value, type))
        if is_method and not name.startswith("_"):
            yield name, value


def _instantiate_if_needed(source: object, methods: list[object]) -> object:
    """Return what the methods are taken from: the object, or the class where none of them needs an object."""
    if not isinstance(source, type) or all(isinstance(method, staticmethod | classmethod) for method in methods):
        return source
    try:
        return source()
    except TypeError as error:
        raise ToolUsageError(
            f"{source.__name__} cannot be built without arguments ({error}); "
            f"pass an object: register_object({source.__name__}(…))."
        ) from error


def make_tool(name: str, function: Callable[..., object] | None, definition: ToolDefinition | None) -> AnyTool:
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
