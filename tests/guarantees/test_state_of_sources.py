"""A stored change counts for the tool from the same source, and what waits for its tool is reported."""

# Tests of: access/restore

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from state_rig import START, Hand, call, grew, make_foreign_tool, outcome, path, store  # noqa: F401  # fixtures
from survivors import Started, declare, spend

from praval_tools import (
    AccessWarning,
    Agent,
    DuplicateToolError,
    Tool,
    ToolCall,
    ToolRegistry,
    UnknownToolWarning,
)
from praval_tools.errors import UnknownGrantError
from praval_tools.tools.source import Source

KINDS = {"act-beats-declaration", "act-waits"}
PROGRAM = """
import sys
from praval_tools import Agent, ToolRegistry
registry = ToolRegistry(journal="runs.db")
clerk = Agent("clerk", registry=registry)
@registry.tool("look")
def look() -> str:
    \"\"\"Look.\"\"\"
    return "seen"
if sys.argv[1:] == ["assign"]:
    registry.assign_tool_to_agent("look", "clerk")
print(registry.toolset("clerk").call("look"), *registry.problems())
"""


def make_rerun_tool() -> Any:
    """Return the function of `make_foreign_tool` as another run of its module makes it."""
    first = make_foreign_tool()
    again = FunctionType(first.__code__, {"__spec__": object()}, first.__name__, first.__defaults__)
    again.__module__, again.__qualname__ = first.__module__, first.__qualname__
    again.__annotations__, again.__doc__ = {"amount": int, "return": int}, first.__doc__
    return again


def declare_as_thief(registry: ToolRegistry, source: Source | None) -> None:
    """Have code of an agent declare `spend`, in the names of the host's as in another run of its module."""

    @registry.tool("declare", owned_by="thief")
    def declare() -> None:
        """Declare it."""
        registry.tool("spend", owned_by="thief", source=source)(make_rerun_tool())
        registry.assign_tool_to_agent("spend", "clerk")
        registry.share_tool("spend")

    assert "ok" == registry.execute(ToolCall(None, "declare", {}, "thief")).outcome


