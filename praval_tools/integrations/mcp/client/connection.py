"""
Keeps a session with one MCP server open: connects again when it ends, and lists the tools when they change.

A task on the background loop of the registry opens the session, lists the tools, and waits for what happens: a change
of the tools, a request to list them again, the end of the connection. After an end it connects again; after a failure
it waits first, longer each time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from random import Random
from time import monotonic
from typing import Final, TypeAlias

import anyio
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from pydantic import ValidationError

from praval_tools.errors import ToolError
from praval_tools.integrations.mcp.client.definitions import McpListing
from praval_tools.integrations.mcp.client.errors import McpNotSentError, McpServerError
from praval_tools.integrations.mcp.client.session import McpSession, ServerSettings, open_session, to_server_error
from praval_tools.integrations.mcp.client.transport import Delivery

_STABLE_SECONDS: Final = 30.0
"""A session that lasted that long did not fail: the next one is opened at once."""

_MAX_BACKOFF: Final = 60.0
_MAX_WAIT: Final = 2.0
"""How long a call waits for the next attempt to connect; it fails at once where that is further away."""

_REFRESH_PAUSE: Final = 0.2
"""Seconds between two listings that the server asked for, which may ask without end."""


_Waiting: TypeAlias = asyncio.Future[None] | asyncio.Future[McpSession] | None


class ServerConnection:
    """
    Keeps one session with a server.

    Args:
        settings: The server.
        on_listing: Called in a thread with each listing, before calls are sent that rest on it.
    """

    def __init__(self, settings: ServerSettings, on_listing: Callable[[McpListing], None]) -> None:
        self._settings, self._on_listing = settings, on_listing
        self._scope: anyio.CancelScope | None = None
        self._wanted, self._attention = asyncio.Event(), asyncio.Event()
        self._session: McpSession | None = None
        self._next_session: asyncio.Future[McpSession] | None = None
        self._refreshes: list[asyncio.Future[None]] = []
        self._tools_changed = False
        self._retry_at, self._random = 0.0, Random()  # noqa: S311  # spreads attempts in time, and hides nothing
        self.delivery = Delivery()
        self.error: McpServerError | None = None

    async def run(self) -> None:
        """Keep a session from when one is first wanted until `stop`."""
        failures, self._scope = 0, anyio.CancelScope()
        try:
            with self._scope:
                while True:
                    self._renew_future()
                    await self._wanted.wait()
                    began = monotonic()
                    self.error = await self._run_session()
                    failures = 0 if monotonic() - began > _STABLE_SECONDS else failures + 1
                    delay = min(2.0 ** (failures - 1), _MAX_BACKOFF) if failures else 0.0
                    delay *= self._random.uniform(0.75, 1.0)
                    self._retry_at, was_open, self._session = monotonic() + delay, self._session is not None, None
                    waiting = self._refreshes if was_open else [*self._refreshes, self._next_session]
                    self._fail_waiting(self.error, waiting)
                    await anyio.sleep(delay)
        finally:
            self.error = McpServerError(self._settings.name, "the connection was closed.")
            self._retry_at, self._session = math.inf, None
            self._fail_waiting(self.error, [*self._refreshes, self._next_session])
            self._next_session = None

    def stop(self) -> None:
        """End the session; on the loop of `run`."""
        if self._scope is not None:
            self._scope.cancel()

    def _renew_future(self) -> None:
        if self._next_session is None or self._next_session.done():
            self._next_session = asyncio.get_running_loop().create_future()

    def _fail_waiting(self, error: McpServerError, waiting: Iterable[_Waiting]) -> None:
        """Fail those who wait for a listing, and for a session; not those who came after one that was open."""
        for future in waiting:
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # it may be that nobody waits
        self._refreshes = []

    async def _run_session(self) -> McpServerError:
        """Open a session and serve it to its end; return why it ended, or why there was none."""
        settings, self.delivery, self._tools_changed = self._settings, Delivery(), False
        try:
            with anyio.fail_after(settings.connect_timeout) as limit:
                async with open_session(settings, self.delivery, self._request_refresh) as session:
                    listing = await session.fetch_listing()
                    limit.deadline = math.inf
                    await self._deliver_listing(listing)
                    self._session, self.error = session, None
                    if self._next_session is not None and not self._next_session.done():
                        self._next_session.set_result(session)
                    self._renew_future()
                    await self._serve_session(session)
            error: BaseException = EOFError()
        except Exception as failure:  # isolation: whatever a server does ends its own connection, and is reported
            error = failure
        return to_server_error(settings, error, self.delivery)

    async def _deliver_listing(self, listing: McpListing) -> None:
        """Hand a listing on, in a thread, since taking in thousands of tools takes a while."""
        await asyncio.to_thread(self._on_listing, listing)

    async def _serve_session(self, session: McpSession) -> None:
        """Do what happens to a session until it ends."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_end, session.delivery)
            tasks.start_soon(self._watch_changes, session)
            while not session.delivery.ended.is_set():
                await self._attention.wait()
                self._attention.clear()
                waiting, self._refreshes = self._refreshes, []
                if session.delivery.ended.is_set():
                    self._refreshes = waiting
                elif waiting or self._tools_changed:
                    self._tools_changed = False
                    await self._refresh_listing(session, waiting)
                    await anyio.sleep(0 if waiting else _REFRESH_PAUSE)
            tasks.cancel_scope.cancel()

    async def _watch_end(self, delivery: Delivery) -> None:
        await delivery.ended.wait()
        self._attention.set()

    def _request_refresh(self) -> None:
        self._tools_changed = True
        self._attention.set()

    async def _watch_changes(self, session: McpSession) -> None:
        """Subscribe to changes of the tools, where the version of the protocol has subscriptions."""
        capabilities, delay = session.client.server_capabilities, 1.0
        if capabilities is None or capabilities.tools is None or not capabilities.tools.list_changed:
            return
        while True:
            try:
                async with listen(session.client, tools_list_changed=True) as subscription:
                    delay = 1.0
                    async for _ in subscription:
                        self._request_refresh()
            except ListenNotSupportedError:  # in earlier versions notifications come unasked
                return
            except MCPError as error:
                if error.code == METHOD_NOT_FOUND:
                    return
            except SubscriptionLost:
                pass
            await anyio.sleep(delay)
            delay = min(delay * 2, _MAX_BACKOFF)
            self._request_refresh()  # what happened meanwhile was not heard

    async def _refresh_listing(self, session: McpSession, waiting: list[asyncio.Future[None]]) -> None:
        settings = self._settings
        try:
            with anyio.fail_after(settings.connect_timeout):
                listing = await session.fetch_listing()
            await self._deliver_listing(listing)
        except (MCPError, ValidationError, TimeoutError, ToolError) as error:
            self.error = to_server_error(settings, error, session.delivery)
        else:
            self.error = None
        for future in waiting:
            if future.done():
                continue
            if self.error is None:
                future.set_result(None)
            else:
                future.set_exception(self.error)

    async def refresh(self) -> None:
        """
        List the tools again.

        Raises:
            McpServerError: The server cannot be reached, or does not list them.
        """
        await self.get_session()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refreshes.append(future)
        self._attention.set()
        await future

    async def get_session(self) -> McpSession:
        """
        Return the session, once there is one.

        Raises:
            McpNotSentError: There is none, and none soon.
        """
        self._wanted.set()
        if self._session is not None and not self._session.delivery.ended.is_set():
            return self._session
        wait, error = self._retry_at - monotonic(), self.error
        if error is not None and wait > _MAX_WAIT:
            again = f" It is tried again in {wait:.0f} s." if wait < math.inf else ""
            raise McpNotSentError(error.server, f"{error.problem}{again}")
        if self._next_session is None:
            raise McpNotSentError(self._settings.name, "the connection was closed.")
        try:
            return await asyncio.shield(self._next_session)
        except McpServerError as failure:
            raise McpNotSentError(failure.server, failure.problem) from None
