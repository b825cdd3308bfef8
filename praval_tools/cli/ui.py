"""The command `ui`: serves the operator's page."""

from __future__ import annotations

import asyncio
import getpass
import sys
from pathlib import Path
from typing import Final

import click

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import app_options, find_app_spec
from praval_tools.cli.common import UsageError, find_command_line, get_app_option, set_app_option, set_journal_option
from praval_tools.cli.config_option import select_config
from praval_tools.cli.journal_option import locate_journal, open_selected_journal, open_selected_registry
from praval_tools.cli.listening import build_url, check_address, is_loopback, open_socket
from praval_tools.cli.output import print_message, print_note
from praval_tools.cli.tokens import file_option, open_selected_tokens, write_add_command
from praval_tools.demo import registry as build_demo_registry
from praval_tools.demo.app import APP as DEMO_APP
from praval_tools.demo.app import is_demo_journal
from praval_tools.errors import InvalidNameError, MissingExtraError
from praval_tools.journal import Journal
from praval_tools.journal.storage.open_store import is_database_url
from praval_tools.journal.tokens import AGENT_ROLE, Tokens
from praval_tools.names import check_agent_name
from praval_tools.plugins.click_contexts import call_on_close, pass_context

_PLAIN_HTTP: Final = (
    "without https would show tokens to the network: --tls-certificate FILE --tls-key FILE, or --behind-https where a "
    "proxy serves it."
)
_FILE: Final = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command("ui")
@click.argument("journal_place", metavar="[JOURNAL]", required=False)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where the page listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=8790, show_default=True, help="0: any free port.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="A name that browsers call the page by.")
@click.option("--tls-certificate", type=_FILE, metavar="FILE", help="Serve https with this certificate.")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="The private key of the certificate.")
@click.option("--behind-https", is_flag=True, help="A proxy in front serves https, and adds X-Forwarded-For.")
@file_option
@app_options
@pass_context
def ui_command(
    ctx: click.Context, /, journal_place: str | None, host: str, port: int, hosts: tuple[str, ...],
    tls_certificate: Path | None, tls_key: Path | None, behind_https: bool, token_file: str | None,
) -> None:  # fmt: skip
    """
    Serve the operator's page: live calls, approvals, calls in doubt, audit, statistics; with an app, who may call what.

    JOURNAL is a path or a postgresql:// URL; by default that of the app, or the one of this folder. People log in with
    a token of `praval-tools tokens add NAME --role operator`; on a terminal one that counts once is printed.
    """
    _check_extra()
    has_tls = tls_certificate is not None and tls_key is not None
    if (tls_certificate is None) != (tls_key is None):
        raise UsageError("--tls-certificate and --tls-key go together.")
    check_address(host, hosts, problem="" if has_tls or behind_https else _PLAIN_HTTP, clients="browsers")
    if journal_place is not None:
        set_journal_option(ctx, journal_place)
    listener = open_socket(host, port, 256)
    call_on_close(ctx, listener.close)
    journal, registry = _open_journal(ctx)
    tokens = open_selected_tokens(journal, token_file)
    from praval_tools.web.activity.activity import Activity
    from praval_tools.web.http_server import Certificate, make_http_server
    from praval_tools.web.server.app import build_app
    from praval_tools.web.server.logins import Logins
    from praval_tools.web.server.settings import PageSettings

    settings = PageSettings(
        port=listener.getsockname()[1], hosts=hosts, is_https=has_tls or behind_https, is_behind_proxy=behind_https,
        command_line=find_command_line(ctx),
    )
    activity, logins = Activity(journal), Logins(tokens=tokens)
    call_on_close(ctx, activity.close)
    address = f"{build_url(host, listener, scheme='https' if has_tls else 'http')}/"
    is_at_terminal = sys.stderr.isatty() and is_loopback(host) and not is_database_url(journal.name)
    token = logins.make_one_time_token(_find_user_name()) if is_at_terminal else None
    print_message(f"The page of {journal.name} is at {address}")
    _explain_log_in(tokens, token, write_add_command(ctx, "NAME", token_file, "--role", "operator"))
    page = build_app(activity, logins, registry=registry, settings=settings)
    certificate = None
    if tls_certificate is not None and tls_key is not None:
        certificate = Certificate(chain=tls_certificate, key=tls_key)
    server = make_http_server(
        page, certificate=certificate, grace_seconds=1, reads_proxy_headers=False, on_stop=activity.feed.close
    )
    asyncio.run(server.serve(sockets=[listener]))


def _check_extra() -> None:
    """
    Refuse where the page's libraries are missing.

    Raises:
        MissingExtraError: They are.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise MissingExtraError("The operator's page", "ui") from error


def _open_journal(ctx: click.Context) -> tuple[Journal, ToolRegistry | None]:
    """
    Return the journal that is named, else that of the app, else the one of this folder; and the app's registry.

    The demo's journal comes with the demo's registry.
    """
    location = locate_journal(ctx)
    if location.is_explicit and get_app_option(ctx) is None:
        journal = open_selected_journal(ctx)
        if not is_demo_journal(journal):
            return journal, None
        registry = ctx.with_resource(build_demo_registry())
        set_app_option(ctx, DEMO_APP)
        registry.journal = location.place
    elif find_app_spec(ctx) is None and not select_config(ctx).declares_registry:
        return open_selected_journal(ctx), None
    else:
        registry = open_selected_registry(ctx, is_change=True)
    if registry.journal is None:
        raise location.make_missing_error()
    return registry.journal, registry


def _explain_log_in(tokens: Tokens, one_time_token: str | None, add_command: str) -> None:
    """Say how to log in: *add_command* makes a token."""
    if one_time_token is not None:
        print_message(f"Log in there, once and within an hour, with: {one_time_token}")
    elif all(token.role == AGENT_ROLE for token in tokens.list()):
        print_note(f"nobody can log in yet: {add_command}")
    print_message("End it with Ctrl-C.")


def _find_user_name() -> str:
    """Return the name that the journal gives to whoever is at the terminal."""
    try:
        return check_agent_name(getpass.getuser())
    except (InvalidNameError, OSError, KeyError):
        return "terminal"
