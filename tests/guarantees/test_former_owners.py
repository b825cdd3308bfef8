"""After a transfer, start-up code of the former owner is warned of and changes nothing; nobody else is forgiven."""

# Tests of: registry/access_changes, access/commands

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from state_rig import call, outcome, path, store  # noqa: F401  # fixtures
from survivors import Started, killed, run

from praval_tools import AccessWarning, Agent, GrantError, NotOwnerError, ToolCall, ToolRegistry

VERBS: dict[str, Callable[[ToolRegistry], object]] = {
    "block": lambda registry: registry.block("spend", "boss", by="treasurer") and None,
    "unblock": lambda registry: registry.unblock("spend", "guest", by="treasurer"),
    "share": lambda registry: registry.share_tool("spend", by="treasurer"),
    "unshare": lambda registry: registry.unshare_tool("spend", by="treasurer"),
    "transfer": lambda registry: registry.transfer_ownership("spend", "boss", by="treasurer"),
    "remove": lambda registry: registry.remove_tool_from_agent("spend", "clerk", by="treasurer"),
    "revoke": lambda registry: registry.revoke(registry.grants(tool="spend")[0], by="treasurer"),
    "unregister": lambda registry: registry.unregister_tool("spend", by="treasurer"),
    "assign": lambda registry: registry.assign_tool_to_agent("spend", "boss", by="treasurer"),
}
"""What start-up code does in the name of an owner."""


