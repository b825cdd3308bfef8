"""Where a command that serves HTTP listens: checks the address, opens the socket, writes the URL."""

from __future__ import annotations

import socket
from typing import Final

from praval_tools.cli.common import CommandError, UsageError

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches *host*."""
    return host in _LOOPBACK


def check_address(host: str, names: tuple[str, ...], *, problem: str, clients: str) -> None:
    """
    Refuse to listen beyond this machine where that is not safe, or without the names that clients call the server by.

    Args:
        host: Where the server listens.
        names: The names that it may be called by.
        problem: What would go wrong beyond this machine, and the fix; empty: nothing.
        clients: What calls it, for messages.

    Raises:
        UsageError: The text names the fix.
    """
    if is_loopback(host):
        return
    if problem:
        raise UsageError(f"--host {host} {problem}")
    if not names:
        raise UsageError(f"--host {host} needs the name that {clients} use, against DNS rebinding: --allow-host NAME.")


def open_socket(host: str, port: int, backlog: int) -> socket.socket:
    """
    Return a socket that listens.

    Raises:
        CommandError: The address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=backlog)
    except OSError as error:
        raise CommandError(f"Cannot listen at {host}:{port}: {error.strerror or error}. Try another --port.") from error


def build_url(host: str, listener: socket.socket, *, scheme: str = "http") -> str:
    """Return the URL of what *listener* serves, without a slash at its end."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
