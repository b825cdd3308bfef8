"""Recorded results belong to the whole principal: nobody gets those of another, and each finds its own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextvars import Context, copy_context
from pathlib import Path
from typing import Annotated, Any

import pytest

from praval_tools import (
    Agent,
    Outcome,
    ReplayMismatchError,
    Secret,
    ToolCall,
    ToolRegistry,
    ToolResult,
    current_call,
)
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

pytestmark = pytest.mark.usefixtures("recording_path")

CARD = "4111-1111-1111-1111"


class Bank:
    """A registry over one journal in which boss owns `pay`; it counts how often the tool ran."""

    def __init__(self, path: Path) -> None:
        self.path, self.ran = path, list[int]()
        self.open()

    def open(self) -> None:
        """Open the journal, as a process does when it starts."""
        self.registry = ToolRegistry(journal=self.path)

        @self.registry.tool("pay", owned_by="boss")
        def pay(amount: int) -> str:
            """Pay."""
            self.ran.append(amount)
            return f"paid {len(self.ran)}"

        self.boss = self.registry.agent("boss")
        self.sub = self.boss.delegate("intern", mode="inherit")

    def restart(self) -> None:
        """Close the journal, and open it again."""
        self.registry.close()
        self.open()

    def call(self, agent: Any, call_id: str | None = None, **more: Any) -> ToolResult:
        """Make one call of `pay`."""
        return self.registry.execute(ToolCall(call_id, "pay", {"amount": 5}, agent, **more))


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """A bank with an empty journal."""
    made = Bank(tmp_path / "bank.db")
    yield made
    made.registry.close()


class TestSomebodyElsesResult:
    @pytest.mark.parametrize("restarted", [False, True])
    def test_by_content(self, bank: Bank, restarted: bool) -> None:
        """An agent that may not call gets nothing of a call that it made on behalf of one who may."""
        with bank.registry.run("r"):
            assert "paid 1" == bank.call(bank.sub).result
            if not restarted:
                assert Outcome.FORBIDDEN is bank.call("intern").outcome
        if restarted:
            bank.restart()
            with bank.registry.run("r"):
                assert Outcome.FORBIDDEN is bank.call("intern").outcome
                again = bank.call(bank.sub)
                assert ("paid 1", True) == (again.result, again.replayed)
        assert [5] == bank.ran

    def test_by_id(self, bank: Bank) -> None:
        """The same for a call with the id of the other: it is another call, and says whose id it has."""
        with bank.registry.run("r"):
            bank.call(bank.sub, "c1")
            with pytest.raises(ReplayMismatchError, match="on behalf of 'boss'"):
                bank.call("intern", "c1")
        bank.restart()
        for match in ("id", "content", "position"):
            with bank.registry.run("r", match=match), pytest.raises(ReplayMismatchError):  # type: ignore[arg-type]
                bank.call("intern", "c1")
        assert [5] == bank.ran

    @pytest.mark.parametrize("call_id", ["c1", None])
    def test_of_another_delegation(self, bank: Bank, call_id: str | None) -> None:
        """Chains of the same names differ by mode and by tools; only the same delegation finds the record."""
        with bank.registry.run("r"):
            bank.call(bank.sub, call_id)
        bank.restart()
        others = [
            bank.boss.delegate("intern"), bank.boss.delegate("intern", [], "inherit"),
            bank.boss.delegate("clerk", mode="inherit").delegate("intern", mode="inherit"),
        ]  # fmt: skip
        for other in others:
            with bank.registry.run("r"):
                try:
                    assert not bank.call(other, call_id).replayed
                except ReplayMismatchError:
                    assert call_id is not None
        with bank.registry.run("r"):
            assert ("paid 1", True) == ((again := bank.call(bank.sub, call_id)).result, again.replayed)

    @pytest.mark.parametrize(
        "call",
        [
            ToolCall("c1", "pay", {"amount": 5}), ToolCall(None, "pay", {"amount": 5}),
            ToolCall("c1", "pay", {"amount": 5}, "no:agent"),
            ToolCall("c1", "pay", {"amount": 5}, None, None, ("boss",)),
        ],
    )  # fmt: skip
    def test_of_the_operator(self, bank: Bank, call: ToolCall) -> None:
        """A call that names no agent gets nothing of what the host's code called, which has no agent either."""
        with bank.registry.run("r"):
            assert "paid 1" == bank.registry.execute("c1", "pay", {"amount": 5}).result
        bank.restart()
        with bank.registry.run("r"):
            try:
                assert Outcome.FORBIDDEN is bank.registry.execute(call).outcome
            except ReplayMismatchError:
                assert call.tool_call_id is not None
            assert "paid 1" == bank.registry.execute("c1", "pay", {"amount": 5}).result
        assert [5] == bank.ran

    @pytest.mark.parametrize("junk", [5, "boss", ("no:name",), (1,), ["\ud800"], {"boss": 1}])
    def test_junk_for_a_chain_is_a_refusal(self, bank: Bank, junk: Any) -> None:
        """Whatever a call says of its chain, the result is a refusal, and it is recorded."""
        with bank.registry.run("r"):
            assert Outcome.FORBIDDEN is bank.call("boss", on_behalf_of=junk).outcome
        bank.restart()
        with bank.registry.run("r"):
            assert Outcome.FORBIDDEN is bank.call("boss", on_behalf_of=junk).outcome
            assert "paid 1" == bank.call("boss").result


