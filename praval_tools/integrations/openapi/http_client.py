"""Sends requests by `httpx`: once, within limits, and to no other host; used on the event loop of its registry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import urljoin

import httpx
from attrs import define, evolve, field, frozen

from praval_tools.errors import ToolInDoubtError
from praval_tools.integrations.foreign_text import clean_text, remove_secrets
from praval_tools.integrations.openapi.addresses import find_address_problem, get_origin, is_same_service
from praval_tools.integrations.openapi.errors import OpenApiAnswerError, OpenApiConnectionError
from praval_tools.integrations.openapi.requests import Request

MAX_ANSWER_BYTES: Final = 16 * 1_048_576
_CONNECT_SECONDS: Final = 10.0
_TIMEOUTS: Final = {"connect": _CONNECT_SECONDS, "pool": _CONNECT_SECONDS, "read": None, "write": None}
"""Once a call is sent, its own deadline counts."""

_HEADERS: Final = {"Accept-Encoding": "identity", "User-Agent": "praval-tools"}
_MAX_REDIRECTS: Final = 5
_MAX_CONNECTIONS: Final = 100
_NOT_SENT: Final = (
    httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL
)  # fmt: skip
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_UNCLEAR: Final = (301, 302)
"""Redirects after which a request that changes something may be done, or is to be made elsewhere."""

_UNPROCESSED: Final = (307, 308)
"""Redirects by which a server says that it did nothing with the request."""


@frozen(kw_only=True)
class ServiceAnswer:
    """
    What a service answered.

    Args:
        status: The number of its status.
        reason: The words of it.
        headers: The headers, by their names in small letters.
        content: The body.
        url: Where it came from, without a query.
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    content: bytes
    url: str

    @property
    def media_type(self) -> str:
        """The content type without its parameters, in small letters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@define(eq=False)
class HttpClient:
    """
    One client for all calls of a service; it keeps connections, and no cookies.

    It uses the transport of `httpx` alone: its client logs addresses, whose queries may hold secrets.

    Args:
        max_bytes: How long the body of an answer may be.
    """

    max_bytes: int = MAX_ANSWER_BYTES
    _transport: httpx.AsyncHTTPTransport | None = field(default=None)

    def _open(self) -> httpx.AsyncHTTPTransport:
        if self._transport is None:
            limits = httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=20)
            self._transport = httpx.AsyncHTTPTransport(limits=limits, trust_env=False)
        return self._transport

    async def close(self) -> None:
        """Close the connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.aclose()

    async def send(self, request: Request) -> ServiceAnswer:
        """
        Send a request, once, and return the answer; redirects are followed at the same host.

        Raises:
            OpenApiConnectionError: It was not sent, or it changes nothing and there is no answer.
            OpenApiAnswerError: The answer cannot be used, and nothing was changed.
            ToolInDoubtError: It was sent, and nobody knows whether it did its work.
        """
        origin, is_unchanged = get_origin(request.url), True
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await self._send_once(request, is_unchanged)
            target = urljoin(request.url, answer.headers.get("location", ""))
            if answer.status not in _REDIRECTS or "location" not in answer.headers:
                if is_unchanged or 200 <= answer.status < 300:
                    return answer
                raise _make_answer_error(answer, "the request before had been redirected there", is_unchanged)
            is_unchanged &= request.is_safe or answer.status in _UNPROCESSED
            if find_address_problem(target) or not is_same_service(target, origin):
                raise _make_answer_error(answer, "it redirects to another host, which is not followed", is_unchanged)
            if answer.status in _UNCLEAR and not request.is_safe and request.method != "GET":
                text = "it redirects by a status that does not say what came of the request, and is not followed"
                raise _make_answer_error(answer, text, is_unchanged=False)
            request = _redirect(request, answer.status, target)
        raise _make_answer_error(answer, "it redirects without end", is_unchanged)

    async def _send_once(self, request: Request, is_unchanged: bool) -> ServiceAnswer:
        """Send one request; *is_unchanged*: no other one before it may have changed something."""
        is_safe = request.is_safe and is_unchanged
        try:
            headers = httpx.Headers(_HEADERS)
            headers.update(request.headers)  # whatever the case of their names
            sent = httpx.Request(
                request.method, request.url, headers=headers, content=request.content,
                extensions={"timeout": _TIMEOUTS},
            )  # fmt: skip
            response = await self._open().handle_async_request(sent)
        except _NOT_SENT as error:
            if not is_unchanged:
                raise _make_connection_error(request, _describe_error(request, error), is_safe=False) from None
            text = f"{describe_request(request)} was not sent: {_describe_error(request, error)}."
            raise OpenApiConnectionError(text) from None
        except httpx.HTTPError as error:
            raise _make_connection_error(request, _describe_error(request, error), is_safe) from None
        try:
            content = await self._read(response)
        except (httpx.HTTPError, httpx.StreamError, ValueError) as error:
            text = f"its answer, of status {response.status_code}, cannot be read: {_describe_error(request, error)}"
            raise _make_connection_error(request, text, is_safe) from None
        finally:
            await response.aclose()
        return ServiceAnswer(
            status=response.status_code, reason=response.reason_phrase, content=content, url=_get_shown_url(request),
            headers={name.lower(): value for name, value in response.headers.items()},
        )  # fmt: skip

    async def _read(self, response: httpx.Response) -> bytes:
        """Return the body; it is never decompressed, since a small one can be made to grow without end."""
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            raise ValueError("it is compressed, which was not asked for")
        chunks, size = list[bytes](), 0
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > self.max_bytes:
                raise ValueError(f"it is longer than {self.max_bytes:,} bytes")
            chunks.append(chunk)
        return b"".join(chunks)

    async def fetch(self, url: str, seconds: float) -> bytes:
        """
        Return what is at *url*.

        Raises:
            ValueError: It cannot be had.
        """
        request = Request(method="GET", url=url, headers={"Accept": "application/json, application/yaml, */*;q=0.5"})
        try:
            async with asyncio.timeout(seconds):
                answer = await self.send(request)
        except TimeoutError:
            raise ValueError(f"it was not answered within {seconds:g} s") from None
        except (OpenApiConnectionError, OpenApiAnswerError) as error:
            raise ValueError(str(error)) from None
        if answer.status != 200:
            raise ValueError(f"it was answered with the status {answer.status}")
        return answer.content


