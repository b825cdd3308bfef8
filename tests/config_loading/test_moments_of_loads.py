"""What counts at the moments of a load of plugins: as it is published, as it fails, and as it is tried again."""

# Tests of: plugins/plugin_load, plugins/activation

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from plugin_rig import HEAD, Site, loaded, site, write_tool  # noqa: F401  # fixtures

from praval_tools import ConfigError, Outcome, PluginWarning, ToolCall, ToolRegistry, plugin_reports

APPROVER = (
    HEAD
    + """
from praval_tools import Allow, Deny
@hookimpl
def praval_tools_approve(request):
    return {answer}
"""
)
PAY = write_tool("pay").replace("@tool", "@tool(requires_approval=True)")
WAITS, OK, DENIED = Outcome.APPROVAL_REQUIRED, Outcome.OK, Outcome.APPROVAL_DENIED

Load = Callable[[ToolRegistry, str], object]


def load_file(registry: ToolRegistry, text: str) -> None:
    """Load a configuration into a registry."""
    file = Path("a.toml")
    file.write_text(text)
    registry.configure_from(file)


def load_tables(registry: ToolRegistry, text: str) -> None:
    """Load the plugins as a program does, with the tables of a file of their own."""
    file = Path("plugins.toml")
    file.write_text(text)
    loaded(registry, config=file)


def call(registry: ToolRegistry, tool: str = "pay") -> Outcome:
    """Call a tool and return what became of it."""
    return registry.execute(ToolCall("c", tool, {}, "bob")).outcome


def call_as_published(registry: ToolRegistry, load: Load, text: str) -> set[Outcome]:
    """Load, and call a tool as soon as the change counts; return what became of the calls."""
    outcomes = set[Outcome]()
    end = registry.subscribe(lambda _: outcomes.add(call(registry)))
    load(registry, text)
    end()
    return outcomes - {Outcome.UNKNOWN_TOOL}


@pytest.mark.parametrize("load", [load_file, load_tables])
class TestApprovalsOfPlugins:
    OLD = "[plugins.acme]\ntrust = true\n[plugins.shop]\nenabled = false\n"
    SHOP = '[plugins.shop]\nowned_by = "bob"\n'
    TRUSTED = SHOP + "[plugins.acme]\ntrust = true\n"

    @pytest.mark.parametrize("acme", ["", "[plugins.acme]\ntrust = false\n", "[plugins.acme]\nenabled = false\n"])
    def test_a_load_that_takes_them_away_lets_none_approve(self, site: Site, load: Load, acme: str) -> None:
        """A tool that comes with the end of an approver is never approved by it."""
        site.install("acme", APPROVER.format(answer="Allow()"))
        site.install("shop", PAY)
        registry = ToolRegistry()
        load(registry, self.OLD)

        assert {WAITS} == call_as_published(registry, load, self.SHOP + acme) | {call(registry)}

    @pytest.mark.parametrize(
        ("before", "after", "expected"),
        [("Allow()", "Allow()", OK), ("Allow()", "Deny()", DENIED), ("Deny()", "Allow()", DENIED)],
    )
    def test_both_approve_as_one_replaces_the_other(
        self, site: Site, load: Load, before: str, after: str, expected: Outcome
    ) -> None:
        """At the moment of the change a call runs only where the hooks of before and after both allow it."""
        site.install("acme", APPROVER.format(answer=before))
        site.install("shop", PAY)
        registry = ToolRegistry()
        load(registry, self.OLD)
        site.remove("acme")
        site.install("acme", APPROVER.format(answer=after), version="2.0")

        assert {expected} == call_as_published(registry, load, self.TRUSTED)

    def test_a_load_that_fails_leaves_them(self, site: Site, load: Load) -> None:
        """What approved before does so again where the load changes nothing."""
        site.install("acme", APPROVER.format(answer="Allow()"))
        site.install("shop", PAY)
        registry = ToolRegistry()
        load(registry, self.TRUSTED)
        with pytest.raises(ConfigError):
            load_file(registry, self.SHOP + '[[grants]]\ntool = "nosuch"\nagent = "bob"\n')

        assert OK is call(registry)


class TestGrantsOfFiles:
    @pytest.mark.parametrize("way", ["upgraded", "left out for a while"])
    def test_are_made_again_after_a_program_loaded_plugins(self, site: Site, way: str) -> None:
        """A grant of a file ends with the version of the plugin that it was for, until the file is loaded again."""
        site.install("acme", write_tool("ping"))
        registry = ToolRegistry()
        loaded(registry, config={})
        load_file(registry, '[agents.bob]\n[[grants]]\ntool = "ping"\nagent = "bob"\n')
        outcomes = [call(registry, "ping")]
        if way == "upgraded":
            site.remove("acme")
            site.install("acme", write_tool("ping").replace("@tool", "@tool(risk_level='high')"), version="2.0")
        else:
            loaded(registry, config={}, exclude=["acme"])
        loaded(registry, config={})
        outcomes.append(call(registry, "ping"))
        registry.configure_from("a.toml")

        assert [OK, Outcome.FORBIDDEN, OK] == [*outcomes, call(registry, "ping")]

    def test_that_somebody_ended_stay_ended(self, site: Site) -> None:
        """One that was revoked at run time is not made again, whatever was loaded since."""
        site.install("acme", write_tool("ping"))
        registry = ToolRegistry()
        loaded(registry, config={})
        load_file(registry, '[agents.bob]\n[[grants]]\ntool = "ping"\nagent = "bob"\n')
        registry.remove_tool_from_agent("ping", "bob")
        loaded(registry, config={}, exclude=["acme"])
        loaded(registry, config={})
        registry.configure_from("a.toml")

        assert Outcome.FORBIDDEN is call(registry, "ping")