class TestSource:
    """A tool of the same name from another source is another tool."""

    CHANGES = (
        ("grant", lambda one: one.assign_tool_to_agent("spend", "clerk")),
        ("sharing", lambda one: one.share_tool("spend")),
        ("owner", lambda one: one.transfer_ownership("spend", "clerk")),
    )

    @pytest.mark.parametrize(("what", "change"), CHANGES, ids=[what for what, _ in CHANGES])
    def test_it_inherits_nothing_that_widens(self, store: Any, what: str, change: Any) -> None:
        """Neither grants nor sharing nor ownership; for the first tool they are still there."""
        with Started(store) as first:
            change(first)
            assert "ok" == outcome(first, "spend", amount=1)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(make_foreign_tool())
            assert "forbidden" == outcome(second, "spend", amount=1)
            assert ["act-waits"] == [one.kind for one in second.problems() if one.kind in KINDS]
        with Started(store) as third:
            assert "ok" == outcome(third, "spend", amount=1)

    def test_a_distribution_is_a_source(self, store: Any) -> None:
        """One distribution's tool may move between its modules; another's of the same name is another tool."""

        def start(distribution: str, module: str) -> ToolRegistry:
            made = ToolRegistry(journal=store)
            made.tool("spend", owned_by="treasurer", source=Source(distribution=distribution))(
                make_foreign_tool(module)
            )
            return made

        with start("money", "one") as first:
            first.assign_tool_to_agent("spend", "clerk")
        with start("money", "two") as moved:
            assert "ok" == outcome(moved, "spend", amount=1)
        with start("evil", "one") as other:
            assert "forbidden" == outcome(other, "spend", amount=1)

    @pytest.mark.parametrize("what", ["name", "distribution"])
    def test_code_of_an_agent_is_a_source_of_its_own(self, store: Any, what: str) -> None:
        """Broken promise: what it declared in the names of the host's function had the grants of that."""
        source = Source(distribution="money") if what == "distribution" else None
        with ToolRegistry(journal=store) as first:
            first.tool("spend", owned_by="treasurer", source=source)(make_foreign_tool())
            first.assign_tool_to_agent("spend", "clerk")
            assert "ok" == outcome(first, "spend", amount=1)
        for _ in range(2):
            with ToolRegistry(journal=store) as second:

                @second.tool("declare", owned_by="thief")
                def declare() -> None:
                    """Declare a tool of the same names."""
                    second.tool("spend", owned_by="thief", source=source)(make_foreign_tool())

                assert "ok" == second.execute(ToolCall(None, "declare", {}, "thief")).outcome
                assert "forbidden" == outcome(second, "spend", amount=1)
                assert "declared by 'thief'" in " ".join(map(str, second.problems()))
                second.unregister_tool("spend")
        with ToolRegistry(journal=store) as third:
            third.tool("spend", owned_by="treasurer", source=source)(make_foreign_tool())
            assert "ok" == outcome(third, "spend", amount=1)

    def test_the_operators_tool_inherits_nothing_of_an_agents(self, store: Any) -> None:
        """Broken promise: a tool of the host had the owner and the grants of one that an agent's code put there."""
        with ToolRegistry(journal=store) as registry:
            declare_as_thief(registry, None)
            tool = Tool.from_function(make_foreign_tool(), "spend", owned_by="treasurer")

            registry.register_tool(tool, replace=True)

            assert "treasurer" == registry.get_tool("spend").metadata.owned_by  # type: ignore[union-attr]
            assert "forbidden" == outcome(registry, "spend", amount=1)

    @pytest.mark.parametrize("way", ["plain", "replace_source"])
    def test_the_operators_tool_takes_no_name_of_an_agents_by_itself(self, store: Any, way: str) -> None:
        """Nor does a source that the agent's code named in its tool, whatever the tool says."""
        with ToolRegistry(journal=store) as registry:
            declare_as_thief(registry, Source(distribution="money") if way == "replace_source" else None)
            tool = Tool.from_function(make_foreign_tool(), "spend", owned_by="treasurer")
            with pytest.raises(DuplicateToolError):
                if way == "plain":
                    registry.register_tool(tool)
                else:
                    registry.replace_source("money", [tool])

    def test_code_of_an_owner_replaces_the_operators_tool(self, store: Any) -> None:
        """Broken promise: what the operator had granted of its own function counted for another, without approvals."""
        with ToolRegistry(journal=store) as registry:
            registry.tool("spend", owned_by="treasurer", requires_approval=True)(make_foreign_tool())
            registry.assign_tool_to_agent("spend", "clerk")

            @registry.tool("swap", owned_by="treasurer")
            def swap() -> None:
                """Put another tool in its place."""
                registry.register_tool(
                    Tool.from_function(make_foreign_tool(), "spend", owned_by="treasurer"), replace=True
                )

            assert "ok" == registry.execute(ToolCall(None, "swap", {}, "treasurer")).outcome
            assert "forbidden" == outcome(registry, "spend", amount=1)

    def test_code_of_an_agent_keeps_what_was_given_of_its_tools(self, store: Any) -> None:
        """A tool that an agent's code declares at each start has the grants that were made of it."""
        were_allowed = []
        for _ in range(2):
            with ToolRegistry(journal=store) as registry:

                @registry.tool("declare", owned_by="agent")
                def declare() -> None:
                    """Declare a tool."""
                    registry.tool("spend", owned_by="agent")(make_foreign_tool())

                registry.execute(ToolCall(None, "declare", {}, "agent"))
                were_allowed.append(registry.explain("clerk", "spend").allowed)
                registry.assign_tool_to_agent("spend", "clerk")
        assert were_allowed == [False, True]

    def test_a_program_and_its_module(self, tmp_path: Path) -> None:
        """A file is one source, however it is run: as a program, by `-m`, or imported by the command line."""
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "__init__.py").touch()
        (tmp_path / "home" / "app.py").write_text(PROGRAM)
        by_path, whole = ["home/app.py"], [f"{tmp_path}/home/app.py"]
        for arguments in (["-c", "import home.app", "assign"], by_path, whole, ["-m", "home.app"]):
            done = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": str(tmp_path)})  # fmt: skip
            assert "seen\n" == done.stdout, done.stderr

    def test_configuration(self, store: Any) -> None:
        """It does not inherit what was configured, save that calls need an approval."""
        with Started(store) as first:
            first.configure("spend", timeout=9, requires_approval=True)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="clerk")(make_foreign_tool())
            assert second.get_tool("spend").metadata.timeout is None  # type: ignore[union-attr]
            assert "approval_required" == outcome(second, "spend", amount=1)

    def test_configured_to_need_none(self, store: Any) -> None:
        """That the first tool needs no approval says nothing of the other."""
        with Started(store) as first:
            first.configure("spend", requires_approval=False)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="clerk", requires_approval=True)(make_foreign_tool())
            assert "approval_required" == outcome(second, "spend", amount=1)

    def test_what_narrows_counts_for_every_tool(self, store: Any) -> None:
        """Blocks, removals, disabling and the end of sharing are about the name."""
        with Started(store) as first:
            first.block("spend", "clerk")
            first.remove_tool_from_agent("spend", "treasurer")
            first.disable("look")
            first.unshare_tool("open")
        with ToolRegistry(journal=store) as second:
            second.tool("open", shared=True)(make_foreign_tool("fourth"))
            assert "forbidden" == outcome(second, "open")
            assert [] == [one for one in second.problems() if one.kind == "act-waits"]
            second.share_tool("open")
            second.block("look", "intern")
            assert "ok" == outcome(second, "open")
            second.tool("spend", owned_by="treasurer", shared=True)(make_foreign_tool())
            second.tool("look", shared=True)(make_foreign_tool("third"))
            results = [outcome(second, "spend", who, amount=1) for who in ("clerk", "treasurer", "intern")]
            assert ["forbidden", "forbidden", "ok"] == results
            assert "disabled" == outcome(second, "look")

    def test_a_tool_in_the_place_of_another_while_the_process_runs(self, store: Any) -> None:
        """Unregistered and declared from elsewhere, it inherits nothing configured but the approval."""
        with Started(store) as registry:
            registry.configure("spend", timeout=9, requires_approval=True)
            registry.unregister_tool("spend")
            registry.tool("spend", owned_by="clerk")(make_foreign_tool())
            assert registry.get_tool("spend").metadata.timeout is None  # type: ignore[union-attr]
            assert "approval_required" == outcome(registry, "spend", amount=1)
            registry.unregister_tool("spend")
            registry.tool("spend", owned_by="clerk")(spend)
            assert 9 == registry.get_tool("spend").metadata.timeout  # type: ignore[union-attr]

    def test_the_operator_gives_it_anew(self, store: Any) -> None:
        """An assignment counts for the tool that is there; both grants live beside each other."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", max_calls=1)
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(make_foreign_tool())
            assert second.assign_tool_to_agent("spend", "clerk", max_calls=2)
            assert ["ok", "ok", "forbidden"] == [outcome(second, "spend", amount=1) for _ in range(3)]
        with Started(store) as third:
            assert ["ok", "forbidden"] == [outcome(third, "spend", amount=1) for _ in range(2)]

    def test_one_that_waits_is_revoked(self, store: Any) -> None:
        """The operator ends a grant that waits, with what was lent on from it; its tool comes back without it."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", max_calls=3, delegable=True)
            first.grant("spend", "intern", by="clerk", max_calls=1)
            grant = first.grants(tool="spend", agent="clerk")[0]
        with ToolRegistry(journal=store) as second:
            second.tool("spend", owned_by="treasurer")(make_foreign_tool())
            assert 2 == len(_waiting(second))
            assert any(grant.id in str(one) and "or revoke it" in str(one) for one in _waiting(second))
            with pytest.raises(UnknownGrantError):
                second.revoke(grant.id, by="treasurer")
            assert second.revoke(grant.id, reason="not any more")
            assert not second.revoke(grant.id)
            assert [] == _waiting(second)
        with ToolRegistry(journal=store) as third:
            assert [] == _waiting(third)
            declare(third)
            assert ["forbidden"] * 2 == [outcome(third, "spend", agent, amount=1) for agent in ("clerk", "intern")]
            assert not third.revoke(grant.id)
            (ended,) = third.grants(tool="spend", agent="clerk", ended=True)
            assert grant.id == ended.id
            assert [("operator", "not any more")] == [
                (one.event.by, one.event.reason) for one in third.journal.read(type="grant_revoked")
            ]

    @pytest.mark.parametrize("what", ["revoke", "remove", "remove again", "retire"])
    def test_one_that_waits_is_ended_here(self, store: Any, what: str) -> None:
        """A removal, and the agent's retirement, end what waits as a revocation does: in this process, and later."""
        with Started(store) as first:
            if what == "remove again":
                first.remove_tool_from_agent("spend", "clerk")
            first.assign_tool_to_agent("spend", "clerk")
            grant = first.grants(tool="spend", agent="clerk")[0]
        with ToolRegistry(journal=store) as second:
            Agent("clerk", registry=second)
            if what == "revoke":
                second.revoke(grant)
            elif what.startswith("remove"):
                with pytest.warns(UnknownToolWarning, match="grants that wait for the tool ended"):
                    second.remove_tool_from_agent("spend", "clerk")
            else:
                second.retire_agent("clerk")
            assert [] == _waiting(second)
            second.tool("spend", owned_by="treasurer")(spend)
            assert "forbidden" == outcome(second, "spend", amount=1)
        with Started(store) as third:
            assert "forbidden" == outcome(third, "spend", amount=1)
            assert [] == third.grants(tool="spend", agent="clerk")


