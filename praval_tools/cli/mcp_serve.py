"""The command `mcp serve`: serves an agent's tools to MCP clients, by stdio or by HTTP."""

from __future__ import annotations

import asyncio
import atexit
import gc
import os
import sys
import time
from collections.abc import Coroutine
from typing import Final

import click

from praval_tools import ToolRegistry
from praval_tools.cli.app_option import app_options
from praval_tools.cli.common import UsageError
from praval_tools.cli.journal_option import names_journal, open_selected_registry
from praval_tools.cli.listening import build_url, check_address, open_socket
from praval_tools.cli.listings import warn_if_undeclared
from praval_tools.cli.output import print_message, print_note
from praval_tools.cli.tokens import file_option, open_selected_tokens, write_add_command
from praval_tools.journal.tokens import AGENT_ROLE
from praval_tools.plugins.click_contexts import pass_context

_DRAIN_SECONDS: Final = 0.5
"""How long calls that run when the client has gone may take to end."""


@click.command("serve")
@click.option("--agent", metavar="AGENT", help="Whose tools are served; with --http instead of tokens.")
@click.option("--http", "is_http", is_flag=True, help="Serve streamable HTTP at /mcp; otherwise stdin and stdout.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where HTTP listens.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0: any free port.")
@click.option("--allow-host", "hosts", metavar="NAME", multiple=True, help="A name that clients call the server by.")
@click.option("--allow-origin", "origins", metavar="URL", multiple=True, help="A web page that may use the server.")
@file_option
@click.option("--elicit-approvals", is_flag=True, help="Let the client's user approve calls that need an approval.")
@app_options
@pass_context
def serve_command(
    ctx: click.Context, /, agent: str | None, is_http: bool, host: str, port: int, hosts: tuple[str, ...],
    origins: tuple[str, ...], token_file: str | None, elicit_approvals: bool,
) -> None:  # fmt: skip
    """
    Serve an agent's tools to MCP clients, each call with every check.

    By stdin and stdout for the one agent of --agent; with --http for the agents of `praval-tools tokens`.
    """
    atexit.register(gc.freeze)  # else the interpreter's last collection, of all classes of the SDK, takes a second
    if not is_http:
        if agent is None:
            raise UsageError("Whose tools? Name the agent: --agent AGENT; or serve all agents with tokens: --http.")
        _serve_stdio(ctx, agent, elicit_approvals=elicit_approvals)
        return
    problem = "without tokens would let everybody act as the agent: leave out --agent."
    check_address(host, hosts, problem="" if agent is None else problem, clients="clients")
    listener = open_socket(host, port, 2048)
    registry = _open_registry(ctx)
    from praval_tools.integrations.mcp import http_app
    from praval_tools.web.http_server import allow_many_files, make_http_server

    allow_many_files()
    if agent is not None:
        warn_if_undeclared(registry, agent)
    tokens = None if agent is not None else open_selected_tokens(registry.journal, token_file)
    if tokens is not None and all(token.role != AGENT_ROLE for token in tokens.list()):
        command = write_add_command(ctx, "AGENT", token_file)
        print_note(f"there are no tokens yet, so nobody can connect: {command}")
    application = http_app(
        registry, agent=agent, tokens=tokens, allowed_hosts=hosts, allowed_origins=origins,
        elicit_approvals=elicit_approvals,
    )  # fmt: skip
    print_message(f"Serving MCP at {build_url(host, listener)}/mcp; end it with Ctrl-C.")
    asyncio.run(_run_to_end(registry, make_http_server(application).serve(sockets=[listener])))
    registry.close()


def _serve_stdio(ctx: click.Context, agent: str, *, elicit_approvals: bool) -> None:
    from praval_tools.integrations.mcp.serving.stdio import reserve_standard_streams, serve_stdio

    with reserve_standard_streams() as wire:
        registry = _open_registry(ctx)
        warn_if_undeclared(registry, agent)
        from praval_tools.integrations.mcp import server

        served = server(registry, agent=agent, elicit_approvals=elicit_approvals)
        asyncio.run(_run_to_end(registry, serve_stdio(served, wire)))
        registry.close()


def _open_registry(ctx: click.Context) -> ToolRegistry:
    """Return the registry to serve; a journal that `--journal` names is created, since clients start in any folder."""
    return open_selected_registry(ctx, is_change=True, create_journal=names_journal(ctx))


async def _run_to_end(registry: ToolRegistry, serving: Coroutine[object, object, None]) -> None:
    """
    Serve, and end the process where calls still run a moment later: neither a thread nor a deaf task can be ended.

    What their journal says of them is that they began.
    """
    try:
        await serving
    finally:
        deadline = time.monotonic() + _DRAIN_SECONDS
        while registry.drain(timeout=0):
            if time.monotonic() > deadline:
                sys.stderr.flush()
                os._exit(0)
            await asyncio.sleep(0.01)
