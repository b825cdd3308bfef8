"""An OpenAPI document in a registry: registers its operations as tools, sends their calls, reads the document again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeout
from contextlib import suppress
from contextvars import Context
from pathlib import PurePath
from typing import Final, TypeVar
from urllib.parse import urlsplit

from attrs import frozen

from praval_tools.access.commands import require_operator
from praval_tools.access.problems import RegistryProblem
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.failures import StaleDecisionError
from praval_tools.forks import handle_forks
from praval_tools.integrations.openapi.addresses import check_web_address, is_web_address
from praval_tools.integrations.openapi.answers import read_answer
from praval_tools.integrations.openapi.errors import DocumentProblem, OpenApiConnectionError, OpenApiDocumentError
from praval_tools.integrations.openapi.http_client import MAX_ANSWER_BYTES, HttpClient
from praval_tools.integrations.openapi.loading import MAX_DOCUMENT_BYTES, DocumentLoader
from praval_tools.integrations.openapi.nodes import Document, Node, References
from praval_tools.integrations.openapi.operations import OperationDefinition, OperationReader, OperationSelection
from praval_tools.integrations.openapi.paths import DocumentPaths
from praval_tools.integrations.openapi.requests import build_request
from praval_tools.integrations.openapi.security import SecurityReader
from praval_tools.integrations.openapi.servers import ServerReader
from praval_tools.integrations.tool_changes import Listing, ToolChanges, check_options
from praval_tools.names import check_tool_name, format_count, normalize_name
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.source_options import OpenApiOptions
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool, Tool

T = TypeVar("T")

FETCH_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 5.0


@frozen(kw_only=True)
class ServiceSettings:
    """
    A service, as the operator registers it.

    Args:
        selection: Which operations are taken, and their names.
        base_url: Where all requests go; None: where the document says.
        allow_servers: The URLs of servers besides the document's own.
        auth_env: The variables that hold secrets.
        slash_parameters: The path parameters that may hold slashes.
        fetch_timeout: Seconds until the document must be there.
    """

    selection: OperationSelection
    base_url: str | None = None
    allow_servers: tuple[str, ...] = ()
    auth_env: str | Mapping[str, str] | None = None
    slash_parameters: frozenset[str] = frozenset()
    fetch_timeout: float = FETCH_SECONDS


class OpenApiSource:
    """
    An OpenAPI document whose operations a registry has as tools; made by `registry.register_openapi`.

    They are registered as `namespace-operationId`, with `safety="external"`, and granted to nobody.
    One HTTP client serves all calls, from any thread and event loop; a forked process makes one of its own.
    """

    def __init__(self, registry: ToolRegistry, spec: object, options: OpenApiOptions, place: Source) -> None:
        self._settings, self._spec = _read_settings(spec, options), spec
        self._place = place
        self._owner, self._timeout = options.get("owned_by"), options.get("timeout")
        metadata = options.get("metadata", {})
        self._max_answer_bytes = options.get("max_answer_bytes", MAX_ANSWER_BYTES)
        self._runtime = get_runtime(registry)
        self._changes = ToolChanges[OperationDefinition](
            registry, self.name, self._make_tool, lambda definition: metadata.get(definition.operation_id) or {},
            "OpenAPI document", "openapi-operation",
        )  # fmt: skip
        max_bytes = options.get("max_document_bytes", MAX_DOCUMENT_BYTES)
        references = tuple(_to_texts(options.get("allow_references", ())))
        self._loader = DocumentLoader(lambda url: self._fetch(url, max_bytes), references, max_bytes)
        self._missing: dict[str, list[str]] = {}
        self._closed = False
        self._version, self._paths = "", DocumentPaths()
        self._reset_after_fork()
        handle_forks(self, in_child=OpenApiSource._reset_after_fork)
        self._prepared = self._read_document()

    def _reset_after_fork(self) -> None:
        """Begin without connections; in a forked process, those of the parent are the parent's."""
        self._client = HttpClient(self._max_answer_bytes)

    def __repr__(self) -> str:
        return f"<OpenApiSource {self.name!r}: {format_count(len(self.tools), 'tool')}>"

    @property
    def name(self) -> str:
        """What it is called here: the namespace of its tools."""
        return self._settings.selection.namespace

    @property
    def tools(self) -> list[str]:
        """The names of its tools that are registered."""
        return self._changes.tools

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """The fingerprint of each of its tools, by name."""
        return self._changes.fingerprints

    def list_problems(self) -> list[RegistryProblem]:
        """Return what is wrong: operations that were left out or changed, secrets that are not configured."""
        problems = self._changes.list_problems()
        for scheme, names in self._missing.items():
            text = f"{len(names)} of its operations, such as {names[0]!r}, need the security scheme {scheme}"
            remedy = "Pass auth_env={'SCHEME': 'VARIABLE'}; until then calls of them are not sent."
            problems.append(
                RegistryProblem("openapi-auth", self.name, f"OpenAPI document {self.name!r}: {text}.", remedy)
            )
        return problems

    # ── what the operator does with it ───────────────────────────────────────────────────────────

    def refresh(self) -> None:
        """
        Read the document again, and take over what changed; for the operator.

        Raises:
            OpenApiDocumentError: It cannot be read, or is wrong; nothing is changed then.
        """
        require_operator(resolve_actor(None, "refresh a source of tools"), "refresh a source of tools")
        self._apply(self._read_document())

    def register(self) -> None:
        """
        Put the tools into the registry that the document had when it was read; for the operator.

        Raises:
            ToolUsageError: The name is that of another source.
        """
        require_operator(resolve_actor(None, "register a source of tools"), "register a source of tools")
        if self._runtime.sources.setdefault(self.name, self) is not self:
            self._changes.is_closed = True
            raise ToolUsageError(f"A source {self.name!r} is registered already; pass another namespace=.")
        try:
            self._apply(self._prepared)
        except BaseException:
            del self._runtime.sources[self.name]
            raise

    def _apply(self, listing: Listing[OperationDefinition]) -> None:
        self._changes.apply(listing)
        self._missing = {}
        for name, definition in listing.definitions.items():
            if missing := definition.operation.access.missing:
                self._missing.setdefault(missing, []).append(name)

    def accept(self, tool: str) -> None:
        """
        Accept the definition that the document gives a tool now, so that its change is not a problem any longer.

        For the operator.

        Raises:
            ToolUsageError: It has no such tool.
        """
        self._changes.accept(tool)

    def close(self) -> None:
        """
        End the connections; take the tools out of a registry that goes on; safe twice.

        For the operator.
        """
        require_operator(resolve_actor(None, "close a source of tools"), "close a source of tools")
        if self._closed:
            return
        self._closed = True
        self._changes.close(self)
        if self._runtime.background_loop.is_current_thread:
            self._begin(self._client.close())
            return
        with suppress(WaitTimeout, StaleDecisionError):  # they are closed with the loop
            self._begin(self._client.close()).result(_CLOSE_SECONDS)

    # ── the document ─────────────────────────────────────────────────────────────────────────────

    def _read_document(self) -> Listing[OperationDefinition]:
        """
        Return what the document lists.

        Raises:
            OpenApiDocumentError: With everything that is wrong.
        """
        document, settings = self._loader.load_main(self._spec), self._settings
        problems, refusals = list[DocumentProblem](), list[DocumentProblem]()
        root, references = Node(document, (), document.root), References(self._loader.load_other)
        paths = DocumentPaths()
        reader = OperationReader(
            root, references, settings.selection,
            ServerReader(document, settings.base_url, settings.allow_servers, problems, refusals),
            SecurityReader(references, root, settings.auth_env, problems), problems, refusals, paths,
        )  # fmt: skip
        listing = reader.read()
        if problems:
            raise OpenApiDocumentError(document.address or self.name, dict.fromkeys(problems))
        self._version, self._paths = _get_version(document), paths
        return listing

    def _fetch(self, url: str, max_bytes: int) -> bytes:
        """Return what is at a URL; without secrets, which are for the server alone."""
        if self._runtime.background_loop.is_current_thread:
            raise ToolUsageError(
                f"OpenAPI document {self.name!r} is fetched by the event loop of this thread, which must not wait for "
                f"it: await asyncio.to_thread(…).", "sync-call-in-event-loop",
            )  # fmt: skip
        client, seconds = HttpClient(max_bytes), self._settings.fetch_timeout

        async def fetch_and_close() -> bytes:
            try:
                return await client.fetch(url, seconds)
            finally:
                await client.close()

        return self._begin(fetch_and_close()).result()

    def _begin(self, work: Coroutine[object, object, T]) -> Future[T]:
        """Begin something on the background loop, where nothing of what runs here is to run on."""
        return Context().run(self._runtime.background_loop.submit, work)

    # ── its tools ────────────────────────────────────────────────────────────────────────────────

    def _make_tool(self, definition: OperationDefinition) -> AnyTool:
        """Return a tool that calls an operation."""

        async def call_operation(**arguments: object) -> object:
            return await self._call(definition, arguments)

        return Tool(
            definition.name, definition.description, definition.parameters, call_operation,
            namespace=self.name, owned_by=self._owner, title=definition.title, safety="external",
            timeout=self._timeout,
            extra={"openapi": {"document": self.name, "operation": definition.operation_id,
                               "request": definition.remote_name}},
            source=Source("openapi", self.name, self._version, self._place.file, self._place.line, trusted=False),
        )  # fmt: skip

    async def _call(self, definition: OperationDefinition, arguments: Mapping[str, object]) -> object:
        operation = definition.operation
        request = build_request(operation, arguments, self._paths, self._settings.slash_parameters)
        if self._closed:
            raise OpenApiConnectionError(f"OpenAPI document {self.name!r} was closed; nothing was sent.")
        answer = await asyncio.wrap_future(self._begin(self._client.send(request)))
        return read_answer(
            answer, call=f"{operation.method} {operation.path}", method=operation.method, is_safe=operation.is_safe,
            secrets=request.secrets,
        )  # fmt: skip


