"""Servers that others make: those of FastMCP, and our own."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_client_rig import OPERATOR, SUPPORT, call, serve_http

from praval_tools import Content, Outcome, ToolProgress, ToolRegistry

SCRIPT = "mcp_fastmcp_server.py"


@pytest.fixture(scope="module", params=["stdio", "http"])
def registry(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolRegistry]:
    """Has the tools of a server that FastMCP made, over each transport."""
    if importlib.util.find_spec("fastmcp") is None:
        pytest.skip("fastmcp is not installed: pip install fastmcp")
    with ToolRegistry() as registry:
        if request.param == "stdio":
            command = [sys.executable, str(SUPPORT / SCRIPT), "stdio"]
            registry.register_mcp(command, namespace="fast", owned_by=OPERATOR)
            yield registry
        else:
            with serve_http(tmp_path_factory.mktemp("fast"), script=SCRIPT) as (url, _):
                registry.register_mcp(url, namespace="fast", owned_by=OPERATOR)
                yield registry


class TestFastMcp:
    def test_values_media_and_failures(self, registry: ToolRegistry) -> None:
        """Structured values, images and errors of FastMCP's tools arrive; its defaults are filled in there."""
        failed = call(registry, "fast-fail")

        assert {"result": 5} == call(registry, "fast-add", a="3").result
        assert Content.image(b"\x89PNG, nearly", "image/png") == call(registry, "fast-draw").result
        assert (Outcome.TOOL_ERROR, True) == (failed.outcome, "nothing left" in (failed.error or ""))
        assert Outcome.INVALID_ARGUMENTS is call(registry, "fast-add", a="x").outcome

    def test_progress(self, registry: ToolRegistry) -> None:
        """Its reports of progress are passed on."""
        heard: list[object] = []
        unsubscribe = registry.subscribe(heard.append)
        result = call(registry, "fast-climb", steps=2)
        unsubscribe()

        assert "up" in str(result.result)
        assert [1.0, 2.0] == sorted(event.done for event in heard if isinstance(event, ToolProgress))


class TestOwnServer:
    def test_the_tools_of_one_registry_in_another(self, tmp_path: Path) -> None:
        """A toolset that is served by `integrations.mcp.server` is registered elsewhere as any other server's."""
        script = tmp_path / "served.py"
        script.write_text(
            "import anyio\n"
            "from mcp.server.stdio import stdio_server\n"
            "from praval_tools import ToolRegistry\n"
            "from praval_tools.integrations.mcp import server\n"
            "registry = ToolRegistry()\n"
            "@registry.tool(owned_by='analyst')\n"
            "def square(x: int) -> int:\n"
            "    '''Square a number.'''\n"
            "    return x * x\n"
            "@registry.tool(owned_by='other')\n"
            "def hidden(x: int) -> int:\n"
            "    '''Not for the analyst.'''\n"
            "    return x\n"
            "app = server(registry, agent='analyst')\n"
            "async def main():\n"
            "    async with stdio_server() as streams:\n"
            "        await app.run(*streams, app.create_initialization_options())\n"
            "anyio.run(main)\n",
            encoding="utf-8",
        )
        with ToolRegistry() as registry:
            source = registry.register_mcp([sys.executable, str(script)], namespace="far", owned_by=OPERATOR)
            result = call(registry, "far-square", x=7)

            assert ["far-square"] == source.tools
        assert (Outcome.OK, True) == (result.outcome, "49" in str(result.result)), result


class TestImports:
    def test_the_sdk_is_imported_by_whoever_registers_a_server(self) -> None:
        """A program without MCP servers imports neither the SDK nor the modules that use it."""
        script = (
            "import sys, praval_tools\n"
            "praval_tools.ToolRegistry().problems()\n"
            "print([name for name in sys.modules if name.startswith(('mcp', 'praval_tools.integrations'))])\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

        assert ("[]\n", "") == (done.stdout, done.stderr)

    def test_without_the_extra_the_error_names_it(self) -> None:
        """Where the SDK is not installed, `register_mcp` says what to install."""
        script = (
            "import sys\n"
            "sys.modules['mcp'] = None\n"
            "from praval_tools import ToolRegistry\n"
            "try:\n"
            "    ToolRegistry().register_mcp('server')\n"
            "except ImportError as error:\n"
            "    print(type(error).__name__, error)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

        assert "praval-tools[mcp]" in done.stdout, done.stderr
