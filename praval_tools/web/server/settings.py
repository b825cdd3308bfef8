"""How the page is served: under which names, by which scheme, and how long a session lasts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from attrs import frozen

from praval_tools.report.command_line import CommandLine

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")


@frozen(kw_only=True)
class PageSettings:
    """
    How the page is served.

    Args:
        port: Where it listens, which tells its cookie from those of other servers of the same name.
        hosts: Names besides those of the loopback by which browsers may call it.
        is_https: Browsers reach it by https, by itself or through a proxy.
        is_behind_proxy: A proxy is in front, which adds the client's address to `X-Forwarded-For`.
        command_line: How command_line begin that reach this journal, and this registry.
        idle: After how long without a page that a person opens a session ends.
        absolute: How long a session lasts at most.
    """

    port: int = 0
    hosts: Sequence[str] = ()
    is_https: bool = False
    is_behind_proxy: bool = False
    command_line: CommandLine = CommandLine()
    idle: timedelta = timedelta(hours=1)
    absolute: timedelta = timedelta(hours=12)

    @property
    def scheme(self) -> str:
        """`https` or `http`."""
        return "https" if self.is_https else "http"

    @property
    def cookie_name(self) -> str:
        """The name of the session's cookie; browsers keep one that begins so from other hosts and plain http."""
        return "__Host-praval_tools" if self.is_https else f"praval_tools_{self.port}"

    def is_host_allowed(self, host: str) -> bool:
        """Tell whether *host*, the `Host` of a request, is one of the names, with any port or none."""
        name, _, port = host.rpartition(":") if ":" in host and not host.endswith("]") else (host, "", "0")
        allowed = (*LOOPBACK_NAMES, *(known.lower() for known in self.hosts))
        return name.lower() in allowed and port.isascii() and port.isdigit()
