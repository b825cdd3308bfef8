"""The commands that look: `list`, `show`, `agents`, `matrix`."""

from __future__ import annotations

from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from praval_tools import Tool, ToolRegistry
from praval_tools.cli.app_option import app_options, complete_agent, complete_tool
from praval_tools.cli.common import EXIT_USAGE, CommandError, json_option, sanitize_text
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.matrix import build_access_matrix, build_matrix_tables
from praval_tools.cli.output import build_grid, build_rule_cell, make_console, print_json, print_parts, to_cell
from praval_tools.errors import UnknownToolError
from praval_tools.names import find_similar_names
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
    registry = open_selected_registry(ctx)
    tools = registry.search_tools(category=category, owned_by=owner, tags=list(tags) or None)
    if agent is not None:
        warn_if_unknown_agent(registry, agent)
        callable_now = set(registry.toolset(agent))
        tools = [tool for tool in tools if tool.name in callable_now]
    if as_json:
        print_json([_tool_to_json(tool) for tool in tools])
        return
    if not tools:
        _print_no_tools(registry, filtered=bool(agent or category or owner or tags))
        return
    rows = [
        (to_cell(tool.name), to_cell(_format_owner(tool), "dim" if tool.metadata.owned_by is None else ""), _render_access(tool),
         to_cell(tool.description, max_length=120))
        for tool in tools
    ]  # fmt: skip
    print_parts(make_console(), build_grid(("tool", "owner", "shared / category", "description"), rows))


def _print_no_tools(registry: ToolRegistry, *, filtered: bool) -> None:
    total = len(registry.list_all_tools())
    text = f"None of the {total} tools fits." if filtered and total else "The registry holds no tools."
    print_parts(make_console(stderr=True), Text(text))


def warn_if_unknown_agent(registry: ToolRegistry, agent: str) -> None:
    if agent not in registry.agents:
        fix = find_similar_names(agent, registry.agents)
        meant = f" Did you mean {' or '.join(map(repr, fix))}?" if fix else ""
        text = f"Note: no agent {agent!r} is declared; it may call what is shared.{meant}"
        print_parts(make_console(stderr=True), to_cell(text, "yellow"))


def _format_owner(tool: AnyTool) -> str:
    return tool.metadata.owned_by or "-"


def _render_access(tool: AnyTool) -> Text:
    shared, category = tool.metadata.shared, tool.metadata.category
    named = to_cell(category) if category != "general" else Text("" if shared else "-", style="dim")
    return Text.assemble(*([("shared", "cyan"), " " if named.plain else ""] if shared else []), named)


def _tool_to_json(tool: AnyTool) -> dict[str, Any]:
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
    registry = open_selected_registry(ctx)
    found = require_tool(registry, tool)
    granted = {grant.agent for grant in registry.grants(tool=found)}  # a grant holds before its agent is declared
    callers = build_access_matrix(registry, agents=sorted({*registry.agents, *granted}), tools=[found])
    rules = {agent: callers.decisions[agent, found.name].rule for agent in callers.agents
             if callers.decisions[agent, found.name].allowed}  # fmt: skip
    if as_json:
        more = {
            "parameters": found.parameters,
            "result": found.result_schema,
            "fingerprint": found.fingerprint,
            "source": str(found.metadata.source),
            "provenance": _provenance_to_json(found),
            "callers": rules,
        }
        print_json(_tool_to_json(found) | more)
        return
    console = make_console()
    print_parts(console, to_cell(found.name, "bold"))
    if found.description:
        print_parts(console, Padding(Text(sanitize_text(found.description, keep_line_breaks=True)), (0, 0, 0, 2)))
    print_parts(console, "", _build_details_table(found), "", *_render_parameters(found), "")
    allowed = [Text.assemble(to_cell(agent), " ", build_rule_cell(rule, True)) for agent, rule in rules.items()]
    print_parts(
        console, Text("May call it: ", style="bold") + (Text(", ").join(allowed) if allowed else Text("nobody"))
    )


def require_tool(registry: ToolRegistry, name: str) -> AnyTool:
    """
    Return the tool of this name.

    Raises:
        Failure: There is none; the text names similar ones.
    """
    found = registry.get_tool(name)
    if found is None:
        names = [tool.name for tool in registry.list_all_tools()]
        raise CommandError(str(UnknownToolError(name, find_similar_names(name, names))), EXIT_USAGE)
    return found


