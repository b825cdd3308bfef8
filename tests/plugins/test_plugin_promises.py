"""What is promised of plugins together: one harms no other, nothing of a failed one stays, swaps are seen whole."""

# Tests of: probe

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from plugin_rig import HELPER, Site, loaded, names, site  # noqa: F401

from praval_tools import Agent, Tool, ToolError, ToolRegistry, load_plugins, plugin_reports
from praval_tools.plugins.discovery import find_plugins
from praval_tools.plugins.probe import probe_in_subprocess

HEAD = "from praval_tools import hookimpl, tool, Tool, Agent, agent, get_tool_registry\n"

EVERYTHING = (
    HEAD
    + '''
from concurrent.futures import ThreadPoolExecutor
import attrs
from praval_tools.formats import FORMATS
from praval_tools.journal import MemoryStore

@tool
def {name}_one() -> int:
    """One."""
    return 1

@agent("helper-of-{name}", tools=[{name}_one])
def helper():
    return 1

@hookimpl
def praval_tools_authorize():
    return "no"

@hookimpl
def praval_tools_before_call():
    raise RuntimeError("noted")

@hookimpl
def praval_tools_after_call():
    raise RuntimeError("noted")

@hookimpl
def praval_tools_approve():
    raise RuntimeError("asked")

@hookimpl
def praval_tools_engines():
    return {{"{name}.pool": ThreadPoolExecutor(1)}}

@hookimpl
def praval_tools_journals():
    return {{"{name}": lambda url: MemoryStore()}}

@hookimpl
def praval_tools_formats():
    return {{"{name}": attrs.evolve(FORMATS["openai-chat"], name="{name}")}}

@hookimpl
def praval_tools_sources():
    return {{"{name}": lambda table: []}}
'''
)


@pytest.fixture
def registry() -> ToolRegistry:
    """An empty registry."""
    return ToolRegistry()


def in_force(registry: ToolRegistry) -> dict[str, Any]:
    """Return all that plugins may leave in a registry."""
    hooks = registry._runtime.hooks
    return {
        "tools": names(registry),
        "agents": registry.agents,
        "policies": [name for name, _ in registry.state.policies],
        "noted": (hooks.before, hooks.after, hooks.approve),
        "named": [sorted(one) for one in (hooks.engines, hooks.journals, hooks.formats)],
        "plugged": [one.distribution for one in hooks.contributions],
    }


class TestFailures:
    @pytest.mark.parametrize("trust", [False, True])
    @pytest.mark.parametrize("fault", [
        "@tool\ndef users() -> int:\n    'U.'\n    return 1\n",
        "@hookimpl\ndef praval_tools_register_tools():\n    raise ValueError('late')\n",
        "@agent('ann')\ndef ann():\n    return 1\n@tool\ndef users() -> int:\n    'U.'\n    return 1\n",
    ])  # fmt: skip
    def test_nothing_of_a_failed_plugin_stays(
        self, site: Site, registry: ToolRegistry, fault: str, trust: bool
    ) -> None:
        """Tools, agents, policy, hooks, engines, journals, formats: none of them is in force, trusted or not."""
        registry.tool("users", shared=True)(_one)
        before = in_force(registry)
        site.install("bad", EVERYTHING.format(name="bad") + fault)
        site.good("good")

        reports = loaded(registry, config={"plugins": {"bad": {"trust": trust}}})

        assert (True, True) == (reports["bad"].failed, reports["good"].loaded)
        after = in_force(registry)
        assert ["users", "good_query", "good_count"] == after["tools"]
        assert {**before, "tools": after["tools"], "plugged": ["good"]} == after
        assert 1 == registry.agent("ann").call("users")

    def test_a_trusted_plugin_whose_agent_is_taken_leaves_nothing(self, site: Site, registry: ToolRegistry) -> None:
        """The last that can clash is an agent; tools and policy that came before it are taken back."""
        Agent("helper-of-bad", registry=registry)
        before = in_force(registry)
        site.install("bad", EVERYTHING.format(name="bad"))

        report = loaded(registry, config={"plugins": {"bad": {"trust": True}}})["bad"]

        assert ("clash", before) == (report.stage, in_force(registry))

    def test_wrong_settings_harm_nobody_else(self, site: Site, registry: ToolRegistry) -> None:
        """Wrong types and unknown keys keep out the plugin that they are for."""
        source = HEAD + (
            "from attrs import frozen\n@frozen\nclass S:\n    rows: int = 1\n"
            "@hookimpl\ndef praval_tools_settings():\n    return S\n"
        )
        for name in ("typed", "unknown"):
            site.install(name, source)
        site.good("zzz")
        tables = {"typed": {"settings": {"rows": "many"}}, "unknown": {"settings": {"row": 1}}}

        reports = loaded(registry, config={"plugins": tables})

        assert ["settings", "settings", "loaded"] == [one.stage for one in reports.values()]
        assert "expected a whole number" in str(reports["typed"].error)
        assert "did you mean 'rows'?" in str(reports["unknown"].error)
        assert ["zzz_query", "zzz_count"] == names(registry)


