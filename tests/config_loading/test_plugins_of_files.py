"""Plugins in configurations: those that have tables are loaded, follow the file, and their tools can be granted."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_rig import Run, run  # noqa: F401
from plugin_rig import HEAD, HELPER, Site, site  # noqa: F401

from praval_tools import ConfigError, ToolRegistry

# Tests of: loader, source, references

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


def test_agents_of_plugins_are_declared(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Those of a trusted plugin count as those of the file; without trust it declares none."""
    site.install("acme", HEAD + HELPER)
    monkeypatch.chdir(tmp_path)
    text = (
        "plugins:\n  acme: {trust: true}\nagents: {ann: {}}\n"
        "grants: [{tool: hidden, agent: helper}]\nblocks: [{tool: hidden, agent: helpr}]\n"
    )
    for content, expected in (
        (text, ["5: blocks[0].agent: Agent 'helpr' is not declared. Did you mean 'helper'?"]),
        (
            text.replace("trust: true", "owned_by: an"),
            [
                "2: plugins.acme.owned_by: Agent 'an' is not declared. Did you mean 'ann'?",
                "4: grants[0].agent: Agent 'helper' is not declared. Declare it in agents, or check the spelling.",
                "5: blocks[0].agent: Agent 'helpr' is not declared. Declare it in agents, or check the spelling.",
            ],
        ),
    ):
        Path("tools.yml").write_text(content)
        lines = run("check")[1].splitlines()
        assert [f"configuration tools.yml:{problem}" for problem in expected] == lines[:-1]
