"""A call that is made again in the run in which it was resolved is that call, and the same program goes on."""

# Tests of: journal/replay, runs/run

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from praval_tools import ToolCall, ToolContext, ToolExecutionError, ToolInDoubtError, ToolRegistry

MODES: Any = ["content", "position", "id"]
RESOLUTIONS: list[Any] = [{"result": "given"}, {"rerun": True}]


class Post:
    """A post office whose first letter ends the process after it was sent."""

    def __init__(self, path: Path) -> None:
        self.path, self.sent, self.notes = path, list[str](), list[str]()

    def open_registry(self) -> ToolRegistry:
        """Return a registry as a new process has it."""
        registry = ToolRegistry(journal=self.path)

        @registry.tool("send", owned_by="ann")
        def send(to: str) -> str:
            """Send."""
            self.sent.append(to)
            if len(self.sent) == 1:
                raise KeyboardInterrupt
            return "sent"

        @registry.tool("note", owned_by="ann")
        def note(text: str) -> str:
            """Note."""
            self.notes.append(text)
            return text

        return registry


def run_program(registry: ToolRegistry, mode: Any, resolution: Any, equal_calls: int) -> list[object]:
    """Send letters; where nobody knows of one, have the operator say it, and make the call again."""
    with registry.run("r", mode) as run:
        ann, values = registry.toolset("ann"), list[object]()
        for _ in range(equal_calls):
            try:
                values.append(ann.call("send", to="bob"))
            except ToolInDoubtError as error:
                run.resolve(str(error.call_id), **resolution)
                values.append(ann.call("send", to="bob"))
            ann.call("note", text="next")
        return values


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("resolution", RESOLUTIONS, ids=["given", "rerun"])
@pytest.mark.parametrize("equal_calls", [1, 2])
def test_are_the_same_call(mode: Any, resolution: Any, equal_calls: int, tmp_path: Path) -> None:
    """Broken promise: by position it was another call, sent again, and the unchanged program was refused for ever."""
    post, values = Post(tmp_path / "runs.db"), list[list[object]]()
    with pytest.raises(KeyboardInterrupt), post.open_registry() as registry:
        run_program(registry, mode, resolution, equal_calls)
    for _ in range(3):
        with post.open_registry() as registry:
            values.append(run_program(registry, mode, resolution, equal_calls))
    first = "given" if "result" in resolution else "sent"
    assert [[first, "sent"][:equal_calls]] * 3 == values
    assert equal_calls + ("rerun" in resolution) == len(post.sent)
    assert equal_calls == len(post.notes)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("resolution", [*RESOLUTIONS, {"error": "lost"}], ids=["given", "rerun", "error"])
def test_in_doubt_since_the_run_was_opened_too(mode: Any, resolution: Any, tmp_path: Path) -> None:
    """Broken promise: a tool that said it does not know what it did was run a second time, after the operator knew."""
    sent, outcomes = list[str](), list[list[str]]()

    def open_registry() -> ToolRegistry:
        registry = ToolRegistry(journal=tmp_path / "runs.db")

        @registry.tool("send", owned_by="ann")
        def send(to: str) -> str:
            """Send."""
            sent.append(to)
            if len(sent) == 1:
                raise ToolInDoubtError("the line broke")
            return "sent"

        return registry

    call = ToolCall(None, "send", {"to": "bob"}, "ann")
    for _ in range(3):
        with open_registry() as registry, registry.run("r", mode) as run:
            try:
                registry.toolset("ann").call("send", to="bob")
                outcomes.append(["ok"])
            except ToolInDoubtError as error:
                assert "r" == error.run_id
                run.resolve(str(error.call_id), **resolution)
                outcomes.append(["in_doubt", registry.execute(call).outcome.value])
            except ToolExecutionError:
                outcomes.append(["tool_error"])
    last = "tool_error" if "error" in resolution else "ok"
    assert [["in_doubt", last], [last], [last]] == outcomes
    assert 1 + ("rerun" in resolution) == len(sent)


@pytest.mark.parametrize("next_id", ["c2", None])
def test_are_not_what_is_recorded_next(next_id: str | None, tmp_path: Path) -> None:
    """By position, an equal call that has its own record, or an id of its own, is that one."""
    post = Post(tmp_path / "runs.db")

    def send(registry: ToolRegistry, call_id: str | None) -> str:
        return registry.execute(ToolCall(call_id, "send", {"to": "bob"}, "ann")).outcome.value

    with pytest.raises(KeyboardInterrupt), post.open_registry() as registry, registry.run("r", "position"):
        send(registry, None)
    with post.open_registry() as registry, registry.run("r", "position"):
        assert ["in_doubt", "ok"] == [send(registry, None), send(registry, next_id)]
    with post.open_registry() as registry, registry.run("r", "position") as run:
        assert "in_doubt" == send(registry, None)
        run.resolve(run.in_doubt[0], result="given")
        assert "ok" == send(registry, next_id)
    assert 2 == len(post.sent)