class TestChecking:
    def test_one_that_brings_much_is_no_hanging_one(self, site: Site) -> None:
        """`plugins check` takes a report of any length: thousands of tools, each with a request."""
        source = HEAD + (
            "def one() -> int:\n    'One.'\n    return 1\n"
            "@hookimpl\ndef praval_tools_register_tools():\n"
            "    return [Tool.from_function(one, f'tool_number_{at}', category='many') for at in range(3000)]\n"
        )
        site.install("acme", source)
        (found,) = find_plugins()

        report = probe_in_subprocess(found, timeout=60)

        assert ("loaded", 3000, 3000) == (report.stage, len(report.tools), len(report.wishes))

    def test_left_out_it_loses_what_its_sources_gave(self, site: Site, registry: ToolRegistry) -> None:
        """The tools of its `[[sources]]` tables go with the plugin."""
        site.install("acme", HEAD + (
            "def one() -> int:\n    'One.'\n    return 1\n"
            "@hookimpl\ndef praval_tools_sources():\n    return {'acme': lambda table: [one]}\n"
        ))  # fmt: skip
        config: dict[str, Any] = {"sources": [{"kind": "acme"}]}
        load_plugins(registry, config=config)
        assert ["one"] == names(registry)

        loaded(registry, config=config, exclude=["acme"])

        assert [] == names(registry)

    def test_no_secret_in_the_error_of_a_source(self, site: Site, registry: ToolRegistry) -> None:
        """Neither of the plugin's settings, nor of the table itself."""
        site.install("acme", HEAD + (
            "from attrs import frozen\nkept = []\n@frozen\nclass S:\n    token: str\n"
            "@hookimpl\ndef praval_tools_settings():\n    return S\n"
            "@hookimpl\ndef praval_tools_register_tools(settings):\n    kept.append(settings.token)\n"
            "def load(table):\n    raise ValueError(kept[0] + ' and ' + table['api_key'])\n"
            "@hookimpl\ndef praval_tools_sources():\n    return {'acme': load}\n"
        ))  # fmt: skip
        tables = {"acme": {"settings": {"token": "tok-12345"}}}
        load = loaded(registry, config={"plugins": tables, "sources": [{"kind": "acme", "api_key": "key-67890"}]})
        output = [*map(str, plugin_reports(registry)), *(one.traceback for one in plugin_reports(registry))]

        assert load["acme"].failed
        assert [] == [text for text in output if "tok-12345" in text or "key-67890" in text]

    def test_a_source_of_a_plugin_that_is_gone(self, site: Site, registry: ToolRegistry) -> None:
        """Uninstalled while the program runs: its tables cannot be loaded again, and say so."""
        source = HEAD + (
            "def one() -> int:\n    'One.'\n    return 1\n"
            "@hookimpl\ndef praval_tools_sources():\n    return {'acme': lambda table: [one]}\n"
        )
        site.install("acme", source)
        config: dict[str, Any] = {"sources": [{"kind": "acme"}]}
        load_plugins(registry, config=config)
        site.remove("acme")

        (report,) = loaded(registry, config=config).values()

        assert ("configuration", ["one"]) == (report.stage, names(registry))
        assert "acme, which brings it, is not installed any more" in str(report.error)


ATTACKS = {
    "share": "host.share_tool('victim_count')",
    "hand over": "host.transfer_ownership('victim_count', 'analyst')",
    "unregister": "host.unregister_tool('victim_count')",
    "grant": "host.assign_tool_to_agent('victim_count', 'analyst')",
    "grant as the owner": "host.assign_tool_to_agent('victim_count', 'analyst', by='plugin:victim')",
    "block": "host.block('victim_count', 'analyst')",
    "configure": "host.configure('victim_count', category='mine')",
    "swap": "host.replace_source('victim', [])",
    "replace": "host.register_tool(Tool.from_function(mine, 'victim_count'), replace=True)",
    "declare": "Agent('analyst', registry=host)",
    "load": "__import__('praval_tools').load_plugins(host)",
}


