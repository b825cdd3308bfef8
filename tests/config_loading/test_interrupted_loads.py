# Tests of: config_loading/change, config_loading/source, config_loading/settings, plugins/plugin_load, access/store
"""A load of files that is interrupted, as by Ctrl-C, changes all or nothing, and the next one goes on from there."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from fault_rig import run_with_fault
from plugin_rig import Site, site, write_tool  # noqa: F401  # fixtures

from praval_tools import ToolRegistry
from praval_tools.registry.registry import get_runtime

HOOKS = """
from praval_tools import hookimpl
@hookimpl
def praval_tools_authorize():
    return None
@hookimpl
def praval_tools_after_call():
    pass
"""
FILE = """
[plugins.guard-{plugin}]
owned_by = "ann"
[agents.{agent}]
[execution]
max_retries = {number}
[[limits]]
agent = "{agent}"
per_minute = {number}
[[grants]]
tool = "{tool}"
agent = "{agent}"
"""
BEFORE = FILE.format(plugin="a", agent="bob", tool="ping", number=2)
AFTER = FILE.format(plugin="b", agent="cid", tool="pong", number=3)


@pytest.fixture
def file(site: Site) -> Path:
    """The file of a configuration, where the plugins that it may name are installed."""
    for name, tool in (("guard-a", "ping"), ("guard-b", "pong")):
        site.install(name, write_tool(tool) + HOOKS)
    return Path("a.toml")


def start(file: Path, text: str) -> ToolRegistry:
    """Return a registry with a configuration."""
    file.write_text(text)
    registry = ToolRegistry()
    registry.configure_from(file)
    return registry


def describe(registry: ToolRegistry) -> list[object]:
    """Return what is in force of the tools, agents, grants, settings and plugins of a registry."""
    state, runtime = registry.state, get_runtime(registry)
    return [
        sorted(tool.name for tool in registry), sorted(name for name, one in state.profiles.items() if not one.retired),
        [grant.agent for grant in registry.grants()], [policy.name for policy in state.policies],
        [limit.agent for limit in registry.limits.all()], runtime.options.retries,
        [one.distribution for one in runtime.hooks.contributions],
    ]  # fmt: skip


def check_next_load(registry: ToolRegistry, before: list[object], after: list[object]) -> None:
    """Check that all or nothing of the change of the file is there, and all of it once it is loaded again."""
    assert describe(registry) in (before, after)
    registry.refresh()
    assert after == describe(registry)
    assert registry.explain("cid", "pong").allowed


def test_as_subscribers_hear_of_it(file: Path) -> None:
    """Broken promise: the settings were set back, and the file could not be loaded any more."""
    before, after = describe(start(file, BEFORE)), describe(start(file, AFTER))
    registry = start(file, BEFORE)
    file.write_text(AFTER)

    def interrupt(_: object) -> None:
        unsubscribe()
        raise KeyboardInterrupt

    unsubscribe = registry.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        registry.refresh()

    assert after == describe(registry)
    check_next_load(registry, before, after)


def test_as_subscribers_hear_of_the_first(file: Path) -> None:
    """A registry knows of a configuration whose first load was interrupted once it counted."""
    after = describe(start(file, AFTER))
    registry = ToolRegistry()

    def interrupt(_: object) -> None:
        unsubscribe()
        raise KeyboardInterrupt

    unsubscribe = registry.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        registry.configure_from(file)

    registry.configure_from(file)
    assert after == describe(registry)


def test_at_any_line_from_the_moment_when_it_counts(file: Path) -> None:
    """Broken promise: the state was the new one, and settings, hooks of plugins and what was declared the old ones."""
    before, after = describe(start(file, BEFORE)), describe(start(file, AFTER))
    number = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of generators that a fault leaves behind
        while True:
            registry = start(file, BEFORE)
            file.write_text(AFTER)
            tools = sorted(registry.state.tools)
            failed = run_with_fault(number, registry.refresh, lambda tools=tools: sorted(registry.state.tools) != tools)  # type: ignore[misc]
            check_next_load(registry, before, after)
            if not failed:
                break
            number += 1

    assert number > 200
