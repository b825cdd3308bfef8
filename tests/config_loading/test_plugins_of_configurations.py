"""Configurations that name plugins, loaded again: what they do not say any more ends, and a mistake changes nothing."""

from __future__ import annotations

import resource
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from plugin_rig import HEAD, Site, site, write_tool  # noqa: F401  # fixtures
from state_rig import outcome

from praval_tools import ConfigError, JournalError, PluginWarning, ToolRegistry, load_plugins, plugin_reports

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

    @pytest.mark.parametrize("between", ['owned_by = "eve"', "allow = []", None])
    def test_leaves_it_where_the_file_said_something_else_meanwhile(
        self, site: Site, file: Path, between: str | None
    ) -> None:
        """Also where it said what was done, or left the tool or the plugin out, and is again as it was."""
        site.install("acme", PING)
        text = '[plugins.acme]\nowned_by = "ann"\nshared = ["ping"]\n'
        file.write_text(text)
        registry = ToolRegistry.from_config(file)
        registry.transfer_ownership("ping", "eve")
        registry.unshare_tool("ping")
        for content in ("[agents.x]\n" if between is None else f"[plugins.acme]\n{between}\n", text):
            file.write_text(content)
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


GUARD = """
@hookimpl
def praval_tools_authorize(agent: str, tool: object, arguments: dict) -> str | None:
    return "salaries!" if "salaries" in str(arguments) else None
"""
WRONG = '[[grants]]\ntool = "nosuch"\nagent = "bob"\n'
LOADER = (
    HEAD
    + """
def load(table):
    def query(text: str) -> str:
        "Query."
        return table["path"] + text
    return [tool(table["path"], register=False)(query)]
@hookimpl
def praval_tools_sources():
    return {"db": load}
"""
)


def write_source(path: str) -> str:
    """Return a table of `[[sources]]` that brings a tool."""
    return f'[[sources]]\nkind = "db"\npath = "{path}"\n'


def add_pay(registry: ToolRegistry) -> ToolRegistry:
    """Give a registry a tool of its own, which a policy of plugins is asked about."""

    @registry.tool("pay", owned_by="bob")
    def pay(text: str = "") -> str:
        """Pay."""
        return text

    return registry


def load(registry: ToolRegistry, file: Path, text: str) -> None:
    """Load a file into a registry with another text."""
    file.write_text(text)
    registry.configure_from(file)


class TestAFileWithAMistake:
    @pytest.mark.parametrize("journal", [None, "j.db"])
    @pytest.mark.parametrize("text", ["[agents.x]\n", TRUSTED + 'namespace = "x"\n', TRUSTED + 'allow = ["pong"]\n'])
    def test_changes_nothing_of_plugins(self, site: Site, file: Path, journal: str | None, text: str) -> None:
        """What was done of their tools and agents at run time stays so, and their policies count all the while."""
        site.install("acme", AGENT + GUARD)
        with add_pay(ToolRegistry(journal=journal)) as registry:
            load(registry, file, TRUSTED + 'shared = ["ping"]\n')
            registry.grant("ping", "ann")
            registry.unshare_tool("ping")
            registry.transfer_ownership("ping", "eve")
            registry.retire_agent("helper")
            calls = [("ping", name) for name in ("ann", "eve", "bob", "helper")]

            def see() -> tuple[list[bool], str]:
                return [may(registry, *one) for one in calls], outcome(registry, "pay", "bob", text="salaries")

            before = see()
            assert ([True, True, False, False], "forbidden") == before
            seen: list[str] = []
            registry.subscribe(lambda event: seen.append(type(event).__name__))
            with pytest.raises(ConfigError, match="nosuch"):
                load(registry, file, text + WRONG)
            assert (before, []) == (see(), seen)

    def test_leaves_no_new_plugin(self, site: Site, file: Path) -> None:
        """A plugin that only the wrong file names brings no tool, no policy and no report."""
        site.install("acme", PING)
        site.install("guard", HEAD + GUARD)
        registry = add_pay(ToolRegistry())
        load(registry, file, "[plugins.acme]\n")
        with pytest.raises(ConfigError):
            load(registry, file, "[plugins.acme]\n[plugins.guard]\n" + WRONG)

        assert "ok" == outcome(registry, "pay", "bob", text="salaries")
        assert ["acme"] == [report.distribution for report in plugin_reports(registry)]