def _waiting(registry: ToolRegistry) -> list[Any]:
    """Return the problems with changes that wait."""
    return [one for one in registry.problems() if one.kind == "act-waits"]


class TestProblems:
    def of(self, registry: ToolRegistry) -> list[tuple[str, str]]:
        """Return kind and subject of the problems with changes."""
        return [(one.kind, one.subject) for one in registry.problems() if one.kind in KINDS]

    def test_a_change_that_beats_a_declaration(self, store: Any) -> None:
        """Owner, sharing and configured fields that are not as declared are reported, with both values; then not."""
        with Started(store) as first:
            first.transfer_ownership("spend", "clerk")
            first.unshare_tool("open")
            first.configure("look", timeout=3)
        with Started(store) as second:
            assert [("act-beats-declaration", name) for name in ("spend", "look", "open")] == self.of(second)
            texts = [str(one) for one in second.problems()]
            assert any("'treasurer'" in text and "'clerk'" in text for text in texts)
            second.transfer_ownership("spend", "treasurer")
            second.share_tool("open")
            second.configure("look", timeout=None)
            assert [] == self.of(second)
        with Started(store) as third:
            assert [] == self.of(third)

    def test_a_removal_of_what_is_listed(self, store: Any) -> None:
        """An agent that lists a tool which was taken from it, or from which it is blocked, is reported."""
        with Started(store) as first:
            first.remove_tool_from_agent("open", "reader")
            first.block("look", "reader")
        with Started(store) as second:
            reader = Agent("reader", tools=["open", "look", "spend"], registry=second)
            assert [("act-beats-declaration", "reader")] * 2 == self.of(second)
            assert ["spend"] == reader.list_tools()

    def test_a_change_that_waits(self, store: Any) -> None:
        """Changes on a tool of another source, or of none that is there, wait; an ended one does not."""
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk")
            first.revoke(first.grant("look", "clerk"))
            first.share_tool("look")
        with ToolRegistry(journal=store) as second:
            assert [("act-waits", "look"), ("act-waits", "spend")] == sorted(self.of(second))
            declare(second)
            assert [("act-beats-declaration", "look")] == self.of(second)

    def test_nothing_without_a_journal(self) -> None:
        """Without a journal what is done now is the present will, and no problem."""
        registry = ToolRegistry()
        declare(registry)
        registry.transfer_ownership("spend", "clerk")
        registry.unshare_tool("open")

        assert [] == self.of(registry)


