"""The commands that list, find and show tools and agents: `list`, `search`, `show`, `agents`, `export`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import app_options, complete_agent, complete_tool, report_options
from praval_tools.cli.common import JsonObject, UsageError, sanitize_text
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import (
    build_grid,
    build_key_value_grid,
    build_rule_cell,
    print_json,
    print_message,
    print_note,
    print_result,
    to_cell,
)
from praval_tools.errors import UnknownFormatError, UnknownToolError
from praval_tools.names import find_similar_names, suggest_names
from praval_tools.plugins.click_contexts import pass_context
from praval_tools.report.access_matrix import list_agents
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool

_HINTS = ("read_only", "destructive", "idempotent", "open_world")

tag_option = click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only tools with one of these tags.")


def warn_if_undeclared(registry: ToolRegistry, agent: str) -> None:
    """Print a note where nobody declares *agent*, and nothing gives it a tool: it may be a mistyped name."""
    if agent not in list_agents(registry):
        print_note(f"no agent {agent!r} is declared.{suggest_names(agent, registry.agents)}")


# ── list ─────────────────────────────────────────────────────────────────────────────────────────


@click.command("list")
@click.option("--agent", metavar="AGENT", shell_complete=complete_agent, help="Only what this agent may call.")
@click.option("--category", metavar="CATEGORY", help="Only this category.")
@click.option("--owner", metavar="AGENT", shell_complete=complete_agent, help="Only what this agent owns.")
@tag_option
@report_options
def list_command(
    ctx: click.Context, *, agent: str | None, category: str | None, owner: str | None, tags: tuple[str, ...],
    as_json: bool,
) -> None:  # fmt: skip
    """List the tools, or those that one agent may call."""
    registry = open_selected_registry(ctx)
    tools = registry.search_tools(category=category, owned_by=owner, tags=list(tags) or None)
    if agent is not None:
        warn_if_undeclared(registry, agent)
        callable_names = set(registry.toolset(agent))
        tools = [tool for tool in tools if tool.name in callable_names]
    if as_json:
        print_json([_tool_to_json(tool) for tool in tools])
    elif tools:
        _print_tools(tools)
    else:
        total = len(registry.list_all_tools())
        has_filter = agent or category or owner or tags
        no_match = f"None of the {total} tools matches." if total > 1 else "The only tool does not match."
        print_message(no_match if total and has_filter else "The registry holds no tools.")


def _print_tools(tools: Iterable[AnyTool]) -> None:
    rows = [
        (tool.name, _format_owner(tool), _render_access(tool), to_cell(tool.description, max_length=120))
        for tool in tools
    ]
    print_result(build_grid(("tool", "owner", "shared / category", "description"), rows))


def _format_owner(tool: AnyTool) -> Text:
    owner = tool.metadata.owned_by
    return to_cell(owner or "-", "" if owner else "dim")


def _render_access(tool: AnyTool) -> Text:
    shared, category = tool.metadata.shared, tool.metadata.category
    named = to_cell(category) if category != "general" else Text("" if shared else "-", style="dim")
    return Text.assemble(*([("shared", "cyan"), " " if named.plain else ""] if shared else []), named)


def _tool_to_json(tool: AnyTool) -> JsonObject:
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


# ── search ───────────────────────────────────────────────────────────────────────────────────────


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--agent", metavar="AGENT", shell_complete=complete_agent, help="Only what this agent may call.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=10, show_default=True, help="Most tools.")
@report_options
def search_command(
    ctx: click.Context, *, words: tuple[str, ...], agent: str | None, limit: int, as_json: bool
) -> None:  # fmt: skip
    """Find tools by words in names, descriptions, parameters and tags; the best first."""
    registry = open_selected_registry(ctx)
    if agent is not None:
        warn_if_undeclared(registry, agent)
    tools = registry.search(" ".join(words), agent, limit)
    if as_json:
        print_json([_tool_to_json(tool) for tool in tools])
    elif tools:
        _print_tools(tools)
    else:
        print_message("No tool has these words." if agent is None else f"No tool that {agent!r} may call has them.")


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


@click.command("show")
@click.argument("tool", shell_complete=complete_tool)
@report_options
def show_command(ctx: click.Context, *, tool: str, as_json: bool) -> None:
    """Show one tool: parameters, result, owner, who may call it."""
    registry = open_selected_registry(ctx)
    shown = registry.get_tool(tool)
    if shown is None:
        names = [known.name for known in registry.list_all_tools()]
        raise UsageError(str(UnknownToolError(tool, find_similar_names(tool, names))))
    grantees = {grant.agent for grant in registry.grants(tool=shown)}  # a grant may precede its agent's declaration
    decisions = [registry.explain(agent, shown.name) for agent in sorted({*registry.agents, *grantees})]
    rules = {decision.agent: decision.rule for decision in decisions if decision.allowed}
    if as_json:
        print_json(_tool_to_json(shown) | _details_to_json(shown) | {"callers": rules})
        return
    description = Text(sanitize_text(shown.description, keep_line_breaks=True))
    callers = [Text.assemble(to_cell(agent), " ", build_rule_cell(rule, True)) for agent, rule in rules.items()]
    print_result(
        to_cell(shown.name, "bold"),
        *([Padding(description, (0, 0, 0, 2))] if shown.description else []),
        "",
        _build_details_table(shown),
        "",
        _render_parameters(shown),
        "",
        Text("May call it: ", style="bold") + (Text(", ").join(callers) if callers else Text("nobody")),
    )


def _details_to_json(tool: AnyTool) -> JsonObject:
    source = tool.metadata.source or Source()
    return {
        "parameters": tool.parameters,
        "result": tool.result_schema,
        "fingerprint": tool.fingerprint,
        "source": str(tool.metadata.source),
        "provenance": {name: getattr(source, name) for name in ("kind", "distribution", "version", "trusted")},
    }


def _build_details_table(tool: AnyTool) -> Table:
    meta = tool.metadata
    flags = "".join(f" ({name})" for name in ("shared", "private") if getattr(meta, name))
    return build_key_value_grid(
        (
            ("owner", f"{meta.owned_by or '-'}{flags}"),
            ("category", meta.category),
            ("tags", ", ".join(meta.tags)),
            ("risk", meta.risk_level + (", needs approval" if meta.requires_approval else "")),
            ("hints", ", ".join(name.replace("_", "-") for name in _HINTS if getattr(meta, name))),
            ("version", meta.version),
            ("returns", meta.return_type or ""),
            ("from", _format_distribution(meta.source)),
            ("source", str(meta.source)),
            ("fingerprint", tool.fingerprint[:16]),
        )
    )


def _format_distribution(source: Source | None) -> str:
    """Return the installed distribution that ships a tool; an empty text where none does."""
    if source is None or not source.distribution:
        return ""
    return f"{source.distribution} {source.version} ({source.kind}{'' if source.trusted else ', not trusted'})"


def _render_parameters(tool: AnyTool) -> RenderableType:
    properties: dict[str, JsonObject] = tool.parameters.get("properties", {})
    if properties:
        return build_grid(("parameter", "type", "", "description"), _iter_parameter_rows(tool, properties))
    accepts_none = tool.parameters.get("additionalProperties") is False
    return "It takes no arguments." if accepts_none else "It takes any arguments."


def _iter_parameter_rows(tool: AnyTool, properties: dict[str, JsonObject]) -> Iterator[tuple[object, ...]]:
    types, required = tool.metadata.parameters or {}, tool.parameters.get("required", ())
    for name, schema in properties.items():
        if name in required:
            presence = Text("required")
        else:
            text = f"default {schema['default']!r}" if "default" in schema else "optional"
            presence = to_cell(text, "dim", max_length=40)
        type_name = types.get(name, {}).get("type") or schema.get("type") or "any"
        yield to_cell(name, "bold"), type_name, presence, to_cell(schema.get("description", ""), max_length=200)


# ── agents ───────────────────────────────────────────────────────────────────────────────────────


@click.command("agents")
@report_options
def agents_command(ctx: click.Context, as_json: bool) -> None:
    """List the agents: what they own, list and request, and how many tools they may call."""
    registry = open_selected_registry(ctx)
    titles = list_agents(registry)
    agents = [_agent_to_json(registry, name) for name in titles]
    if as_json:
        print_json(agents)
        return
    if not agents:
        print_message("The registry holds no agents.")
        return
    rows = [
        (
            to_cell(titles[agent["name"]], "bold"),
            len(agent["callable"]),
            *(", ".join(agent[key]) or "-" for key in ("owns", "tools", "tool_categories")),
        )
        for agent in agents
    ]
    print_result(build_grid(("agent", "may call", "owns", "lists", "requests"), rows))


def _agent_to_json(registry: ToolRegistry, name: str) -> JsonObject:
    profile = registry.state.get_profile(name)
    return {
        "name": name,
        "declared": profile.declared,
        "tools": list(profile.tools),
        "tool_categories": list(profile.tool_categories),
        "auto_discover_tools": profile.auto_discover_tools,
        "owns": [tool.name for tool in registry.search_tools(owned_by=name)],
        "callable": list(registry.toolset(name)),
    }


# ── export ───────────────────────────────────────────────────────────────────────────────────────


@click.command("export")
@click.option("--agent", metavar="AGENT", required=True, shell_complete=complete_agent, help="Whose tools.")
@click.option("--format", "api_format", metavar="FORMAT", default="openai-chat", show_default=True,
              help="openai-chat, openai-responses, anthropic, gemini or mcp.")  # fmt: skip
@click.option("--strict", is_flag=True, help="For strict mode; tools that cannot be strict are exported as non-strict.")
@tag_option
@click.option("--exclude-tag", "exclude_tags", metavar="TAG", multiple=True, help="No tools with this tag.")
@click.option("--reason", is_flag=True, help="Ask the model for the reason of each call, as toolcall_reason.")
@app_options
@pass_context
def export_command(
    ctx: click.Context, *, agent: str, api_format: str, strict: bool, tags: tuple[str, ...],
    exclude_tags: tuple[str, ...], reason: bool,
) -> None:  # fmt: skip
    """Write an agent's tools as JSON in a provider's format."""
    registry = open_selected_registry(ctx)
    try:
        schemas = registry.schemas(
            agent, api_format, strict=strict, tags=tags or None, exclude_tags=exclude_tags or None, think_augment=reason
        )
    except UnknownFormatError as error:
        raise UsageError(str(error)) from error
    warn_if_undeclared(registry, agent)
    print_json(schemas)
