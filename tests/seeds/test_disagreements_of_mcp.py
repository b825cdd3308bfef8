"""Where the seeds disagree, or can't hold as printed, on MCP servers: one class per row of the table."""

from pathlib import Path

import pytest

from praval_tools import ToolRegistry, ToolUsageError

CONFIGURATION = """
mcp_servers:
  web:
    url: "http://localhost:9/mcp"
    provides_tools:
      - {name: perform_web_search, inputSchema: {type: object, properties: {query: {type: string}}}}
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


class TestBothNamesOfTheFileAreRead:
    """MCP servers and the tools that they declare are listed in `mcp.yml`, or in `config.yml` under `mcp_servers`."""

    @pytest.mark.parametrize("name", ["mcp.yml", "config.yml"])
    def test_declared_tools_are_there_at_once(self, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Either is found, and what it declares is there before the server is.
        """
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        pytest.importorskip("yaml", reason="needs PyYAML")
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("PRAVAL_TOOLS_CONFIG", raising=False)
        (tmp_path / name).write_text(CONFIGURATION, encoding="utf-8")
        with ToolRegistry.from_config() as registry:
            assert ["perform_web_search"] == [tool.name for tool in registry]