def _build_details_table(tool: AnyTool) -> Any:
    meta = tool.metadata
    hints = [name.replace("_", "-") for name in ("read_only", "destructive", "idempotent", "open_world")
             if getattr(meta, name)]  # fmt: skip
    rows = [
        ("owner", _format_owner(tool) + (" (shared)" if meta.shared else "") + (" (private)" if meta.private else "")),
        ("category", meta.category),
        ("tags", ", ".join(meta.tags)),
        ("risk", meta.risk_level + (", needs approval" if meta.requires_approval else "")),
        ("hints", ", ".join(hints)),
        ("version", meta.version),
        ("returns", meta.return_type or ""),
        ("from", _format_distribution(tool)),
        ("source", str(meta.source)),
        ("fingerprint", tool.fingerprint[:16]),
    ]
    table = build_grid(("", ""), [(to_cell(name, "dim"), to_cell(value)) for name, value in rows if value])
    table.show_header = False
    return table


def _provenance_to_json(tool: AnyTool) -> dict[str, Any]:
    source = tool.metadata.source or Source()
    return {"kind": source.kind, "distribution": source.distribution, "version": source.version,
            "trusted": source.trusted}  # fmt: skip


def _format_distribution(tool: AnyTool) -> str:
    """Say which installed distribution ships a tool; empty: none does."""
    source = tool.metadata.source
    if source is None or not source.distribution:
        return ""
    trust = "" if source.trusted else ", not trusted"
    return f"{source.distribution} {source.version} ({source.kind}{trust})"


def _render_parameters(tool: AnyTool) -> list[Any]:
    schema = tool.parameters
    properties: dict[str, Any] = schema.get("properties", {})
    if not properties:
        return [Text("It takes no arguments." if schema.get("additionalProperties") is False else "Any arguments.")]
    types: dict[str, Any] = tool.metadata.parameters or {}
    required = set(schema.get("required", ()))
    rows = [
        (
            to_cell(name, "bold"),
            to_cell(types.get(name, {}).get("type") or one.get("type") or "any"),
            to_cell("required" if name in required else f"default {one['default']!r}" if "default" in one else "optional",
                 "" if name in required else "dim", max_length=40),
            to_cell(one.get("description", ""), max_length=200),
        )
        for name, one in properties.items()
    ]  # fmt: skip
    return [build_grid(("parameter", "type", "", "description"), rows)]


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


@click.command("agents")
@json_option
@app_options
@click.pass_context
def agents_command(ctx: click.Context, as_json: bool) -> None:
    """List the agents: what they own, list and request, and how many tools they may call."""
    registry = open_selected_registry(ctx)
    found = [_agent_to_json(registry, name) for name in registry.agents]
    if as_json:
        print_json(found)
        return
    if not found:
        print_parts(make_console(stderr=True), Text("The registry holds no agents."))
        return
    rows = [
        (to_cell(one["name"], "bold"), to_cell(len(one["callable"])), to_cell(", ".join(one["owns"]) or "-"),
         to_cell(", ".join(one["tools"]) or "-"), to_cell(", ".join(one["tool_categories"]) or "-"))
        for one in found
    ]  # fmt: skip
    print_parts(make_console(), build_grid(("agent", "may call", "owns", "lists", "requests"), rows))


def _agent_to_json(registry: ToolRegistry, name: str) -> dict[str, Any]:
    profile = registry.state.get_profile(name)
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
    registry = open_selected_registry(ctx)
    for agent in agents:
        warn_if_unknown_agent(registry, agent)
    tools = registry.search_tools(category=category)
    found = build_access_matrix(registry, agents=agents or registry.agents, tools=tools)
    if as_json:
        print_json(found.to_json())
        return
    if not found.tools or not found.agents:
        print_parts(
            make_console(stderr=True), Text(f"Nothing to show: {len(found.agents)} agents, {len(found.tools)} tools.")
        )
        return
    console = make_console()
    for number, table in enumerate(build_matrix_tables(found, console.width)):
        print_parts(console, *([""] if number else []), table)