def owners(registry: ToolRegistry) -> dict[str, str]:
    """Return by whose distribution, or from which file, each tool is."""
    return {tool.name: str(tool.metadata.source).split(" ")[0].split("/")[-1].split(":")[0] for tool in registry}


class TestNamesThatMove:
    FUNCTION = '[[tools]]\nname = "ping"\nmodule = "functions"\nfunction = "ping"\n'

    def test_from_a_file_to_a_plugin_and_back(self, site: Site) -> None:
        """What a file does not bring any more, a plugin may bring from the same load on."""
        site.install("functions", "def ping() -> int:\n    'One.'\n    return 1\n", points="")
        site.install("acme", write_tool("ping"))
        registry = ToolRegistry()
        found = []
        for text in (self.FUNCTION, "[plugins.acme]\n", self.FUNCTION):
            load_file(registry, text)
            found.append(owners(registry))

        assert [{"ping": "a.toml"}, {"ping": "acme"}, {"ping": "a.toml"}] == found

    @pytest.mark.parametrize("load", [load_file, load_tables])
    def test_from_one_plugin_to_the_other(self, site: Site, load: Load) -> None:
        """Two plugins may swap their names, or one take over what the other does not bring any more."""
        site.install("acme", write_tool("ping"))
        site.install("beta", write_tool("ping") + write_tool("pong", head=""))
        registry = ToolRegistry()
        load(registry, '[plugins.acme]\nnamespace = "n"\n[plugins.beta]\n')
        load(registry, '[plugins.acme]\n[plugins.beta]\nnamespace = "n"\n')
        swapped = owners(registry)
        site.remove("acme")
        site.remove("beta")
        site.install("acme", write_tool("ping") + write_tool("pong", head=""), version="2.0")
        site.install("beta", write_tool("other"), version="2.0")
        load(registry, "[plugins.acme]\n[plugins.beta]\n")

        assert {"ping": "acme", "n-ping": "beta", "n-pong": "beta"} == swapped
        assert {"ping": "acme", "pong": "acme", "other": "beta"} == owners(registry)

    def test_an_agent_may_move_too(self, site: Site) -> None:
        """An agent that a file, or another plugin, does not declare any more may be that of a trusted plugin."""
        agent = "@agent('helper', tools=['ping'])\ndef helper():\n    return 1\n"
        site.install("acme", write_tool("ping") + agent)
        site.install("beta", write_tool("pong") + agent)
        trust = "[plugins.{}]\ntrust = true\n[plugins.{}]\n"
        registry = ToolRegistry()
        for text in ("[agents.helper]\n", trust.format("acme", "beta"), trust.format("beta", "acme")):
            load_file(registry, text)

        assert [None, None] == [report.error for report in plugin_reports(registry)]
        assert OK is registry.execute(ToolCall("c", "ping", {}, "helper")).outcome

    def test_one_that_fails_keeps_its_names(self, site: Site) -> None:
        """A plugin that fails as it is put in stays as it was, and no other gets the names that it would have left."""
        site.install("acme", write_tool("ping"))
        site.install("beta", write_tool("pong"))
        registry = ToolRegistry()
        registry.tool("taken", description="One.")(lambda: 1)
        loaded(registry, config={})
        site.remove("acme")
        site.remove("beta")
        site.install("acme", write_tool("taken"), version="2.0")
        site.install("beta", write_tool("ping"), version="2.0")
        reports = loaded(registry, config={})

        assert ["clash", "clash"] == [reports[name].stage for name in ("acme", "beta")]
        assert ("acme", "beta") == (owners(registry)["ping"], owners(registry)["pong"])


class TestAPluginThatFailed:
    def test_is_tried_again(self, site: Site) -> None:
        """A refresh loads what the file names and what failed before; one that is complete is not loaded again."""
        site.install("acme", "raise RuntimeError('down')\n")
        registry = ToolRegistry()
        with pytest.warns(PluginWarning, match="down"):
            load_file(registry, "[plugins.acme]\n")
        site.remove("acme")
        site.install("acme", write_tool("ping"), version="2.0")
        registry.configure_from("a.toml")

        assert {"ping": "acme"} == owners(registry)
