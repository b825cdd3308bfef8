"""Definitions that change: taken over at once, reported, and held back where they are pinned."""

# Tests of: tool_changes

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from mcp_client_rig import (
    OPERATOR,
    call,
    list_notes,
    official_command,
    read_notes,
    register_plain,
    serve_http,
    wait_until,
)

from praval_tools import Agent, Outcome, Tool, ToolCall, ToolRegistry, ToolUsageError
from praval_tools.access.problems import RegistryProblem

if TYPE_CHECKING:
    from praval_tools.tools.metadata import ToolFields

VARIABLE = "MCP_DEFINITION"
CHANGED = {"description": "Have another effect.", "inputSchema": {"type": "object", "properties": {"y": {}}}}


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToolRegistry]:
    """A registry with the agent that owns the tools, and a server whose definition is the usual one at first."""
    monkeypatch.setenv(VARIABLE, "{}")
    with ToolRegistry() as registry:
        Agent(OPERATOR, registry=registry)
        yield registry


def change_definition(monkeypatch: pytest.MonkeyPatch, **definition: object) -> None:
    """Have the server of the next connection define its tool otherwise."""
    monkeypatch.setenv(VARIABLE, json.dumps(definition))


def find_changes(registry: ToolRegistry) -> list[RegistryProblem]:
    """Return what the registry reports of changed definitions."""
    return [problem for problem in registry.problems() if problem.kind == "definition-changed"]


def kill_server(notes: Path) -> None:
    """Kill the server that was started last."""
    starts = [line for line in list_notes(notes) if line.startswith("started")]
    os.kill(int(starts[-1].removeprefix("started ")), signal.SIGKILL)


@pytest.fixture(params=["stdio", "http"])
def official(request: pytest.FixtureRequest, registry: ToolRegistry, tmp_path: Path) -> Iterator[ToolRegistry]:
    """The tools of a server whose tools can be changed by calls, as `web`."""
    if request.param == "stdio":
        registry.register_mcp(official_command(tmp_path / "notes"), namespace="web", owned_by=OPERATOR)
        yield registry
    else:
        with serve_http(tmp_path / "notes") as (url, _):
            registry.register_mcp(url, namespace="web", owned_by=OPERATOR)
            yield registry
            registry.close()


class TestListChanged:
    def test_a_change_is_taken_over(self, official: ToolRegistry) -> None:
        """A tool that comes, changes or goes on the server does so here, soon, and without asking."""
        call(official, "web-teach", name="juggle", description="Juggle.")
        wait_until(lambda: official.get_tool("web-juggle"))
        assert "juggle 3" == call(official, "web-juggle", x=3).result["result"]  # type: ignore[index]

        call(official, "web-teach", name="juggle", description="Juggle fire.")
        wait_until(lambda: "fire" in official.get_tool("web-juggle").description)  # type: ignore[union-attr]
        assert ["MCP server 'web' changed the definition of tool 'web-juggle': description 'Juggle fire.'."] == [
            problem.message for problem in find_changes(official)
        ]

        call(official, "web-forget", name="juggle")
        wait_until(lambda: official.get_tool("web-juggle") is None)
        assert [] == find_changes(official)

    def test_refresh_waits_for_it(self, official: ToolRegistry) -> None:
        """After `refresh` what the server has now is here, all of it by one change of the registry."""
        states = []
        official.subscribe(lambda _: states.append(len(official.state.tools)))
        before = len(official.state.tools)
        for name in ("one", "two"):
            call(official, "web-teach", name=name, description=name)
        official.refresh()

        assert {"web-one", "web-two"} <= {tool.name for tool in official}
        assert set(states) <= {before, before + 1, before + 2}

    def test_a_tool_that_comes_back_is_granted_to_nobody(self, official: ToolRegistry) -> None:
        """Grants end with the tool: whoever had it does not have the next one of its name."""
        call(official, "web-teach", name="juggle", description="Juggle.")
        official.refresh()
        official.assign_tool_to_agent("web-juggle", "clown")
        call(official, "web-forget", name="juggle")
        official.refresh()
        call(official, "web-teach", name="juggle", description="Juggle.")
        official.refresh()

        assert not official.explain("clown", "web-juggle").allowed


