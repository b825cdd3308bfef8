"""Configurations that name plugins, loaded again: what they do not say any more ends, and a mistake changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_rig import HEAD, Site, site, write_tool  # noqa: F401  # fixtures
from state_rig import outcome

from praval_tools import ToolRegistry, load_plugins

# Tests of: source, plugins_in_force, plugins/activation, plugins/loader

PING = write_tool("ping")
AGENT = PING + "@agent('helper', tools=['ping'])\ndef helper():\n    return 1\n"
TRUSTED = "[plugins.acme]\ntrust = true\n"


def may(registry: ToolRegistry, tool: str = "ping", agent: str = "bob", **arguments: object) -> bool:
    """Tell whether an agent may call a tool."""
    return outcome(registry, tool, agent, **arguments) == "ok"


@pytest.fixture
def file(site: Site) -> Path:
    """The file of a configuration in the working directory."""
    return Path("a.toml")


class TestATableThatSaysLess:
    @pytest.mark.parametrize(
        ("before", "after", "agent"),
        [
            ('shared = ["ping"]', "", "bob"),
            ('owned_by = "ann"', "", "ann"),
            ('owned_by = "ann"', 'owned_by = "bob"', "ann"),
            ("trust = true", "", "zoe"),
        ],
    )
    def test_gives_less(self, site: Site, file: Path, before: str, after: str, agent: str) -> None:
        """What it said of owners, sharing and trust ends as the file is loaded again, as in a new program."""
        site.install("acme", PING.replace("@tool", "@tool(owned_by='zoe')"))
        file.write_text(f"[plugins.acme]\n{before}\n")
        registry = ToolRegistry.from_config(file)
        assert may(registry, agent=agent)
        file.write_text(f"[plugins.acme]\n{after}\n")
        registry.configure_from(file)

        assert [False, False] == [may(one, agent=agent) for one in (registry, ToolRegistry.from_config(file))]

    def test_leaves_what_was_done_since(self, site: Site, file: Path) -> None:
        """Who owns the tool at run time stays its owner, and sharing that ended has ended."""
        site.install("acme", PING)
        file.write_text('[plugins.acme]\nowned_by = "ann"\nshared = ["ping"]\n')
        registry = ToolRegistry.from_config(file)
        registry.transfer_ownership("ping", "eve")
        registry.unshare_tool("ping")
        file.write_text('[plugins.acme]\nowned_by = "bob"\nshared = ["ping"]\n[agents.x]\n')
        registry.configure_from(file)

        assert [True, False, False] == [may(registry, agent=agent) for agent in ("eve", "ann", "bob")]


class TestARetiredAgent:
    @pytest.mark.parametrize("way", ["same", "another plugin", "upgrade"])
    def test_stays_retired(self, site: Site, way: str) -> None:
        """Who retired it means it, whatever is loaded again or beside it."""
        site.install("acme", AGENT)
        site.install("other", write_tool("pong"))
        config: dict[str, dict[str, object]] = {"plugins": {"acme": {"trust": True}}}
        registry = ToolRegistry()
        load_plugins(registry, only=["acme"], config=config)
        assert may(registry, agent="helper")
        registry.retire_agent("helper")
        if way == "upgrade":
            site.remove("acme")
            site.install("acme", AGENT.replace("['ping']", "['ping', 'pong']"), version="2.0")
        load_plugins(registry, only=["acme"] if way == "same" else None, config=config)

        assert not may(registry, agent="helper")

    def test_comes_back_with_its_plugin(self, site: Site, file: Path) -> None:
        """One that is gone as the file left the plugin out is there again as soon as the file names it."""
        site.install("acme", AGENT)
        file.write_text(TRUSTED)
        registry = ToolRegistry.from_config(file)
        for text, expected in (("[agents.x]\n", False), (TRUSTED, True)):
            file.write_text(text)
            registry.configure_from(file)
            assert expected is may(registry, agent="helper")
