"""Loads that fail, wherever they do: what was in force stays so, and no caller meets half of a change."""

# Tests of: settings, plugins_in_force, change, source

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_rig import Site, site  # noqa: F401
from write_ahead_rig import FailingStore

from praval_tools import ConfigError, Deny, Outcome, ToolCall, ToolRegistry
from praval_tools.access.events import ToolRegistered
from praval_tools.config_loading.source import ConfigurationSource
from praval_tools.errors import JournalError
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.registry.registry import get_runtime

OLD = """
tools: [{name: a, module: sums, function: add, shared: true}]
execution: {timeout: 3}
limits: [{agent: ann, per_minute: 5}, {tool: a, concurrent: 2}]
"""
NEW = """
tools:
  - {name: a, module: sums, function: add, shared: true}
  - {name: b, module: sums, function: add, shared: true, requires_approval: true}
  - {name: c, module: sums, function: add}
execution: {timeout: 9, max_retries: 2}
limits: [{agent: ann, per_minute: 50}, {tool: b, per_minute: 1}]
approvals: {handler: 'sums:allow'}
grants: [{tool: c, agent: bob, max_calls: 1}]
"""


def load(registry: ToolRegistry, content: str) -> ConfigurationSource:
    """Put a configuration into force."""
    Path("c.yml").write_text(content, encoding="utf-8")
    source = registry.configure_from("c.yml")
    assert isinstance(source, ConfigurationSource)
    return source


def describe(registry: ToolRegistry) -> tuple[object, ...]:
    """Return all that a configuration sets."""
    runtime = get_runtime(registry)
    tools = [(tool.name, tool.metadata.owned_by) for tool in registry]
    return tools, registry.grants(), runtime.options, registry.limits.all(), runtime.approvals.handler


class TestFailures:
    @pytest.mark.parametrize(
        ("late", "key"),
        [
            ("stats: {storage_path: folder}\n", "stats.storage_path"),
            ("stats: {storage_path: c.yml/x}\n", "stats.storage_path"),
            ("approvals: {handler: 'sums:nothing'}\n", "approvals.handler"),
            ("journal: {path: runs.db}\n", "journal.path"),
        ],
    )
    def test_what_is_set_last_is_checked_first(self, folder: Path, late: str, key: str) -> None:
        """Nothing of a configuration counts where its statistics, handler or journal cannot."""
        (folder / "folder").mkdir()
        registry = ToolRegistry()
        source = load(registry, OLD)
        before = describe(registry)
        Path("c.yml").write_text(NEW.partition("approvals")[0] + late)

        with pytest.raises(ConfigError) as caught:
            source.refresh()
        assert [key] == [problem.key for problem in caught.value.problems]
        assert before == describe(registry)

    @pytest.mark.parametrize("content", [NEW, "blocks: [{tool: a, agent: ann}]\n"])
    def test_a_journal_that_fails_as_it_all_would_count(self, folder: Path, tmp_path: Path, content: str) -> None:
        """Options, limits and handler are as they were, with the tools and the grants."""
        store = FailingStore(SqlStore(tmp_path / "runs.db"))
        registry = ToolRegistry(journal=store)
        source = load(registry, OLD)
        before = describe(registry)
        store.fails = {"tool_assigned", "tool_unassigned", "grant_revoked", "tool_blocked"}
        Path("c.yml").write_text(content)

        with pytest.raises(JournalError, match="the disk is full"):
            source.refresh()
        assert before == describe(registry)
        store.fails = set()
        source.refresh()
        assert before != describe(registry)
        assert source.reload_error is None

    def test_plugins_are_as_they_were(self, site: Site, folder: Path) -> None:
        """One that a faulty file adds is out again, one that it drops is in again, one that it changes is as before."""
        site.good()
        site.good("other")
        registry = ToolRegistry()
        source = load(registry, "plugins:\n  acme: {owned_by: ann}\n")
        before = describe(registry)
        for plugins in (
            "acme: {owned_by: zoe}",
            "other: {}",
            "acme: {owned_by: ann}\n  other: {}",
            "acme: {allow: []}",
        ):
            Path("c.yml").write_text(f"plugins:\n  {plugins}\ngrants: [{{tool: nothing, agent: bob}}]\n")
            with pytest.raises(ConfigError, match="grants"):
                source.refresh()
            assert before == describe(registry)
            Path("c.yml").write_text("agnets: {}\n")
            with pytest.raises(ConfigError, match="agnets"):
                source.refresh()
            assert before == describe(registry)

    def test_a_mistake_elsewhere_leaves_plugins_alone(self, site: Site, folder: Path) -> None:
        """They are not even imported, and a grant of a tool of theirs is not reported as well."""
        site.good()
        Path("c.yml").write_text("plugins: {acme: {}}\nagnets: {}\ngrants: [{tool: acme_count, agent: bob}]\n")

        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config("c.yml")
        assert ["agnets"] == [problem.key for problem in caught.value.problems]
        Path("c.yml").write_text("agnets: {}\ngrants: [{tool: acme_count, agent: bob}]\n")
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config("c.yml")
        assert ["agnets", "grants[0].tool"] == [problem.key for problem in caught.value.problems]


class TestCallers:
    def test_nobody_meets_a_new_tool_without_its_limits_and_its_handler(self, folder: Path) -> None:
        """The first who hears of it, inside the change, calls it already with both."""
        registry = ToolRegistry()
        source = load(registry, OLD)
        outcomes = []

        def call(event: object) -> None:
            if isinstance(event, ToolRegistered) and event.tool.name == "b":
                outcomes.extend(registry.execute(ToolCall(None, "b", {"x": 1}, "eve")).outcome for _ in range(2))

        registry.subscribe(call)
        Path("c.yml").write_text(NEW)
        source.refresh()

        assert [Outcome.OK, Outcome.LIMITED] == outcomes

    def test_a_handler_that_is_not_declared_any_more_is_gone(self, folder: Path) -> None:
        """The one that the program set before is asked again, and one that it set since is left alone."""
        registry, asked = ToolRegistry(), list[object]()

        def deny(request: object) -> Deny:
            asked.append(request)
            return Deny("no")

        registry.set_approval_handler(deny)
        source = load(registry, NEW)
        assert Outcome.OK is registry.execute(ToolCall(None, "b", {"x": 1}, "eve")).outcome
        Path("c.yml").write_text(NEW.replace("approvals: {handler: 'sums:allow'}\n", ""))
        source.refresh()

        assert deny is get_runtime(registry).approvals.handler
        Path("c.yml").write_text(NEW)
        source.refresh()
        registry.set_approval_handler(None)
        Path("c.yml").write_text(OLD)
        source.refresh()
        assert get_runtime(registry).approvals.handler is None

    def test_limits_follow_the_file(self, folder: Path) -> None:
        """Wider ones, narrower ones, and those that are gone."""
        registry = ToolRegistry()
        source = load(registry, OLD)
        for content in (NEW, OLD, NEW):
            Path("c.yml").write_text(content)
            source.refresh()

        assert {("ann", None, 50), (None, "b", 1)} == {
            (limit.agent, limit.tool, limit.per_minute) for limit in registry.limits.all()
        }
