"""The address of an MCP server: its command, or its URL for streamable HTTP; and the variables with its secrets."""

from __future__ import annotations

import os
import re
import shlex
from binascii import a2b_base64
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Final
from urllib.parse import urlsplit

from attrs import field, frozen

from praval_tools.errors import ToolUsageError
from praval_tools.integrations.mcp.client.errors import McpServerError
from praval_tools.names import normalize_name, shorten_repr

_INHERITED_VARIABLES: Final = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""What a server's process gets of this one's environment, besides what the operator names."""

_WINDOWS_VARIABLES: Final = (
    "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE",
    "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
_HEADER_VALUE: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_SCRIPT: Final = re.compile(r".+\.(py|js|mjs|cjs|ts|sh)")


@frozen(kw_only=True)
class ServerAddress:
    """
    Where a server is; its `repr` and `text` hold no argument, path, query or value of a variable, which may be secret.

    Args:
        command: The program and its arguments; empty for a URL.
        url: The endpoint; empty for a command.
        headers: The variable of each header of an HTTP request.
        bearer: The variable that holds the bearer token of an HTTP request, if there is one.
        variables: The names of the variables that the process gets.
    """

    command: tuple[str, ...] = field(default=(), repr=False)
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(factory=dict)
    bearer: str | None = None
    variables: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What messages say: the host of the URL, since its path may be a key, or the program."""
        if self.command:
            return PurePath(self.command[0]).name
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    def propose_namespace(self) -> str:
        """Return a namespace made of the operator's words alone: a server's own words could be another's name."""
        if self.url:
            return normalize_name(urlsplit(self.url).hostname or "mcp")
        scripts = [PurePath(word).stem for word in self.command if _SCRIPT.fullmatch(word)]
        modules = [after for word, after in zip(self.command, self.command[1:], strict=False) if word == "-m"]
        return normalize_name([*scripts, *modules, PurePath(self.command[0]).stem][0])

    def read_headers(self) -> dict[str, str]:
        """
        Return the headers, with the values that the variables have now.

        Raises:
            McpServerError: A variable is not set, or its value cannot be a header.
        """
        headers = {}
        bearer = {} if self.bearer is None else {"Authorization": self.bearer}
        for header, variable in {**self.headers, **bearer}.items():
            value = os.environ.get(variable, "")
            if not _HEADER_VALUE.fullmatch(value):
                state = "is not set" if not value else "holds something that cannot be the value of a header"
                raise McpServerError(self.text, f"the variable {variable!r}, for the header {header!r}, {state}.")
            headers[header] = value
        if self.bearer is not None:
            headers["Authorization"] = f"Bearer {headers['Authorization']}"
        return headers

    def read_environment(self) -> dict[str, str]:
        """
        Return the environment of the process.

        Raises:
            McpServerError: A variable that the operator names is not set.
        """
        for variable in self.variables:
            if variable not in os.environ:
                raise McpServerError(self.text, f"the variable {variable!r}, which it is to get, is not set.")
        inherited = _INHERITED_VARIABLES + (_WINDOWS_VARIABLES if os.name == "nt" else ())
        return {name: os.environ[name] for name in (*inherited, *self.variables) if name in os.environ}

    def _list_secret_variables(self) -> tuple[str, ...]:
        return (*self.headers.values(), *self.variables, *(() if self.bearer is None else (self.bearer,)))

    def list_secrets(self) -> tuple[str, ...]:
        """Return the values that must reach no record: those of the variables, and what follows `Bearer` or `Basic`."""
        values = [os.environ.get(name, "") for name in self._list_secret_variables()]
        values += [value.strip() for value in values]  # a server may leave the end of the line out
        values += [word for value in values for word in value.split()[1:2]]
        values += [part for value in values for part in _read_basic_credentials(value)]
        return tuple(sorted({value for value in values if len(value) >= _MIN_SECRET_LENGTH}, key=len, reverse=True))


def _read_basic_credentials(value: str) -> tuple[str, ...]:
    """Return user and password of a header for basic authentication, together and the password alone."""
    scheme, _, encoded = value.partition(" ")
    if scheme.lower() != "basic":
        return ()
    try:
        decoded = a2b_base64(encoded).decode()
    except ValueError:
        return ()
    return decoded, decoded.partition(":")[2]


_MIN_SECRET_LENGTH: Final = 6
"""Shorter values are part of ordinary words, and would be blacked out in every text."""


def parse_address(
    server: str | Sequence[str], headers_env: Mapping[str, str] | None, env: Iterable[str], *,
    bearer_env: str | None = None,
) -> ServerAddress:  # fmt: skip
    """
    Return where a server is.

    Raises:
        ToolUsageError: It is neither a command nor a URL that can be used.
    """
    headers, variables = dict(headers_env or {}), tuple([env] if isinstance(env, str) else env)
    if isinstance(server, str) and "://" in server.partition(" ")[0]:
        if variables:
            raise ToolUsageError("env= is for the process of a command; a URL takes headers_env=.")
        if bearer_env is not None and any(header.lower() == "authorization" for header in headers):
            raise ToolUsageError("bearer_env= and headers_env= both give the header Authorization; keep one of them.")
        return ServerAddress(url=_check_url(server), headers=headers, bearer=bearer_env)
    try:
        command = tuple(shlex.split(server) if isinstance(server, str) else server)
    except (TypeError, ValueError) as error:
        raise ToolUsageError(f"An MCP server is a command, as text or list, or a URL: {error}.") from None
    if not command or not all(isinstance(word, str) and word and "\0" not in word for word in command):
        raise ToolUsageError("An MCP server is a command, as text or list of texts, or the URL of one.")
    if bearer_env is not None:
        raise ToolUsageError("bearer_env= is for a URL; the process of a command gets variables by env=['NAME'].")
    if headers:
        raise ToolUsageError("headers_env= is for a URL; the process of a command gets variables by env=['NAME'].")
    return ServerAddress(command=command, variables=variables)


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme in ("ws", "wss"):
        fix = "Pass the http:// or https:// URL of its streamable HTTP endpoint, or a command."
        raise ToolUsageError(f"MCP defines no WebSocket transport, so {parts.scheme}: is refused. {fix}")
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isprintable():
        raise ToolUsageError(f"{shorten_repr(parts.scheme)}: this is not the http:// or https:// URL of an MCP server.")
    if parts.username is not None or parts.password is not None:
        fix = "Pass credentials by headers_env={'Authorization': 'NAME OF A VARIABLE'}."
        raise ToolUsageError(f"The URL of the MCP server at {parts.hostname!r} holds a user or a password. {fix}")
    return url
