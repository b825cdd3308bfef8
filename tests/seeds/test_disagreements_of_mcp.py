"""Where the seeds disagree, or can't hold as printed, on MCP servers: one class per row of the table."""

from pathlib import Path

import pytest

from praval_tools import ToolRegistry, ToolUsageError, load_plugins

SEARCH = {"name": "search", "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}}}
CONFIGURATION = """
mcp_servers:
  web:
    url: "http://localhost:9/mcp"
    declared_tools: [{name: search}]
"""


class TestNoServersByWebSocket:
    """MCP servers are reached "using aiohttp for HTTP/S or mcp.websocket_client for WS"."""

    @pytest.mark.parametrize("scheme", ["ws", "wss"])
    def test_the_url_is_refused(self, scheme: str) -> None:
        """
        The error says why, and what to pass instead.
        """
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        with ToolRegistry() as registry, pytest.raises(ToolUsageError, match="no WebSocket .*http:// or https://"):
            registry.register_mcp(f"{scheme}://localhost:9/mcp")


class TestServersAreNamedInPython:
    """MCP servers and the tools that they declare are listed in `mcp.yml`, or in `config.yml` under `mcp_servers`."""

    def test_no_file_names_them(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Such files are not read.
        """
        monkeypatch.chdir(tmp_path)
        for name in ("mcp.yml", "config.yml"):
            (tmp_path / name).write_text(CONFIGURATION, encoding="utf-8")
        with ToolRegistry() as registry:
            load_plugins(registry)

            assert [] == [tool for tool in registry if tool.namespace == "web"]

    def test_declared_tools_are_registered_at_once(self) -> None:
        """
        What such a file says is said to `register_mcp`: the tools are there before the server is.
        """
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        with ToolRegistry() as registry:
            registry.register_mcp("http://localhost:9/mcp", namespace="web", tools=[SEARCH])

            assert ["web-search"] == [tool.name for tool in registry]