class TestPluginsAgainstEachOther:
    @pytest.mark.parametrize("attack", ATTACKS)
    @pytest.mark.parametrize("moment", ["import", "contributing"])
    def test_one_does_not_touch_the_tools_of_another(
        self, site: Site, registry: ToolRegistry, attack: str, moment: str
    ) -> None:
        """Whatever public verb it tries, it is refused in its own name, kept out and reported."""
        site.good("victim")
        load_plugins(registry)
        victim, before = registry.get_tool("victim_count"), in_force(registry)
        site.install("zevil", HEAD + (
            "import host_of_test\nhost = host_of_test.host\ndef mine() -> int:\n    'M.'\n    return 666\n"
            f"def attack():\n    {ATTACKS[attack]}\n"
            "@hookimpl\ndef praval_tools_register_tools():\n    attack()\n    return []\n"
        ) + ("attack()\n" if moment == "import" else ""))  # fmt: skip
        site.install("host-of-test", "host = None", points="")
        import host_of_test

        host_of_test.host = registry
        report = loaded(registry)["zevil"]

        stage = "import" if moment == "import" else "praval_tools_register_tools"
        assert (stage, before) == (report.stage, in_force(registry))
        assert "plugin:zevil" in str(report.error) and "Traceback" in report.traceback
        assert victim.fingerprint == registry.get_tool("victim_count").fingerprint
        assert victim.metadata == registry.get_tool("victim_count").metadata
        assert [] == list(registry.toolset("analyst"))


class TestUsersTools:
    def test_loading_again_does_not_take_what_the_user_put_there(self, site: Site, registry: ToolRegistry) -> None:
        """Where the user has a tool of that name by now, the plugin clashes with it."""
        site.good()
        load_plugins(registry)
        registry.unregister_tool("acme_count")
        registry.tool("acme_count")(_one)

        report = loaded(registry)["acme"]

        assert ("clash", 1) == (report.stage, registry.execute_tool("acme_count"))

    def test_leaving_it_out_does_not_take_what_the_user_put_there(self, site: Site, registry: ToolRegistry) -> None:
        """What is not the plugin's any more stays; what is gone already raises no error."""
        site.good()
        load_plugins(registry)
        for name in ("acme_count", "acme_query"):
            registry.unregister_tool(name)
        registry.tool("acme_count")(_one)

        (report,) = load_plugins(registry, exclude=["acme"])

        assert ("left out", ["acme_count"]) == (report.stage, names(registry))
        assert 1 == registry.execute_tool("acme_count")

    def test_an_upgrade_does_not_take_what_the_user_put_there(self, site: Site, registry: ToolRegistry) -> None:
        """Nor does a version that does not bring the name any more."""
        site.good()
        load_plugins(registry)
        registry.unregister_tool("acme_count")
        registry.tool("acme_count")(_one)
        site.remove("acme")
        site.install("acme", HEAD + "@tool\ndef acme_query() -> int:\n    'Q.'\n    return 1\n", version="2.0")

        load_plugins(registry)

        assert ["acme_count", "acme_query"] == sorted(names(registry))
        assert 1 == registry.execute_tool("acme_count")


AGENT = HEAD + HELPER
TRUSTED: dict[str, Any] = {"plugins": {"acme": {"trust": True}}}


