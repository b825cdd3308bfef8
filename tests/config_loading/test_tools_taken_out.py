"""Tools that a configuration takes out of its registry: what grants of them end, and what waits for them."""

# Tests of: change, access_plan, access/withdrawals

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from state_rig import path, shared  # noqa: F401  # fixtures

from praval_tools import Outcome, ToolCall, ToolRegistry

TOOL = {"name": "t1", "module": "sums", "function": "add"}
OTHER = {**TOOL, "name": "t2"}
GRANT = {"tool": "t1", "agent": "ann"}
Change = Callable[[ToolRegistry], object]


def write(name: str, **sections: object) -> str:
    """Write a file, and return its name."""
    Path(name).write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in sections.items()))
    return name


def may(registry: ToolRegistry, agent: str = "ann", tool: str = "t1", **arguments: object) -> bool:
    """Tell whether a call is let in."""
    call = ToolCall(None, tool, arguments or {"x": 1}, agent)
    return registry.execute(call).outcome is Outcome.OK


@pytest.mark.parametrize("has_journal", [True, False])
class TestOneProgram:
    def start(self, has_journal: bool) -> ToolRegistry:
        """Return the registry."""
        return ToolRegistry(journal="runs.db") if has_journal else ToolRegistry()

    def test_a_tool_and_its_grant_come_back(self, folder: Path, has_journal: bool) -> None:
        """Again and again; what the operator revoked stays revoked."""
        whole = {"tools": [TOOL, OTHER], "grants": [GRANT, {"tool": "t1", "agent": "eve"}]}
        with self.start(has_journal) as registry:
            source = registry.configure_from(write("c.yml", **whole))
            for _ in range(3):
                assert may(registry)
                write("c.yml", tools=[OTHER])
                source.refresh()
                assert not may(registry)
                write("c.yml", **whole)
                source.refresh()
            assert may(registry)
            for grant in registry.grants(agent="ann"):
                registry.revoke(grant)
            source.refresh()
            assert [False, True] == [may(registry), may(registry, "eve")]

    def test_what_another_file_grants_is_there_again(self, folder: Path, has_journal: bool) -> None:
        """In a journal as soon as the tool is, with its count; else once that file is loaded again."""
        with self.start(has_journal) as registry:
            tools = registry.configure_from(write("a.yml", tools=[TOOL]))
            grants = registry.configure_from(write("b.yml", grants=[{**GRANT, "max_calls": 2}]))
            assert may(registry)
            for content in ([OTHER], [TOOL]):
                write("a.yml", tools=content)
                tools.refresh()
            assert has_journal is may(registry)
            grants.refresh()
            assert has_journal is not may(registry)

    def test_what_another_file_grants_of_a_server_that_changes(self, folder: Path, has_journal: bool) -> None:
        """In a journal it stays, with what was lent from it and what the program granted by a key."""
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        from mcp_client_rig import SUPPORT

        command = [sys.executable, f"{SUPPORT / 'mcp_official_server.py'}", "stdio", "notes"]
        servers = {"s": {"command": command, "owned_by": "ops"}}
        with self.start(has_journal) as registry:
            server = registry.configure_from(write("a.yml", mcp_servers=servers))
            grant = {"tool": "s-say", "agent": "ann", "delegable": True}
            grants = registry.configure_from(write("b.yml", grants=[grant]))
            registry.grant("s-say", "eve", key="op")
            registry.grant("s-say", "bob", by="ann", key="lent")
            write("a.yml", mcp_servers={"s": {**servers["s"], "owned_by": "bank"}})
            server.refresh()
            allowed = [may(registry, agent, "s-say", text="hello") for agent in ("ann", "eve", "bob")]
            assert [has_journal] * 3 == allowed
            grants.refresh()
            assert may(registry, "ann", "s-say", text="hello")

    def test_what_a_file_grants_of_a_server_that_the_program_closes(self, folder: Path, has_journal: bool) -> None:
        """In a journal it waits for the server; else it ends, and is made again once the file is loaded again."""
        pytest.importorskip("mcp", reason="needs the SDK of MCP")
        from mcp_client_rig import SUPPORT

        command = [sys.executable, f"{SUPPORT / 'mcp_official_server.py'}", "stdio", "notes"]
        with self.start(has_journal) as registry:
            server = registry.register_mcp(command, namespace="s", owned_by="ops")
            grants = registry.configure_from(write("b.yml", grants=[{"tool": "s-say", "agent": "ann"}]))
            server.close()
            registry.register_mcp(command, namespace="s", owned_by="ops")
            assert has_journal is may(registry, "ann", "s-say", text="hello")
            grants.refresh()
            assert may(registry, "ann", "s-say", text="hello")


