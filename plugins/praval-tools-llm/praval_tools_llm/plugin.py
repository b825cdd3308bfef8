"""Registers the tools that an agent may call with `llm`; each call goes through the registry and is decided there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from threading import Lock
from types import FunctionType

import click
import llm
from praval_tools import (
    Allow,
    ApprovalRequest,
    Content,
    Deny,
    ToolCall,
    ToolRegistry,
    ToolResult,
    Toolset,
    ToolUsageError,
    get_tool_registry,
)

_terminal = Lock()
APP_VARIABLE, CONFIG_VARIABLE, AGENT_VARIABLE = "PRAVAL_TOOLS_APP", "PRAVAL_TOOLS_CONFIG", "PRAVAL_TOOLS_AGENT"


class CallFailedError(Exception):
    """A call was refused, or failed; `llm` shows its text to the model."""


@llm.hookimpl
def register_tools(register: Callable[[llm.Tool], object]) -> None:
    """
    Register the tools of the agent that the environment names; none where it names no agent.

    What is wrong is written to stderr: an exception would end every command of `llm` that looks for tools.
    """
    agent = os.environ.get(AGENT_VARIABLE)
    if not agent:
        return
    try:
        registry = load_registry(os.environ.get(APP_VARIABLE), os.environ.get(CONFIG_VARIABLE))
        ask_in_terminal(registry)
        tools = list(build_tools(registry.toolset(agent)))
    except Exception as error:  # the seam to the user's program
        click.echo(f"praval-tools-llm: no tools of {agent!r}: {type(error).__name__}: {error}", err=True)
        return
    for tool in tools:
        register(tool)


def load_registry(app: str | None, config: str | None) -> ToolRegistry:
    """
    Return the registry that an app, `module:registry` or `module`, or else a configuration names.

    Modules are also looked for in the working directory.

    Raises:
        ToolUsageError: Neither is named, or the app has no such registry.
        ImportError: There is no such module.
        ConfigError: The configuration has problems.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if not app:
        if config:
            return ToolRegistry.from_config(*config.split(os.pathsep))
        raise ToolUsageError(f"Which registry? Set {APP_VARIABLE}=module:registry, or {CONFIG_VARIABLE} to a file.")
    name, _, attribute = app.partition(":")
    module = import_module(name)
    if not attribute:
        return get_tool_registry()  # the module fills it
    registry = getattr(module, attribute, None)
    if isinstance(registry, FunctionType):
        registry = registry()
    if not isinstance(registry, ToolRegistry):
        raise ToolUsageError(f"{app} is no ToolRegistry, nor a function that returns one.")
    return registry


def ask_in_terminal(registry: ToolRegistry) -> None:
    """Have the person at the terminal approve calls, where there is one and the registry asks nobody else."""
    if registry.approvals.handler is None and sys.stdin.isatty() and sys.stderr.isatty():
        registry.set_approval_handler(_ask_person)


def _ask_person(request: ApprovalRequest) -> Allow | Deny:
    """
    Ask about one call at a time: `llm` makes the calls of an async model side by side.

    The reason may quote what a model wrote, and is shown as a literal, as the arguments are: it cannot move the cursor.
    """
    reason = f" ({request.reason!r})" if request.reason else ""
    with _terminal:
        click.echo(f"{request.agent} wants to call {request.tool}{reason} with {request.arguments!r}", err=True)
        if click.confirm("May it?", err=True):
            return Allow(by="terminal")
    return Deny("the person at the terminal said no", by="terminal")


def build_tools(toolset: Toolset) -> Iterator[llm.Tool]:
    """Yield a tool of `llm` for each tool that the agent may call now."""
    for schema in toolset.schemas("anthropic"):
        yield llm.Tool(
            # `llm -T Name` would be a toolbox
            name=schema["name"][0].lower() + schema["name"][1:],
            description=schema["description"],
            input_schema=schema["input_schema"],
            implementation=_build_function(toolset, schema["name"]),
        )


def _build_function(toolset: Toolset, name: str) -> Callable[..., object]:
    async def call(**arguments: object) -> llm.ToolOutput:
        return _to_output(await toolset.aexecute(ToolCall(name=name, arguments=arguments)))

    return call


def _to_output(result: ToolResult) -> llm.ToolOutput:
    """Return what the model gets of a result, with the bytes of its images, sounds and files as attachments."""
    text = result.for_model()
    if not result.success:
        raise CallFailedError(text)
    blocks = result.result if isinstance(result.result, list) else [result.result]
    attachments = [
        llm.Attachment(type=block.mime_type, content=block.data)
        for block in blocks
        if isinstance(block, Content) and block.data
    ]
    return llm.ToolOutput(output=text, attachments=attachments)
