"""Plugins that one of several programs over a journal has no more: the others go on, and grants wait for them here."""

# Tests of: activation

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from plugin_rig import HEAD, Site, site, write_tool  # noqa: F401
from state_rig import outcome, path, shared  # noqa: F401  # fixtures

from praval_tools import PluginWarning, ToolRegistry, load_plugins

PLUGIN = write_tool("one") + "@agent('helper', tools=['one'])\ndef helper():\n    return 1\n"
TRUSTED: dict[str, Any] = {"plugins": {"acme": {"trust": True}}}
OFF: dict[str, Any] = {"plugins": {"acme": {"trust": True, "enabled": False}}}
CALLS = [("bob", "one"), ("helper", "one"), ("helper", "seven")]
ALL, NONE = [True] * 3, [False] * 3


def seven() -> int:
    """Seven."""
    return 7


def load(registry: ToolRegistry, **options: Any) -> ToolRegistry:
    """Load the plugins into a registry that has a tool of its own."""
    if "seven" not in registry:
        registry.tool("seven")(seven)
    load_plugins(registry, **{"config": TRUSTED, **options})
    return registry


@contextmanager
def programs(where: Path | str, count: int = 2) -> Iterator[list[ToolRegistry]]:
    """Return the registries of programs over a journal that have the plugins."""
    with ExitStack() as stack:
        yield [load(stack.enter_context(ToolRegistry(journal=where))) for _ in range(count)]


def may(registry: ToolRegistry) -> list[bool]:
    """Tell which of the calls are let in."""
    return [outcome(registry, tool, agent) == "ok" for agent, tool in CALLS]


def grant(registry: ToolRegistry) -> None:
    """Make the grants for which the calls are let in."""
    registry.grant("one", "bob")
    registry.grant("seven", "helper")


def replace_by(site: Site, source: str, version: str) -> None:
    """Install another version of the plugin."""
    site.remove("acme")
    site.install("acme", source, version=version)


class TestOtherPrograms:
    @pytest.mark.parametrize("way", ["excluded", "disabled", "upgraded"])
    def test_go_on(self, site: Site, shared: Path | str, way: str) -> None:
        """Grants count and the agent is declared there; here both are back with the plugin, and at the next start."""
        site.install("acme", PLUGIN)
        with programs(shared) as (here, there):
            grant(there)
            assert [ALL, ALL] == [may(here), may(there)]
            if way == "upgraded":
                replace_by(site, write_tool("another"), "2.0")
            load(here, **{"excluded": {"exclude": ["acme"]}, "disabled": {"config": OFF}}.get(way, {}))
            assert [NONE, ALL] == [may(here), may(there)]
            assert [[], ["helper"]] == [here.agents, there.agents]
            if way == "upgraded":
                replace_by(site, PLUGIN, "3.0")
            load(here)
            assert [ALL, ALL] == [may(here), may(there)]
        with programs(shared, 1) as (again,):
            assert ALL == may(again)

    def test_what_they_end_meanwhile_has_ended(self, site: Site, shared: Path | str) -> None:
        """A grant that another program revokes is none when the plugin is back."""
        site.install("acme", PLUGIN)
        with programs(shared) as (here, there):
            grant(there)
            load(here, exclude=["acme"])
            for held in there.grants(agent="bob"):
                there.revoke(held)
            load(here)
            assert [[False, True, True]] * 2 == [may(here), may(there)]

    def test_hear_of_what_the_operator_ends(self, site: Site, shared: Path | str) -> None:
        """Who unregisters a tool, or retires an agent, does so for all programs."""
        site.install("acme", PLUGIN)
        with programs(shared) as (here, there):
            grant(there)
            here.unregister_tool("one")
            here.retire_agent("helper")
            assert [NONE, NONE] == [may(here), may(there)]
        with programs(shared, 1) as (again,):
            assert [False, True, False] == may(again)


class TestWaitingGrants:
    def test_are_none_of_a_tool_from_elsewhere(self, site: Site, path: Path) -> None:
        """Another distribution that brings the name does not get them; the plugin does."""
        site.install("acme", PLUGIN)
        with programs(path, 1) as (registry,):
            grant(registry)
            site.install("rival", write_tool("one"))
            load(registry, exclude=["acme"])
            assert ["rival"] == [tool.metadata.source.distribution for tool in registry if tool.name == "one"]
            assert "forbidden" == outcome(registry, "one", "bob")
            load(registry, exclude=["acme", "rival"])
            load(registry, exclude=["rival"])
            assert ALL == may(registry)

    def test_are_none_of_a_tool_that_is_another_one_now(self, site: Site, path: Path) -> None:
        """A version whose tool has another parameter is granted to nobody."""
        site.install("acme", PLUGIN)
        with programs(path, 1) as (registry,):
            grant(registry)
            load(registry, exclude=["acme"])
            replace_by(site, PLUGIN.replace("one()", "one(x: int)"), "2.0")
            with pytest.warns(PluginWarning, match="changed one"):
                load(registry)
            assert "forbidden" == outcome(registry, "one", "bob", x=1)
            assert "act-waits" in {problem.kind for problem in registry.problems()}

    def test_end_without_a_journal(self, site: Site) -> None:
        """There is nothing in which those of the plugin's tools could wait; those of its agent wait for the agent."""
        site.install("acme", PLUGIN)
        registry = load(ToolRegistry())
        grant(registry)
        assert ALL == may(registry)
        load(registry, exclude=["acme"])
        assert NONE == may(registry)
        load(registry)
        assert [False, True, True] == may(registry)
