"""Sends the progress and log messages of a running tool to the MCP client that called it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import copy_context
from math import isfinite
from typing import Final, TypeAlias

import mcp_types as types
from mcp.server import ServerRequestContext
from mcp.server.connection import Connection, allowed_log_levels

from praval_tools.integrations.mcp.serving.list_notifier import ToolListNotifier
from praval_tools.schema.json_values import replace_surrogates
from praval_tools.tools.plain_managers import plain_async_manager
from praval_tools.tools.reports import LOG_LEVELS, LogLevel, ToolLog, ToolReport, report_listener

RequestContext: TypeAlias = ServerRequestContext[ToolListNotifier]

_MAX_WAITING: Final = 1_000
"""Reports that wait for a client that reads slowly; further ones are dropped."""

_LOG_LEVEL_KEY: Final = "praval_tools.log_level"


def get_connection(context: RequestContext) -> Connection:
    """Return the connection of a request; the SDK has no public name for it."""
    return context.session._connection


async def set_log_level(context: RequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """Answer `logging/setLevel`: the least serious level that a client of the handshake era wants from now on."""
    get_connection(context).state[_LOG_LEVEL_KEY] = params.level
    return types.EmptyResult()


def _select_log_levels(context: RequestContext) -> frozenset[LogLevel]:
    """Return the levels of messages that a request's client wants."""
    levels = allowed_log_levels(context.protocol_version, context.meta)
    least: LogLevel = get_connection(context).state.get(_LOG_LEVEL_KEY, "debug")
    return levels & frozenset(LOG_LEVELS[LOG_LEVELS.index(least) :])


@plain_async_manager
async def forward_reports(context: RequestContext) -> AsyncIterator[None]:
    """Send what the tools of the calls inside report; all of it is sent when this ends."""
    sender = _ReportSender(context)
    token = report_listener.set(sender.listen)
    try:
        yield
        await sender.finish()
    finally:
        report_listener.reset(token)
        sender.stop()


class _ReportSender:
    """
    Sends the reports of one request, in a task that begins with the first of them: most calls report nothing.

    Args:
        context: The request.
    """

    def __init__(self, context: RequestContext) -> None:
        self._context, self._loop = context, asyncio.get_running_loop()
        self._variables = copy_context()
        self._queue = asyncio.Queue[ToolReport | None]()
        self._task: asyncio.Task[None] | None = None
        self._is_open = True

    def listen(self, report: ToolReport) -> None:
        """Take a report, in whichever thread the tool runs."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._add, report, context=self._variables)

    async def finish(self) -> None:
        """Wait until all reports are sent."""
        self._is_open = False
        if self._task is not None:
            self._queue.put_nowait(None)
            await self._task

    def stop(self) -> None:
        """Send no more."""
        self._is_open = False
        if self._task is not None:
            self._task.cancel()

    def _add(self, report: ToolReport) -> None:
        if not self._is_open or self._queue.qsize() >= _MAX_WAITING:
            return
        self._queue.put_nowait(report)
        if self._task is None:
            self._task = self._loop.create_task(_send_reports(self._context, self._queue))


async def _send_reports(context: RequestContext, queue: asyncio.Queue[ToolReport | None]) -> None:
    levels, last_progress = _select_log_levels(context), float("-inf")
    while (report := await queue.get()) is not None:
        if isinstance(report, ToolLog):
            if report.level in levels:
                await _send_log(context, report)
        elif _is_number(report.done) and report.done > last_progress:  # the protocol wants it to grow
            last_progress = report.done
            total = report.total if _is_number(report.total) else None
            message = replace_surrogates(str(report.message)) or None
            await context.session.report_progress(report.done, total, message)


def _is_number(value: object) -> bool:
    """Tell whether a value is a number that JSON has; a tool may report anything."""
    return isinstance(value, int | float) and isfinite(value)


async def _send_log(context: RequestContext, log: ToolLog) -> None:
    params = types.LoggingMessageNotificationParams(level=log.level, logger=log.tool, data=replace_surrogates(log.text))
    await context.session.send_notification(
        types.LoggingMessageNotification(params=params), related_request_id=context.request_id
    )
