# Tests of: catalogue
"""Registries brought together and apart: refusals come along, permissions do not, and all happens or nothing."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from praval_tools import (
    Agent,
    DuplicateToolError,
    NotOwnerError,
    Outcome,
    Tool,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
    UnknownToolError,
    tool,
)
from praval_tools.tools.source import Source


def pay(amount: int) -> str:
    """Pay in this registry."""
    return f"here {amount}"


def pay_there(amount: int) -> str:
    """Pay in the other registry."""
    return f"there {amount}"


@pytest.fixture
def here() -> ToolRegistry:
    """A registry with a tool of ann's, which eve was granted."""
    registry = ToolRegistry(name="here")
    registry.register_tool(Tool("pay", fn=pay, owned_by="ann"))
    registry.grant("pay", "eve")
    return registry


@pytest.fixture
def there() -> ToolRegistry:
    """A registry with two tools of bob's in a namespace, one of them declared as shared."""
    registry = ToolRegistry(name="shop")
    registry.register_tool(Tool.from_function(pay_there, "pay", namespace="bank", owned_by="bob", timeout=3))
    registry.register_tool(Tool.from_function(pay_there, "ask", namespace="bank", owned_by="bob", shared=True))
    return registry


def list_callers(registry: ToolRegistry, name: str) -> set[str]:
    """Return which of the agents of these tests may call a tool."""
    return {agent for agent in ("ann", "bob", "eve", "ian") if registry.explain(agent, name).allowed}