CHANGES: dict[str, dict[str, object]] = {
    "function": {"function": "later"},
    "risk": {"risk_level": "critical"},
    "destructive": {"destructive": True},
    "parameters": {"parameters_schema": {"type": "object", "properties": {"y": {"type": "number"}}}},
}


class TestChangedTools:
    """A reload that makes another tool of one gives it what a start would."""

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_what_was_given_at_run_time_waits(self, folder: Path, change: dict[str, object]) -> None:
        """What was lent and shared, too; what the file grants is made, and what waits counts once the tool is back."""
        grants = [{**GRANT, "delegable": True}]
        arguments = {"y": 1} if "parameters_schema" in change else {"x": 1}
        with ToolRegistry(journal="runs.db") as registry:
            source = registry.configure_from(write("a.yml", tools=[TOOL], grants=grants))
            registry.grant("t1", "bob", key="k", max_calls=5)
            registry.grant("t1", "cat", by="ann", key="lent")
            assert [True] * 3 == [may(registry, agent) for agent in ("ann", "bob", "cat")]
            registry.share_tool("t1")
            write("a.yml", tools=[{**TOOL, **change}], grants=grants)
            source.refresh()
            with ToolRegistry(journal="runs.db") as started:
                started.configure_from("a.yml")
                for program in (registry, started):
                    allowed = [
                        program.explain(agent, "t1", arguments).allowed for agent in ("ann", "bob", "cat", "eve")
                    ]
                    assert [True, False, False, False] == allowed
                    assert 4 == sum("waits" in problem.message for problem in program.problems())
            write("a.yml", tools=[TOOL], grants=grants)
            source.refresh()
            assert [True] * 4 == [may(registry, agent) for agent in ("ann", "bob", "cat", "eve")]
            assert 4 == registry.uses_left(next(grant for grant in registry.grants() if grant.agent == "bob"))

    @pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
    def test_without_a_journal_it_ends(self, folder: Path, change: dict[str, object]) -> None:
        """What the file grants is made again, what was done to take away stays, and what another file grants."""
        tool = {**TOOL, "shared": True, "owned_by": "ops"}
        with ToolRegistry() as registry:
            source = registry.configure_from(write("a.yml", tools=[tool], grants=[GRANT]))
            other = registry.configure_from(write("b.yml", grants=[{**GRANT, "agent": "eve"}]))
            registry.grant("t1", "bob")
            registry.unshare_tool("t1")
            assert [True, True, True, False] == [may(registry, agent) for agent in ("ann", "bob", "eve", "cat")]
            write("a.yml", tools=[{**tool, **change}], grants=[GRANT])
            source.refresh()
            other.refresh()
            agents = {agent: registry.explain(agent, "t1").allowed for agent in ("ann", "bob", "eve", "cat")}
            assert {"ann": True, "bob": False, "eve": True, "cat": False} == agents

    @pytest.mark.parametrize("has_journal", [True, False])
    @pytest.mark.parametrize(
        "change", [{"description": "Add."}, {"requires_approval": True}, {"tags": ["n"]}, {"category": "n"}]
    )
    def test_what_a_start_would_give_it_stays(self, folder: Path, change: dict[str, object], has_journal: bool) -> None:
        """Grants, with their counts, sharing and a new owner."""
        with ToolRegistry(journal="runs.db" if has_journal else None) as registry:
            source = registry.configure_from(write("a.yml", tools=[{**TOOL, "owned_by": "ops"}]))
            grant = registry.grant("t1", "bob", max_calls=5)
            registry.share_tool("t1")
            registry.transfer_ownership("t1", "bank")
            assert may(registry, "bob")
            write("a.yml", tools=[{**TOOL, "owned_by": "ops", **change}])
            source.refresh()
            assert [grant.id] == [present.id for present in registry.grants()]
            metadata = registry.state.tools["t1"].tool.metadata
            assert ("bank", True) == (metadata.owned_by, metadata.shared)