def _get_version(document: Document) -> str:
    info = document.root.get("info") if isinstance(document.root, dict) else None
    return str(info.get("version", ""))[:100] if isinstance(info, dict) else ""


def _read_settings(spec: object, options: OpenApiOptions) -> ServiceSettings:
    numbers = ("fetch_timeout", "max_document_bytes", "max_answer_bytes")
    check_options("register_openapi", OpenApiOptions, options, numbers=numbers)
    base_url, namespace = options.get("base_url"), options.get("namespace")
    servers = tuple(_to_texts(options.get("allow_servers", ())))
    for url in (*servers, *(() if base_url is None else (base_url,))):
        check_web_address(url, "a server")
        if urlsplit(url).query or urlsplit(url).fragment:
            raise ToolUsageError("The URL of a server holds no query and no fragment.")
    return ServiceSettings(
        selection=OperationSelection(
            namespace=check_tool_name(propose_namespace(spec, base_url) if namespace is None else namespace),
            include=tuple(_to_texts(options.get("include", ()))), exclude=tuple(_to_texts(options.get("exclude", ()))),
            names={there: check_tool_name(here) for there, here in options.get("names", {}).items()},
        ),
        base_url=base_url, allow_servers=servers, auth_env=options.get("auth_env"),
        slash_parameters=frozenset(_to_texts(options.get("slash_parameters", ()))),
        fetch_timeout=options.get("fetch_timeout", FETCH_SECONDS),
    )  # fmt: skip


def _to_texts(value: str | Iterable[str]) -> Iterable[str]:
    return [value] if isinstance(value, str) else value


def propose_namespace(spec: object, base_url: str | None) -> str:
    """Return a namespace made of the operator's words alone: a document's own words could be another's name."""
    address = base_url or (spec if isinstance(spec, str) else "")
    if is_web_address(address):
        return normalize_name(urlsplit(address).hostname or "openapi")
    return "openapi" if isinstance(spec, Mapping) else normalize_name(PurePath(str(spec)).stem or "openapi")


def prepare_openapi(registry: ToolRegistry, spec: object, options: OpenApiOptions, place: Source) -> OpenApiSource:
    """
    Read a document, whose tools `register` then puts into the registry; see `ToolRegistry.register_openapi`.

    Args:
        registry: The registry.
        spec: The document, its path or its URL.
        options: The keywords of `register_openapi`.
        place: The file and line that declare it, if a configuration does.

    Raises:
        OpenApiDocumentError: It cannot be read, or is wrong: with every place.
        ToolUsageError: An option makes no sense.
    """
    if registry.state.frozen:
        raise ToolUsageError("The registry is frozen: register OpenAPI documents before freeze().", "frozen")
    return OpenApiSource(registry, spec, options, place)
