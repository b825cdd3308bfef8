"""What a tool must be that code of an agent or plugin brings: of this package's classes, and known as that code's."""

from __future__ import annotations

from msgspec.structs import replace

from praval_tools.errors import InvalidNameError
from praval_tools.names import check_tool_name, shorten_repr
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool, AsyncTool, Tool


def find_class_problem(tool: object) -> str:
    """
    Return why code of an agent or plugin may not register *tool*; empty where it may.

    Parts of other classes would run their code as whoever reads them. The text goes on after "brings" or "registers".
    """
    if type(tool) is not Tool and type(tool) is not AsyncTool:
        return "a tool of a class of its own; bring plain Tools, made with @tool or Tool(…)"
    if type(tool.metadata) is not ToolMetadata or type(tool.implementation) is not ToolImplementation:
        return "a tool whose metadata or definition are of a class of their own; leave them as they are"
    if type(tool.metadata.category) is not str:
        return f"the tool {shorten_repr(tool.name)}, whose category is not a plain text; give it one, such as 'general'"
    if type(tool.metadata.source) not in (Source, type(None)):
        return f"the tool {shorten_repr(tool.name)}, whose source is not a Source; leave it out"
    try:
        check_tool_name(tool.name)
    except InvalidNameError as error:
        return f"a tool with an invalid name: {str(error).removesuffix('.')}"
    return ""


def with_declarer(tool: AnyTool, declarer: str) -> AnyTool:
    """Return *tool* with *declarer*, whose code declares it while it runs."""
    return tool.with_metadata(source=replace(tool.metadata.source or Source(), declared_by=declarer))