def test_no_call_runs_between_two_policies(site: Site, file: Path) -> None:
    """A plugin takes the place of another in one moment: what both forbid is forbidden all the while."""
    site.install("guard-a", HEAD + GUARD)
    site.install("guard-b", HEAD + "import time\ntime.sleep(0.2)\n" + GUARD)
    registry = add_pay(ToolRegistry())
    load(registry, file, "[plugins.guard-a]\n")
    seen, is_over = set[str](), threading.Event()

    def call() -> None:
        while not is_over.is_set():
            seen.add(outcome(registry, "pay", "bob", text="salaries"))

    thread = threading.Thread(target=call)
    thread.start()
    load(registry, file, "[plugins.guard-b]\n")
    is_over.set()
    thread.join()

    assert {"forbidden"} == seen
    assert ["guard-b"] == [report.distribution for report in plugin_reports(registry) if report.loaded]


@pytest.mark.parametrize("journal", [None, "j.db"])
def test_an_upgrade_inherits_no_grants_of_another_safety(site: Site, journal: str | None) -> None:
    """Loaded again in a running program, as after a start."""
    site.install("acme", PING)
    with ToolRegistry(journal=journal) as registry:
        load_plugins(registry, config={})
        registry.grant("ping", "bob")
        load_plugins(registry, config={})
        assert may(registry)
        site.remove("acme")
        site.install("acme", PING.replace("@tool", "@tool(destructive=True, risk_level='high')"), version="2.0")
        load_plugins(registry, config={})

        assert not may(registry)
        assert ([] if journal is None else ["act-waits"]) == [
            problem.kind for problem in registry.problems() if problem.kind == "act-waits"
        ]


@pytest.mark.parametrize("journal", [None, "j.db"])
def test_a_file_grants_again_what_a_plugin_brings_again(site: Site, file: Path, journal: str | None) -> None:
    """Its grant ended with the table of the plugin, and is made anew with it."""
    site.install("acme", PING)
    grant = '[[grants]]\ntool = "ping"\nagent = "bob"\n'
    with ToolRegistry(journal=journal) as registry:
        for text, expected in (("[plugins.acme]\n" + grant, True), ("[agents.x]\n", False)) * 2:
            load(registry, file, text)
            assert expected is may(registry)


class TestTwoFiles:
    @pytest.mark.parametrize("journal", [None, "j.db"])
    def test_name_a_plugin_together(self, site: Site, file: Path, journal: str | None) -> None:
        """Where one does not name it any more, it stays for the other; then it goes."""
        site.install("acme", PING + GUARD)
        other, text = Path("b.toml"), '[plugins.acme]\nowned_by = "bob"\n'
        with add_pay(ToolRegistry(journal=journal)) as registry:
            for one in (file, other):
                load(registry, one, text)
            for one, expected in ((other, ("ok", "forbidden")), (file, ("unknown_tool", "ok"))):
                load(registry, one, "[agents.x]\n" if one is other else "[agents.y]\n")
                found = outcome(registry, "ping", "bob"), outcome(registry, "pay", "bob", text="salaries")
                assert expected == found

    def test_bring_sources_together(self, site: Site, file: Path) -> None:
        """A table of one is none the less for the tables, or the plugins, of another."""
        site.install("acme", LOADER)
        site.install("other", PING)
        registry, other = ToolRegistry(), Path("b.toml")
        load(registry, file, "[plugins.acme]\n" + write_source("alpha"))
        registry.grant("alpha", "bob")
        for text, expected in (
            ("[plugins.other]\n", {"alpha", "ping"}),
            (write_source("beta"), {"alpha", "beta"}),
            ("[agents.x]\n", {"alpha"}),
        ):
            load(registry, other, text)
            assert (expected, True) == ({tool.name for tool in registry}, may(registry, "alpha", text="x"))

    def test_say_the_same_of_a_plugin(self, site: Site, file: Path) -> None:
        """Two tables that differ are a mistake of the file that comes later, which names the other."""
        site.install("acme", PING)
        registry = ToolRegistry()
        load(registry, file, "[plugins.acme]\n")

        with pytest.raises(ConfigError, match=r"b\.toml, line 1: plugins\.Acme: .*a\.toml says something else of it"):
            load(registry, Path("b.toml"), '[plugins.Acme]\nowned_by = "bob"\n')
        assert not may(registry)

    def test_may_be_loaded_at_once(self, site: Site, file: Path) -> None:
        """None of them loses what it names, and nothing stays that none names."""
        registry, other = ToolRegistry(), Path("b.toml")
        for name in ("one", "two"):
            site.install(name, "import time\ntime.sleep(0.1)\n" + write_tool(f"tool_{name}"))
        for text, expected in (("[plugins.{}]\n", {"tool_one", "tool_two"}), ("[agents.{}]\n", set())):
            file.write_text(text.format("one"))
            other.write_text(text.format("two"))
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(registry.configure_from, (file, other)))
            assert expected == {tool.name for tool in registry}