class TestItsOwnResult:
    @pytest.mark.parametrize("said", [(), [], ("boss",), ["boss"]])
    def test_of_calls_inside_of_a_tool(self, bank: Bank, said: Any) -> None:
        """A call from inside of delegated work is recorded with its chain, however little it says of it."""
        for _ in range(2):
            registry, results = bank.registry, list[ToolResult]()

            @registry.tool("outer", owned_by="boss", idempotent=True)
            def outer(number: int) -> int:
                """Make a call."""
                results.append(bank.call("intern", on_behalf_of=said))
                raise KeyboardInterrupt

            with registry.run("r"), pytest.raises(KeyboardInterrupt):
                bank.sub.call("outer", number=1)
            bank.restart()
        assert [5] == bank.ran
        started = list(bank.registry.journal.read(tool="pay", type="agent_tool_call"))  # type: ignore[union-attr]
        assert [("intern", ("boss",))] == [(entry.event.agent, entry.event.chain) for entry in started]

    def test_however_the_principal_is_named(self, bank: Bank) -> None:
        """The object, the chain in the call and the toolset stand for one principal."""
        bank.registry.assign_tool_to_agent("pay", "intern")
        plain = bank.boss.delegate("intern")
        with bank.registry.run("r"):
            first = bank.call(plain)
        bank.restart()
        plain = bank.boss.delegate("intern")
        for call in (
            lambda: bank.call(plain),
            lambda: bank.call("intern", on_behalf_of=("boss",)),
            lambda: plain.execute(ToolCall(None, "pay", {"amount": 5})),
        ):
            with bank.registry.run("r"):
                result = call()
                assert (first.result, True) == (result.result, result.replayed)
        assert [5] == bank.ran

    def test_of_release_01(self, bank: Bank) -> None:
        """A delegated call that release 0.1 recorded, which wrote only the names of the chain, is found by these."""
        with bank.registry.run("r"):
            bank.call(bank.sub)
        bank.registry.close()
        with sqlite3.connect(bank.path) as file:
            tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in tables:
                columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
                if "body" in columns:
                    file.execute(
                        f"UPDATE {table} SET body = CAST(json_remove(CAST(body AS TEXT), '$.principal') AS BLOB) "
                        "WHERE json_extract(CAST(body AS TEXT), '$.principal') IS NOT NULL"
                    )
                    assert file.total_changes > 0
        file.close()
        bank.open()
        with bank.registry.run("r"):
            assert Outcome.FORBIDDEN is bank.call("intern").outcome
            assert bank.call(bank.sub).replayed
        assert [5] == bank.ran


class TestConversations:
    def test_a_conversation_belongs_to_its_principal(self, bank: Bank) -> None:
        """A model's recorded replies are used again by the principal whose tools it was offered, and by no other."""

        def ask(agent: Agent) -> str:
            with bank.registry.run("r"):
                return str(
                    ToolLoop(agent, fake_model("for the principal" if agent.chain else "for intern")).run("hi").text
                )

        assert "for the principal" == ask(bank.sub)
        assert "for intern" == ask(bank.registry.agent("intern"))
        bank.restart()
        assert ["for the principal", "for intern"] == [ask(bank.sub), ask(bank.registry.agent("intern"))]


class TestLoops:
    def test_inside_delegated_work(self, bank: Bank) -> None:
        """A loop of a handle that was made outside is one of the chain: it finds no replies of the agent alone."""
        assert "The code is 7." == ToolLoop(bank.boss, fake_model("The code is 7.")).run("Go.", "R").text
        inner, contexts = ToolLoop(bank.boss, fake_model("I do not know.")), list[Context]()

        @bank.registry.tool("leave", shared=True)
        def leave() -> None:
            """Leave work behind."""
            contexts.append(copy_context())

        worker = Agent("worker", registry=bank.registry, function=lambda: inner.run("Go.", "R").text)
        bank.sub.delegate("boss").call("leave")
        assert "I do not know." == contexts[0].run(worker)

    def test_name_the_chain(self, bank: Bank) -> None:
        """What is recorded of a loop that a tool runs with such a handle says for whom it was."""
        inner = ToolLoop(bank.boss, fake_model("Done."))

        @bank.registry.tool("work", shared=True)
        def work() -> str:
            """Run the loop."""
            return inner.run("Go.", "R").text

        caller = bank.registry.agent("lead").delegate("helper")
        assert "Done." == caller.call("work")
        (began,) = bank.registry.journal.read(type="loop_began")  # type: ignore[union-attr]
        assert caller.delegate("boss").principal.delegation_digest == began.event.principal  # type: ignore[union-attr]

    def test_with_secrets_find_their_own_calls(self, bank: Bank) -> None:
        """A resumed loop whose recorded reply lacks a secret takes no result that another call has under its id."""

        def declare(registry: ToolRegistry) -> None:
            @registry.tool("note", owned_by="clerk")
            @registry.tool("send", owned_by="boss")
            def note(card: Annotated[str, Secret]) -> str:
                """Note a card."""
                return "noted"

            @registry.tool("peek", owned_by="boss")
            def peek() -> None:
                """Make a call under the id of one that the model makes later."""
                call = current_call()
                assert call is not None and call.tool_call_id is not None
                loop_id, _, name = call.tool_call_id.split(".")
                registry.execute(ToolCall(f"{loop_id}.2.{name}", "note", {"card": CARD}, "clerk", call.run_id))

        declare(bank.registry)
        replies = ToolCall("c", "peek", {}), ToolCall("c", "send", {"card": CARD})
        with pytest.raises(ReplayMismatchError, match="by 'clerk'"):
            ToolLoop(bank.boss, fake_model(*replies)).run("Go.", "R")
        bank.restart()
        declare(bank.registry)
        again = ToolLoop(bank.boss, fake_model("I ask again.")).run("Go.", "R")
        assert ["peek"] == [result.name for result in again.results]
        assert "I ask again." == again.text
