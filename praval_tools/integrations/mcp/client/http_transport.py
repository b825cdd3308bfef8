"""
The HTTP transport to an MCP server: the SDK's own, over an HTTP client that limits what the server sends.

A request that fails costs that request alone: in the SDK, an error of the network ends the session with all its calls.
So errors become answers here, and `Delivery` knows which requests were not sent, refused, or lost on the way.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CONNECTION_CLOSED, RequestId

from praval_tools.integrations.foreign_text import remove_secret_bytes, remove_secrets
from praval_tools.integrations.mcp.client.address import ServerAddress
from praval_tools.integrations.mcp.client.transport import Delivery, FailureKind, TransportStreams

_CONNECT_SECONDS: Final = 10.0
_MAX_CONNECTIONS: Final = 1_000
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_EVENT_STREAM: Final = "text/event-stream"
_JSON: Final = "application/json"
_UNPROCESSED_REDIRECTS: Final = (307, 308)


@asynccontextmanager
async def open_http(address: ServerAddress, delivery: Delivery, max_bytes: int) -> AsyncIterator[TransportStreams]:
    """
    Give the streams of the messages of a server that speaks streamable HTTP.

    Raises:
        McpServerError: A variable that holds a header is not set.
    """
    limits = httpx2.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=20)
    client = httpx2.AsyncClient(
        transport=BoundedTransport(
            httpx2.AsyncHTTPTransport(limits=limits), delivery, max_bytes=max_bytes, secrets=address.list_secrets()
        ),
        headers={**address.read_headers(), "accept-encoding": "identity"},
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),  # calls have deadlines of their own
        trust_env=False,  # credentials come from variables that the operator names, not from .netrc
    )
    async with (
        client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=max_bytes) as streams,
    ):
        yield streams


class BoundedTransport(httpx2.AsyncBaseTransport):
    """
    Sends requests by *inner*.

    Errors of the network become answers, bodies end at *max_bytes*, and the *secrets* are taken out of them: the SDK
    logs what it cannot read.
    """

    def __init__(
        self, inner: httpx2.AsyncBaseTransport, delivery: Delivery, *, max_bytes: int, secrets: Sequence[str]
    ) -> None:
        self._inner, self._delivery = inner, delivery
        self._max_bytes, self._secrets = max_bytes, secrets

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send *request* and return its answer, or one that says what failed."""
        request_id = _read_request_id(request)
        if request_id is not None:
            self._delivery.sent.add(request_id)
        try:
            response = await self._inner.handle_async_request(request)
        except _NOT_SENT as error:
            return self._build_error(request_id, "not-sent", _describe_error(error))
        except httpx2.TransportError as error:
            return self._build_error(request_id, "lost", _describe_error(error))
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            await response.aclose()
            return self._build_error(request_id, "lost", "it answered with compressed content, which was not asked for")
        self._clean_headers(response)
        content_type = response.headers.get("content-type", "").lower()
        is_stream = content_type.startswith(_EVENT_STREAM)
        if response.status_code >= 400:
            return await self._build_status_error(request, request_id, response)
        if request_id is not None and (problem := _find_unreadable(response.status_code, content_type)):
            await response.aclose()
            return self._build_error(request_id, "lost", problem)
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = self._wrap_stream(response.stream, by_line=is_stream)
        return response

    def _clean_headers(self, response: httpx2.Response) -> None:
        """Take the secrets out of the headers, some of which the SDK logs, too."""
        octets = [secret.encode(errors="surrogateescape").decode("latin-1") for secret in self._secrets]
        for name, value in list(response.headers.multi_items()):
            if remove_secrets(value, [*self._secrets, *octets]) != value:
                response.headers[name] = "[secret]"

    def _wrap_stream(self, stream: httpx2.AsyncByteStream, *, by_line: bool = False) -> _CheckedStream:
        return _CheckedStream(stream, self._max_bytes, self._secrets, by_line=by_line)

    async def _build_status_error(
        self, request: httpx2.Request, request_id: RequestId | None, response: httpx2.Response
    ) -> httpx2.Response:
        """Return an answer with the status of an error: the server's own words, where they are of the protocol."""
        status = response.status_code
        try:
            if isinstance(response.stream, httpx2.AsyncByteStream):
                body = b"".join([chunk async for chunk in self._wrap_stream(response.stream)])
                if isinstance(json.loads(body)["error"]["code"], int):
                    return httpx2.Response(status, headers=_JSON_HEADERS, content=body, request=request)
        except (httpx2.StreamError, ValueError, KeyError, TypeError, RecursionError):
            pass  # no error of the protocol: the status says all that is known
        finally:
            await response.aclose()
        if status == 404 and "mcp-session-id" in request.headers:
            return self._build_error(request_id, "no-session", "it does not know the session any more")
        problem = f"it answered with HTTP status {status}"
        return self._build_error(request_id, "refused" if status < 500 else "lost", problem)

    def _build_error(self, request_id: RequestId | None, kind: FailureKind, text: str) -> httpx2.Response:
        if request_id is not None:
            self._delivery.failures[request_id] = kind, text
            if kind == "not-sent":
                self._delivery.sent.discard(request_id)
        error = {"code": CONNECTION_CLOSED, "message": text}
        return httpx2.Response(502, headers=_JSON_HEADERS, json={"jsonrpc": "2.0", "id": request_id, "error": error})

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _CheckedStream(httpx2.AsyncByteStream):
    """
    The body of an answer, without secrets; a `StreamError`, which ends one request in the SDK, where it is too long.

    A body is given as a whole; a stream of events line by line, each of which is bounded.
    """

    def __init__(
        self, inner: httpx2.AsyncByteStream, max_bytes: int, secrets: Sequence[str], *, by_line: bool
    ) -> None:
        self._inner, self._max_bytes, self._secrets, self._by_line = inner, max_bytes, secrets, by_line

    async def __aiter__(self) -> AsyncIterator[bytes]:
        parts, size = list[bytes](), 0
        try:
            async for chunk in self._inner:
                end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1 if self._by_line else 0
                if end:
                    yield remove_secret_bytes(b"".join((*parts, chunk[:end])), self._secrets)
                    parts, size = [], 0
                parts.append(chunk[end:])
                size += len(chunk) - end
                if size > self._max_bytes:
                    raise httpx2.StreamError("the answer is too long")
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer was cut: {_describe_error(error)}") from None
        if rest := remove_secret_bytes(b"".join(parts), self._secrets):
            yield rest

    async def aclose(self) -> None:
        """Close the connection of the answer."""
        await self._inner.aclose()


_JSON_HEADERS: Final = {"content-type": _JSON}


def _read_request_id(request: httpx2.Request) -> RequestId | None:
    """Return the id of the request of the protocol that *request* carries, if it carries one."""
    if request.method != "POST":
        return None
    message: dict[str, RequestId] = json.loads(request.content)
    return message.get("id") if "method" in message else None


def _find_unreadable(status: int, content_type: str) -> str:
    """Return why an answer to a request says nothing of what the server did; empty where it may."""
    if status in _UNPROCESSED_REDIRECTS:
        return ""  # the same request is to be sent elsewhere: here nothing was done with it
    if status >= 300:
        return f"it answered with HTTP status {status}"
    if not content_type.startswith((_EVENT_STREAM, _JSON)):
        return f"it answered with content of the type {content_type or 'none'}"
    return ""


def _describe_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
