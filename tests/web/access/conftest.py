"""A program, its server and an operator's client, which the tests of the views of access share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from web_access_rig import AccessServer, fill_grants, fill_registry, serve_access

from praval_tools import ToolRegistry


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[ToolRegistry]:
    """A typical program."""
    with ToolRegistry(journal=tmp_path / "runs.db") as registry:
        fill_registry(registry)
        yield registry


@pytest.fixture
def server(registry: ToolRegistry, tmp_path: Path) -> Iterator[AccessServer]:
    """Its server."""
    with serve_access(tmp_path / "runs.db", registry) as server:
        yield server


@pytest.fixture
def client(server: AccessServer) -> Iterator[httpx.Client]:
    """An operator's client."""
    with server.open_client() as client:
        yield client


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client for tests that change nothing: of a program with grants of every state, and some calls."""
    path = tmp_path_factory.mktemp("journal") / "runs.db"
    with ToolRegistry(journal=path) as registry:
        fill_registry(registry)
        fill_grants(registry)
        with serve_access(path, registry) as server, server.open_client() as client:
            yield client