class TestFormerOwner:
    def test_a_transfer_is_no_crash(self, store: Any) -> None:
        """What its code declared the owner of gets a warning and changes nothing once it was transferred."""
        with Started(store) as first:
            first.transfer_ownership("spend", "clerk")
        with Started(store) as second:
            Agent("boss", registry=second)
            before = second.state
            with pytest.warns(AccessWarning, match="transferred from 'treasurer' to 'clerk'"):
                assert not second.assign_tool_to_agent("spend", "boss", by="treasurer", key="tea", max_calls=2)
            assert (before, []) == (second.state, second.grants())
            assert "forbidden" == outcome(second, "spend", "boss", amount=1)
            second.transfer_ownership("spend", "treasurer")
            assert second.assign_tool_to_agent("spend", "boss", by="treasurer", key="tea", max_calls=2)

    def test_a_grant_with_a_key_stays_the_same_one(self, store: Any) -> None:
        """Start-up code that declares a grant by its key gets that grant, live or revoked, and does not crash."""
        with Started(store) as first:
            Agent("boss", registry=first)
            live, ended = (first.grant("spend", "boss", by="treasurer", key=key) for key in ("tea", "milk"))
            first.revoke(ended)
            first.transfer_ownership("spend", "clerk")
        with Started(store) as second:
            Agent("boss", registry=second)
            before = second.state
            for grant in (live, ended):
                with pytest.warns(AccessWarning, match="transferred from 'treasurer' to 'clerk'"):
                    again = second.grant("spend", "boss", by="treasurer", key=grant.key, max_calls=1)
                assert grant.id == again.id
            with pytest.raises(GrantError, match="key 'tea' stands for the grant"):
                second.grant("spend", "clerk", by="treasurer", key="tea")
            assert (before, [live.id]) == (second.state, [grant.id for grant in second.grants()])

    def test_a_transfer_stays_a_refusal_for_others(self, store: Any) -> None:
        """For who never was the declared owner, for an agent that runs, and for a transfer of this process."""
        with Started(store) as first:
            first.transfer_ownership("spend", "clerk")
            with pytest.raises(NotOwnerError):
                first.assign_tool_to_agent("spend", "boss", by="treasurer")
        with Started(store) as second:
            with pytest.raises(NotOwnerError):
                second.assign_tool_to_agent("spend", "boss", by="boss")
            with pytest.raises(NotOwnerError):
                second.assign_tool_to_agent("look", "boss", by="clerk")

            @second.tool("lend", owned_by="treasurer")
            def lend() -> bool:
                """Lend what it owned."""
                return second.assign_tool_to_agent("spend", "boss")

            assert "NotOwnerError" == call(second, "lend", "treasurer").error_type
            second.transfer_ownership("spend", "boss")
            with pytest.raises(NotOwnerError):
                second.assign_tool_to_agent("spend", "clerk", by="treasurer")
            assert [] == second.grants()

    @pytest.mark.parametrize("verb", VERBS)
    def test_nor_is_it_for_what_else_an_owner_may_do(self, verb: str, store: Any) -> None:
        """Every verb of the former owner, at the start of the next process, is a warning and changes nothing."""
        do = VERBS[verb]
        with Started(store) as first:
            first.assign_tool_to_agent("spend", "clerk", key="tea")
            first.block("spend", "guest", by="treasurer")
            first.transfer_ownership("spend", "clerk")
            with pytest.raises(NotOwnerError):
                do(first)
        with Started(store) as second:
            before = second.state
            with pytest.warns(AccessWarning, match="transferred from 'treasurer' to 'clerk'"):
                assert not do(second)
            assert before == second.state

            @second.tool("try_it", owned_by="treasurer")
            def try_it() -> None:
                """Do it as the former owner."""
                do(second)

            assert "NotOwnerError" == call(second, "try_it", "treasurer").error_type
            second.transfer_ownership("spend", "boss")
            with pytest.raises(NotOwnerError):
                do(second)
            second.transfer_ownership("spend", "treasurer")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                do(second)

    def test_what_only_the_operator_may_do_stays_a_refusal(self, store: Any) -> None:
        """Nothing that an owner could not do is forgiven to a former one, nor is the replacement of the tool."""
        with Started(store) as first:
            first.transfer_ownership("spend", "clerk")
        with Started(store) as second:
            for do in (
                lambda: second.configure("spend", timeout=3, by="treasurer"),
                lambda: second.disable("spend", by="treasurer"),
                lambda: second.register_tool(second.get_tool("look"), replace=True, by="clerk"),
            ):
                with pytest.raises(NotOwnerError):
                    do()

    def test_over_processes(self, tmp_path: Path) -> None:
        """A killed process transferred the tool; the program of the next one runs to its end, and changes nothing."""
        where = tmp_path / "work.db"
        killed(where, "registry.block('spend', 'guest', by='treasurer'); registry.transfer_ownership('spend', 'clerk')")

        done = run(
            "import sys\nfrom survivors import *\n"
            "registry = Started(sys.argv[1])\n"
            "registry.unblock('spend', 'guest', by='treasurer')\n"
            "registry.share_tool('spend', by='treasurer')\n"
            "registry.transfer_ownership('spend', 'treasurer', by='treasurer')\n"
            "print(['spend' in registry.toolset(name) for name in ('treasurer', 'guest', 'clerk')])\n",
            where,
        )

        assert (0, "[False, False, True]\n") == (done.returncode, done.stdout), done.stderr
        assert 3 == done.stderr.count("AccessWarning: 'spend' was transferred from 'treasurer' to 'clerk'")


def test_code_of_an_agent_blocks_nobody_from_what_it_declares(store: Any) -> None:
    """Broken promise: a block counts by name, and so kept the owner of the host's tool from that, in each process."""
    with Started(store) as bank, ToolRegistry(journal=store) as other:

        @other.tool("attack", owned_by="thief")
        def attack() -> None:
            """Block the owner."""
            other.tool("spend", owned_by="thief", description="Spend.")(lambda amount=0: amount)
            try:
                other.block("spend", "treasurer")
            finally:
                other.unregister_tool("spend")

        result = other.execute(ToolCall(None, "attack", {}, "thief"))
        assert "a block counts for each tool of that name" in str(result.error)
        assert bank.explain("treasurer", "spend").allowed
