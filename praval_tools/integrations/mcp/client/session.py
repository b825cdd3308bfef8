"""One session with an MCP server: opened, asked for its tools, and called; each call is sent once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Final, TypeAlias

from attrs import define, frozen
from mcp.client import ClientSession, IncomingMessage
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    LoggingMessageNotificationParams,
    RequestId,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from praval_tools.errors import ToolError, ToolInDoubtError
from praval_tools.integrations.foreign_text import clean_text, remove_secrets
from praval_tools.integrations.mcp.client.address import ServerAddress
from praval_tools.integrations.mcp.client.definitions import McpListing, ToolSelection, read_definitions
from praval_tools.integrations.mcp.client.dispatcher import (
    CheckingDispatcher,
    fetch_tools,
    get_request_id,
    use_request_id,
)
from praval_tools.integrations.mcp.client.errors import McpNotSentError, McpServerError, McpToolError
from praval_tools.integrations.mcp.client.http_transport import open_http
from praval_tools.integrations.mcp.client.server_messages import check_messages
from praval_tools.integrations.mcp.client.stdio_transport import open_stdio
from praval_tools.integrations.mcp.client.transport import Delivery
from praval_tools.names import format_count
from praval_tools.schema.json_values import iter_json_problems, to_canonical_json
from praval_tools.tools.reports import LogLevel

_NO_ANSWER: Final = (CONNECTION_CLOSED, PARSE_ERROR, REQUEST_TIMEOUT)
"""Codes of errors that say nothing of what the server did."""


MAX_MESSAGE_BYTES: Final = 16 * 1_048_576
MAX_TOOLS: Final = 10_000
CONNECT_SECONDS: Final = 30.0

_LOG_LEVEL: Final = "info"
"""From which level on a server is asked for log messages, where the version of the protocol has it ask for them."""

_MAX_LOG_CHARACTERS: Final = 10_000

LogReporter: TypeAlias = Callable[[str, LogLevel], None]
"""Takes a log message that belongs to a call."""


@frozen(kw_only=True)
class ServerSettings:
    """
    A server, as the operator registers it.

    Args:
        name: What it is called here; the namespace of its tools.
        address: Where it is.
        selection: Which of its tools are taken, and their names here.
        max_message_bytes: How long one of its messages may be.
        max_tools: How many tools are taken.
        connect_timeout: Seconds until it must have listed its tools.
    """

    name: str
    address: ServerAddress
    selection: ToolSelection
    max_message_bytes: int = MAX_MESSAGE_BYTES
    max_tools: int = MAX_TOOLS
    connect_timeout: float = CONNECT_SECONDS


@define(eq=False)
class McpSession:
    """
    An open session; used on the event loop on which it was opened.

    Args:
        settings: The server.
        client: The SDK's session.
        dispatcher: What it sends and receives by.
        delivery: What is known of the connection.
        log_reporters: Take the log messages of the calls that run.
    """

    settings: ServerSettings
    client: ClientSession
    dispatcher: CheckingDispatcher
    delivery: Delivery
    log_reporters: dict[RequestId, LogReporter]

    async def fetch_listing(self) -> McpListing:
        """
        Return the tools that the server has now.

        Raises:
            MCPError: It does not list them.
        """
        settings = self.settings
        tools, problems = await fetch_tools(
            self.client, self.dispatcher, max_tools=settings.max_tools, max_bytes=settings.max_message_bytes
        )
        listing = await asyncio.to_thread(read_definitions, tools, settings.selection, self.dispatcher.secrets)
        listing.problems[:0] = problems
        if (server := self.client.server_info) is not None:
            listing.version = self.clean(server.version)[:100]
        return listing

    async def call(
        self, tool: str, arguments: Mapping[str, object], report_progress: ProgressFnT, report_log: LogReporter
    ) -> CallToolResult | InputRequiredResult:
        """
        Call a tool, once.

        Raises:
            McpNotSentError: Nothing was sent.
            ToolInDoubtError: It was sent, and there is no answer that can be read.
            McpToolError: The server answered with an error.
        """
        with use_request_id() as request_id:
            self.log_reporters[request_id] = report_log
            try:
                return await self.client.call_tool(
                    tool, dict(arguments), progress_callback=report_progress, allow_input_required=True
                )
            except MCPError as error:
                raise self._make_call_error(request_id, error.code, error.message) from None
            except ValidationError as error:
                problem = f"{format_count(error.error_count(), 'error')} in its answer"
                raise self._make_call_error(request_id, PARSE_ERROR, problem) from None
            finally:
                del self.log_reporters[request_id]
                self.delivery.forget(request_id)

    def clean(self, text: str) -> str:
        """Return a text of the server without secrets and control characters."""
        secrets = self.dispatcher.secrets
        return clean_text(str(remove_secrets(text, secrets)), secrets)

    def _make_call_error(self, request_id: RequestId, code: int, message: str) -> Exception:
        """Return the error for a call that has no result."""
        kind, text = self.delivery.failures.get(request_id, (None, message))
        if code == CONNECTION_CLOSED and self.delivery.end_reason:
            text = self.delivery.end_reason
        name, text = self.settings.name, self.clean(text).rstrip(".")
        if kind == "no-session":
            self.delivery.report_end(text)
            return McpNotSentError(name, f"{text}: the tool did not run, and a new session is opened.")
        if kind == "refused":
            return McpToolError(f"MCP server {name!r} refused the call: {text}.")
        if request_id not in self.delivery.sent:
            return McpNotSentError(name, f"the call was not sent: {text}.")
        if kind == "lost" or code in _NO_ANSWER:
            return ToolInDoubtError(
                f"The call was sent to MCP server {name!r} and has no answer ({text}): it is unknown whether the tool "
                f"did its work, and it is not sent again."
            )
        return McpToolError(text)


@asynccontextmanager
async def open_session(
    settings: ServerSettings, delivery: Delivery, on_change: Callable[[], None]
) -> AsyncIterator[McpSession]:
    """
    Connect to a server, and agree on a version of the protocol.

    Args:
        settings: The server.
        delivery: What is known of the connection, also where none comes about.
        on_change: Called where the server says that its tools are others now.

    Raises:
        McpServerError: It cannot be started, or a variable is not set.
        MCPError: It does not answer as the protocol says.
    """

    log_reporters, secrets = dict[RequestId, LogReporter](), settings.address.list_secrets()

    async def handle_log(params: LoggingMessageNotificationParams) -> None:
        report = _find_log_reporter(log_reporters)
        if report is not None and not any(iter_json_problems(params.data)):
            data = remove_secrets(params.data, secrets)
            text = data if isinstance(data, str) else to_canonical_json(data)
            report(clean_text(text, secrets)[:_MAX_LOG_CHARACTERS], params.level)

    async def handle_message(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            on_change()

    open_transport = open_http if settings.address.url else open_stdio
    async with open_transport(settings.address, delivery, settings.max_message_bytes) as (received, sent):
        dispatcher = CheckingDispatcher(*check_messages(received, sent, delivery, secrets))
        dispatcher.secrets = secrets
        information = Implementation(name="praval-tools", version=version("praval-tools"))
        session = ClientSession(
            dispatcher=dispatcher, message_handler=handle_message, client_info=information,
            logging_callback=handle_log, log_level=_LOG_LEVEL,
        )  # fmt: skip
        async with session as client:
            await _negotiate_version(client)
            dispatcher.version = client.protocol_version or dispatcher.version
            yield McpSession(settings, client, dispatcher, delivery, log_reporters)


def _find_log_reporter(reporters: Mapping[RequestId, LogReporter]) -> LogReporter | None:
    """Return what takes a message: that of its call, else of the only one that runs; None where nobody can tell."""
    request_id = get_request_id()
    if request_id is not None:
        return reporters.get(request_id)
    return next(iter(reporters.values())) if len(reporters) == 1 else None


async def _negotiate_version(client: ClientSession) -> None:
    """Agree on the latest version, or by the handshake of earlier ones where the server does not know that one."""
    try:
        await client.discover()
    except (MCPError, RuntimeError, ValidationError):
        try:
            await client.initialize()
        except MCPError as error:
            if error.code != UNSUPPORTED_PROTOCOL_VERSION:  # it started slowly, and knows the later version after all
                raise
            await client.discover()


def to_server_error(settings: ServerSettings, error: BaseException, delivery: Delivery) -> McpServerError:
    """Return why a connection failed or ended, or a listing failed, in one sentence without secrets."""
    problem = clean_text(_describe_failure(error, delivery, settings.connect_timeout))
    return McpServerError(settings.name, str(remove_secrets(problem, settings.address.list_secrets())))


def _describe_failure(error: BaseException, delivery: Delivery, seconds: float) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, McpServerError):
        return error.problem
    if delivery.end_reason:
        return f"{delivery.end_reason}."
    if isinstance(error, TimeoutError):
        return f"it did not answer within {seconds:g} s."
    if isinstance(error, ToolError):
        return str(error)
    if isinstance(error, MCPError):
        return f"{error.message.rstrip('.')}."
    return f"it does not speak the protocol: {type(error).__name__}: {error}"