@pytest.mark.parametrize("has_journal", [True, False])
class TestChangesAtRunTime:
    """What was done to a tool at run time outlives every reload, also one that says the same of it, or nothing."""

    def see(self, registry: ToolRegistry) -> tuple[str | None, bool, list[bool]]:
        """Return the owner of the tool, whether it is shared, and whether agents may call it."""
        metadata = registry.state.tools["t1"].tool.metadata
        return metadata.owned_by, metadata.shared, [may(registry, agent) for agent in ("ops", "bank", "eve")]

    def reload(self, file: str, has_journal: bool, change: Change, *later: object) -> list[object]:
        """Return what is seen after *change* and each load that follows; with a journal a start sees the same."""
        seen = list[object]()
        with ToolRegistry(journal="runs.db" if has_journal else None) as registry:
            source = registry.configure_from(file)
            change(registry)
            for tools in later:
                write(file, tools=tools)
                source.refresh()
                seen += [self.see(registry)] if "t1" in registry else []
        if has_journal:
            with ToolRegistry(journal="runs.db") as started:
                started.configure_from(file)
                assert seen[-1] == self.see(started)
        return seen

    @pytest.mark.parametrize("between", [[TOOL], [{**TOOL, "tags": ["n"]}], [OTHER]], ids=["less", "other", "gone"])
    def test_what_is_not_shared_any_more_stays_so(self, folder: Path, has_journal: bool, between: object) -> None:
        """A file that shared it, does not, and shares it again does not undo what was done."""
        shared = [{**TOOL, "shared": True}]
        file = write("a.yml", tools=shared)
        seen = self.reload(file, has_journal, lambda registry: registry.unshare_tool("t1"), between, shared, shared)
        assert {str((None, False, [False] * 3))} == set(map(str, seen))

    @pytest.mark.parametrize("between", ["bank", "eve", None])
    def test_a_transferred_tool_keeps_its_owner(self, folder: Path, has_journal: bool, between: str | None) -> None:
        """A file that names the new owner, or another one, or does not declare the tool and then the old owner."""
        owned = [{**TOOL, "owned_by": "ops"}]
        other = [OTHER] if between is None else [{**TOOL, "owned_by": between}]
        file = write("a.yml", tools=owned)
        seen = self.reload(file, has_journal, lambda registry: registry.transfer_ownership("t1", "bank"), other, owned)
        assert {str(("bank", False, [False, True, False]))} == set(map(str, seen))

    def test_what_was_shared_stays_shared(self, folder: Path, has_journal: bool) -> None:
        """Also where a file shared it in between."""
        file = write("a.yml", tools=[TOOL])
        shared = [{**TOOL, "shared": True}]
        seen = self.reload(file, has_journal, lambda registry: registry.share_tool("t1"), shared, [TOOL])
        assert [(None, True, [True] * 3)] * 2 == seen

    def test_what_was_shared_does_not_outlive_another_version(self, folder: Path, has_journal: bool) -> None:
        """Whatever the file says in between."""
        file = write("a.yml", tools=[TOOL])
        other = {**TOOL, "risk_level": "critical"}
        later = [{**other, "shared": True}], [other]
        seen = self.reload(file, has_journal, lambda registry: registry.share_tool("t1"), *later)
        assert [(None, True, [True] * 3), (None, False, [False] * 3)] == seen

    def test_a_tool_from_elsewhere_has_its_own_owner(self, folder: Path, has_journal: bool) -> None:
        """What was not shared any more is not shared there, either."""
        owned = {**TOOL, "owned_by": "ops", "shared": True}

        def change(registry: ToolRegistry) -> None:
            registry.transfer_ownership("t1", "bank")
            registry.unshare_tool("t1")

        file = write("a.yml", tools=[owned])
        seen = self.reload(file, has_journal, change, [OTHER], [{**owned, "function": "later"}])
        assert [("ops", False, [True, False, False])] == seen

    def test_an_unregistered_tool_is_as_it_is_declared(self, folder: Path, has_journal: bool) -> None:
        """Whoever unregisters a tool ends what was done to it."""
        owned = {**TOOL, "owned_by": "ops", "shared": True}

        def change(registry: ToolRegistry) -> None:
            registry.unshare_tool("t1")
            registry.unregister_tool("t1")

        file = write("a.yml", tools=[owned])
        assert [("ops", True, [True] * 3)] == self.reload(file, has_journal, change, [OTHER], [owned])


