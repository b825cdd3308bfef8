"""
Writes the module of an app's agents for type checkers: what each agent may call, with which arguments.

It is a module of the program, beside it the stub: checkers prefer the stub, the program imports the module, in which
each class is the plain `Agent` or `Toolset`. So the program runs, and is checked less strictly, without the stub.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Final

from attrs import field, frozen

from praval_tools import ToolRegistry
from praval_tools.cli.common import JsonObject, sanitize_text
from praval_tools.cli.tool_stubs.schema_types import SchemaWriter
from praval_tools.cli.tool_stubs.type_text import (
    ANY,
    TypeWriter,
    UnwritableHintError,
    is_plain_name,
    make_unique_name,
    to_class_name,
)
from praval_tools.registry.tool_attributes import map_attributes
from praval_tools.registry.toolset import TOOLSET_ATTRIBUTES
from praval_tools.schema.signature import Parameter
from praval_tools.schema.type_hints import NOTHING, Hint, unwrap_return_hint
from praval_tools.tools.tool import AnyTool

MARKER: Final = "# Made by praval-tools docs stubs, which overwrites this file."
_MAX_DESCRIPTION: Final = 4_000
_LINE_LENGTH: Final = 100
_TAKEN_CLASS_NAMES: Final = frozenset((*dir(builtins), "Agent", "BoundTool", "ToolRegistry", "Toolset"))

_MODULE: Final = '''{marker}
"""The agents of this program; the stub beside this file says what each may call."""

from praval_tools import {imports}
{aliases}

def get_agent(registry: ToolRegistry, name: str) -> Agent:
    """Return the agent of this name."""
    return registry.agent(name)
'''


@frozen
class AgentStub:
    """The classes of one agent, and the tools that it may call."""

    agent: str
    class_name: str
    toolset_name: str
    tools: tuple[str, ...]


@frozen
class _StubFile:
    """What is written so far: the classes of tools by name, those of objects, and the modules to import."""

    types: TypeWriter = field(factory=TypeWriter)
    definitions: dict[str, str] = field(factory=dict)
    tool_classes: dict[str, str] = field(factory=dict)


def list_agent_stubs(registry: ToolRegistry, agents: Iterable[str]) -> list[AgentStub]:
    """Return the agents by name, each with the tools that it may call now."""
    taken: set[str] = set(_TAKEN_CLASS_NAMES)
    stubs = []
    for agent in sorted(agents):
        name = base = to_class_name(agent)
        number = 1
        while {name, f"{name}Tools"} & taken:
            number += 1
            name = f"{base}{number}"
        taken |= {name, f"{name}Tools"}
        stubs.append(AgentStub(agent, name, f"{name}Tools", tuple(sorted(registry.toolset(agent)))))
    return stubs


def write_module(stubs: Sequence[AgentStub]) -> str:
    """Return the module that the program imports."""
    lines = [f"{stub.class_name} = Agent\n{stub.toolset_name} = Toolset" for stub in stubs]
    aliases = "\n" + "\n".join(lines) + "\n" if lines else ""
    imports = "Agent, ToolRegistry, Toolset" if stubs else "Agent, ToolRegistry"
    return _MODULE.format(marker=MARKER, imports=imports, aliases=aliases)


def write_stub(registry: ToolRegistry, stubs: Sequence[AgentStub]) -> str:
    """Return the stub of the module."""
    file = _StubFile()
    names = sorted({tool for stub in stubs for tool in _map_attributes(stub).values()})
    classes: dict[str, str] = {}
    for name in names:
        classes[name] = make_unique_name(f"_{to_class_name(name.translate(_WORD_BREAKS))}", file.definitions)
        file.definitions[classes[name]] = ""
    for name in names:
        tool = registry.get_tool(name)
        if tool is not None:
            file.tool_classes[name] = _write_tool_class(tool, classes[name], file)
    definitions = [text for name, text in file.definitions.items() if text]
    parts = [*definitions, *file.tool_classes.values()]
    parts += [part for stub in stubs for part in _iter_agent_classes(stub, classes)]
    parts.append(_write_get_agent(stubs))
    modules = sorted(file.types.modules | ({"typing"} if stubs else set()))
    imports = "\n".join(f"import {module}" for module in modules)
    used = ["Agent", *(["BoundTool"] if classes else []), "ToolRegistry", *(["Toolset"] if stubs else [])]
    head = f"{MARKER}\n# ruff: noqa: E501, I001, UP013\n{imports}\n\nfrom praval_tools import {', '.join(used)}"
    return "\n\n".join([head, *parts]) + "\n"


_WORD_BREAKS: Final = str.maketrans({"-": "_", ".": "_"})


def _map_attributes(stub: AgentStub) -> dict[str, str]:
    return map_attributes(stub.tools, TOOLSET_ATTRIBUTES)


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


def _iter_agent_classes(stub: AgentStub, classes: Mapping[str, str]) -> Iterator[str]:
    """Yield the class of the toolset and that of the agent."""
    lines = [f"class {stub.toolset_name}(Toolset[{ANY}]):"]
    lines += _write_docstring(f"The tools that {stub.agent} may call.", "    ")
    lines += [f"    {attribute}: {classes[tool]}" for attribute, tool in sorted(_map_attributes(stub).items())]
    yield "\n".join(lines)
    doc = "\n".join(_write_docstring(f"The agent {stub.agent}.", "    "))
    yield (
        f"class {stub.class_name}(Agent):\n{doc}\n"
        f"    @property\n    def tools(self) -> {stub.toolset_name}: ..."
    )


def _write_get_agent(stubs: Sequence[AgentStub]) -> str:
    doc = '    """Return the agent of this name."""'
    if not stubs:
        return f"def get_agent(registry: ToolRegistry, name: str) -> Agent:\n{doc}"
    decorator = "@typing.overload\n" if len(stubs) > 1 else ""
    return "\n".join(
        f"{decorator}def get_agent(registry: ToolRegistry, name: typing.Literal[{ascii(stub.agent)}]) "
        f"-> {stub.class_name}:\n{doc}"
        for stub in stubs
    )


# ── tools ────────────────────────────────────────────────────────────────────────────────────────


def _write_tool_class(tool: AnyTool, name: str, file: _StubFile) -> str:
    parameters, returns = _write_signature(tool, name, file)
    lines = [f"class {name}(BoundTool[..., {returns}]):"]
    doc = _write_docstring(tool.description, "        ")
    for definition in ("def __call__", "async def acall"):
        lines.append(f"    {definition}(")
        lines += [f"        {parameter}," for parameter in parameters]
        lines.append(f"    ) -> {returns}:{'' if doc else ' ...'}")
        lines += doc
    return "\n".join(lines)


def _write_signature(tool: AnyTool, name: str, file: _StubFile) -> tuple[list[str], str]:
    """Return the parameters, each as it is written, and the type of the value that a call returns."""
    implementation = tool.implementation
    if implementation.supplied_schema is not None or not implementation.is_compilable:
        schema = tool.parameters if implementation.is_compilable else {}
        return _write_schema_signature(tool, schema, name, file)
    parameters = implementation.signature.parameters
    properties = tool.parameters.get("properties", {})
    arguments = SchemaWriter(tool.parameters, name, file.definitions)

    def write_hint(parameter: Parameter) -> str:
        written = _try_write_hint(parameter.hint, file)
        return written or arguments.write(properties.get(parameter.name), parameter.name)

    shown = list(_iter_parameters(parameters, write_hint))
    returns: Hint = unwrap_return_hint(implementation.signature.returns)
    return shown, _try_write_hint(returns, file) or ANY  # its schema tells of JSON, and a call returns the object


def _try_write_hint(hint: Hint, file: _StubFile) -> str | None:
    """Return the hint; None where a stub cannot import what it names."""
    try:
        return file.types.write(hint)
    except UnwritableHintError:
        return None


def _iter_parameters(parameters: Sequence[Parameter], write_hint: Callable[[Parameter], str]) -> Iterator[str]:
    """Yield the receiver and what a caller may pass, in order."""
    normal = [parameter for parameter in parameters if parameter.kind == "normal" and _is_keyword_name(parameter.name)]
    extra = next((parameter for parameter in parameters if parameter.kind == "extra"), None)
    yield _name_receiver([parameter.name for parameter in parameters])
    by_keyword = has_default = False
    for parameter in normal:
        is_required = parameter.default is NOTHING
        if not by_keyword and (parameter.keyword_only or (is_required and has_default)):
            by_keyword = True
            yield "*"
        has_default = has_default or not is_required
        yield f"{parameter.name}: {write_hint(parameter)}{'' if is_required else ' = ...'}"
    if extra is not None:
        yield f"**{extra.name}: {write_hint(extra)}"


def _write_schema_signature(
    tool: AnyTool, schema: JsonObject, name: str, file: _StubFile
) -> tuple[list[str], str]:
    """Return the signature of a tool of which there is only a JSON Schema: its arguments are passed by name."""
    properties, required = schema.get("properties", {}), schema.get("required", ())
    writer = SchemaWriter(schema, name, file.definitions)
    names = [key for key in properties if _is_keyword_name(key)]
    shown = [_name_receiver(names), *(["*"] if names else [])]
    shown += [f"{key}: {writer.write(properties[key], key)}{'' if key in required else ' = ...'}" for key in names]
    if len(names) < len(properties) or schema.get("additionalProperties") not in (None, False) or not schema:
        more = make_unique_name("more", names)
        shown.append(f"**{more}: {ANY}")
    result = tool.result_schema if tool.implementation.is_compilable else None
    return shown, SchemaWriter(result or {}, name, file.definitions).write(result, "result")


def _is_keyword_name(name: str) -> bool:
    """Tell whether a caller can write `name=…`; checkers take two underscores for a parameter without a name."""
    return is_plain_name(name) and not name.startswith("__")


def _name_receiver(names: Iterable[str]) -> str:
    """Return the name of the object itself, and the mark that it is never passed by name where a parameter has it."""
    taken = set(names)
    if "self" not in taken:
        return "self"
    return f"{make_unique_name('_self', taken)},\n        /"


def _write_docstring(text: str, indent: str) -> list[str]:
    """Return the lines of a docstring; none for an empty text."""
    safe = sanitize_text(text.strip()[:_MAX_DESCRIPTION], keep_line_breaks=True)
    escaped = safe.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    lines = [part for line in escaped.split("\n") for part in (wrap(line, _LINE_LENGTH) if line.strip() else [""])]
    if not lines or not any(lines):
        return []
    if len(lines) == 1 and not lines[0].endswith('"'):
        return [f'{indent}"""{lines[0]}"""']
    body = [f"{indent}{line}".rstrip() for line in lines]
    return [f'{indent}"""', *body, f'{indent}"""']
