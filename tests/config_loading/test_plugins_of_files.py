"""Plugins in configurations: those that have tables are loaded, follow the file, and their tools can be granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_rig import Site, site  # noqa: F401

from praval_tools import ConfigError, ToolRegistry

# Tests of: loader, source

GRANT = "grants: [{tool: acme_count, agent: bob}]\n"


@pytest.fixture
def registry(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToolRegistry:
    """A registry of a configuration with a table for an installed plugin, and a grant of its tool."""
    site.good()
    monkeypatch.chdir(tmp_path)
    Path("c.yml").write_text("plugins:\n  acme: {owned_by: ann}\n" + GRANT)
    return ToolRegistry.from_config("c.yml")


def test_a_table_loads_its_plugin(registry: ToolRegistry) -> None:
    """With what the operator says of it; other plugins stay out."""
    assert {"acme_query": "ann", "acme_count": "ann"} == {tool.name: tool.metadata.owned_by for tool in registry}
    assert registry.agent("bob").tool_exists("acme_count")


def test_a_table_that_is_taken_out_takes_the_plugin_out(registry: ToolRegistry) -> None:
    """As if it were excluded: its tools are gone at the next load."""
    source = registry.configure_from("c.yml")
    Path("c.yml").write_text("agents: {bob: {}}\n")
    source.refresh()

    assert [] == registry.list_all_tools()


def test_a_grant_needs_the_plugin(registry: ToolRegistry) -> None:
    """Without the table, nothing brings the tool that is granted."""
    Path("d.yml").write_text(GRANT)

    with pytest.raises(ConfigError, match=r"grants\[0\]\.tool: Tool 'acme_count' not found"):
        ToolRegistry.from_config("d.yml")
