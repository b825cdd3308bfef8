"""Tools of LangChain in a registry; `integrations.langchain` has it for users."""

from __future__ import annotations

from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable
from typing import Final

from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool, ToolException
from langgraph.types import Command

from praval_tools.errors import ToolDefinitionError
from praval_tools.integrations.foreign_text import repair_name
from praval_tools.integrations.langchain_parameters import ToolParameters, is_async, read_parameters
from praval_tools.names import shorten_repr
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.schema.function_defaults import mark_as_passing_on
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
        ToolDefinitionError: One of them needs what LangGraph injects, has arguments that nobody could judge, has no
            valid name, or is not a tool of LangChain.
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
    parameters = read_parameters(tool)
    problems += parameters.problems
    if problems or name is None:
        raise ToolDefinitionError(tool.name, problems)
    return Tool(
        name, tool.description, parameters.schema, _make_function(parameters),
        namespace=namespace, owned_by=owned_by, source=Source(kind="object"), extra={"langchain": {"name": tool.name}},
    )  # fmt: skip


def _make_function(parameters: ToolParameters) -> Callable[..., object]:
    """Return the function of the tool in the registry; it takes arguments of any name."""
    tool, select = parameters.tool, parameters.select_passed

    def call(**arguments: object) -> object:
        return _read_value(tool, tool.run(select(arguments), tool_call_id=_find_call_id(tool), config=ensure_config()))

    async def acall(**arguments: object) -> object:
        answer = await tool.arun(select(arguments), tool_call_id=_find_call_id(tool), config=ensure_config())
        return _read_value(tool, answer)

    function = acall if is_async(tool) else call
    mark_as_passing_on(function)  # to LangChain, which takes all that is declared
    function.__wrapped__ = parameters.declaration  # type: ignore[attr-defined]
    return function


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
