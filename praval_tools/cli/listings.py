"""The commands that look: `list`, `show`, `agents`, `matrix`."""

from __future__ import annotations

from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from praval_tools import Tool, ToolRegistry
from praval_tools.cli.app_option import app_options, complete_agent, complete_tool
from praval_tools.cli.common import USAGE, Failure, json_option, shown
from praval_tools.cli.journal_option import registry_of
from praval_tools.cli.matrix import matrix_of, matrix_tables
from praval_tools.cli.output import cell, grid, print_all, print_json, rule_cell, screen
from praval_tools.errors import UnknownToolError
from praval_tools.names import near
from praval_tools.tools.source import Source

AnyTool = Tool[..., Any]


# ── list ─────────────────────────────────────────────────────────────────────────────────────────


@click.command("list")
@click.option("--agent", metavar="AGENT", shell_complete=complete_agent, help="Only what this agent may call.")
@click.option("--category", metavar="CATEGORY", help="Only this category.")
@click.option("--owner", metavar="AGENT", shell_complete=complete_agent, help="Only what this agent owns.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only tools with this tag; several: any of them.")
@json_option
@app_options
@click.pass_context
def list_command(
    ctx: click.Context,
    *,
    agent: str | None,
    category: str | None,
    owner: str | None,
    tags: tuple[str, ...],
    as_json: bool,
) -> None:
    """List the tools, or those that one agent may call."""
    registry = registry_of(ctx)
    tools = registry.search_tools(category=category, owned_by=owner, tags=list(tags) or None)
    if agent is not None:
        _warn_if_unknown(registry, agent)
        callable_now = set(registry.toolset(agent))
        tools = [tool for tool in tools if tool.name in callable_now]
    if as_json:
        print_json([_tool_json(tool) for tool in tools])
        return
    if not tools:
        _say_none(registry, filtered=bool(agent or category or owner or tags))
        return
    rows = [
        (cell(tool.name), cell(_owner(tool), "dim" if tool.metadata.owned_by is None else ""), _access(tool),
         cell(tool.description, most=120))
        for tool in tools
    ]  # fmt: skip
    print_all(screen(), grid(("tool", "owner", "shared / category", "description"), rows))


def _say_none(registry: ToolRegistry, *, filtered: bool) -> None:
    total = len(registry.list_all_tools())
    text = f"None of the {total} tools fits." if filtered and total else "The registry holds no tools."
    print_all(screen(stderr=True), Text(text))


def _warn_if_unknown(registry: ToolRegistry, agent: str) -> None:
    if agent not in registry.agents:
        fix = near(agent, registry.agents)
        meant = f" Did you mean {' or '.join(map(repr, fix))}?" if fix else ""
        text = f"Note: no agent {agent!r} is declared; it may call what is shared.{meant}"
        print_all(screen(stderr=True), cell(text, "yellow"))


def _owner(tool: AnyTool) -> str:
    return tool.metadata.owned_by or "-"


def _access(tool: AnyTool) -> Text:
    shared, category = tool.metadata.shared, tool.metadata.category
    named = cell(category) if category != "general" else Text("" if shared else "-", style="dim")
    return Text.assemble(*([("shared", "cyan"), " " if named.plain else ""] if shared else []), named)


def _tool_json(tool: AnyTool) -> dict[str, Any]:
    meta = tool.metadata
    return {
        "name": tool.name,
        "description": tool.description,
        "owned_by": meta.owned_by,
        "shared": meta.shared,
        "category": meta.category,
        "tags": list(meta.tags),
        "version": meta.version,
        "risk_level": meta.risk_level,
        "requires_approval": meta.requires_approval,
        "private": meta.private,
    }


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@click.command("show")
@click.argument("tool", shell_complete=complete_tool)
@json_option
@app_options
@click.pass_context
def show_command(ctx: click.Context, *, tool: str, as_json: bool) -> None:
    """Show one tool: parameters, result, owner, who may call it."""
    registry = registry_of(ctx)
    found = tool_named(registry, tool)
    granted = {grant.agent for grant in registry.grants(tool=found)}  # a grant holds before its agent is declared
    callers = matrix_of(registry, agents=sorted({*registry.agents, *granted}), tools=[found])
    rules = {agent: callers.decisions[agent, found.name].rule for agent in callers.agents
             if callers.decisions[agent, found.name].allowed}  # fmt: skip
    if as_json:
        more = {
            "parameters": found.parameters,
            "result": found.result_schema,
            "fingerprint": found.fingerprint,
            "source": str(found.metadata.source),
            "provenance": _provenance(found),
            "callers": rules,
        }
        print_json(_tool_json(found) | more)
        return
    console = screen()
    print_all(console, cell(found.name, "bold"))
    if found.description:
        print_all(console, Padding(Text(shown(found.description, lines=True)), (0, 0, 0, 2)))
    print_all(console, "", _facts(found), "", *_parameters(found), "")
    allowed = [Text.assemble(cell(agent), " ", rule_cell(rule, True)) for agent, rule in rules.items()]
    print_all(console, Text("May call it: ", style="bold") + (Text(", ").join(allowed) if allowed else Text("nobody")))


