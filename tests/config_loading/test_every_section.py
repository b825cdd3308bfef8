"""Each thing that a configuration can declare, declared and used: no section is read and then without effect."""

# Tests of: loader, settings, plugins_in_force, declarations

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from plugin_rig import Site, site  # noqa: F401

from praval_tools import ConfigError, Outcome, ToolCall, ToolRegistry
from praval_tools.config_loading.source import ConfigurationSource

MODULE = """
import threading


def who(x: int = 0) -> str:
    "Name the thread."
    return threading.current_thread().name
"""
SOURCES = """
from praval_tools import Tool, hookimpl


def load(table):
    return [Tool(f"{table['prefix']}_{name}", "One.", {"type": "object"}, lambda **_: 1) for name in table["names"]]


@hookimpl
def praval_tools_sources():
    return {"acme": load}
"""


def load(text: str) -> ToolRegistry:
    """Return the registry of a configuration."""
    Path("c.yml").write_text(text)
    return ToolRegistry.from_config("c.yml")


def call(registry: ToolRegistry, agent: str, tool: str = "t", **arguments: object) -> Outcome:
    """Return how a call ends."""
    return registry.execute(ToolCall(None, tool, arguments, agent)).outcome


class TestAgents:
    def test_lists_categories_and_discovery(self, folder: Path) -> None:
        """What it lists and what its categories hold, and, unless it says no, what is shared or its own."""
        registry = load(
            "tools:\n"
            "  - {name: listed, module: sums, function: add, owned_by: zoe}\n"
            "  - {name: sorted, module: sums, function: add, category: maths, owned_by: zoe}\n"
            "  - {name: open, module: sums, function: add, shared: true}\n"
            "  - {name: own, module: sums, function: add, owned_by: ann}\n"
            "agents:\n"
            "  ann: {tools: [listed], tool_categories: [maths], auto_discover_tools: false}\n"
            "  bob: {}\n"
            "  zoe:\n"
        )

        listed = {name: sorted(registry.agent(name).list_tools()) for name in registry.agents}
        assert {"ann": ["listed", "sorted"], "bob": ["open"], "zoe": ["listed", "open", "sorted"]} == listed

    def test_grants_with_every_bound(self, folder: Path) -> None:
        """Arguments, a count, an end, a moment that is over, and leave to lend on."""
        registry = load(
            "tools: [{name: t, module: sums, function: add, owned_by: zoe}]\n"
            "agents: {zoe: {}, ann: {}, bob: {}, eve: {}, kim: {}}\n"
            "grants:\n"
            "  - {tool: t, agent: ann, where: {x: {maximum: 5}}}\n"
            "  - {tool: t, agent: bob, max_calls: 1, expires: 7d}\n"
            "  - {tool: t, agent: kim, delegable: true, reason: for the sale}\n"
        )
        assert [Outcome.OK, Outcome.FORBIDDEN] == [call(registry, "ann", x=x) for x in (5, 6)]
        assert [Outcome.OK, Outcome.FORBIDDEN] == [call(registry, "bob", x=1) for _ in range(2)]
        assert Outcome.FORBIDDEN is call(registry, "eve", x=1)
        registry.grant("t", "eve", by="kim")
        assert Outcome.OK is call(registry, "eve", x=1)
        assert "for the sale" in {grant.reason for grant in registry.grants()}

        with pytest.raises(ConfigError, match=r"grants\[0\]"):
            load(
                "tools: [{name: t, module: sums, function: add}]\n"
                "grants: [{tool: t, agent: ann, expires: 2001-01-01T00:00:00Z}]\n"
            )

    def test_blocks_and_categories_that_are_off(self, folder: Path) -> None:
        """Both beat what permits."""
        registry = load(
            "tools:\n"
            "  - {name: t, module: sums, function: add, shared: true}\n"
            "  - {name: old_one, module: sums, function: add, shared: true, category: old}\n"
            "blocks: [{tool: t, agent: ann, reason: not now}]\ncategories: {old: {enabled: false}}\n"
        )

        outcomes = [call(registry, "ann", x=1), call(registry, "bob", x=1), call(registry, "bob", "old_one", x=1)]
        assert [Outcome.FORBIDDEN, Outcome.OK, Outcome.DISABLED] == outcomes


class TestEngines:
    def test_the_engine_of_all_and_of_one_tool(self, folder: Path) -> None:
        """`thread` runs functions in threads of its own; a tool's own engine comes first."""
        (folder / "threads_of.py").write_text(MODULE)
        registry = load(
            "tools:\n"
            "  - {name: t, module: threads_of, function: who, shared: true}\n"
            "  - {name: here, module: threads_of, function: who, shared: true, engine: inline}\n"
            "execution: {engine: thread}\n"
        )
        here = threading.current_thread().name

        assert here == registry.agent("ann").call("here")
        assert here != registry.agent("ann").call("t")
        registry.close()

    def test_an_engine_that_nobody_brings_is_a_mistake(self, folder: Path) -> None:
        """Of a tool and of all tools: the error names those that there are."""
        with pytest.raises(ConfigError) as caught:
            load("tools: [{name: t, module: sums, function: add, engine: nowhere}]\nexecution: {engine: nowhere}\n")

        assert ["tools[0].engine", "execution.engine"] == [problem.key for problem in caught.value.problems]
        assert "none of 'inline', 'thread', 'process', 'celery', nor a plugin's engine" in str(caught.value)


class TestJournals:
    @pytest.mark.parametrize("path", ["runs.db", "sqlite:///runs.db", "memory"])
    def test_its_paths_and_options(self, folder: Path, path: str) -> None:
        """A file, a URL, memory; `secrets` are not written, `max_run_events` ends a run."""
        text = (
            "tools: [{name: t, module: sums, function: add, shared: true}]\n"
            f"journal: {{path: '{path}', durability: intent, errors: raise, secrets: [y], max_run_events: 3}}\n"
        )
        with load(text) as registry:
            with registry.run("r"):
                outcomes = [call(registry, "ann", x=1, y=424242) for _ in range(3)]
            assert registry.journal is not None
            assert "424242" not in str(list(registry.journal.store.read()))
        assert Outcome.OK is outcomes[0]
        assert Outcome.OK is not outcomes[-1]


class TestSources:
    def test_they_bring_tools_and_take_them_along(self, site: Site, folder: Path) -> None:
        """A plugin makes tools of each table; what is taken out of the file leaves, what changes is made anew."""
        site.install("acme", SOURCES)
        text = "plugins: {acme: {}}\nsources:\n  - {kind: acme, prefix: p, names: [a, b]}\n"
        registry = load(text + "grants: [{tool: p_a, agent: ann}]\n")
        (source,) = (one for one in [registry.configure_from("c.yml")] if isinstance(one, ConfigurationSource))
        seen = [sorted(tool.name for tool in registry)]
        for content in (
            text + "  - {kind: acme, prefix: q, names: [c]}\n",
            text.replace("[a, b]", "[b]"),
            "plugins: {acme: {}}\n",
        ):
            Path("c.yml").write_text(content)
            source.refresh()
            seen.append(sorted(tool.name for tool in registry))

        assert [["p_a", "p_b"], ["p_a", "p_b", "q_c"], ["p_b"], []] == seen

    def test_an_unknown_kind_is_a_problem_of_the_registry(self, site: Site, folder: Path) -> None:
        """The rest is loaded; the kinds that there are are named."""
        with pytest.warns(match="no loaded plugin brings kind 'nothing'"):
            registry = load("agents: {ann: {}}\nsources: [{kind: nothing}]\n")

        assert ["ann"] == registry.agents
        assert "nothing" in str(registry.problems())
