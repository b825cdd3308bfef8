"""Half of a surrogate pair in what a plugin brings: it harms that plugin alone, in programs and on the command line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from cli_rig import Run, run  # noqa: F401
from plugin_rig import HEAD, Site, loaded, names, site, write_tool  # noqa: F401

from praval_tools import ToolRegistry, reset_tool_registry

SOURCES = {
    "docstring": "@tool\ndef half() -> int:\n    'Half \\ud800.'\n    return 1\n",
    "description": "@tool(description='Half \\ud800.')\ndef half() -> int:\n    'Half.'\n    return 1\n",
    "argument": (
        "from typing import Annotated\n"
        "@tool\ndef half(x: Annotated[int, 'how \\udcff many']) -> int:\n    'Half.'\n    return x\n"
    ),
    "choice": "from typing import Literal\n@tool\ndef half(x: Literal['\\ud800']) -> str:\n    'Half.'\n    return x\n",
    "supplied schema": (
        "register_me = Tool(name='half', description='Half.', parameters={'type': 'object', 'properties': "
        "{'x': {'type': 'integer', 'description': '\\ud800'}}}, callable=lambda x: x)\n"
        "get_tool_registry().register_tool(register_me)\n"
    ),
    "result": "@tool\ndef half() -> str:\n    'Half.'\n    return 'a\\ud800'\n",
    "category": "@tool(category='\\ud800')\ndef half() -> int:\n    'Half.'\n    return 1\n",
}
COMMANDS = (
    ["list"],
    ["show", "half"],
    ["plugins"],
    ["check"],
    ["matrix"],
    ["call", "ann", "half"],
)


@pytest.fixture(params=SOURCES)
def halves(request: pytest.FixtureRequest, site: Site) -> Iterator[str]:
    """A plugin with half a pair somewhere, and one after it that is as it should be."""
    site.install("acme", HEAD + SOURCES[request.param])
    site.install("zeta", write_tool("whole"))
    yield str(request.param)
    reset_tool_registry()  # the command line closes the default one


class TestSurrogatesOfPlugins:
    """Broken promise: half a pair raised out of `load_plugins` and the command line; later plugins did not load."""

    def test_other_plugins_load(self, halves: str) -> None:
        """The plugin is kept out, or its text is repaired; with a journal too, and nothing raises."""
        registry = ToolRegistry(journal="plugins.db")
        reports = loaded(registry)

        assert "loaded" == reports["zeta"].stage
        assert "whole" in names(registry)
        assert ("half" in names(registry)) == (reports["acme"].error is None)
        registry.assign_tool_to_agent("whole", "ann")
        if "half" in names(registry):
            registry.assign_tool_to_agent("half", "ann")
            registry.agent("ann").tools.schemas_json("anthropic").decode("utf-8")
        assert 1 == registry.agent("ann").call("whole")
        assert list(registry.journal.read())

    def test_the_command_line_shows_it(self, halves: str, run: Run) -> None:
        """Every listing prints text that can be encoded, and no traceback."""
        for command in COMMANDS:
            code, out, err = run(*command)

            assert (out + err).encode("utf-8")
            assert code in (0, 1, 2, 3), (command, err)
            assert "Traceback" not in out + err, command
