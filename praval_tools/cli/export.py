"""The command that writes an agent's tools as a provider gets them."""

from __future__ import annotations

import click

from praval_tools.cli.app_option import app_options, complete_agent
from praval_tools.cli.common import EXIT_USAGE, CommandError
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.listings import warn_if_unknown_agent
from praval_tools.cli.output import print_json
from praval_tools.errors import UnknownFormatError


@click.command("export")
@click.option("--agent", metavar="AGENT", required=True, shell_complete=complete_agent, help="Whose tools.")
@click.option(
    "--format", "api_format", metavar="FORMAT", default="openai-chat", show_default=True,
    help="openai-chat, openai-responses, anthropic, gemini or mcp.",
)  # fmt: skip
@click.option("--strict", is_flag=True, help="For the provider's strict mode; tools that cannot be are there without.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="Only tools with this tag; several: any of them.")
@click.option("--exclude-tag", "without", metavar="TAG", multiple=True, help="No tools with this tag.")
@click.option("--reason", is_flag=True, help="Ask the model for the reason of each call, as toolcall_reason.")
@app_options
@click.pass_context
def export_command(
    ctx: click.Context, *, agent: str, api_format: str, strict: bool, tags: tuple[str, ...], without: tuple[str, ...],
    reason: bool,
) -> None:  # fmt: skip
    """Write an agent's tools as JSON in a provider's format."""
    registry = open_selected_registry(ctx)
    try:
        made = registry.schemas(
            agent, api_format, strict=strict, tags=tags or None, exclude_tags=without or None, think_augment=reason
        )
    except UnknownFormatError as error:
        raise CommandError(str(error), EXIT_USAGE) from error
    warn_if_unknown_agent(registry, agent)
    print_json(made)