class TestWaitingGrants:
    """What waits in the journal waits for a tool of the same source."""

    def test_they_are_no_grants_of_a_tool_from_elsewhere(self, folder: Path) -> None:
        """Not even of one with the same name and parameters; they end by hand, and with their file, meanwhile."""

        def look(x: float, y: float = 0) -> float:
            """Look."""
            return x

        with ToolRegistry(journal="runs.db") as registry:
            tools = registry.configure_from(write("a.yml", tools=[TOOL]))
            grants = registry.configure_from(write("b.yml", grants=[GRANT]))
            revoked = registry.grant("t1", "eve")
            registry.grant("t1", "bob")
            write("a.yml", tools=[OTHER])
            tools.refresh()
            registry.tool("t1")(look)
            assert [False] * 3 == [may(registry, agent) for agent in ("ann", "eve", "bob")]
            registry.revoke(revoked)
            write("b.yml", grants=[])
            grants.refresh()
            registry.unregister_tool("t1")
            write("a.yml", tools=[TOOL])
            tools.refresh()
            assert [False, False, True] == [may(registry, agent) for agent in ("ann", "eve", "bob")]

    def test_chains_come_back_as_they_were(self, folder: Path) -> None:
        """What was lent ends with what it came from, and the count of all is one."""
        with ToolRegistry(journal="runs.db") as registry:
            tools = registry.configure_from(write("a.yml", tools=[TOOL]))
            grant = registry.grant("t1", "ann", max_calls=6, delegable=True)
            registry.grant("t1", "bob", by="ann", max_calls=3, key="lent")
            for content in ([OTHER], [TOOL], [OTHER], [TOOL]):
                assert "t1" not in registry or may(registry, "bob")
                write("a.yml", tools=content)
                tools.refresh()
            assert 4 == registry.uses_left(grant)
            registry.grant("t1", "bob", by="ann", max_calls=1, key="lent")
            for content in ([OTHER], [TOOL]):
                write("a.yml", tools=content)
                tools.refresh()
            registry.revoke(grant)
            assert [False, False] == [may(registry, "ann"), may(registry, "bob")]
            for content in ([OTHER], [TOOL]):
                write("a.yml", tools=content)
                tools.refresh()
            assert [False, False] == [may(registry, "ann"), may(registry, "bob")]
            assert [] == registry.grants()

    def test_what_another_program_ends_meanwhile_has_ended(self, shared: Path | str, folder: Path) -> None:
        """A tool that two programs have: one takes it out, the other goes on, and revokes."""
        with ToolRegistry(journal=shared) as one, ToolRegistry(journal=shared) as two:
            source = one.configure_from(write("a.yml", tools=[TOOL]))
            two.configure_from(write("b.yml", tools=[TOOL], grants=[GRANT]))
            revoked = one.grant("t1", "eve")
            one.grant("t1", "bob")
            assert [True, True, True] == [may(one, agent) for agent in ("ann", "eve", "bob")]
            write("a.yml", tools=[OTHER])
            source.refresh()
            assert [True, True, True] == [may(two, agent) for agent in ("ann", "eve", "bob")]
            two.revoke(revoked)
            write("a.yml", tools=[TOOL])
            source.refresh()
            for registry in (one, two):
                assert [True, False, True] == [may(registry, agent) for agent in ("ann", "eve", "bob")]
