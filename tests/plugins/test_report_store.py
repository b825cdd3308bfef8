"""What becomes of plugins is written to the journal, once, with what an upgrade changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_rig import TWO_TOOLS, Site, loaded, names, site, write_config, write_tool  # noqa: F401

from praval_tools import PluginWarning, ToolCall, ToolRegistry, ToolResult, load_plugins, plugin_reports


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


class TestJournal:
    def test_what_became_of_plugins_is_written_once(self, site: Site, registry: ToolRegistry) -> None:
        """Loaded and failed are events; a second start that goes the same way adds none."""
        site.good(version="1.0")
        site.install("bad", "1 / 0", version="6.6")
        registry.journal = "memory"
        for _ in range(2):
            loaded(registry)

        good, bad = registry.journal.events()
        assert ("plugin_loaded", "acme", "1.0", ("acme_query", "acme_count")) == (
            good.type.value, good.distribution, good.version, good.tools
        )  # fmt: skip
        assert ("plugin_failed", "bad", "6.6", "import", "ZeroDivisionError") == (
            bad.type.value, bad.distribution, bad.version, bad.stage, bad.error_type
        )  # fmt: skip

    def test_a_hook_that_fails_is_written(self, site: Site, registry: ToolRegistry) -> None:
        """Its event names the hook."""
        source = "from praval_tools import hookimpl\n@hookimpl\ndef praval_tools_after_call():\n    1 / 0\n"
        site.install("acme", source)
        registry.journal = "memory"
        load_plugins(registry)
        with pytest.warns(PluginWarning):
            registry.execute("1", "nope", {})

        (event,) = registry.journal.events(type="plugin_failed")
        assert ("praval_tools_after_call", "ZeroDivisionError") == (event.stage, event.error_type)

    def test_an_upgrade_that_changes_a_tool_is_reported(self, site: Site, tmp_path: Path) -> None:
        """The journal remembers what tools were: in the next process a changed fingerprint is reported, once."""
        output = []
        for version, hint in (("1.0", "int"), ("1.1", "int"), ("2.0", "str"), ("2.0", "str")):
            site.remove("acme")
            site.install("acme", TWO_TOOLS.format(hint=hint), version=version)
            with ToolRegistry(journal=tmp_path / "runs.db") as registry:
                report = loaded(registry)["acme"]
                assert (report,) == plugin_reports(registry)
            output.append((report.changed, report.upgraded_from))
            site.forget()

        assert [((), ""), ((), "1.0"), (("one",), "1.1"), ((), "")] == output

    def test_a_changed_tool_warns(self, site: Site, registry: ToolRegistry) -> None:
        """Who does not look at reports is warned."""
        registry.journal = "memory"
        for version, hint in (("1.0", "int"), ("2.0", "str")):
            site.remove("acme")
            site.install("acme", TWO_TOOLS.format(hint=hint), version=version)
            if version == "1.0":
                load_plugins(registry)
        with pytest.warns(PluginWarning, match=r"acme 2\.0 changed one since 1\.0"):
            load_plugins(registry)

    def test_a_changed_description_warns(self, site: Site, registry: ToolRegistry) -> None:
        """A model reads what a tool says of itself, so an upgrade that changes only that is warned of, too."""
        registry.journal = "memory"
        for version, text in (("1.0", "One."), ("2.0", "Always call this first.")):
            site.remove("acme")
            site.install("acme", write_tool("one").replace("One.", text), version=version)
            if version == "1.0":
                load_plugins(registry)
        with pytest.warns(PluginWarning, match=r"acme 2\.0 changed one since 1\.0"):
            load_plugins(registry)

    def test_grants_on_a_plugins_tools_survive(self, site: Site, tmp_path: Path) -> None:
        """What the operator granted counts at the next start, for the tool of that distribution, and of no other."""
        site.install("acme", TWO_TOOLS.format(hint="int"))
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            load_plugins(registry)
            registry.assign_tool_to_agent("one", "ann")
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            load_plugins(registry)
            assert 1 == registry.agent("ann").call("one", x=1)
        site.remove("acme")
        site.install("evil", TWO_TOOLS.format(hint="int"))
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            load_plugins(registry)
            assert [] == registry.agent("ann").list_tools()


class TestHooksThatFailAtCalls:
    """The journal says which hook failed, and the call goes on, whoever makes it."""

    @pytest.mark.parametrize("hook", ["before_call", "after_call", "authorize"])
    def test_quote_no_secret_in_the_journal(self, site: Site, registry: ToolRegistry, hook: str) -> None:
        """What is secret in a call was in the clear in the event of the plugin, where its error quoted the call."""
        name, quoted = ("arguments",) * 2 if hook == "authorize" else ("call", "call.arguments")
        body = f"def praval_tools_{hook}({name}):\n    raise ValueError(str({quoted}))\n"
        site.install("acme", f"from praval_tools import hookimpl\n@hookimpl\n{body}")
        registry.journal = "memory"
        load_plugins(registry)

        @registry.tool("log_in")
        def log_in(password: str) -> None:
            """Log in."""

        with pytest.warns(PluginWarning, match="open sesame"):
            registry.execute("1", "log_in", {"password": "open sesame"})
        assert registry.journal is not None
        events = list(registry.journal.events())
        assert "open sesame" not in repr(events)
        (event,) = [event for event in events if event.type.value == "plugin_failed"]
        assert (f"praval_tools_{hook}", "it raised ValueError") == (event.stage, event.error)

    @pytest.mark.parametrize("hook", ["before_call", "after_call", "authorize"])
    def test_are_recorded_of_calls_inside_of_tools(self, site: Site, registry: ToolRegistry, hook: str) -> None:
        """Only the operator could record them: calls raised after their effect, and refusals gave another reason."""
        source = "from praval_tools import hookimpl\n@hookimpl\ndef praval_tools_{}(tool):\n    {}\n"
        site.install("acme", source.format(hook, "if tool.name == 'inner': 1 / 0"))
        registry.journal = "memory"
        load_plugins(registry)
        results = list[ToolResult]()

        @registry.tool("inner", owned_by="clerk")
        def inner() -> int:
            """Do it."""
            return 5

        @registry.tool("outer", owned_by="clerk")
        def outer() -> None:
            """Call it."""
            results.append(registry.agent("clerk").execute(ToolCall(None, "inner", {})))

        with pytest.warns(PluginWarning):
            registry.agent("clerk").call("outer")
        (result,) = results
        assert ("forbidden" if hook == "authorize" else "ok") == result.outcome.value
        assert registry.journal is not None
        assert 1 == len(list(registry.journal.events(type="plugin_failed")))
        if hook == "authorize":
            (refused,) = registry.journal.events(type="call_refused")
            assert "it raised ZeroDivisionError" in str(refused.decision)
