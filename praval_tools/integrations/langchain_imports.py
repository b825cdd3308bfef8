"""Tools of LangChain in a registry; `integrations.langchain` has it for users."""

from __future__ import annotations

import inspect
import typing
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Set
from typing import Final

from langchain.tools import ToolRuntime
from langchain_core.runnables.config import RunnableConfig, ensure_config
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, ToolException
from langchain_core.tools import Tool as SingleInputTool
from langgraph.types import Command
from pydantic import AliasChoices, AliasPath, BaseModel, RootModel
from pydantic.fields import FieldInfo

from praval_tools.errors import ToolDefinitionError
from praval_tools.formats.format import WireObject
from praval_tools.integrations.foreign_text import repair_name
from praval_tools.names import shorten_repr
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.schema.schema_tree import close_object_schemas
from praval_tools.tools.content import Content
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool, Tool

_BLOCK_MEMBERS: Final = frozenset(
    ("type", "text", "base64", "mime_type", "id", "index", "annotations", "extras")
)  # fmt: skip
_CALL_ID: Final = "registry"


def import_tools(
    registry: ToolRegistry, tools: Iterable[BaseTool], *, owned_by: Agent | str | None = None,
    namespace: str | None = None,
) -> list[AnyTool]:  # fmt: skip
    """
    Register tools of LangChain, sync and async ones; all or none.

    They keep name, description and JSON Schema; what is not valid in a name becomes `_`. A tool's content is the
    value; its artifact is left out. What LangChain handles as a tool's error is an error here, too.

    Args:
        registry: Where they are registered.
        tools: The tools.
        owned_by: The agent that owns them; None: nobody may call them until they are assigned.
        namespace: Stands before the names.

    Returns:
        The tools as the registry has them.

    Raises:
        ToolDefinitionError: One of them needs what LangGraph injects, has no valid name, or is not a tool of LangChain.
        DuplicateToolError: A name is taken.
    """
    own_tools = [_make_tool(tool, owned_by, namespace) for tool in tools]
    with registry.change():
        for tool in own_tools:
            registry.register_tool(tool)
    return own_tools


def _make_tool(tool: object, owned_by: Agent | str | None, namespace: str | None) -> AnyTool:
    if not isinstance(tool, BaseTool):
        raise ToolDefinitionError(
            shorten_repr(tool), ["it is not a tool of LangChain: pass what @tool or StructuredTool makes"]
        )
    name = repair_name(tool.name)
    problems = [] if name else ["its name has no character that a tool's name may have: give it another one"]
    problems += [
        f"parameter {injected!r} is injected by LangGraph, which a registry cannot do: "
        f"make a tool that takes it from elsewhere, such as ToolContext.deps"
        for injected in sorted(_list_injected(tool))
    ]
    schema = _read_schema(tool)
    shown = schema.get("properties", {}).keys()
    problems += [
        f"LangChain does not pass its parameter {lost!r} on: give it another name, without exclude=True or an alias"
        for lost in sorted(shown & (_list_lost(tool) | _list_misread(tool, shown)))
    ]
    if problems or name is None:
        raise ToolDefinitionError(tool.name, problems)
    return Tool(
        name, tool.description, schema, _make_function(tool),
        namespace=namespace, owned_by=owned_by, source=Source(kind="object"), extra={"langchain": {"name": tool.name}},
    )  # fmt: skip


def _read_schema(tool: BaseTool) -> WireObject:
    """
    Return the JSON Schema of what a model passes.

    A class of Pydantic passes over members that it does not know, and reads some of them as others, by its aliases:
    only those of the schema, which are judged, may be given, also where the class allows others.
    """
    schema = tool.tool_call_schema
    if not isinstance(schema, dict):
        schema = schema.model_json_schema() if issubclass(schema, BaseModel) else schema.schema()
        schema = close_object_schemas(schema, keeps_open=False)
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def _list_injected(tool: BaseTool) -> set[str]:
    """Return the parameters that LangGraph would fill in, and no model sees."""
    function = _find_function(tool)
    hints = typing.get_type_hints(function, include_extras=True)
    schema = tool.args_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        hints |= typing.get_type_hints(schema, include_extras=True)
    return {name for name, hint in hints.items() if _is_injected(hint)}


