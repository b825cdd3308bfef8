"""Servers over HTTP of each earlier version of the protocol: their tools, calls, progress and changes."""

# Tests of: connection, session, http_transport

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mcp_client_rig import OPERATOR, call, serve_http, wait_until
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from praval_tools import Outcome, ToolLog, ToolProgress, ToolRegistry


@pytest.fixture(scope="module", params=HANDSHAKE_PROTOCOL_VERSIONS)
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolRegistry]:
    """Has the tools of a server that the official SDK made, which knows one version alone."""
    with serve_http(tmp_path_factory.mktemp("earlier") / "notes", version=request.param) as (url, _):
        with ToolRegistry() as registry:
            registry.register_mcp(url, namespace="web", owned_by=OPERATOR)
            yield registry


class TestEarlierVersions:
    def test_are_called(self, registry: ToolRegistry) -> None:
        """Values, errors of tools, progress and log messages arrive as from a server of today."""
        heard: list[object] = []
        unsubscribe = registry.subscribe(heard.append)
        results = [call(registry, "web-say", text="ciao"), call(registry, "web-fail", reason="no money left")]
        climbed = call(registry, "web-climb", steps=2)
        call(registry, "web-tell", texts=["high"])
        unsubscribe()

        assert [(Outcome.OK, "ciao"), (Outcome.TOOL_ERROR, None)] == [(one.outcome, one.result) for one in results]
        assert ("up", [1.0, 2.0]) == (
            climbed.result, sorted(event.done for event in heard if isinstance(event, ToolProgress))
        )  # fmt: skip
        assert ["high", "over"] == [event.text for event in heard if isinstance(event, ToolLog)]

    def test_changes_are_taken_over(self, registry: ToolRegistry) -> None:
        """What the server says on the stream that the client opened by GET counts here, without asking."""
        call(registry, "web-teach", name="juggle", description="Juggle.")
        wait_until(lambda: registry.get_tool("web-juggle"))
        call(registry, "web-forget", name="juggle")
        wait_until(lambda: registry.get_tool("web-juggle") is None)
