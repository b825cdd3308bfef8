"""Registries with real HTTP services, for the tests of OpenAPI documents."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from praval_tools import ToolCall, ToolRegistry, ToolResult

OPERATOR = "ops"
"""The agent that owns the tools of the services here."""


class _Server(uvicorn.Server):
    """A server that says when it has begun."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(uvicorn.Config(app, log_config=None, lifespan="off"))
        self.has_begun = Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin, and say so."""
        await super().startup(sockets)
        self.has_begun.set()


@contextmanager
def serve(app: ASGIApp) -> Iterator[str]:
    """Run an application on loopback, in a thread of its own; gives its URL."""
    place, server = socket.create_server(("127.0.0.1", 0)), _Server(app)
    thread = Thread(target=server.run, kwargs={"sockets": [place]})
    thread.start()
    try:
        assert server.has_begun.wait(30)
        yield f"http://127.0.0.1:{place.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        place.close()


class Recorder:
    """An application that keeps every request as it came, and answers with `response`, or with what it got."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.respond: Callable[[Request], Response] | None = None
        self.app = Starlette()
        self.app.router.default = self._answer

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        body = await request.body()
        self.requests.append(
            {
                "method": request.method, "path": scope["raw_path"].decode(), "query": scope["query_string"].decode(),
                "headers": dict(request.headers), "body": body,
            }
        )  # fmt: skip
        response = self.respond(request) if self.respond is not None else JSONResponse({"done": True})
        await response(scope, receive, send)

    @property
    def last(self) -> dict[str, Any]:
        """The request that came last."""
        return self.requests[-1]


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[Recorder, str]]:
    """What keeps the requests to a server, and its URL."""
    recorder = Recorder()
    with serve(recorder.app) as url:
        yield recorder, url


@pytest.fixture
def recorder(service: tuple[Recorder, str]) -> Recorder:
    """What keeps the requests of one test."""
    recorder, _ = service
    recorder.requests.clear()
    recorder.respond = None
    return recorder


@pytest.fixture
def server(service: tuple[Recorder, str]) -> str:
    """The URL of the server."""
    return service[1]


def make_document(
    paths: Mapping[str, Any], *, version: str = "3.1.0", server: str | None = None, **members: Any
) -> dict[str, Any]:
    """Return a document with *paths*."""
    servers = {} if server is None else {"servers": [{"url": server}]}
    return {"openapi": version, "info": {"title": "Test", "version": "1"}, "paths": dict(paths), **servers, **members}


def make_operation(name: str, *parameters: Mapping[str, Any], **members: Any) -> dict[str, Any]:
    """Return an operation with *parameters*."""
    return {"operationId": name, "parameters": list(parameters), "responses": {"200": {"description": "ok"}}, **members}


def make_parameter(name: str, place: str = "query", **members: Any) -> dict[str, Any]:
    """Return a parameter; without a schema, of any value."""
    required = {"required": True} if place == "path" else {}
    schema = {} if "content" in members else {"schema": members.pop("schema", {})}
    return {"name": name, "in": place, **required, **schema, **members}


def make_body(schema: Mapping[str, Any], media_type: str = "application/json", **members: Any) -> dict[str, Any]:
    """Return a required body of a request."""
    return {"required": True, "content": {media_type: {"schema": dict(schema), **members}}}


def call(registry: ToolRegistry, tool: str, arguments: Mapping[str, Any] | None = None, **more: Any) -> ToolResult:
    """Call a tool as its owner."""
    return registry.execute(ToolCall(None, tool, {**(arguments or {}), **more}, OPERATOR))


def to_json(value: object) -> bytes:
    """Return a value as the text of a document."""
    return json.dumps(value).encode()
