"""The command `tokens`, with `add`, `list` and `revoke`: which client speaks for which agent, who uses the page."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import click

from praval_tools.cli.app_option import app_options, find_app_spec, load_app_registry, report_options
from praval_tools.cli.common import CommandGroup, find_command_line
from praval_tools.cli.journal_option import locate_journal
from praval_tools.cli.output import (
    build_grid,
    print_json,
    print_message,
    print_note,
    print_result,
    report_effect,
    to_cell,
)
from praval_tools.cli.times import FutureTimeParam, format_iso_time, format_time
from praval_tools.journal import open_journal
from praval_tools.journal.journal import Journal
from praval_tools.journal.tokens import AGENT_ROLE, DEFAULT_FILE, ROLES, AgentToken, Tokens, open_tokens
from praval_tools.plugins.click_contexts import call_on_close, pass_context

file_option = click.option("--tokens", "token_file", metavar="FILE", help="The file of tokens, instead of the journal.")
"""Adds `--tokens`."""


@click.group("tokens", cls=CommandGroup)
def tokens_command() -> None:
    """Tokens of MCP clients, each of which stands for one agent, and of people who use the operator's page."""


@tokens_command.command("add")
@click.argument("agent")
@click.option(
    "--role", metavar="ROLE", type=click.Choice(ROLES), default=AGENT_ROLE, show_default=True,
    help="agent; or, of a person at the page of `ui`: operator, viewer (who changes nothing).",
)
@click.option("--expires", metavar="WHEN", type=FutureTimeParam(), help="When, or after how long: 30d, 12h.")
@file_option
@app_options
@pass_context
def add_command(
    ctx: click.Context, agent: str, *, role: str, expires: timedelta | datetime | None, token_file: str | None
) -> None:
    """Make a token for AGENT, or a person, and print it, this once; only its digest is kept."""
    token = _open_tokens(ctx, token_file).add(agent, expires=expires, role=role)
    with report_effect(f"A token for {agent} was made, and is lost: revoke it."):
        click.echo(token)
    subject = agent if role == AGENT_ROLE else f"{agent}, {role} of the page"
    print_message(f"It stands for {subject}, and is not shown again.")


def write_add_command(ctx: click.Context, name: str, token_file: str | None, *options: str) -> str:
    """Return the command that makes a token of *name*, in the file that this command names."""
    file_options = ["--tokens", token_file] if token_file else []
    return find_command_line(ctx).write("tokens add", [name], [*options, *file_options])


@tokens_command.command("list")
@file_option
@report_options
def list_command(ctx: click.Context, as_json: bool, token_file: str | None) -> None:
    """List the tokens: id, agent or person, role, since when, until when."""
    tokens = _open_tokens(ctx, token_file).list()
    if as_json:
        print_json([_to_json(token) for token in tokens])
    elif not tokens:
        print_message(f"There are no tokens. Make one: {write_add_command(ctx, 'AGENT', token_file)}")
    else:
        titles = ("id", "agent", "role", "made (UTC)", "expires (UTC)")
        print_result(build_grid(titles, map(_build_row, tokens), unwrapped_columns=(0, 1, 2, 3, 4)))


@tokens_command.command("revoke")
@click.argument("token_id", metavar="ID")
@file_option
@app_options
@pass_context
def revoke_command(ctx: click.Context, token_id: str, token_file: str | None) -> None:
    """End the token with this ID; servers refuse it from the next message on."""
    _open_tokens(ctx, token_file).revoke(token_id)
    print_message(f"Token {token_id} is revoked.")


def _open_tokens(ctx: click.Context, token_file: str | None) -> Tokens:
    return open_selected_tokens(None if token_file is not None else _find_journal(ctx), token_file)


def open_selected_tokens(journal: Journal | None, token_file: str | None) -> Tokens:
    """Return the tokens of the file, else of the journal, else of the file in this folder."""
    tokens = open_tokens(journal, file=token_file)
    if token_file is None and not tokens.is_file and Path(DEFAULT_FILE).exists():
        print_note(f"the tokens of the journal are used; for those of the file add --tokens {DEFAULT_FILE}.")
    return tokens


def _find_journal(ctx: click.Context) -> Journal | None:
    """Return the journal of the registry that `--app` names, else the one of `--journal` or of this folder, if any."""
    if find_app_spec(ctx) is not None and (own := load_app_registry(ctx).journal) is not None:
        return own
    location = locate_journal(ctx)
    if not location.exists:
        if location.is_explicit:
            raise location.make_missing_error()
        return None
    journal = open_journal(location.place)
    call_on_close(ctx, journal.close)
    return journal


def _build_row(token: AgentToken) -> Sequence[object]:
    return to_cell(token.id, "bold"), token.agent, token.role, format_time(token.created), _format_end(token)


def _format_end(token: AgentToken) -> str:
    if token.expires is None:
        return "never"
    return f"{format_time(token.expires)}{' (over)' if token.has_expired else ''}"


def _to_json(token: AgentToken) -> dict[str, str | bool | None]:
    return {
        "id": token.id, "agent": token.agent, "role": token.role, "created": format_iso_time(token.created),
        "expires": None if token.expires is None else format_iso_time(token.expires), "expired": token.has_expired,
    }  # fmt: skip
