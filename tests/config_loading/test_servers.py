"""MCP servers of configurations: declared or asked for their tools, kept over a reload, replaced and taken out."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from config_rig import load

from praval_tools import ConfigError, Outcome, ToolCall, ToolRegistry
from praval_tools.config_loading.change import ConfigurationChange
from praval_tools.config_loading.source import ConfigWarning
from praval_tools.errors import ConfigProblem
from praval_tools.journal.storage.sql_store import SqlStore
from praval_tools.registry.registry import get_runtime

pytest.importorskip("mcp", reason="needs the SDK of MCP")

# Tests of: servers

from mcp_client_rig import SUPPORT, list_notes
from write_ahead_rig import FailingStore

SERVER = f"""
mcp_servers:
  s:
    command: ["{sys.executable}", "{SUPPORT / "mcp_official_server.py"}", stdio, notes]
    owned_by: ops
"""
DECLARED = (
    SERVER
    + """
    provides_tools:
      - name: lookup
        description: Look it up.
        inputSchema: {type: object, properties: {city: {type: string}, days: {type: string}}, required: [city]}
        category: weather
        speed: fast
"""
)
GRANT = "grants: [{tool: s-say, agent: ann, where: {text: {const: hello}}}]\n"


def call(registry: ToolRegistry, tool: str, agent: str = "ops", **arguments: object) -> Outcome:
    """Return how a call ends."""
    return registry.execute(ToolCall(None, tool, arguments, agent)).outcome


class TestDeclaredTools:
    def test_are_there_before_the_server_is(self, folder: Path) -> None:
        """They have the names and the metadata that the file gives them; nothing is started before the first call."""
        registry, _ = load(folder, DECLARED)
        with registry:
            (tool,) = registry
            assert ("lookup", "weather", "fast", "external", "ops") == (
                tool.name, tool.metadata.category, tool.metadata.speed, tool.metadata.safety, tool.metadata.owned_by
            )  # fmt: skip
            assert [] == list_notes(folder / "notes")
            assert Outcome.OK is call(registry, "lookup", city="Oslo")
            assert ["lookup Oslo"] == list_notes(folder / "notes")

    def test_take_what_the_server_allows_from_the_first_call_on(self, folder: Path) -> None:
        """
        The server's own definition takes the place of the declared one, with the metadata of the file.

        A call that came with the declared one is sent where the server's allows its arguments, and only there.
        """
        registry, _ = load(folder, DECLARED)
        with registry:
            assert Outcome.TOOL_ERROR is call(registry, "lookup", city="Oslo", days="two")
            assert [] == list_notes(folder / "notes")
            assert "integer" == registry.get_tool("lookup").parameters["properties"]["days"]["type"]
            assert ["lookup"] == [tool.name for tool in registry]
            assert "fast" == registry.get_tool("lookup").metadata.speed
            assert Outcome.OK is call(registry, "lookup", city="Oslo", days=2)


class TestListedTools:
    def test_come_as_the_file_is_loaded(self, folder: Path) -> None:
        """All that the server lists, with its name before theirs, and the grants of them."""
        registry, _ = load(folder, SERVER + "    include: [say, pay]\n" + GRANT)
        with registry:
            assert {"s-say", "s-pay"} == {tool.name for tool in registry}
            assert [Outcome.OK, Outcome.FORBIDDEN] == [
                call(registry, "s-say", "ann", text=text) for text in ("hello", "bye")
            ]

    def test_a_server_that_is_down_keeps_nothing_from_loading(self, folder: Path) -> None:
        """It is warned of, and among the problems; once it is there, a refresh brings its tools and their grants."""
        text = "tools:\n  - {name: add, module: sums, function: add, shared: true}\n" + GRANT
        with pytest.warns(ConfigWarning):
            registry, source = load(folder, text + "mcp_servers:\n  s: {command: [no-such-program]}\n")
        with registry:
            assert Outcome.OK is call(registry, "add", "ann", x=1)
            assert {"mcp-server", "grant"} <= {problem.kind for problem in registry.problems()}

            (folder / "c.yml").write_text(text + SERVER)
            source.refresh()
            assert Outcome.OK is call(registry, "s-say", "ann", text="hello")
            assert [] == [one for one in registry.problems() if one.kind in ("mcp-server", "grant")]

    def test_a_grant_that_is_taken_out_between_two_starts_ends(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At no moment of the next start does it count; one that stays keeps its count, one that comes back is new."""
        make_waiting_grants, seen = ConfigurationChange.make_waiting_grants, list[bool]()

        def look_and_make(change: ConfigurationChange) -> list[ConfigProblem]:
            seen.append(change._registry.explain("ann", "s-say").allowed)
            return make_waiting_grants(change)

        monkeypatch.setattr(ConfigurationChange, "make_waiting_grants", look_and_make)
        steps = (("ann", "bob"), "ann bob"), (("bob",), "bob"), (("ann", "bob"), "ann"), (("ann", "bob"), "ann")
        for declared, allowed in (*steps, (("ann", "bob"), "")):
            grants = ", ".join(f"{{tool: s-say, agent: {agent}, max_calls: 2}}" for agent in declared)
            text = f"{SERVER}agents: {{ops: {{}}, ann: {{}}, bob: {{}}}}\njournal: {{path: runs.db}}\n"
            (folder / "c.yml").write_text(f"{text}grants: [{grants}]\n")
            with ToolRegistry.from_config("c.yml") as registry:
                assert [] == registry.problems()
                outcomes = {agent: call(registry, "s-say", agent, text="hello") for agent in ("ann", "bob")}
                assert allowed == " ".join(agent for agent, outcome in outcomes.items() if outcome is Outcome.OK)
        assert [False, False, False, True, False] == seen

    def test_an_agent_that_another_process_blocks_meanwhile(self, folder: Path) -> None:
        """The grant is not made, with a warning, and the load goes on; it was an error of the program."""
        (folder / "c.yml").write_text(SERVER + GRANT)
        store, other = FailingStore(SqlStore(folder / "runs.db")), ToolRegistry(journal=folder / "runs.db")
        store.before = lambda kind: other.block("s-say", "ann") if kind == "tool_assigned" else None
        with ToolRegistry(journal=store) as registry, other:
            with pytest.warns(ConfigWarning, match="'s-say' to 'ann' is not made: a block"):
                registry.configure_from("c.yml")
            assert [] == registry.grants()