class TestMerge:
    def test_tools_arrive_as_they_are(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """Owner, namespace, source and settings come with a tool, and the other registry keeps it."""
        came = here.merge(there)

        assert ["bank-pay", "bank-ask"] == [one.name for one in came]
        assert ["pay", "bank-pay", "bank-ask"] == [one.name for one in here]
        assert there.get_tool("bank-pay").metadata == here.get_tool("bank-pay").metadata
        assert "bank" == here.get_tool("bank-pay").namespace
        assert "there 1" == here.agent("bob").call("bank-pay", amount=1)

    def test_permissions_stay_behind(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """Who may call a merged tool is its owner, and those whom its declaration shares it with; no grant comes."""
        there.grant("bank-pay", "ian")
        there.share_tool("bank-pay")
        here.merge(there)

        assert {"bob"} == list_callers(here, "bank-pay")
        assert {"ann", "bob", "eve", "ian"} == list_callers(here, "bank-ask")
        assert {"ann", "eve"} == list_callers(here, "pay")

    def test_refusals_come_along(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """A tool that is disabled, unshared, blocked or removed there is so here, whatever disabled it."""
        there.block("bank-ask", "ian", reason="never")
        there.remove_tool_from_agent("bank-ask", "eve")
        here.merge(there)
        off = ToolRegistry(name="off")
        there.disable(namespace="bank", reason="closed")
        there.unshare_tool("bank-ask")
        off.merge(there)

        assert {"ann", "bob"} == list_callers(here, "bank-ask")
        assert "disabled" == off.explain("bob", "bank-pay").rule
        off.enable(tool="bank-ask")
        assert {"bob"} == list_callers(off, "bank-ask")

    @pytest.mark.parametrize("how", ["merge", "spinoff"])
    def test_retired_agents_get_no_tools(self, here: ToolRegistry, there: ToolRegistry, how: str) -> None:
        """
        Who is retired there calls nothing that comes, unless it is declared or granted here.

        A retired owner could call its tools again in the registry to which they came.
        """
        Agent("ann", registry=here)
        there.retire_agent("bob")
        there.grant("bank-ask", "ann")
        there.retire_agent("ann")
        if how == "merge":
            here.merge(there)
        target = here if how == "merge" else there.spinoff("bank")

        assert set() == list_callers(target, "bank-pay")
        assert {"eve", "ian"} | ({"ann"} if how == "merge" else set()) == list_callers(target, "bank-ask")
        target.grant("bank-pay", "bob")
        assert {"bob"} == list_callers(target, "bank-pay")

    def test_done_twice_nothing_is_doubled(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """What is here already stays as it is, whoever owns it by now."""
        here.merge(there)
        here.transfer_ownership("bank-pay", "ann")

        assert [] == here.merge(there)
        assert [] == here.merge(here)
        assert "ann" == here.get_tool("bank-pay").metadata.owned_by

    def test_a_collision_is_an_error_and_nothing_comes(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """All or nothing, also where only another spelling of a name is taken."""
        here.register_tool(Tool("bank.ask", fn=pay))

        with pytest.raises(DuplicateToolError, match="ask"):
            here.merge(there)

        assert ["pay", "bank.ask"] == [one.name for one in here]

    def test_a_module_that_was_reloaded(
        self, here: ToolRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its tools are the same tools: they replace themselves in place, with their grants."""
        source = 'from praval_tools import ToolRegistry\nshop = ToolRegistry(name="shop")\n'
        source += '@shop.tool("sell", owned_by="ann")\ndef sell() -> int:\n    "Sell."\n    return 1\n'
        for name in ("first_shop", "second_shop"):
            (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        first, second = importlib.import_module("first_shop"), importlib.import_module("second_shop")
        here.merge(first.shop)
        here.grant("sell", "eve")
        importlib.reload(first)

        assert ["sell"] == [one.name for one in here.merge(first.shop)]
        assert first.shop.get_tool("sell").implementation is here.get_tool("sell").implementation
        assert {"ann", "eve"} == list_callers(here, "sell")
        with pytest.raises(DuplicateToolError):
            here.merge(second.shop)

    def test_keep(self, here: ToolRegistry) -> None:
        """Where a name is taken, the tool that is here stays, with its grants."""
        other = ToolRegistry(name="shop")
        other.register_tool(Tool("pay", fn=pay_there, owned_by="bob"))
        other.register_tool(Tool("ask", fn=pay_there, owned_by="bob"))

        assert ["ask"] == [one.name for one in here.merge(other, collisions="keep")]
        assert {"ann", "eve"} == list_callers(here, "pay")

    def test_replace(self, here: ToolRegistry) -> None:
        """The tool that comes has its own owner, and nobody else may call it: grants were of the one that was here."""
        other = ToolRegistry(name="shop")
        other.register_tool(Tool("pay", fn=pay_there, owned_by="bob"))

        here.merge(other, collisions="replace")

        assert {"bob"} == list_callers(here, "pay")
        assert [] == here.grants()
        assert "there 1" == here.agent("bob").call("pay", amount=1)

    def test_rename(self, here: ToolRegistry) -> None:
        """Where a name is taken, the tool comes under the other registry's name, once; one without a name cannot."""
        other = ToolRegistry(name="shop")
        other.register_tool(Tool("pay", fn=pay_there, owned_by="bob"))
        unnamed = ToolRegistry()
        unnamed.register_tool(Tool("pay", fn=pay_there, owned_by="bob"))

        assert ["shop-pay"] == [one.name for one in here.merge(other, collisions="rename")]
        assert [] == here.merge(other, collisions="rename")
        assert ({"ann", "eve"}, {"bob"}) == (list_callers(here, "pay"), list_callers(here, "shop-pay"))
        with pytest.raises(ToolUsageError, match="name="):
            here.merge(unnamed, collisions="rename")

    def test_another_word_for_collisions(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """A word that is none of the four is an error, also where nothing collides."""
        with pytest.raises(ToolUsageError, match="'skip' is none of 'error', 'rename', 'keep', 'replace'"):
            here.merge(there, collisions="skip")  # type: ignore[arg-type]

    def test_only_the_operator(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """No agent brings in tools, nor takes them away."""
        for change in (lambda: here.merge(there, by="bob"), lambda: there.spinoff("bank", by="bob")):
            with pytest.raises(NotOwnerError, match="bob"):
                change()

    def test_a_frozen_registry(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """A registry whose declarations have ended takes no tools in."""
        here.freeze()

        with pytest.raises(ToolUsageError, match="frozen"):
            here.merge(there)

    def test_tools_of_servers_stay(self, here: ToolRegistry, there: ToolRegistry) -> None:
        """A tool of an MCP server is watched by one registry: neither merged nor moved, and the text says the fix."""
        source = Source(kind="mcp", distribution="weather")
        there.register_tool(Tool.from_function(pay_there, "now", namespace="weather", source=source))

        for change in (lambda: here.merge(there), lambda: there.spinoff("weather")):
            with pytest.raises(ToolUsageError, match="register_mcp"):
                change()
        assert ["pay"] == [one.name for one in here]
        assert there.get_tool("weather-now") is not None


class TestSpinoff:
    def test_tools_move_under_their_names(self, there: ToolRegistry) -> None:
        """The new registry is named after the namespace and has its tools, prefix included; the old one has none."""
        there.register_tool(Tool("other", fn=pay))

        bank = there.spinoff("bank")

        assert ("bank", ["bank-pay", "bank-ask"]) == (bank.name, [one.name for one in bank])
        assert ["other"] == [one.name for one in there]
        assert "there 1" == bank.agent("bob").call("bank-pay", amount=1)
        assert Outcome.UNKNOWN_TOOL is there.agent("bob").execute(ToolCall("1", "bank-pay", {"amount": 1})).outcome

    def test_grants_end_and_refusals_go_along(self, there: ToolRegistry) -> None:
        """Grants end as those of an unregistered tool do, here and there; a block goes along."""
        there.grant("bank-pay", "eve")
        there.block("bank-ask", "ian")
        Agent("eve", registry=there)

        bank = there.spinoff("bank")

        assert ([], []) == (there.grants(), bank.grants())
        assert ({"bob"}, {"ann", "bob", "eve"}) == (list_callers(bank, "bank-pay"), list_callers(bank, "bank-ask"))

    def test_options_stay(self) -> None:
        """The new registry hides refusals and masks errors where the old one did."""
        strict = ToolRegistry(name="strict", refusals="hide")
        strict.register_tool(Tool.from_function(pay, namespace="bank", owned_by="ann"))

        bank = strict.spinoff("bank")

        assert Outcome.UNKNOWN_TOOL is bank.agent("eve").execute(ToolCall("1", "bank-pay", {"amount": 1})).outcome

    @pytest.mark.parametrize("how", ["spinoff", "fork"])
    def test_names_of_secrets_stay(self, how: str) -> None:
        """Broken promise: the new registry has the options of this one. Its journal showed what this one hides."""
        old = ToolRegistry(secrets=["pin"])

        def unlock(pin: str) -> str:
            """Unlock."""
            return "open"

        old.register_tool(Tool("doors.unlock", fn=unlock, namespace="doors", owned_by="ann"))
        new = old.fork() if how == "fork" else old.spinoff("doors")
        new.journal = "memory"
        assert "open" == new.agent("ann").call("doors.unlock", pin="hush-hush")
        assert new.journal is not None and "hush-hush" not in str(list(new.journal.read()))

    def test_there_and_back(self, there: ToolRegistry) -> None:
        """What was spun off can be merged again."""
        names = [one.name for one in there]

        there.merge(there.spinoff("bank"))

        assert names == [one.name for one in there]

    def test_an_unknown_namespace(self, there: ToolRegistry) -> None:
        """A namespace without tools is an error with similar names, and nothing is made."""
        with pytest.raises(UnknownToolError, match="bank"):
            there.spinoff("bnak")

        assert 2 == len(there)

    def test_a_class_of_its_own_is_kept(self) -> None:
        """A registry of a derived class spins off one of that class."""

        class Own(ToolRegistry):
            """A registry of a program's own."""

        own = Own(name="own")
        tool("find", namespace="stock", owned_by="ann", registry=own)(pay)

        assert type(own.spinoff("stock")) is Own
