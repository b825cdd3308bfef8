"""An MCP server in a registry: registers its tools, forwards their calls to it, refreshes and closes the connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeout
from contextlib import suppress
from contextvars import Context
from typing import Final, TypeVar

from praval_tools.access.commands import require_operator
from praval_tools.access.problems import RegistryProblem
from praval_tools.errors import RetryableToolError, ToolArgumentsError, ToolUsageError
from praval_tools.execution.context import resolve_actor
from praval_tools.forks import ForkSafeLock, handle_forks
from praval_tools.integrations.mcp.client.address import parse_address
from praval_tools.integrations.mcp.client.connection import ServerConnection
from praval_tools.integrations.mcp.client.definitions import McpToolDefinition, ToolSelection, read_definitions
from praval_tools.integrations.mcp.client.errors import McpNotSentError, McpServerError
from praval_tools.integrations.mcp.client.results import read_result
from praval_tools.integrations.mcp.client.session import (
    CONNECT_SECONDS,
    MAX_MESSAGE_BYTES,
    MAX_TOOLS,
    ServerSettings,
)
from praval_tools.integrations.tool_changes import DEFINITION_CHANGED, ToolChanges, check_options
from praval_tools.names import check_tool_name, format_count
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.source_options import McpOptions
from praval_tools.tools.context import ToolContext
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool, Tool

T = TypeVar("T")

_CLOSE_SECONDS: Final = 8.0
_APPLY_SECONDS: Final = 120.0
"""How long it may take to end another attempt to connect, and to take thousands of tools in."""

_MAX_PROGRESS_CHARACTERS: Final = 1_000
_NO_CONTEXT: Final = ToolContext()


class McpSource:
    """
    An MCP server whose tools a registry has; made by `registry.register_mcp`.

    Its tools are registered as `namespace-name`, with `safety="external"`, and granted to nobody.
    One connection serves all calls, from any thread and event loop; a forked process makes one of its own.
    """

    def __init__(self, registry: ToolRegistry, settings: ServerSettings, options: McpOptions, place: Source) -> None:
        pin = options.get("pin", False)
        pins = {} if isinstance(pin, bool) else dict(pin)
        self._settings, self._place = settings, place
        self._owner, self._timeout = options.get("owned_by"), options.get("timeout")
        self._runtime, self._version = get_runtime(registry), ""
        metadata = options.get("metadata", {})
        self._changes = ToolChanges[McpToolDefinition](
            registry, settings.name, self._make_tool, lambda definition: metadata.get(definition.remote_name) or {},
            "MCP server", "mcp-tool", pin is True, pins,
        )  # fmt: skip
        self._declared: dict[str, str] = {}
        self._connection: ServerConnection | None = None
        self._closed = False
        self._reset_after_fork()
        handle_forks(self, in_child=McpSource._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """Begin without a connection; in a forked process, that of the parent is the parent's."""
        for pipe in () if self._connection is None else self._connection.delivery.pipes:
            pipe.close()
        self._lock, self._connection = ForkSafeLock(), None
        self._owner_task: Future[None] | None = None

    def __repr__(self) -> str:
        return f"<McpSource {self.name!r} ({self._settings.address.text}): {format_count(len(self.tools), 'tool')}>"

    # ── what it is ───────────────────────────────────────────────────────────────────────────────

    @property
    def name(self) -> str:
        """What it is called here: the namespace of its tools."""
        return self._settings.name

    @property
    def tools(self) -> list[str]:
        """The names of its tools that are registered."""
        return self._changes.tools

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each of its tools, by name; what `pin=` takes."""
        return self._changes.fingerprints

    def list_problems(self) -> list[RegistryProblem]:
        """Return what is wrong: no connection, tools that were left out, definitions that changed."""
        problems = self._changes.list_problems()
        if self._connection is not None and (error := self._connection.error) is not None and not self._closed:
            remedy = "It is tried again; see whether the server runs."
            problems.append(RegistryProblem("mcp-server", self.name, str(error), remedy))
        return problems

    # ── what the operator does with it ───────────────────────────────────────────────────────────

    def connect(self) -> None:
        """
        Connect, and take its tools in.

        Raises:
            McpServerError: It cannot be reached, or does not speak the protocol.
        """
        self._wait_for(lambda connection: connection.get_session())

    def declare(self, tools: Iterable[Mapping[str, object]]) -> None:
        """
        Take definitions in that the operator gives, in place of those of the server until that is connected.

        For the operator.
        """
        require_operator(resolve_actor(None, "declare tools of a source"), "declare tools of a source")
        listing = read_definitions(tools, self._settings.selection)
        self._changes.apply(listing)
        self._declared = {name: definition.digest for name, definition in listing.definitions.items()}

    def refresh(self) -> None:
        """
        Ask it for its tools, and take over what changed; for the operator.

        Raises:
            McpServerError: It cannot be reached, or does not list them.
        """
        require_operator(resolve_actor(None, "refresh a source of tools"), "refresh a source of tools")
        self._wait_for(lambda connection: connection.refresh())

    def accept(self, tool: str) -> None:
        """
        Accept the definition that the server gives a tool now; one that is held back can be called again.

        For the operator.

        Raises:
            ToolUsageError: It has no such tool.
        """
        self._changes.accept(tool)

    def close(self) -> None:
        """
        End the connection, and the process; take the tools out of a registry that goes on; safe twice.

        For the operator.
        """
        require_operator(resolve_actor(None, "close a source of tools"), "close a source of tools")
        self._refuse_on_loop()
        with self._lock:
            self._closed, owner, connection = True, self._owner_task, self._connection
        if owner is not None and connection is not None:
            self._runtime.background_loop.call_soon(connection.stop)
            with suppress(WaitTimeout):
                owner.result(_CLOSE_SECONDS)
        self._changes.close(self)

    def _wait_for(self, begin: Callable[[ServerConnection], Coroutine[object, object, object]]) -> None:
        self._refuse_on_loop()
        future = self._submit(begin)
        try:
            future.result(self._settings.connect_timeout + _APPLY_SECONDS)
        except WaitTimeout:
            raise McpServerError(self.name, "it did not answer in time.") from None
        except McpNotSentError as error:
            raise McpServerError(error.server, error.problem) from None
        finally:
            future.cancel()

    def _refuse_on_loop(self) -> None:
        """Refuse to wait in the thread of the loop that would do what is waited for."""
        if self._runtime.background_loop.is_current_thread:
            text = f"MCP server {self.name!r} is served by the event loop of this thread, which must not wait for it"
            raise ToolUsageError(f"{text}: await asyncio.to_thread(…).", "sync-call-in-event-loop")

    def _submit(self, begin: Callable[[ServerConnection], Coroutine[object, object, T]]) -> Future[T]:
        """Begin something on the loop of the connection, whose task is started before."""
        loop = self._runtime.background_loop
        with self._lock:
            if self._closed:
                raise McpNotSentError(self.name, "the connection was closed.")
            if self._connection is None:
                self._connection = ServerConnection(self._settings, self._changes.apply)
                # nothing that runs here is to run on in the task: no agent, no span, no default registry
                self._owner_task = Context().run(loop.submit, self._connection.run())
            return loop.submit(begin(self._connection))

    # ── its tools ────────────────────────────────────────────────────────────────────────────────

    def _make_tool(self, definition: McpToolDefinition) -> AnyTool:
        """Return a tool that calls that of the server."""

        async def call_mcp_tool(praval_tools_context: ToolContext = _NO_CONTEXT, **arguments: object) -> object:
            context = praval_tools_context
            future = self._submit(lambda connection: self._call_remote(connection, definition, context, arguments))
            return await asyncio.wrap_future(future)

        extra = {"server": self.name, "tool": definition.remote_name}
        has_own_name = definition.remote_name in self._settings.selection.names
        is_renamed = not has_own_name and definition.name != f"{self.name}-{definition.remote_name}"
        renamed = {"declared_as": extra["tool"]} if is_renamed else {}
        tool: AnyTool = Tool(
            definition.name, definition.description, definition.parameters, call_mcp_tool,
            namespace=None if has_own_name else self.name, owned_by=self._owner, title=definition.title,
            safety="external", timeout=self._timeout,
            extra={"mcp": {**extra, "hints": dict(definition.hints)}, **renamed},
            source=Source("mcp", self.name, file=self._place.file, line=self._place.line, trusted=False),
        )  # fmt: skip
        tool.implementation.supplied_result_schema = definition.result_schema
        return tool

    async def _call_remote(
        self, connection: ServerConnection, definition: McpToolDefinition, context: ToolContext,
        arguments: Mapping[str, object],
    ) -> object:  # fmt: skip
        """Send a call, once, and return the value of its answer; on the loop of the connection."""
        session, name = await connection.get_session(), definition.name
        known = None if name in self._changes.held_back else self._changes.definitions.get(name)
        if known is None or not (known.parameters == definition.parameters or self._fits(known, definition, arguments)):
            text = f"Tool {name!r} was not called: {DEFINITION_CHANGED}, or its server does not list it any more."
            raise RetryableToolError(text)

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            context.progress(progress, total, session.clean(message or "")[:_MAX_PROGRESS_CHARACTERS])

        result = await session.call(definition.remote_name, arguments, report_progress, context.log)
        return read_result(result, definition.result_schema, session.dispatcher.secrets)

    def _fits(
        self, known: McpToolDefinition, definition: McpToolDefinition, arguments: Mapping[str, object]
    ) -> bool:
        """
        Tell whether a call of a tool that the operator declared may be sent, now that its server is connected.

        It may if the server's own definition, which has taken the place of the declared one, allows its arguments.
        """
        tool = self._changes.registry.get_tool(known.name)
        is_declared = self._declared.get(definition.name) == definition.digest
        if not is_declared or tool is None or tool.implementation.supplied_schema != known.parameters:
            return False
        try:
            tool.implementation.coerce_arguments(dict(arguments), strict=True)
        except ToolArgumentsError:
            return False
        return True


def _read_settings(server: str | Sequence[str], options: McpOptions) -> ServerSettings:
    check_options("register_mcp", McpOptions, options, numbers=("connect_timeout", "max_message_bytes", "max_tools"))
    address = parse_address(
        server, options.get("headers_env"), options.get("env", ()), bearer_env=options.get("bearer_env")
    )
    namespace, include, exclude = options.get("namespace"), options.get("include", ()), options.get("exclude", ())
    name = check_tool_name(address.propose_namespace() if namespace is None else namespace)
    selection = ToolSelection(
        namespace=name,
        include=frozenset([include] if isinstance(include, str) else include),
        exclude=frozenset([exclude] if isinstance(exclude, str) else exclude),
        names={there: check_tool_name(here) for there, here in options.get("names", {}).items()},
    )
    return ServerSettings(
        name=name, address=address, selection=selection,
        max_message_bytes=options.get("max_message_bytes", MAX_MESSAGE_BYTES),
        max_tools=options.get("max_tools", MAX_TOOLS), connect_timeout=options.get("connect_timeout", CONNECT_SECONDS),
    )  # fmt: skip


def register_mcp(
    registry: ToolRegistry, server: str | Sequence[str], options: McpOptions, place: Source
) -> McpSource:
    """
    Register the tools of a server; see `ToolRegistry.register_mcp`.

    Args:
        registry: The registry.
        server: Its URL, or its command.
        options: The keywords of `register_mcp`.
        place: The file and line that declare it, if a configuration does.

    Raises:
        McpServerError: It cannot be reached, or does not speak the protocol; nothing is registered then.
        ToolUsageError: An option makes no sense, or the name is that of another server.
    """
    if registry.state.frozen:
        raise ToolUsageError("The registry is frozen: register MCP servers before freeze().", "frozen")
    source = McpSource(registry, _read_settings(server, options), options, place)
    sources = get_runtime(registry).sources
    if sources.setdefault(source.name, source) is not source:
        raise ToolUsageError(f"MCP server {source.name!r} is registered already; pass another namespace=.")
    try:
        tools = options.get("tools")
        if tools is None:
            source.connect()
        else:
            source.declare(tools)
    except BaseException:
        source.close()
        raise
    return source