def test_one_error_of_several_calls_puts_each_in_doubt() -> None:
    """Calls that wait for one connection get one error object when it is lost; the second was an ordinary error."""
    registry, lost = ToolRegistry(journal="memory"), ToolInDoubtError("the line broke")

    @registry.tool("send", owned_by="ann")
    def send(to: str) -> str:
        """Send."""
        raise lost

    with registry.run("r") as run:
        for to in ("bob", "eve"):
            with pytest.raises(ToolInDoubtError, match="the line broke") as caught:
                registry.toolset("ann").call("send", to=to)
            assert "r" == caught.value.run_id
            assert caught.value.call_id == run.in_doubt[-1].tool_call_id
        assert 2 == len(run.in_doubt)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["resolved", "interrupted"])
def test_finds_the_calls_inside_that_it_had_made(mode: Any, how: str) -> None:
    """Broken promise: a call that was let run again in the same opening repeated the calls that it had made inside."""
    registry, charged, keys = ToolRegistry(journal="memory"), list[int](), list[str | None]()

    @registry.tool("charge", owned_by="ann")
    def charge(amount: int, context: ToolContext) -> int:
        """Charge."""
        charged.append(amount)
        keys.append(context.idempotency_key)
        return len(charged)

    @registry.tool("order", owned_by="ann", idempotent=how == "interrupted")
    def order() -> list[int]:
        """Order."""
        amounts = (5, 5, 7)[: 2 + len(orders)]
        values: list[int] = [registry.toolset("ann").call("charge", amount=amount) for amount in amounts]
        orders.append(values)
        if len(orders) == 1:
            raise ToolInDoubtError("the line broke") if how == "resolved" else KeyboardInterrupt
        return values

    orders, call = list[list[int]](), ToolCall("c1", "order", {}, "ann")
    with registry.run("r", mode) as run:
        if how == "resolved":
            assert "in_doubt" == registry.execute(call).outcome
            run.resolve("c1", rerun=True)
        else:
            with pytest.raises(KeyboardInterrupt):
                registry.execute(call)
        assert [1, 2, 3] == registry.execute(call).result
    assert [5, 5, 7] == charged and 3 == len(set(keys))
    with registry.run("r", mode):
        assert [1, 2, 3] == registry.execute(call).result
    assert 3 == len(charged)


@pytest.mark.parametrize("mode", MODES)
def test_finds_a_call_inside_that_waits(mode: Any) -> None:
    """By position, one inside that waited for an approval had no place any more, and the call ended in an error."""
    registry, done = ToolRegistry(journal="memory"), list[str]()

    @registry.tool("ask", owned_by="ann", requires_approval=True)
    def ask() -> str:
        """Ask."""
        return "asked"

    @registry.tool("note", owned_by="ann")
    def note() -> str:
        """Note."""
        done.append("note")
        return "noted"

    @registry.tool("order", owned_by="ann")
    def order() -> list[str]:
        """Order."""
        outcomes = [registry.execute(ToolCall(None, name, {}, "ann")).outcome.value for name in ("ask", "note")]
        done.append("order")
        if done.count("order") == 1:
            raise ToolInDoubtError("the line broke")
        return outcomes

    call = ToolCall("c1", "order", {}, "ann")
    with registry.run("r", mode) as run:
        assert "in_doubt" == registry.execute(call).outcome
        run.resolve("c1", rerun=True)
        assert ["approval_required", "ok"] == registry.execute(call).result
    assert 1 == done.count("note")


@pytest.mark.parametrize("mode", MODES)
def test_leaves_a_call_inside_in_doubt(mode: Any) -> None:
    """What the operator says of a call says nothing of one inside, which is in doubt until it is resolved, too."""
    registry, done = ToolRegistry(journal="memory"), list[str]()

    @registry.tool("pay", owned_by="ann")
    def pay() -> str:
        """Pay."""
        done.append("pay")
        raise ToolInDoubtError("the line broke")

    @registry.tool("order", owned_by="ann")
    def order() -> str:
        """Order."""
        result = registry.execute(ToolCall(None, "pay", {}, "ann"))
        done.append("order")
        if done.count("order") == 1:
            raise ToolInDoubtError("the line broke")
        return str(result.result or result.outcome.value)

    call = ToolCall("c1", "order", {}, "ann")
    with registry.run("r", mode) as run:
        assert "in_doubt" == registry.execute(call).outcome
        run.resolve("c1", rerun=True)
        assert "in_doubt" == registry.execute(call).result
    with registry.run("r", mode) as run:
        assert ["pay"] == [recorded.tool_name for recorded in run.in_doubt]
        assert "in_doubt" == registry.execute(call).result
    assert 1 == done.count("pay")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_two_equal_calls_the_resolved_one_is_made_again(mode: Any, order: tuple[int, int], tmp_path: Path) -> None:
    """The call that is made again after one of them was resolved is that one, whichever it is."""
    call = ToolCall(None, "send", {"to": "bob"}, "ann")
    values = list[list[object]]()
    for life in range(3):
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:

            @registry.tool("send", owned_by="ann")
            def send(to: str) -> str:
                """Send."""
                raise ToolInDoubtError("the line broke")

            with registry.run("r", mode) as run:
                results = [registry.execute(call), registry.execute(call)]
                again = list[object]()
                for number in order if life == 1 else ():
                    run.resolve(str(results[number].tool_call_id), result=f"letter {number}")
                    again.append(registry.execute(call).result)
                values.append(again if life == 1 else [one.result for one in results])

    assert [[None, None], [f"letter {number}" for number in order], ["letter 0", "letter 1"]] == values
