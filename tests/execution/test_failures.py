"""How calls end whose tools raise: an error of the tool, or a call of which nobody knows what came of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Outcome,
    RetryableToolError,
    ToolAccessError,
    ToolCall,
    ToolExecutionError,
    ToolInDoubtError,
    ToolRegistry,
    ToolResult,
)

UNKNOWN = "the bank's line went dead after the order was sent"
RAN: list[str] = []


@pytest.fixture
def registry() -> ToolRegistry:
    """A teller may pay, which ends in doubt, in a sync and an async tool; and call a tool that pays."""
    RAN.clear()
    registry = ToolRegistry(retries=2, retry_wait=0)

    @registry.tool("pay", owned_by="teller", retry_on=(RetryableToolError, ToolInDoubtError))
    def pay(amount: int) -> str:
        """Pay."""
        RAN.append("pay")
        raise ToolInDoubtError(UNKNOWN)

    @registry.tool("apay", owned_by="teller")
    async def apay(amount: int) -> str:
        """Pay."""
        RAN.append("apay")
        raise ToolInDoubtError(UNKNOWN)

    @registry.tool("order", owned_by="teller")
    def order(amount: int) -> str:
        """Pay, by a call."""
        registry.toolset("teller").call("pay", amount=amount)
        return "ordered"

    @registry.tool("aorder", owned_by="teller")
    async def aorder(amount: int) -> str:
        """Pay, by a call."""
        await registry.toolset("teller").acall("apay", amount=amount)
        return "ordered"

    @registry.tool("order_all", owned_by="teller")
    async def order_all(amount: int) -> str:
        """Pay, by a call of a task of its own."""
        async with asyncio.TaskGroup() as group:
            group.create_task(registry.toolset("teller").acall("apay", amount=amount))
        return "ordered"

    return registry


def pay(registry: ToolRegistry, tool: str, arguments: object, call_id: str | None = "one") -> ToolResult:
    """Call a tool that pays, in the way that fits it."""
    call = ToolCall(call_id, tool, arguments, "teller")
    return registry.execute(call) if tool in ("pay", "order") else asyncio.run(registry.aexecute(call))


class TestCallsInDoubt:
    @pytest.mark.parametrize("tool", ["pay", "apay"])
    @pytest.mark.parametrize("arguments", [{"amount": 1}, {"amount": "1"}], ids=["fast path", "pipeline"])
    def test_a_tool_says_that_its_effect_is_unknown(
        self, registry: ToolRegistry, tool: str, arguments: dict[str, object]
    ) -> None:
        """A `ToolInDoubtError` of the tool ends its call as `in_doubt`, which is never tried again."""
        result = pay(registry, tool, arguments)

        assert (Outcome.IN_DOUBT, "in-doubt", UNKNOWN) == (result.outcome, result.error_type, result.error)
        assert [tool] == RAN

    def test_the_error_is_the_tools_own(self, registry: ToolRegistry) -> None:
        """Whoever calls by `call` gets that error, with the result."""
        with pytest.raises(ToolInDoubtError, match="went dead") as caught:
            registry.toolset("teller").call("pay", amount=1)

        assert Outcome.IN_DOUBT is caught.value.result.outcome

    @pytest.mark.parametrize("tool", ["order", "aorder", "order_all"])
    def test_a_tool_whose_inner_call_is_in_doubt_is_so_itself(self, registry: ToolRegistry, tool: str) -> None:
        """Its work includes that of the inner call; it is not tried again, and its error names its own call."""
        with pytest.raises(ToolInDoubtError, match="went dead|TaskGroup") as caught:
            asyncio.run(registry.toolset("teller").acall(tool, amount=1))

        result = caught.value.result
        assert (tool, Outcome.IN_DOUBT) == (result.name, result.outcome)
        assert caught.value.call_id == result.tool_call_id
        assert 1 == len(RAN)

    @pytest.mark.parametrize("call_id", ["one", None])
    @pytest.mark.parametrize("tool", ["order", "aorder", "order_all"])
    def test_a_tool_runs_again_once_its_inner_call_is_resolved(
        self, registry: ToolRegistry, tool: str, call_id: str | None, tmp_path: Path
    ) -> None:
        """
        An idempotent one runs again when it is requested; another one when somebody says so.

        The promise was broken: its error was its result for ever, whatever `run.resolve` said of the inner call, and
        without an id it paid again.
        """
        registry.configure("order", idempotent=True)
        registry.journal = tmp_path / "runs.db"
        with registry.run("night") as run:
            first = pay(registry, tool, {"amount": 1}, call_id)
            inner, outer = sorted(run.in_doubt, key=lambda call: call.tool_name == tool)
            run.resolve(inner, result="paid")
            if tool != "order":
                assert [Outcome.IN_DOUBT] * 2 == [pay(registry, tool, {"amount": 1}, call_id).outcome for _ in range(2)]
                run.resolve(outer, rerun=True)
            again = pay(registry, tool, {"amount": 1}, call_id)

            assert [] == run.in_doubt
        registry.close()

        assert (Outcome.IN_DOUBT, "ordered", 1) == (first.outcome, again.result, len(RAN))

    def test_a_tool_that_goes_on_after_its_inner_call_is_resolved(self, tmp_path: Path) -> None:
        """The next equal call is one of its own, in each life; it had got the result of the first, which still ran."""
        RAN.clear()
        for _ in range(2):
            with ToolRegistry(journal=tmp_path / "runs.db") as registry, registry.run("night") as run:

                @registry.tool("draw", owned_by="ann")
                def draw() -> int:
                    """Draw."""
                    RAN.append("draw")
                    raise ToolInDoubtError(UNKNOWN)

                @registry.tool("look", owned_by="ann")
                def look() -> int:
                    """Draw, and look what came of it."""
                    try:
                        return registry.toolset("ann").call("draw")  # type: ignore[no-any-return]
                    except ToolInDoubtError as error:
                        with registry.as_operator():
                            run.resolve(str(error.call_id), result=len(RAN))
                        return len(RAN)

                assert [1, 2] == [registry.toolset("ann").call("look") for _ in range(2)]

    @pytest.mark.parametrize("tool", ["order", "aorder", "order_all"])
    def test_the_text_of_an_inner_call_is_masked(self, registry: ToolRegistry, tool: str) -> None:
        """What the inner tool says is for the tool around it; a model sees an error id, where errors are masked."""
        registry.configure(tool, errors="masked")

        assert "error id" in str(pay(registry, tool, {"amount": 1}).error)
        assert UNKNOWN == pay(registry, "pay", {"amount": 1}).error

    @pytest.mark.usefixtures("recording_path")
    @pytest.mark.parametrize("tool", ["pay", "apay"])
    def test_a_run_holds_it_until_somebody_has_looked(self, registry: ToolRegistry, tool: str, tmp_path: Path) -> None:
        """In a run such a call is in doubt, in this process and in the next: not run again before it is resolved."""
        registry.journal = tmp_path / "runs.db"
        with registry.run("night") as run:
            first = pay(registry, tool, {"amount": 1})
            again = pay(registry, tool, {"amount": 1})

            assert [tool] == [call.tool_name for call in run.in_doubt]
        with registry.run("night") as run:
            later = pay(registry, tool, {"amount": 1})
            run.resolve(run.in_doubt[0], result="paid")
            resolved = pay(registry, tool, {"amount": 1})
        registry.close()

        assert [Outcome.IN_DOUBT] * 3 == [first.outcome, again.outcome, later.outcome]
        assert (Outcome.OK, "paid", [tool]) == (resolved.outcome, resolved.result, RAN)


def make_unreadable(kind: type[BaseException], *, raises: bool) -> BaseException:
    """Return an exception of a subclass without what our constructor sets; *raises*: whose attributes raise, too."""
    names = ("message", "error_type", "result", "code", "errno") if raises else ()

    def refuse(_: object) -> Any:
        raise OSError("no attribute")

    attributes = {"__init__": lambda self, *_: None, **{name: property(refuse, lambda *_: None) for name in names}}
    error: BaseException = type("Own", (kind,), attributes)()
    return error


@pytest.mark.parametrize("errors", ["message", "masked"])
@pytest.mark.parametrize("raises", [False, True], ids=["left out", "raising"])
@pytest.mark.parametrize("kind", [ToolAccessError, ToolExecutionError, ToolInDoubtError, OSError, SystemExit])
@pytest.mark.parametrize("engine", [None, "thread"])
def test_errors_whose_attributes_cannot_be_read(kind: Any, raises: bool, errors: Any, engine: Any) -> None:
    """They end the call as any other error of the tool."""
    own = ToolRegistry(errors=errors)

    @own.tool("fail", owned_by="teller", engine=engine)
    def fail() -> None:
        """Fail."""
        raise make_unreadable(kind, raises=raises)

    result = own.execute(ToolCall("one", "fail", {}, "teller"))
    with pytest.raises((ToolExecutionError, ToolInDoubtError)):
        own.toolset("teller").call("fail")
    expected = Outcome.IN_DOUBT if kind is ToolInDoubtError else Outcome.TOOL_ERROR

    assert expected is result.outcome
    assert "fail" in result.for_model() or result.error
    own.close()