class TestStartUpCode:
    """Code that says the same at every start changes nothing by it."""

    def begin(self, registry: ToolRegistry) -> list[bool]:
        """Assign as start-up code does."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AccessWarning)
            return [
                registry.assign_tool_to_agent("spend", "clerk", key="tea", max_calls=2),
                registry.assign_tool_to_agent("look", "clerk"),
            ]

    def test_a_spent_count_is_not_filled_again(self, store: Any) -> None:
        """The grant of a key is the one that was spent."""
        for expected in ("ok", "ok", "forbidden", "forbidden"):
            with Started(store) as registry:
                self.begin(registry)
                assert expected == outcome(registry, "spend", amount=1)

    def test_a_revocation_is_not_undone(self, store: Any) -> None:
        """Neither with a key nor without."""
        with Started(store) as first:
            assert [True, True] == self.begin(first)
            for grant in first.grants():
                first.revoke(grant)
        for _ in range(2):
            with Started(store) as second:
                assert [False, False] == self.begin(second)
                assert [] == second.grants()
                assert ["forbidden"] * 2 == [outcome(second, "spend", amount=1), outcome(second, "look")]

    def test_nor_is_one_that_lasts_an_hour_from_the_start_on(self, store: Any) -> None:
        """A revoked grant does not come back because its hour would begin anew."""
        with Started(store) as first:
            assert first.assign_tool_to_agent("look", "clerk", expires=timedelta(hours=1))
            first.revoke(first.grants()[0])
        with Started(store) as second:
            with pytest.warns(AccessWarning, match="was removed"):
                assert not second.assign_tool_to_agent("look", "clerk", expires=timedelta(hours=1))
            assert second.assign_tool_to_agent("look", "clerk", expires=timedelta(hours=2))

    def test_a_removal_is_not_undone(self, store: Any) -> None:
        """Nor is a removal, with or without a key."""
        with Started(store) as first:
            self.begin(first)
            for tool in ("spend", "look"):
                first.remove_tool_from_agent(tool, "clerk")
        with Started(store) as second:
            assert [False, False] == self.begin(second)
            assert ["forbidden"] * 2 == [outcome(second, "spend", amount=1), outcome(second, "look")]

    def test_a_block_is_no_crash(self, store: Any) -> None:
        """A blocked agent gets nothing, and the start goes on with a warning."""
        with Started(store) as first:
            first.block("spend", "clerk")
            first.block("look", "clerk")
        with Started(store) as second:
            with pytest.warns(AccessWarning, match="blocked"):
                assert not second.assign_tool_to_agent("spend", "clerk", key="tea", max_calls=2)
            assert [False, False] == self.begin(second)
            second.unblock("spend", "clerk")
            assert second.assign_tool_to_agent("spend", "clerk", key="tea", max_calls=2)

    def test_the_journal_does_not_grow(self, store: Any) -> None:
        """All verbs that a start repeats write once."""

        def begin() -> int:
            with Started(store) as registry:
                self.begin(registry)
                registry.share_tool("look")
                registry.unshare_tool("open")
                registry.transfer_ownership("spend", "clerk")
                registry.configure("spend", timeout=2, retry_on=ConnectionError, tags=["a", "b"])
                registry.disable("look", reason="broken")
                registry.enable("spend") if ("tool", "spend") in registry.state.disabled else None
                registry.block("open", "clerk", reason="no")
                registry.remove_tool_from_agent("open", "treasurer")
                return grew(registry)

        assert begin() == begin() == begin()

    def test_grants_in_a_loop(self, store: Any) -> None:
        """An identical grant is not recorded twice, not even by the next process."""
        for _ in range(3):
            with Started(store) as registry:
                assert registry.assign_tool_to_agent("look", "clerk", reason="see")
                assert 1 == grew(registry) == len(registry.grants())


class TestConfigured:
    VALUES: dict[str, Any] = {
        "description": "Spends.",
        "category": "money",
        "tags": ["a", "b"],
        "requires_approval": True,
        "risk_level": "high",
        "timeout": 2,
        "retries": 3,
        "retry_on": (ConnectionError, TimeoutError),
        "idempotent": True,
        "read_only": False,
        "concurrency_safe": False,
        "max_result_size": 99,
        "errors": "masked",
        "engine": "thread",
        "private": True,
        "strict_arguments": True,
        "extra": {"a": [1, {"b": 2}]},
    }

    @pytest.mark.parametrize("name", VALUES)
    def test_every_field(self, path: Path, name: str) -> None:
        """Each field that can be configured has the same value after a restart."""
        with Started(path) as first:
            first.configure("spend", **{name: self.VALUES[name]})
            expected = getattr(first.get_tool("spend").metadata, name)  # type: ignore[union-attr]
        with Started(path) as second:
            assert expected == getattr(second.get_tool("spend").metadata, name)  # type: ignore[union-attr]

    def test_a_class_that_is_gone(self, path: Path) -> None:
        """An exception type that no module has any more is left out; the start goes on."""

        class GoneError(Exception):
            """Only here."""

        with Started(path) as first:
            first.configure("spend", retry_on=(GoneError, ConnectionError), retries=2)
        with Started(path) as second:
            meta = second.get_tool("spend").metadata  # type: ignore[union-attr]
            assert ((ConnectionError,), 2) == (meta.retry_on, meta.retries)