def _list_lost(tool: BaseTool) -> set[str]:
    """Return the parameters that LangChain takes for itself, or leaves out of what it passes on."""
    function, schema = _find_function(tool), tool.args_schema
    lost = {name for name, hint in typing.get_type_hints(function).items() if hint is RunnableConfig}
    given = inspect.signature(function).parameters.keys()
    if isinstance(tool, StructuredTool | SingleInputTool):  # the parameters of its own method, which calls the function
        lost |= {"self", "config", "run_manager", *({"callbacks"} & given)}
    else:
        lost |= {"self", *({"run_manager"} & given)}
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        lost |= {name for name, field in schema.model_fields.items() if field.exclude or field.exclude_if}
    for name in getattr(schema, "__exclude_fields__", None) or ():  # of a class of Pydantic 1, shown by its aliases
        lost.add(getattr(schema, "__fields__", {})[name].alias)
    return lost


def _list_misread(tool: BaseTool, shown: Set[str]) -> set[str]:
    """
    Return the parameters that the class of the arguments does not read from their own key alone, or writes as another.

    What a model is shown, LangChain names as the class has its fields; what was given goes through their aliases.
    """
    schema = tool.args_schema
    if not isinstance(schema, type) or not issubclass(schema, BaseModel):
        return set()
    if issubclass(schema, RootModel):
        return {"root"}
    schema.model_rebuild()  # aliases of a generator are there only after that
    config, misread = schema.model_config, set[str]()
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    for name, field in schema.model_fields.items():
        paths = _list_alias_paths(field) or [[name]]
        is_read = by_name or [name] in paths
        is_written = not config.get("serialize_by_alias") or field.serialization_alias in (None, name)
        if not is_read or not is_written or any(path[0] in shown - {name} for path in paths):
            misread.add(name)
    return misread


def _list_alias_paths(field: FieldInfo) -> list[list[int | str]]:
    """Return where a field is read by its aliases; nothing for one without."""
    alias = field.validation_alias
    if alias is None:
        return []
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
    return [choice.path if isinstance(choice, AliasPath) else [choice] for choice in choices]


def _is_injected(hint: object) -> bool:
    parts = [hint, typing.get_origin(hint), *getattr(hint, "__metadata__", ()), *typing.get_args(hint)]
    classes = (part if inspect.isclass(part) else type(part) for part in parts)
    return any(issubclass(part, InjectedToolArg | ToolRuntime) for part in classes)


def _find_function(tool: BaseTool) -> Callable[..., object]:
    """Return the function that does the work."""
    if isinstance(tool, StructuredTool | SingleInputTool):
        function = tool.func or tool.coroutine
        if function is not None:
            return function
    return tool._arun if _is_async(tool) else tool._run


def _is_async(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool | SingleInputTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _make_function(tool: BaseTool) -> Callable[..., object]:
    """Return the function of the tool in the registry; it takes arguments of any name."""

    def call(**arguments: object) -> object:
        return _read_value(tool, tool.run(arguments, tool_call_id=_find_call_id(tool), config=ensure_config()))

    async def acall(**arguments: object) -> object:
        return _read_value(tool, await tool.arun(arguments, tool_call_id=_find_call_id(tool), config=ensure_config()))

    return acall if _is_async(tool) else call


def _find_call_id(tool: BaseTool) -> str | None:
    """Return the id of calls of a tool that handles errors: its answer is a message then, which says so."""
    return _CALL_ID if tool.handle_tool_error or tool.handle_validation_error else None


def _read_value(tool: BaseTool, answer: object) -> object:
    """
    Return the value of what a tool returned.

    Raises:
        ToolException: LangChain handled an error of it, or only a graph could carry out what it returned.
    """
    if isinstance(answer, Command):
        raise ToolException(f"Tool {tool.name!r} returned a Command, which only a graph of LangGraph can carry out.")
    if getattr(answer, "status", None) == "error":
        raise ToolException(str(getattr(answer, "text", answer)))
    value = getattr(answer, "content", answer) if getattr(answer, "type", None) == "tool" else answer
    if not isinstance(value, list) or not value:
        return value
    blocks = [_read_block(block) for block in value]
    return value if None in blocks else blocks


def _read_block(block: object) -> Content | None:
    """Return a content block of LangChain; None where it is something else, such as a row of a table."""
    if not isinstance(block, dict) or not block.keys() <= _BLOCK_MEMBERS:
        return None
    text, data, mime_type = block.get("text"), block.get("base64"), block.get("mime_type")
    if block.get("type") == "text" and isinstance(text, str):
        return Content.of_text(text)
    if block.get("type") not in ("image", "audio") or not isinstance(data, str) or not isinstance(mime_type, str):
        return None
    try:
        return Content(type=block["type"], data=a2b_base64(data, strict_mode=True), mime_type=mime_type)
    except (Base64Error, ValueError):
        return None
