"""The plugin as its users meet it: found by its entry point, loaded, granted, called."""

from __future__ import annotations

from praval_tools import PluginReport, ToolRegistry, load_plugins

MINE = "praval-tools-example"


def loaded(**options: object) -> tuple[ToolRegistry, PluginReport]:
    """Return a registry with this plugin in it, and what became of the plugin."""
    registry = ToolRegistry()
    (report,) = load_plugins(registry, only=[MINE], strict=True, config={}, **options)
    return registry, report


def test_it_brings_its_tools() -> None:
    """The tools are there, and nobody may call them yet."""
    registry, report = loaded()

    assert "example_greet" in report.tools
    assert list(registry.toolset("analyst")) == []


def test_an_agent_that_was_granted_a_tool_calls_it() -> None:
    """Granted, a tool runs."""
    registry, _ = loaded()
    registry.assign_tool_to_agent("example_greet", "analyst")

    assert registry.agent("analyst").call("example_greet", name="Ann") == "Hello, Ann!"


def test_its_settings_count() -> None:
    """What the operator sets reaches the tools."""
    registry, _ = loaded(settings={MINE: {"greeting": "Good morning"}})

    assert registry.execute_tool("example_greet", name="Ann") == "Good morning, Ann!"
