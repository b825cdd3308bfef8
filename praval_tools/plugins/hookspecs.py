"""
The hooks that a plugin may implement: their names, parameters, and when they are called.

An implementation is marked with `@hookimpl` and takes any of the parameters, by their names. Hooks are called by
distribution name, then entry point; `@hookimpl(tryfirst=True)` and `trylast` move one to an end. Wrappers are refused.
Every hook acts in the name `plugin:<distribution>`: it may change what that name owns, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pluggy import HookimplMarker, HookspecMarker

from praval_tools.access.records import Principal
from praval_tools.plugins.discovery import ENTRY_POINT_GROUP
from praval_tools.tools.call import ToolCall, ToolResult
from praval_tools.tools.decision import Allow, ApprovalRequest, Ask, Deny
from praval_tools.tools.tool import Tool

if TYPE_CHECKING:
    import click

    from praval_tools.formats import Format

PROJECT_NAME: Final = ENTRY_POINT_GROUP
"""Pluggy's name for the project."""

hookspec = HookspecMarker(PROJECT_NAME)
"""Marks the specification of a hook."""

hookimpl = HookimplMarker(PROJECT_NAME)
"""Marks what a plugin implements."""


@hookspec
def praval_tools_settings() -> type:
    """
    Declare the plugin's settings, as an attrs class.

    Called: once, while the plugin is loaded, before any other hook.
    Returns: The class; the operator's table `[plugins."<distribution>".settings]` becomes an instance of it.
    Raises: The plugin is rejected as a whole.
    """


@hookspec
def praval_tools_register_tools(settings: Any) -> Iterable[Tool[..., Any] | Callable[..., Any] | object]:
    """
    Return the plugin's tools.

    Called: once, while the plugin is loaded, with its settings, or None where it declares none.
    Returns: Tools, functions with type hints, or objects and classes whose public methods are tools; None: no tools.
    Raises: The plugin is rejected as a whole; so it is where one tool is invalid or a name is taken.
    """


@hookspec
def praval_tools_authorize(
    agent: str | None, tool: Tool[..., Any], arguments: dict[str, Any], principal: Principal | None
) -> Deny | Ask | str | None:
    """
    Refuse a call that the access rules allow, or ask for an approval; never allow one.

    Called: at each call, in its thread, after the arguments were checked; *arguments* is a copy of them as JSON, in
        which a `Decimal` stays a `Decimal`, so that it is exact. Where an agent calls on behalf of others, once for it
        and once for each of them as *agent*; *principal* has them all.
    Returns: None: no objection; a text or `Deny`: the call is refused; `Ask`: a person has to approve it.
    Raises: The call is refused, as by any other answer.
    """


@hookspec
def praval_tools_before_call(call: ToolCall, tool: Tool[..., Any], arguments: dict[str, Any]) -> None:
    """
    Observe that a call is about to run.

    Called: once a call, in its thread, after limits and approval, before its function; *arguments* is a copy.
    Returns: None.
    Raises: An `Exception`: the call goes on; the failure is reported. Another `BaseException`, as Ctrl-C raises, ends
        the call.
    """


@hookspec
def praval_tools_after_call(call: ToolCall, tool: Tool[..., Any] | None, result: ToolResult) -> None:
    """
    Observe the result of a call, refusals included; not a result that a replay returns again.

    Called: once a call, in its thread, when its result is written; *tool* is None where no tool has that name.
        The exception of a tool is not shown.
    Returns: None.
    Raises: An `Exception`: the result stands; the failure is reported. Another `BaseException`, as Ctrl-C raises,
        reaches the caller.
    """


@hookspec
def praval_tools_approve(request: ApprovalRequest) -> Allow | Deny | None:
    """
    Approve or deny a call that needs an approval; only of a trusted plugin, where the operator has set no handler.

    Called: when such a call waits; plugins are asked one after the other until one answers.
    Returns: `Allow` or `Deny`; None: the next plugin or a person answers.
    Raises: The call is denied, as by any other answer.
    """


@hookspec
def praval_tools_engines() -> Mapping[str, Any]:
    """
    Return engines: places where the functions of tools run.

    Called: once, while the plugin is loaded.
    Returns: Engines by name, with a dot: `{"acme.pool": engine}`. `engine.submit(work)` has `work()` called, in any
        thread of this process; `engine.shutdown()` or `close()`, if there is one, ends it with the registry.
    Raises: The plugin is rejected as a whole.
    """


@hookspec
def praval_tools_journals() -> Mapping[str, Callable[[str], Any]]:
    """
    Return stores for the journal.

    Called: once, while the plugin is loaded.
    Returns: Openers by URL scheme: `{"acme": open}`, where `open("acme://…")` gives a store.
    Raises: The plugin is rejected as a whole. What an opener raises reaches whoever sets the journal.
    """


@hookspec
def praval_tools_formats() -> Mapping[str, Format]:
    """
    Return provider formats.

    Called: once, while the plugin is loaded.
    Returns: Formats by name: `{"acme": praval_tools.formats.Format(…)}`.
    Raises: The plugin is rejected as a whole. What a format's function raises reaches whoever asks for the schemas.
    """


@hookspec
def praval_tools_sources() -> Mapping[str, Callable[[Mapping[str, Any]], Iterable[Any]]]:
    """
    Return loaders of tools for the `[[sources]]` tables of a configuration.

    Called: once, while the plugin is loaded.
    Returns: Loaders by the `kind` of a `[[sources]]` table, called with that table; each returns tools,
        as `praval_tools_register_tools` does.
    Raises: The plugin is rejected as a whole. Where a loader raises, only the tools of that table are rejected.
    """


@hookspec
def praval_tools_commands(cli: click.Group) -> None:
    """
    Add commands to the command line: `cli.add_command(…)`, `@cli.command()`.

    Called: when the command line shows its help, or does not know a command.
    Returns: None.
    Raises: All commands of the plugin are left out; so they are where one has the name of another command.
    """
