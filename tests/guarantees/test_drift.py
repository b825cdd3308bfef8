"""Access that was given at run time waits where a later version of the tool is not what it was given to."""

# Tests of: access/drift, access/commands

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from state_rig import grew, outcome, path, store  # noqa: F401  # fixtures

from praval_tools import Agent, ToolRegistry


def wipe(disk: str) -> str:
    """Wipe a disk."""
    return disk


def make_version(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function* as another version of `wipe`, from the same place."""
    function.__module__, function.__qualname__ = wipe.__module__, wipe.__qualname__
    return function


def start(store: Any, function: Callable[..., Any] = wipe, **metadata: Any) -> ToolRegistry:
    """Return the registry of a process that starts with a version of the tool."""
    registry = ToolRegistry(journal=store)
    registry.tool("wipe", owned_by="admin", **metadata)(function)
    for name in ("admin", "clerk"):
        Agent(name, registry=registry)
    return registry


def list_waiting(registry: ToolRegistry) -> list[str]:
    """Return what is said of changes that wait."""
    return [problem.message for problem in registry.problems() if problem.kind == "act-waits"]


class TestSafety:
    """What a tool says of its safety is what the operator knew who gave access to it."""

    CASES = (
        ("requires_approval", True, False),
        ("risk_level", "critical", "low"),
        ("risk_level", "low", "critical"),
        ("destructive", True, None),
        ("destructive", None, True),
        ("read_only", None, True),
        ("read_only", True, None),
        ("safety", "sandboxed", "native"),
        ("open_world", False, True),
    )

    @pytest.mark.parametrize(("field", "old", "new"), CASES, ids=[f"{case[0]}-{case[1]}-{case[2]}" for case in CASES])
    def test_an_upgrade_that_says_otherwise(self, store: Any, field: str, old: object, new: object) -> None:
        """The grant waits, and `problems()` names the field with both values; the old version finds it again."""
        with start(store, **{field: old}) as first:
            grant = first.grant("wipe", "clerk")
        with start(store, **{field: new}) as second:
            assert "forbidden" == outcome(second, "wipe", disk="a")
            (message,) = list_waiting(second)
            assert grant.id in message
            assert f"{field} was {old!r}, and is {new!r}" in message
        with start(store, **{field: old}) as third:
            assert "forbidden" != outcome(third, "wipe", disk="a")
            assert [] == list_waiting(third)

    def test_an_approval_that_is_new(self, store: Any) -> None:
        """A version that requires approvals is narrower: the grant counts."""
        with start(store) as first:
            first.grant("wipe", "clerk")
        with start(store, requires_approval=True) as second:
            assert "approval_required" == outcome(second, "wipe", disk="a")
            assert [] == list_waiting(second)

    @pytest.mark.parametrize("configured_first", [True, False])
    def test_what_the_operator_configured(self, store: Any, configured_first: bool) -> None:
        """It holds whatever the versions say, so the grant counts, done before the grant or after it."""
        with start(store, requires_approval=True) as first:
            if configured_first:
                first.configure("wipe", requires_approval=True)
            first.grant("wipe", "clerk")
            first.configure("wipe", requires_approval=True)
        with start(store) as second:
            assert "approval_required" == outcome(second, "wipe", disk="a")
            assert [] == list_waiting(second)

    @pytest.mark.parametrize("way", ["grant", "share"])
    def test_what_the_operator_configures_while_it_waits(self, store: Any, way: str) -> None:
        """It counts at once, in the process that configures as in all others and at the next start."""
        with start(store, risk_level="high") as first:
            if way == "grant":
                first.grant("wipe", "clerk")
            else:
                first.share_tool("wipe")
        with start(store) as second, start(store) as third:
            assert "forbidden" == outcome(second, "wipe", disk="a")
            second.configure("wipe", risk_level="high")

            assert ["ok", "ok"] == [outcome(registry, "wipe", disk="a") for registry in (second, third)]
            assert [] == [*list_waiting(second), *list_waiting(third)]

    def test_sharing(self, store: Any) -> None:
        """Sharing waits like a grant."""
        with start(store, destructive=True) as first:
            first.share_tool("wipe")
        with start(store) as second:
            assert "forbidden" == outcome(second, "wipe", disk="a")
            assert ["destructive" in text for text in list_waiting(second)] == [True]
        with start(store, destructive=True) as third:
            assert "ok" == outcome(third, "wipe", disk="a")

    def test_given_again(self, store: Any) -> None:
        """The operator gives it anew, for the tool as it is; that holds at the next start."""
        with start(store, destructive=True) as first:
            first.grant("wipe", "clerk", key="cleaning")
        with start(store) as second:
            second.grant("wipe", "clerk", key="cleaning")
            assert "ok" == outcome(second, "wipe", disk="a")
        with start(store) as third:
            assert "ok" == outcome(third, "wipe", disk="a")

    def test_what_was_lent_from_it(self, store: Any) -> None:
        """A grant that came from one that waits admits nothing."""
        with start(store, destructive=True) as first:
            first.grant("wipe", "admin2", delegable=True)
            first.grant("wipe", "clerk", by="admin2")
        with start(store) as second:
            assert "forbidden" == outcome(second, "wipe", disk="a")
            assert 2 == len(list_waiting(second))


class TestSharingThatWaits:
    @pytest.mark.parametrize("change", ["safety", "source"])
    def test_ends_as_the_tool_is_not_shared_any_more(self, store: Any, change: str) -> None:
        """Broken promise: the operator ended a sharing while it waited, and the tool as it was before was shared."""

        def other(disk: str) -> str:
            """Wipe a disk."""
            return disk

        with start(store) as first:
            first.share_tool("wipe")
            options = {"risk_level": "high"} if change == "safety" else {}
            with start(store, wipe if change == "safety" else other, **options) as second:
                assert [True] == ["sharing" in text for text in list_waiting(second)]
                second.unshare_tool("wipe")
                assert [] == list_waiting(second)
                written = grew(second)
                second.unshare_tool("wipe")
                assert written == grew(second)
                if change == "source":  # it counts for that source alone
                    second.share_tool("wipe")
                    assert "ok" == outcome(second, "wipe", disk="a")
            assert "forbidden" == outcome(first, "wipe", disk="a")
        with start(store) as third:
            assert "forbidden" == outcome(third, "wipe", disk="a")
            third.share_tool("wipe")
            assert "ok" == outcome(third, "wipe", disk="a")

    def test_ends_where_a_file_is_loaded_again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Broken promise: an entry that was changed and changed back was shared, though the operator had ended it."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        Path("disks.py").write_text('def wipe(disk: str) -> str:\n    "Wipe."\n    return disk\n')
        entry = {"name": "wipe", "module": "disks", "function": "wipe", "owned_by": "admin"}

        def write(**options: str) -> None:
            Path("tools.yml").write_text(f"tools: {json.dumps([{**entry, **options}])}\n")

        write()
        with ToolRegistry(journal="runs.db") as registry:
            configured = registry.configure_from("tools.yml")
            registry.share_tool("wipe")
            write(risk_level="high")
            configured.refresh()
            registry.unshare_tool("wipe")
            write()
            configured.refresh()
            assert "forbidden" == outcome(registry, "wipe", disk="a")


class TestParameters:
    """A tool that takes other calls is another tool, whether it was gone for a version or not."""

    @pytest.mark.parametrize("was_gone", [True, False])
    def test_one_that_comes_back_changed(self, store: Any, was_gone: bool) -> None:
        """Its old grant waits, and `problems()` says what changed."""

        def other(target: str) -> str:
            """Wipe a disk."""
            return target

        with start(store) as first:
            first.grant("wipe", "clerk")
        if was_gone:
            with ToolRegistry(journal=store) as without:
                assert 1 == len(list_waiting(without))
        with start(store, make_version(other)) as second:
            assert "forbidden" == outcome(second, "wipe", target="a")
            (message,) = list_waiting(second)
            assert "the parameter 'disk' is gone; the parameter 'target' is required" in message

    def test_another_type(self, store: Any) -> None:
        """A parameter of another type is a change."""

        def other(disk: int) -> int:
            """Wipe a disk."""
            return disk

        with start(store) as first:
            first.grant("wipe", "clerk")
        with start(store, make_version(other)) as second:
            assert "forbidden" == outcome(second, "wipe", disk=1)
            assert "was str, and is int" in list_waiting(second)[0]

    def test_what_is_no_drift(self, store: Any) -> None:
        """Another text, and a new parameter that may be left out, change nothing for those who call it."""

        def other(disk: str, quick: bool = True) -> str:
            """Wipe a disk, quickly."""
            return disk

        with start(store) as first:
            first.grant("wipe", "clerk")
        with start(store, make_version(other), title="Wipe", tags=("disks",)) as second:
            assert "ok" == outcome(second, "wipe", disk="a")
            assert [] == list_waiting(second)

    def test_no_default_is_read(self, store: Any) -> None:
        """Defaults are no drift, and may be large, or of classes with code of their own."""
        read = list[str]()

        class Disk(Enum):
            FIRST = "sda"

            def __getattribute__(self, name: str) -> Any:
                read.append(name)
                return object.__getattribute__(self, name)

        def wipe_one(disk: Any = Disk.FIRST) -> str:
            """Wipe a disk."""
            return str(disk)

        registry = start(store, make_version(wipe_one))
        read.clear()
        registry.grant("wipe", "clerk")
        registry.share_tool("wipe", by="admin")

        assert [] == read


class TestEndedGrants:
    @pytest.mark.parametrize("end", ["revoke", "remove"])
    @pytest.mark.parametrize("change", ["safety", "parameters", "source"])
    def test_stay_ended_whatever_the_tool_is_then(self, store: Any, end: str, change: str) -> None:
        """Broken promise: start-up code got back what the operator had revoked, once the tool said another risk."""

        def other(target: str) -> str:
            """Wipe a disk."""
            return target

        if change == "parameters":
            make_version(other)
        with start(store) as first:
            grant = first.grant("wipe", "clerk", key="start")
            if end == "revoke":
                first.revoke(grant)
            else:
                first.remove_tool_from_agent("wipe", "clerk")
        with start(store, wipe if change == "safety" else other, risk_level="high") as second:
            assert not second.assign_tool_to_agent("wipe", "clerk", key="start")
            assert "forbidden" == outcome(second, "wipe", **{"disk" if change == "safety" else "target": "a"})
            assert [] == list_waiting(second)

    @pytest.mark.parametrize("end", ["revoke", "remove"])
    def test_with_bounds_that_do_not_fit_the_tool_any_more(self, store: Any, end: str) -> None:
        """Broken promise: start-up code with other bounds and the same key got back what was revoked."""

        def other(target: str) -> str:
            """Wipe a disk."""
            return target

        with start(store) as first:
            grant = first.grant("wipe", "clerk", key="start", where={"disk": {"enum": ["a"]}})
            _ = first.revoke(grant) if end == "revoke" else first.remove_tool_from_agent("wipe", "clerk")
        for _ in range(2):
            with start(store, make_version(other)) as second:
                assert not second.assign_tool_to_agent("wipe", "clerk", key="start", where={"target": {"enum": ["a"]}})
                assert "forbidden" == outcome(second, "wipe", target="a")
                assert [] == list_waiting(second)

    @pytest.mark.parametrize("revoked", ["new", "waiting"])
    def test_with_a_key_end_for_each_version_of_the_tool(self, store: Any, revoked: str) -> None:
        """What was granted with one key to a tool of before, and to the one of now, is one grant to who revokes it."""
        with start(store, risk_level="low") as first:
            old = first.grant("wipe", "clerk", key="start", max_calls=5)
        with start(store, risk_level="high") as second:
            new = second.grant("wipe", "clerk", key="start", max_calls=5)
            assert old.id != new.id
            assert second.revoke(new if revoked == "new" else old)
            assert not second.assign_tool_to_agent("wipe", "clerk", key="start")
            assert "forbidden" == outcome(second, "wipe", disk="a")
            assert [] == list_waiting(second)
        for risk in ("low", "high", "critical"):
            with start(store, risk_level=risk) as third:
                assert not third.assign_tool_to_agent("wipe", "clerk", key="start")
                assert "forbidden" == outcome(third, "wipe", disk="a")

    def test_with_a_key_end_where_several_versions_count(self, store: Any) -> None:
        """A tool that takes what two earlier ones took has the grants of both: revoking either ends both."""

        def other(target: str) -> str:
            """Wipe a disk."""
            return target

        def both(disk: str = "", target: str = "") -> str:
            """Wipe a disk."""
            return disk + target

        for version in (wipe, make_version(other)):
            with start(store, version) as registry:
                grant = registry.grant("wipe", "clerk", key="start")
        for is_over in (False, True):
            with start(store, make_version(both)) as registry:
                assert ("forbidden" if is_over else "ok") == outcome(registry, "wipe", disk="a")
                _ = is_over or registry.revoke(grant)
                assert "forbidden" == outcome(registry, "wipe", disk="a")

    @pytest.mark.parametrize("key", [None, "start"])
    def test_of_a_tool_that_was_unregistered(self, store: Any, key: str | None) -> None:
        """Grants that wait for an earlier version end with it, here and at the next start."""
        with start(store, risk_level="low") as first:
            first.grant("wipe", "clerk", key=key)
        with start(store, risk_level="high") as second:
            assert second.unregister_tool("wipe")
            assert [] == list_waiting(second)
            second.tool("wipe", owned_by="admin", risk_level="low")(wipe)
            assert "forbidden" == outcome(second, "wipe", disk="a")
            assert not (key and second.assign_tool_to_agent("wipe", "clerk", key=key))
        with start(store, risk_level="low") as third:
            assert "forbidden" == outcome(third, "wipe", disk="a")
            assert not (key and third.assign_tool_to_agent("wipe", "clerk", key=key))

    def test_of_a_tool_from_elsewhere_are_not_ended_with_it(self, store: Any) -> None:
        """A program that unregisters its own tool of a name ends no grant of the tool of that name of another."""

        def other(disk: str) -> str:
            """Wipe a disk."""
            return disk

        with start(store) as first:
            first.grant("wipe", "clerk")
        with start(store, other) as second:
            second.unregister_tool("wipe")
        with start(store) as third:
            assert "ok" == outcome(third, "wipe", disk="a")


class TestJournalsOfBefore:
    def test_a_grant_without_a_snapshot(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A grant that an older release stored counts as it did: its journal does not say what the tool was."""
        with monkeypatch.context() as older:
            older.setattr("praval_tools.journal.stored_changes.take_snapshot", lambda record: None)
            with start(store, destructive=True) as first:
                first.grant("wipe", "clerk")
        with start(store) as second:
            assert "ok" == outcome(second, "wipe", disk="a")
            assert [] == list_waiting(second)
