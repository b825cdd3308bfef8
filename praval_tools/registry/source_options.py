"""The keywords of a registry's methods for sources of tools, for type checkers and for those that connect sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypedDict

from praval_tools.names import HasName

if TYPE_CHECKING:
    from praval_tools.tools.metadata import ToolFields


class McpOptions(TypedDict, total=False):
    """
    The keywords of `register_mcp`.

    Args:
        owned_by: The agent that is accountable for the tools, and may call and lend them; none by default.
        namespace: The prefix of their names; made of the command or URL by default.
        include: Only these tools, by their names there.
        exclude: Not these.
        names: The names here of tools that are not to have the prefix, by their names there.
        metadata: Fields of `ToolMetadata` for tools, by their names there; instead of what is known of the server.
        headers_env: For a URL: HTTP headers, each with the name of the variable that holds its whole value.
        bearer_env: For a URL: the name of the variable that holds its bearer token.
        env: For a command: names of variables that its process gets, besides a few such as `PATH` and `HOME`.
        timeout: Seconds that a call may take; the registry's by default.
        pin: Hold back a tool whose definition changes until `accept`: True, or the fingerprint of each tool by name.
        tools: Definitions as `tools/list` gives them: these are registered at once, and the server is connected at the
            first call.
        connect_timeout: Seconds until the server must have listed its tools.
        max_message_bytes: How long one of its messages may be.
        max_tools: How many tools are taken.
    """

    owned_by: str | HasName | None
    namespace: str | None
    include: Iterable[str]
    exclude: Iterable[str]
    names: Mapping[str, str]
    metadata: Mapping[str, ToolFields]
    headers_env: Mapping[str, str] | None
    bearer_env: str | None
    env: Iterable[str]
    timeout: float | None
    pin: bool | Mapping[str, str]
    tools: Iterable[Mapping[str, object]] | None
    connect_timeout: float
    max_message_bytes: int
    max_tools: int


class OpenApiOptions(TypedDict, total=False):
    """
    The keywords of `register_openapi`.

    Args:
        owned_by: The agent that is accountable for the tools, and may call and lend them; none by default.
        namespace: The prefix of their names; made of the file's name or of the URL by default.
        include: Only these operations: their ids, or `GET /pets`; `*` stands for any text.
        exclude: Not these.
        names: The names here, after the prefix, of some operations, by their ids or `GET /pets`.
        metadata: Fields of `ToolMetadata` for tools, by their operation ids.
        base_url: Where all requests go, instead of the servers that the document names.
        allow_servers: The URLs of other servers to which operations may be sent than that of the document.
        allow_references: The URLs or folders below which documents may be to which this one refers.
        auth_env: The environment variable that holds the secret of each security scheme, or of the only one.
        slash_parameters: The path parameters whose values may hold slashes, such as paths of files.
        timeout: Seconds that a call may take; the registry's by default.
        fetch_timeout: Seconds until a document must be there that has a URL.
        max_document_bytes: How long a document may be.
        max_answer_bytes: How long the answer to a call may be.
    """

    owned_by: str | HasName | None
    namespace: str | None
    include: str | Iterable[str]
    exclude: str | Iterable[str]
    names: Mapping[str, str]
    metadata: Mapping[str, ToolFields]
    base_url: str | None
    allow_servers: str | Iterable[str]
    allow_references: str | Iterable[str]
    auth_env: str | Mapping[str, str] | None
    slash_parameters: str | Iterable[str]
    timeout: float | None
    fetch_timeout: float
    max_document_bytes: int
    max_answer_bytes: int