class TestTrust:
    @pytest.mark.parametrize("later", [{"config": {}}, {"exclude": ["acme"]}])
    def test_what_was_trusted_is_so_no_more(self, site: Site, registry: ToolRegistry, later: dict[str, Any]) -> None:
        """Loaded again without trust, or left out, its agents are none and call nothing; trusted again, they do."""
        site.install("acme", AGENT)
        load_plugins(registry, config=TRUSTED)
        helper = sys.modules["acme"].helper
        assert "hidden" == helper()

        load_plugins(registry, **later)

        assert ([], []) == (registry.agents, list(registry.toolset("helper")))
        with pytest.raises(ToolError):
            helper()
        load_plugins(registry, config=TRUSTED)
        assert (["helper"], "hidden") == (registry.agents, helper())

    def test_an_upgrade_declares_its_agents_anew(self, site: Site, registry: ToolRegistry) -> None:
        """One that stays is the new one's, one that is gone is retired."""
        site.install("acme", AGENT + "@agent('second')\ndef second():\n    return 1\n")
        load_plugins(registry, config=TRUSTED)
        assert ["helper", "second"] == registry.agents
        site.remove("acme")
        site.install("acme", AGENT.replace('return "hidden"', 'return "new"'), version="2.0")

        (report,) = load_plugins(registry, config=TRUSTED)

        assert ("2.0", ["helper"]) == (report.version, registry.agents)
        assert "new" == sys.modules["acme"].helper()

    def test_two_registries_get_the_agents(self, site: Site, registry: ToolRegistry) -> None:
        """Whichever loads first."""
        site.install("acme", AGENT)
        other = ToolRegistry()
        for one in (registry, other):
            load_plugins(one, config=TRUSTED)

        assert ["helper"] == registry.agents == other.agents
        assert "hidden" == other.agent("helper").call("hidden")

    def test_what_the_host_gave_to_the_agent_stays(self, site: Site, registry: ToolRegistry) -> None:
        """Loading again takes neither a grant from it, nor the name from the host that has it by now."""
        site.install("acme", AGENT)
        registry.tool("spare")(_one)
        load_plugins(registry, config=TRUSTED)
        registry.assign_tool_to_agent("spare", "helper")
        load_plugins(registry, config=TRUSTED)
        assert ["hidden", "spare"] == sorted(registry.toolset("helper"))

        registry.retire_agent("helper")
        Agent("helper", tools=["spare"], registry=registry)
        load_plugins(registry, exclude=["acme"])

        assert (["helper"], ["spare"]) == (registry.agents, list(registry.toolset("helper")))


class TestThreads:
    def test_a_plugin_is_imported_in_the_thread_that_loads(self, site: Site, registry: ToolRegistry) -> None:
        """Without a time limit: what is bound to a thread at import (signals, event loops) is bound to the host's."""
        site.install("acme", "import threading\nhere = threading.get_ident()\n")
        load_plugins(registry)
        assert threading.get_ident() == sys.modules["acme"].here
        site.forget()

        load_plugins(registry, timeout=60)
        assert threading.get_ident() != sys.modules["acme"].here

    @pytest.mark.parametrize("way", ["replace_source", "load_plugins"])
    def test_no_call_after_a_new_one_is_answered_by_an_old_one(
        self, site: Site, registry: ToolRegistry, way: str
    ) -> None:
        """
        A thread that met one tool of a plugin in version n meets none of an earlier version afterwards.

        Eight threads call all tools in turn while the plugin is swapped, by the verb and by loading an upgrade.
        """
        count, turns = 6, 40
        site.install("kept", "version = 1", points="")
        site.install("acme", HEAD + f'''
import kept
def at(name, version):
    def output() -> int:
        return version
    return Tool.from_function(output, name, description="T.")
@hookimpl
def praval_tools_register_tools():
    return [at(f"t{{at_}}", kept.version) for at_ in range({count})]
''')  # fmt: skip
        load_plugins(registry)
        for at in range(count):
            registry.assign_tool_to_agent(f"t{at}", "ann")
        swap = self._by_verb(registry, count) if way == "replace_source" else self._by_loading(registry)
        wrong: list[Any] = []
        stop = threading.Event()
        often = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)  # so that a swap that has a middle is met there
        threads = [threading.Thread(target=_watch, args=(registry, count, stop, wrong)) for _ in range(8)]
        for one in threads:
            one.start()
        try:
            for version in range(2, turns):
                swap(version)
        finally:
            sys.setswitchinterval(often)
            stop.set()
        for one in threads:
            one.join()

        assert [] == wrong
        assert {turns - 1} == {registry.agent("ann").call(f"t{at}") for at in range(count)}

    @staticmethod
    def _by_verb(registry: ToolRegistry, count: int) -> Callable[[int], None]:
        def swap(version: int) -> None:
            registry.replace_source("acme", [_constant(f"t{at}", version) for at in range(count)])

        return swap

    @staticmethod
    def _by_loading(registry: ToolRegistry) -> Callable[[int], None]:
        def swap(version: int) -> None:
            sys.modules["kept"].version = version  # type: ignore[attr-defined]
            load_plugins(registry)

        return swap


def _watch(registry: ToolRegistry, count: int, stop: threading.Event, wrong: list[Any]) -> None:
    ann, newest = registry.agent("ann"), 0
    while not stop.is_set():
        for at in range(count):
            met = ann.call(f"t{at}")
            if met < newest:
                wrong.append((at, met, newest))
            newest = met


def _constant(name: str, value: int) -> Tool[..., Any]:
    def constant() -> int:
        return value

    return Tool.from_function(constant, name, description="T.")


def _one() -> int:
    """One."""
    return 1