def tool_named(registry: ToolRegistry, name: str) -> AnyTool:
    """
    Return the tool of this name.

    Raises:
        Failure: There is none; the text names similar ones.
    """
    found = registry.get_tool(name)
    if found is None:
        names = [tool.name for tool in registry.list_all_tools()]
        raise Failure(str(UnknownToolError(name, near(name, names))), USAGE)
    return found


def _facts(tool: AnyTool) -> Any:
    meta = tool.metadata
    hints = [name.replace("_", "-") for name in ("read_only", "destructive", "idempotent", "open_world")
             if getattr(meta, name)]  # fmt: skip
    rows = [
        ("owner", _owner(tool) + (" (shared)" if meta.shared else "") + (" (private)" if meta.private else "")),
        ("category", meta.category),
        ("tags", ", ".join(meta.tags)),
        ("risk", meta.risk_level + (", needs approval" if meta.requires_approval else "")),
        ("hints", ", ".join(hints)),
        ("version", meta.version),
        ("returns", meta.return_type or ""),
        ("from", _shipped(tool)),
        ("source", str(meta.source)),
        ("fingerprint", tool.fingerprint[:16]),
    ]
    table = grid(("", ""), [(cell(name, "dim"), cell(value)) for name, value in rows if value])
    table.show_header = False
    return table


def _provenance(tool: AnyTool) -> dict[str, Any]:
    source = tool.metadata.source or Source()
    return {"kind": source.kind, "distribution": source.distribution, "version": source.version,
            "trusted": source.trusted}  # fmt: skip


def _shipped(tool: AnyTool) -> str:
    """Say which installed distribution ships a tool; empty: none does."""
    source = tool.metadata.source
    if source is None or not source.distribution:
        return ""
    trust = "" if source.trusted else ", not trusted"
    return f"{source.distribution} {source.version} ({source.kind}{trust})"


def _parameters(tool: AnyTool) -> list[Any]:
    schema = tool.parameters
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        return [Text("It takes no arguments." if schema.get("additionalProperties") is False else "Any arguments.")]
    types: dict[str, Any] = tool.metadata.parameters or {}
    required = set(schema.get("required", ()))
    rows = [
        (
            cell(name, "bold"),
            cell(types.get(name, {}).get("type") or one.get("type") or "any"),
            cell("required" if name in required else f"default {one['default']!r}" if "default" in one else "optional",
                 "" if name in required else "dim", most=40),
            cell(one.get("description", ""), most=200),
        )
        for name, one in properties.items()
    ]  # fmt: skip
    return [grid(("parameter", "type", "", "description"), rows)]


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


@click.command("agents")
@json_option
@app_options
@click.pass_context
def agents_command(ctx: click.Context, as_json: bool) -> None:
    """List the agents: what they own, list and request, and how many tools they may call."""
    registry = registry_of(ctx)
    found = [_agent_json(registry, name) for name in registry.agents]
    if as_json:
        print_json(found)
        return
    if not found:
        print_all(screen(stderr=True), Text("The registry holds no agents."))
        return
    rows = [
        (cell(one["name"], "bold"), cell(len(one["callable"])), cell(", ".join(one["owns"]) or "-"),
         cell(", ".join(one["tools"]) or "-"), cell(", ".join(one["tool_categories"]) or "-"))
        for one in found
    ]  # fmt: skip
    print_all(screen(), grid(("agent", "may call", "owns", "lists", "requests"), rows))


def _agent_json(registry: ToolRegistry, name: str) -> dict[str, Any]:
    profile = registry.state.profile(name)
    return {
        "name": name,
        "tools": list(profile.tools),
        "tool_categories": list(profile.tool_categories),
        "auto_discover_tools": profile.auto_discover_tools,
        "owns": [tool.name for tool in registry.search_tools(owned_by=name)],
        "callable": list(registry.toolset(name)),
    }


# ── matrix ───────────────────────────────────────────────────────────────────────────────────────


@click.command("matrix")
@click.option("--agent", "agents", metavar="AGENT", multiple=True, shell_complete=complete_agent,
              help="Only this agent; may be repeated.")  # fmt: skip
@click.option("--category", metavar="CATEGORY", help="Only tools of this category.")
@json_option
@app_options
@click.pass_context
def matrix_command(ctx: click.Context, *, agents: tuple[str, ...], category: str | None, as_json: bool) -> None:
    """Show agents x tools, with the deciding rule in each cell; `-`: nothing gives the agent this tool."""
    registry = registry_of(ctx)
    for agent in agents:
        _warn_if_unknown(registry, agent)
    tools = registry.search_tools(category=category)
    found = matrix_of(registry, agents=agents or registry.agents, tools=tools)
    if as_json:
        print_json(found.as_json())
        return
    if not found.tools or not found.agents:
        print_all(screen(stderr=True), Text(f"Nothing to show: {len(found.agents)} agents, {len(found.tools)} tools."))
        return
    console = screen()
    for number, table in enumerate(matrix_tables(found, console.width)):
        print_all(console, *([""] if number else []), table)