class TestReload:
    def test_a_server_of_which_nothing_changes_is_kept(self, folder: Path) -> None:
        """Its connection goes on; one that changes is replaced, and one that is gone is closed with its tools."""
        registry, source = load(folder, DECLARED)
        with registry:
            call(registry, "lookup", city="Oslo")
            sources = get_runtime(registry).sources
            kept = sources["s"]
            (folder / "c.yml").write_text(DECLARED + "agents: {ops: {}}\n")
            source.refresh()
            assert kept is sources["s"]

            changed = DECLARED.replace("name: lookup", "name: say").replace("city", "text")
            (folder / "c.yml").write_text(changed + "agents: {ops: {}}\n")
            source.refresh()
            assert ["say"] == [tool.name for tool in registry]
            assert Outcome.OK is call(registry, "say", text="hello")

            (folder / "c.yml").write_text("agents: {}\n")
            source.refresh()
            assert ([], {"config:c.yml"}) == ([tool.name for tool in registry], set(sources))

    @pytest.mark.parametrize("journal", [False, True], ids=["alone", "journal"])
    def test_declared_grants_count_for_a_server_that_changes(self, folder: Path, journal: bool) -> None:
        """Broken promise: they ended with the tools of the server as it was before, in a journal for good."""
        agents = "agents: {ann: {}, bob: {}}\n"
        grants = "grants: [{tool: s-say, agent: ann}, {tool: s-say, agent: bob}]\n"
        options = {"journal": folder / "runs.db"} if journal else {}
        registry, source = load(folder, SERVER + agents + grants, **options)
        expected = {"ann": Outcome.OK, "bob": Outcome.FORBIDDEN}
        with registry:
            registry.revoke(next(grant for grant in registry.grants() if grant.agent == "bob"))
            changed = SERVER.replace("owned_by: ops", "owned_by: bank") + agents + grants
            (folder / "c.yml").write_text(changed)
            source.refresh()
            assert expected == {agent: call(registry, "s-say", agent, text="hello") for agent in expected}
        if journal:
            with load(folder, changed, **options)[0] as again:
                assert expected == {agent: call(again, "s-say", agent, text="hello") for agent in expected}

    def test_a_bad_file_leaves_the_server_alone(self, folder: Path) -> None:
        """Neither is the old one closed nor a new one left behind."""
        registry, source = load(folder, DECLARED)
        with registry:
            call(registry, "lookup", city="Oslo")
            before = dict(get_runtime(registry).sources)
            (folder / "c.yml").write_text(SERVER + "  t: {url: 'ws://localhost:1'}\n")
            with pytest.raises(ConfigError, match="WebSocket"):
                source.refresh()
            assert before == get_runtime(registry).sources
            assert Outcome.OK is call(registry, "lookup", city="Rome")