class TestTablesOfSources:
    @pytest.mark.parametrize("journal", [None, "j.db"])
    def test_are_known_by_what_they_say(self, site: Site, file: Path, journal: str | None) -> None:
        """The first of two is taken out: its tool goes, and that of the second stays, with who may call it."""
        site.install("acme", LOADER)
        with ToolRegistry(journal=journal) as registry:
            load(registry, file, "[plugins.acme]\n" + write_source("alpha") + write_source("beta"))
            registry.grant("beta", "bob")
            for more in ("", write_source("gamma")):
                load(registry, file, "[plugins.acme]\n" + more + write_source("beta"))
                assert "alpha" not in registry
                assert may(registry, "beta", text="x")
            assert "gamma" in registry

    def test_that_failed_are_forgotten_with_them(self, site: Site, file: Path) -> None:
        """Nothing tells of a table that was taken out."""
        site.install("acme", LOADER)
        registry = ToolRegistry()
        with pytest.warns(PluginWarning, match="kind 'dbx'"):
            load(registry, file, "[plugins.acme]\n" + write_source("alpha").replace("db", "dbx"))
        load(registry, file, "[plugins.acme]\n")

        assert [] == registry.problems()


@pytest.mark.parametrize("journal", [None, "j.db"])
def test_a_plugin_that_is_uninstalled_goes_with_its_table(site: Site, file: Path, journal: str | None) -> None:
    """Its tools and its policy go as the file names it no more, and no report asks to install it."""
    site.install("acme", PING + GUARD)
    with add_pay(ToolRegistry(journal=journal)) as registry:
        load(registry, file, '[plugins.acme]\nowned_by = "bob"\n')
        site.remove("acme")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load(registry, file, "[agents.bob]\n")

        assert ["unknown_tool", "ok"] == [
            outcome(registry, "ping", "bob"),
            outcome(registry, "pay", "bob", text="salaries"),
        ]
        assert [] == [problem for problem in registry.problems() if problem.kind == "plugin"]


class TestALoadThatFails:
    def test_at_the_journal_changes_nothing(self, site: Site, file: Path) -> None:
        """The disk is full as the load is recorded: what was in force stays so, and problems say it."""
        site.install("guard-a", PING + GUARD)
        site.install("guard-b", write_tool("pong") + GUARD)
        with add_pay(ToolRegistry(journal="j.db")) as registry:
            load(registry, file, "[plugins.guard-a]\n")
            with limit_file_sizes(), pytest.raises(JournalError):
                load(registry, file, "[plugins.guard-b]\n")

            assert ["pay", "ping"] == sorted(tool.name for tool in registry)
            assert "forbidden" == outcome(registry, "pay", "bob", text="salaries")
            assert "configuration" in {problem.kind for problem in registry.problems()}

    def test_with_a_warning_is_in_force(self, site: Site, file: Path) -> None:
        """Where warnings are errors, a plugin that fails is one; all else counts, and no problem says otherwise."""
        site.install("bad", "raise RuntimeError('no')\n")
        site.install("acme", PING)
        registry = ToolRegistry()
        load(registry, file, "[agents.x]\n")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(PluginWarning):
                load(registry, file, '[plugins.bad]\n[plugins.acme]\nowned_by = "bob"\n')

        assert may(registry)
        assert "configuration" not in {problem.kind for problem in registry.problems()}


@contextmanager
def limit_file_sizes(size: int = 4096) -> Iterator[None]:
    """Let no file of this process grow beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