class TestNames:
    """
    Broken promise: the names of a server's tools are the operator's to choose.

    A tool that the host had put in the place of one of a server was replaced by whatever the server listed next.
    """

    @pytest.mark.parametrize("way", ["replaced", "registered"])
    @pytest.mark.parametrize("then", ["teach", "forget"])
    def test_that_the_host_uses_itself_are_not_taken_back(self, official: ToolRegistry, way: str, then: str) -> None:
        """Neither a changed definition nor one that is gone touches the host's tool and its grants."""
        call(official, "web-teach", name="juggle", description="Juggle.")
        wait_until(lambda: official.get_tool("web-juggle"))
        own = Tool.from_function(lambda: "own", "web-juggle", "Juggle with care.", owned_by="host")
        if way == "registered":
            official.unregister_tool("web-juggle")
        official.register_tool(own, replace=way == "replaced")
        official.assign_tool_to_agent("web-juggle", "clown")
        call(official, f"web-{then}", name="juggle", **({"description": "Steal."} if then == "teach" else {}))
        official.refresh()

        assert "own" == official.execute(ToolCall(None, "web-juggle", {}, "clown")).result
        assert [] == find_changes(official)

    def test_that_the_host_took_out_stay_out(self, official: ToolRegistry) -> None:
        """A tool that was unregistered does not come back because its definition changes."""
        call(official, "web-teach", name="juggle", description="Juggle.")
        wait_until(lambda: official.get_tool("web-juggle"))
        official.unregister_tool("web-juggle")
        call(official, "web-teach", name="juggle", description="Juggle fire.")
        official.refresh()

        assert official.get_tool("web-juggle") is None