def _redirect(request: Request, status: int, target: str) -> Request:
    """Return the request that a redirect asks for: the same one, or a GET where it says to look elsewhere."""
    if status in _UNPROCESSED or request.method in ("GET", "HEAD"):
        return evolve(request, url=target)
    headers = {name: text for name, text in request.headers.items() if name.lower() != "content-type"}
    return evolve(request, method="GET", url=target, headers=headers, content=None)


def _make_connection_error(request: Request, problem: str, is_safe: bool) -> Exception:
    if is_safe:
        return OpenApiConnectionError(f"{describe_request(request)} has no answer: {problem}.")
    return ToolInDoubtError(
        f"{describe_request(request)} was sent and has no answer that can be used ({problem}): it is unknown whether "
        f"it did its work, and it is not sent again."
    )


def _make_answer_error(answer: ServiceAnswer, problem: str, is_unchanged: bool) -> Exception:
    text = f"{answer.url} answered with the status {answer.status}: {problem}."
    return OpenApiAnswerError(text) if is_unchanged else ToolInDoubtError(f"{text} It may have done its work.")


def _get_shown_url(request: Request) -> str:
    """Return the address of a request without the query, and without secrets that a redirect put there."""
    url = str(remove_secrets(request.url, request.secrets))
    return url.partition("?")[0].partition("#")[0]


def describe_request(request: Request) -> str:
    """Return what errors say of a request: its method and its address, without the query, which may hold secrets."""
    return f"{request.method} {_get_shown_url(request)}"


def _describe_error(request: Request, error: Exception) -> str:
    """Return what went wrong: errors of the HTTP library quote what the server sent."""
    text = clean_text(f"{type(error).__name__}: {error}" if isinstance(error, httpx.HTTPError) else str(error))
    return str(remove_secrets(text, request.secrets))[:500]