class TestPins:
    def test_a_pinned_tool_is_held_back(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its calls are answered as disabled until the operator accepts the new definition; nothing is sent."""
        notes = tmp_path / "notes"
        source = register_plain(registry, "die after the answer", notes, pin=True, env=[VARIABLE])
        change_definition(monkeypatch, **CHANGED)
        call(registry, "plain-work", x=1)  # after which the server starts again
        wait_until(lambda: find_changes(registry))
        refused = call(registry, "plain-work", x=1)
        decision = registry.explain(OPERATOR, "plain-work")

        assert (Outcome.DISABLED, ["effect"]) == (refused.outcome, read_notes(notes))
        assert "definition changed" in decision.reason
        assert "Have an effect." == registry.get_tool("plain-work").description  # type: ignore[union-attr]
        (problem,) = find_changes(registry)
        assert (
            "Tool 'plain-work' is held back: its server 'plain' gives it another definition (description 'Have another "
            "effect.'; without 'x'; with 'y')."
        ) == problem.message
        assert "source.accept('plain-work')" in problem.remedy

        source.accept("plain-work")
        assert [] == find_changes(registry)
        assert "Have another effect." == registry.get_tool("plain-work").description  # type: ignore[union-attr]
        with pytest.raises(ToolUsageError, match="no tool 'nothing'"):
            source.accept("nothing")

    def test_a_definition_that_changes_back_is_released(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The pinned definition may be called again once the server gives it again."""
        register_plain(registry, "die after the answer", tmp_path / "notes", pin=True, env=[VARIABLE])
        change_definition(monkeypatch, description="Another.")
        call(registry, "plain-work", x=1)
        wait_until(lambda: find_changes(registry))
        change_definition(monkeypatch)
        kill_server(tmp_path / "notes")
        wait_until(lambda: not find_changes(registry))

        assert Outcome.OK is call(registry, "plain-work", x=1).outcome

    def test_stored_fingerprints_hold_at_the_first_listing(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """`pin=` takes what `fingerprints` gave earlier: a definition that changed in between is held back."""
        source = register_plain(registry, "normal", tmp_path / "notes")
        pins = source.fingerprints
        source.close()
        same = register_plain(registry, "normal", tmp_path / "notes", pin=pins)
        assert (pins, []) == (same.fingerprints, find_changes(registry))
        same.close()
        change_definition(monkeypatch, description="Another.")
        other = register_plain(registry, "normal", tmp_path / "notes", pin=pins, env=[VARIABLE])
        refused = call(registry, "plain-work", x=1)
        other.refresh()

        assert Outcome.DISABLED is refused.outcome is call(registry, "plain-work", x=1).outcome
        other.accept("plain-work")
        assert "done 1" == call(registry, "plain-work", x=1).result

    def test_what_the_operator_disabled_stays_so(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Accepting a definition enables nothing that was disabled for another reason."""
        source = register_plain(registry, "normal", tmp_path / "notes", pin=True, env=[VARIABLE])
        registry.disable("plain-work", reason="not before May")
        change_definition(monkeypatch, description="Another.")
        kill_server(tmp_path / "notes")
        wait_until(lambda: any("Another." in problem.message for problem in find_changes(registry)))
        source.accept("plain-work")

        assert Outcome.DISABLED is call(registry, "plain-work", x=1).outcome

    @pytest.mark.parametrize("pin", [True, False])
    def test_hints_that_warn_count(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pin: bool
    ) -> None:
        """Broken promise: with a pin the warning was passed over: no policy saw it, and no problem said it."""
        source = register_plain(registry, "normal", tmp_path / "notes", pin=pin, env=[VARIABLE])
        change_definition(monkeypatch, annotations={"destructiveHint": True})
        kill_server(tmp_path / "notes")
        wait_until(lambda: find_changes(registry))
        (problem,) = find_changes(registry)
        assert "it says destructive=True" in problem.message
        assert (Outcome.DISABLED if pin else Outcome.OK) is call(registry, "plain-work", x=1).outcome

        source.accept("plain-work")
        assert True is registry.get_tool("plain-work").metadata.destructive  # type: ignore[union-attr]
        assert [] == find_changes(registry)
        assert "done 1" == call(registry, "plain-work", x=1).result

    @pytest.mark.parametrize("fields", [{"destructive": True}, {"destructive": False}, {"destructive": None}], ids=str)
    def test_hints_about_what_the_operator_says_count_for_nothing(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: ToolFields
    ) -> None:
        """Neither is the tool held back, nor is anything reported, whichever way the operator decided."""
        notes = tmp_path / "notes"
        source = register_plain(registry, "normal", notes, pin=True, env=[VARIABLE], metadata={"work": fields})
        change_definition(monkeypatch, annotations={"destructiveHint": True})
        kill_server(notes)
        wait_until(lambda: 2 == len(list_notes(notes)))
        source.refresh()

        assert [] == find_changes(registry)
        assert fields["destructive"] is registry.get_tool("plain-work").metadata.destructive  # type: ignore[union-attr]
        assert "done 1" == call(registry, "plain-work", x=1).result

    def test_hints_do_not_move_a_pin(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a pinned tool not even the title changes, nor do hints that relax it."""
        source = register_plain(registry, "normal", tmp_path / "notes", pin=True, env=[VARIABLE])
        change_definition(monkeypatch, title="Harmless", annotations={"readOnlyHint": True})
        kill_server(tmp_path / "notes")
        wait_until(lambda: 2 == len(list_notes(tmp_path / "notes")))
        source.refresh()

        tool = registry.get_tool("plain-work")
        assert tool is not None
        assert ("", {}) == (tool.metadata.title, tool.metadata.extra["mcp"]["hints"])
        assert "done 1" == call(registry, "plain-work", x=1).result


class TestUnpinned:
    def test_a_change_replaces_and_is_reported(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a pin the new definition counts at once; it is reported until the operator accepts it."""
        source = register_plain(registry, "normal", tmp_path / "notes", env=[VARIABLE])
        change_definition(monkeypatch, **CHANGED)
        kill_server(tmp_path / "notes")
        wait_until(lambda: find_changes(registry))

        assert "Have another effect." == registry.get_tool("plain-work").description  # type: ignore[union-attr]
        source.accept("plain-work")
        assert [] == find_changes(registry)

    def test_include_and_exclude_choose(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Only what is included is registered, without what is excluded; a name that is not there is reported."""
        source = register_plain(
            registry, "names", tmp_path / "notes", include=["work", "with space", "lost"], exclude="with space"
        )

        assert ["plain-work"] == source.tools
        assert "Tool 'lost' is to be included" in str(source.list_problems())

    def test_a_name_that_is_taken_costs_that_tool(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A tool of the program is never replaced by one of a server."""

        @registry.tool("plain-work", owned_by=OPERATOR)
        def work(x: int) -> str:
            """Ours."""
            return "ours"

        source = register_plain(registry, "names", tmp_path / "notes")

        assert ("ours", False) == (call(registry, "plain-work", x=1).result, "plain-work" in source.tools)
        assert "'plain-work' is already registered" in str(source.list_problems())

    def test_a_frozen_registry_takes_no_server(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """After `freeze` a server comes too late, as every declaration."""
        registry.freeze()

        with pytest.raises(ToolUsageError, match="The registry is frozen"):
            register_plain(registry, "normal", tmp_path / "notes")
        assert [] == list_notes(tmp_path / "notes")

    def test_a_frozen_registry_holds_changes_back(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """After `freeze` no other definition is taken: a tool that changed is not called, and that is reported."""
        notes = tmp_path / "notes"
        register_plain(registry, "normal", notes, env=[VARIABLE])
        registry.freeze()
        change_definition(monkeypatch, **CHANGED)
        kill_server(notes)
        wait_until(lambda: find_changes(registry))

        assert "Have an effect." == registry.get_tool("plain-work").description  # type: ignore[union-attr]
        assert (Outcome.DISABLED, []) == (call(registry, "plain-work", x=1).outcome, read_notes(notes))

    def test_a_fork_calls_through_the_same_server(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A fork of the registry, for what-if, has the tools and needs no process of its own."""
        notes = tmp_path / "notes"
        register_plain(registry, "normal", notes)
        with registry.fork() as fork:
            assert "done 1" == call(fork, "plain-work", x=1).result

        assert "done 2" == call(registry, "plain-work", x=2).result
        assert 1 == len([line for line in list_notes(notes) if line.startswith("started")])

    def test_not_inside_a_change(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A server is connected after the block of a `change()`, which would wait for itself."""
        with registry.change(), pytest.raises(ToolUsageError, match=r"A change\(\) of"):
            register_plain(registry, "normal", tmp_path / "notes")


class TestStoredGrants:
    def test_grants_survive_a_restart(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was lent at run time counts after a restart for the tool as it was; not where its parameters changed."""
        notes, path = tmp_path / "notes", tmp_path / "runs.db"
        with ToolRegistry(journal=path) as first:
            register_plain(first, "normal", notes, env=[VARIABLE])
            first.assign_tool_to_agent("plain-work", "guest")
        with ToolRegistry(journal=path) as second:
            register_plain(second, "normal", notes, env=[VARIABLE])
            assert ["plain-work"] == list(second.toolset("guest"))
        change_definition(monkeypatch, **CHANGED)
        with ToolRegistry(journal=path) as third:
            register_plain(third, "normal", notes, env=[VARIABLE])
            assert [] == list(third.toolset("guest"))
            assert "act-waits" in {problem.kind for problem in third.problems()}

    def test_a_server_that_one_program_closes_is_that_of_others_still(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Grants go on there; here they wait for a server of that name, whose tool is what it was."""
        notes, path = tmp_path / "notes", tmp_path / "runs.db"
        with ToolRegistry(journal=path) as here, ToolRegistry(journal=path) as there:
            sources = [register_plain(one, "normal", notes, env=[VARIABLE]) for one in (here, there)]
            there.assign_tool_to_agent("plain-work", "guest")
            sources[0].close()
            assert [[], ["plain-work"]] == [list(one.toolset("guest")) for one in (here, there)]
            again = register_plain(here, "normal", notes, env=[VARIABLE])
            assert ["plain-work"] == list(here.toolset("guest"))
            again.close()
            change_definition(monkeypatch, **CHANGED)
            register_plain(here, "normal", notes, env=[VARIABLE])
            assert [[], ["plain-work"]] == [list(one.toolset("guest")) for one in (here, there)]

    def test_what_is_held_back_stays_so_when_its_server_is_closed(
        self, registry: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Registered again without a pin, it waits for the operator as before; nobody calls it by an earlier grant."""
        notes = tmp_path / "notes"
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            source = register_plain(registry, "normal", notes, pin=True, env=[VARIABLE])
            registry.assign_tool_to_agent("plain-work", "guest")
            change_definition(monkeypatch, description="Another.")
            kill_server(notes)
            wait_until(lambda: find_changes(registry))
            source.close()
            again = register_plain(registry, "normal", notes, env=[VARIABLE])
            guest = ToolCall(None, "plain-work", {"x": 1}, "guest")
            assert Outcome.DISABLED is registry.execute(guest).outcome
            again.accept("plain-work")
            assert Outcome.OK is registry.execute(guest).outcome

    def test_a_tool_that_a_server_lists_no_more_has_no_grants_anywhere(
        self, registry: ToolRegistry, tmp_path: Path
    ) -> None:
        """They end in every program over the journal; one that comes back is granted to nobody."""
        path = tmp_path / "runs.db"
        with (
            serve_http(tmp_path / "notes") as (url, _),
            ToolRegistry(journal=path) as here,
            ToolRegistry(journal=path) as there,
        ):
            sources = [one.register_mcp(url, namespace="web", owned_by=OPERATOR) for one in (here, there)]
            for verb in ("teach", "forget", "teach"):
                call(here, f"web-{verb}", name="juggle", **({"description": "Juggle."} if verb == "teach" else {}))
                for source in sources:
                    source.refresh()
                if not there.grants(agent="clown", ended=True):
                    there.assign_tool_to_agent("web-juggle", "clown")
                    assert here.explain("clown", "web-juggle").allowed
            clown = ToolCall(None, "web-juggle", {"x": 1}, "clown")
            assert [Outcome.FORBIDDEN] * 2 == [one.execute(clown).outcome for one in (here, there)]


DECLARED = {
    "name": "work", "description": "Have an effect.",
    "inputSchema": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
}  # fmt: skip


class TestDeclaredTools:
    def test_give_way_to_those_of_the_server_at_once(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """All that a listing changes is one change: nobody ever sees a part of it."""
        declared = [{**DECLARED, "name": name} for name in ("one", "two", "three")]
        source = register_plain(registry, "normal", tmp_path / "notes", tools=declared)
        seen, events = [set(source.tools)], list[object]()
        registry.subscribe(events.append)
        registry.subscribe(lambda event: seen.append({tool.name for tool in registry}))
        registry.refresh()

        assert 4 <= len(events)
        assert [{"plain-one", "plain-two", "plain-three"}, *[{"plain-work"}] * len(events)] == seen

    def test_are_there_before_their_server(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Tools that are given with the registration are listed and checked at once; a first call starts the server."""
        notes = tmp_path / "notes"
        source = register_plain(registry, "normal", notes, tools=[DECLARED])

        assert (["plain-work"], []) == (source.tools, list_notes(notes))
        assert Outcome.INVALID_ARGUMENTS is call(registry, "plain-work", x="no").outcome
        assert [] == list_notes(notes)
        assert "done 1" == call(registry, "plain-work", x=1).result
        assert [] == find_changes(registry)

    def test_nothing_is_sent_on_arguments_that_were_checked_by_another_schema(
        self, registry: ToolRegistry, tmp_path: Path
    ) -> None:
        """Where the server defines the tool otherwise, the call ends before it, and the next one is checked anew."""
        notes = tmp_path / "notes"
        stale = {**DECLARED, "inputSchema": {"type": "object", "properties": {"y": {"type": "string"}}}}
        register_plain(registry, "normal", notes, tools=[stale])
        first = call(registry, "plain-work", y="z")

        assert (Outcome.TOOL_ERROR, []) == (first.outcome, read_notes(notes))
        assert "definition changed" in (first.error or "")
        assert Outcome.INVALID_ARGUMENTS is call(registry, "plain-work", y="z").outcome
        assert "done 2" == call(registry, "plain-work", x=2).result

    def test_a_server_that_is_down_costs_its_own_calls(self, registry: ToolRegistry) -> None:
        """A call of a tool whose server cannot be started says so, and the registry goes on."""
        registry.register_mcp(["/nowhere/server"], namespace="gone", owned_by=OPERATOR, tools=[DECLARED])
        result = call(registry, "gone-work", x=1)

        assert (Outcome.TOOL_ERROR, "McpNotSentError") == (result.outcome, result.error_type)
        assert "mcp-server" in {problem.kind for problem in registry.problems()}
        with pytest.raises(ExceptionGroup, match="1 of 1 source could not be refreshed"):
            registry.refresh()
