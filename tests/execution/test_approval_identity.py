# Tests of: approvals
"""Requests for approvals: what an answer is bound to, and who waits for it; without a journal, and with each kind."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from clocks import HandClock
from execution_rig import ran  # noqa: F401

from praval_tools import (
    Allow,
    ApprovalRequest,
    Deny,
    Outcome,
    RegistryClosedError,
    ToolCall,
    ToolRegistry,
    ToolResult,
    ToolUsageError,
)

Execute = Callable[[ToolCall], ToolResult]


@pytest.fixture(params=["no journal", "memory", "file"])
def registry(
    request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock, ran: list[Any]
) -> Iterator[ToolRegistry]:
    """A registry with a tool that takes any object and needs an approval, with and without a journal."""
    journal = {"no journal": None, "memory": "memory", "file": tmp_path / "runs.db"}[request.param]
    registry = ToolRegistry(clock=clock, journal=journal)

    @registry.tool("store", owned_by="ann", requires_approval=True)
    def store(data: dict[str, Any]) -> str:
        """Store an object."""
        ran.append(data)
        return "stored"

    registry.grant("store", "cid")
    yield registry
    registry.close()


def store_call(data: Any, agent: str = "ann", call_id: str = "call_0", **more: Any) -> ToolCall:
    """Return a call under an id that providers use again and again."""
    return ToolCall(call_id, "store", {"data": data}, agent, **more)


class TestIdentityOfRequests:
    def test_calls_with_one_id_are_two_requests(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """
        Broken was: an approval is of the call that a person looked at.

        The later call of an id took the place of the earlier one, and was approved by the answer to that.
        """
        first, second = execute(store_call({"amount": 1})), execute(store_call({"amount": 99_000}, "cid"))
        assert [first.approval_id, second.approval_id] == [one.id for one in registry.approvals.pending()]

        with pytest.raises(ToolUsageError) as refused:
            registry.approvals.answer("call_0", Allow())
        assert all(part in str(refused.value) for part in (first.approval_id, second.approval_id, "ann", "cid"))
        assert "ambiguous-approval" == refused.value.code

        registry.approvals.answer(str(first.approval_id), Allow())
        assert Outcome.APPROVAL_REQUIRED is execute(store_call({"amount": 99_000}, "cid")).outcome
        assert Outcome.OK is execute(store_call({"amount": 1})).outcome
        assert [{"amount": 1}] == ran
        registry.approvals.answer("call_0", Deny("too much"))  # one alone waits by now
        assert Outcome.APPROVAL_DENIED is execute(store_call({"amount": 99_000}, "cid")).outcome

    def test_a_call_id_with_an_answered_request_names_none(self, registry: ToolRegistry, execute: Execute) -> None:
        """The answer to a call that somebody else has answered meanwhile does not answer the next one of its id."""
        first = execute(store_call({"amount": 1}))
        registry.approvals.answer(str(first.approval_id), Allow(by="eve"))
        second = execute(store_call({"amount": 99_000}))

        with pytest.raises(ToolUsageError) as refused:
            registry.approvals.answer("call_0", Allow(by="adam"))

        assert "ambiguous-approval" == refused.value.code
        assert [second.approval_id] == [one.id for one in registry.approvals.pending()]

    @pytest.mark.parametrize(
        "swapped", [{"id": True}, {"id": 1.0}, {"id": "1"}, {"id": [1]}, {"id": 1, "more": None}, {}], ids=str
    )
    def test_arguments_are_compared_exactly(
        self, registry: ToolRegistry, execute: Execute, ran: list[Any], swapped: Any
    ) -> None:
        """Broken was: bound to the exact arguments; `True` and `1.0` passed with the approval of `1`."""
        execute(store_call({"id": 1}))
        registry.approvals.answer("call_0", Allow())

        assert Outcome.APPROVAL_REQUIRED is execute(store_call(swapped)).outcome
        assert [] == ran
        assert Outcome.OK is execute(store_call({"id": 1})).outcome
        assert [{"id": 1}] == ran

    def test_the_order_of_keys_says_nothing(self, registry: ToolRegistry, execute: Execute) -> None:
        """The same arguments in another order are the same arguments."""
        execute(store_call({"a": 1, "b": {"c": 2, "d": 3}}))
        registry.approvals.answer("call_0", Allow())
        assert Outcome.OK is execute(store_call({"b": {"d": 3, "c": 2}, "a": 1})).outcome

    def test_arguments_swapped_while_the_person_thinks(
        self, registry: ToolRegistry, execute: Execute, ran: list[Any]
    ) -> None:
        """Broken was: what is answered is what was shown; the agent sent other arguments before the answer came."""
        (shown,) = [execute(store_call({"amount": 1})) and registry.approvals.pending()[0]]
        execute(store_call({"amount": 99_000}))
        registry.approvals.answer(shown.id, Allow())

        assert Outcome.APPROVAL_REQUIRED is execute(store_call({"amount": 99_000})).outcome
        assert [] == ran

    def test_on_whose_behalf_is_part_of_it(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """Broken was: bound to the principal; a chain, or a narrowing to some tools, was not looked at."""
        ann = registry.agent("ann")
        inherited = ann.delegate("sub", mode="inherit")
        narrowed = ann.delegate("sub", mode="inherit", tools=["store"])
        asks: list[Callable[[], ToolResult]] = [
            lambda: execute(store_call({})),
            lambda: inherited.execute(store_call({}, None)),
            lambda: narrowed.execute(store_call({}, None)),
        ]
        ids = [ask().approval_id for ask in asks]
        for index, ask in enumerate(asks):
            assert ids[index:] == [other().approval_id for other in asks[index:]]
            registry.approvals.answer(str(ids[index]), Allow())
            assert Outcome.OK is ask().outcome

    @pytest.mark.parametrize("change", ["origin", "risk"])
    def test_another_tool_of_the_same_definition(
        self, registry: ToolRegistry, execute: Execute, ran: list[Any], change: str
    ) -> None:
        """An answer is for the tool that was shown, not for one from elsewhere, nor for what is a greater risk now."""
        registry.approvals.answer(str(execute(store_call({"id": 1})).approval_id), Allow())

        def store(data: dict[str, Any]) -> str:
            """Store an object."""
            ran.append("elsewhere")
            return "stored"

        if change == "risk":
            registry.configure("store", risk_level="critical")
        else:
            registry.tool("store", owned_by="ann", requires_approval=True, replace=True)(store)
        assert (Outcome.APPROVAL_REQUIRED, []) == (execute(store_call({"id": 1})).outcome, ran)

    def test_another_tool_while_somebody_thinks(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """What takes the tool's place while a handler is asked needs an approval of its own."""
        asked: list[str] = []

        def store(data: dict[str, Any]) -> str:
            """Store an object."""
            ran.append("elsewhere")
            return "stored"

        def replace(request: ApprovalRequest) -> object:
            asked.append(request.tool)
            if len(asked) > 1:
                return Deny()
            registry.tool("store", owned_by="ann", requires_approval=True, replace=True)(store)
            return Allow()

        registry.set_approval_handler(replace)
        outcome = execute(store_call({"id": 1})).outcome
        assert (Outcome.APPROVAL_DENIED, [], ["store", "store"]) == (outcome, ran, asked)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_process(self, registry: ToolRegistry, execute: Execute) -> None:
        """Of a process and its fork, one uses an answer that was given before the fork."""
        registry.approvals.answer(str(execute(store_call({"id": 1})).approval_id), Allow())
        child = os.fork()
        if child == 0:
            try:
                os._exit(int(execute(store_call({"id": 1})).outcome is Outcome.OK))
            finally:
                os._exit(9)
        in_child = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert 1 == in_child + (execute(store_call({"id": 1})).outcome is Outcome.OK)

    def test_an_unknown_id(self, registry: ToolRegistry) -> None:
        """What nobody asked cannot be answered."""
        with pytest.raises(ToolUsageError, match="waits"):
            registry.approvals.answer("call_0", Allow())

    def test_equal_requests_are_one(self, registry: ToolRegistry, execute: Execute) -> None:
        """A call that is sent again while it waits is the request that waits already."""
        assert execute(store_call({})).approval_id == execute(store_call({})).approval_id
        assert 1 == len(registry.approvals.pending())

    def test_a_handler_that_is_set_later_ends_the_request(self, registry: ToolRegistry, execute: Execute) -> None:
        """Once a handler has answered, nobody else is asked for the same call."""
        execute(store_call({}))
        registry.set_approval_handler(lambda _: Allow())
        assert Outcome.OK is execute(store_call({})).outcome
        assert [] == registry.approvals.pending()

    def test_edited_arguments_are_an_object(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """Edits that are none are refused where they are given; from a handler they are a denial."""
        execute(store_call({}))
        with pytest.raises(ToolUsageError, match="arguments"):
            registry.approvals.answer("call_0", Allow("all"))  # type: ignore[arg-type]
        registry.set_approval_handler(lambda _: Allow("all"))  # type: ignore[arg-type]
        assert Outcome.APPROVAL_DENIED is execute(store_call({})).outcome
        assert [] == ran

    def test_edits_are_checked_as_they_run(self, registry: ToolRegistry, execute: Execute, ran: list[Any]) -> None:
        """Bounds and policies judge the edited arguments, not those that were asked for."""
        registry.grant("store", "dan", where={"data": {"maxProperties": 1}})
        registry.add_policy(lambda agent, tool, arguments: "no gold" if "gold" in arguments["data"] else None)
        for edit, outcome in (
            ({"a": 1, "b": 2}, Outcome.FORBIDDEN), ({"gold": 1}, Outcome.FORBIDDEN), ({"a": 2}, Outcome.OK)
        ):  # fmt: skip
            execute(store_call({"a": 1}, "dan"))
            registry.approvals.answer("call_0", Allow({"data": edit}))
            assert outcome is execute(store_call({"a": 1}, "dan")).outcome
        assert [{"a": 2}] == ran


class TestWaiting:
    """Who waits for an answer looks for it again and again; `looked` says that a waiter has seen that there is none."""

    @pytest.fixture
    def looked(self, clock: HandClock) -> threading.Event:
        """Set once somebody who waits with a timeout has looked for the first time."""
        looked, calls = threading.Event(), count()

        def monotonic() -> float:
            if next(calls):
                looked.set()
            return 0.0

        clock.monotonic = monotonic  # type: ignore[method-assign]
        return looked

    @pytest.mark.parametrize("is_used", [False, True], ids=["waits", "used meanwhile"])
    @pytest.mark.parametrize("driver", ["sync", "async"])
    def test_an_answer_wakes(
        self, registry: ToolRegistry, looked: threading.Event, clock: HandClock, driver: str, is_used: bool
    ) -> None:
        """Who waits gets the answer that is given in another thread, also where an equal call has used it by then."""
        registry.execute(store_call({}))
        wait, wait_async = registry.approvals.wait, registry.approvals.wait_async
        with ThreadPoolExecutor() as pool:
            waiter = pool.submit(
                wait if driver == "sync" else lambda *given: asyncio.run(wait_async(*given)), "call_0", 9
            )
            looked.wait(60)
            del clock.monotonic
            registry.approvals.answer("call_0", Allow(by="eve"))
            if is_used:
                assert Outcome.OK is registry.execute(store_call({})).outcome
            answer = waiter.result()
            assert answer is not None
            assert "eve" == answer.by

    def test_pauses_are_short(
        self, registry: ToolRegistry, looked: threading.Event, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who waits long sleeps half a second at most before the next look."""
        registry.execute(store_call({}))
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                registry.approvals.answer("call_0", Allow(by="eve"))

        monkeypatch.setattr(asyncio, "sleep", sleep)
        answer = asyncio.run(registry.approvals.wait_async("call_0", 3600))

        assert answer is not None and "eve" == answer.by
        assert 3 == len(pauses) and all(0 < pause <= 0.5 for pause in pauses)

    def test_in_vain(self, registry: ToolRegistry) -> None:
        """Nobody answers in time: there is no answer. An unknown id is an error."""
        registry.execute(store_call({}))
        assert None is registry.approvals.wait("call_0", 0)
        assert None is asyncio.run(registry.approvals.wait_async("call_0", timeout=0))
        with pytest.raises(ToolUsageError, match="waits"):
            registry.approvals.wait("call_1", 0)

    def test_until_the_request_expires(self, registry: ToolRegistry, looked: threading.Event, clock: HandClock) -> None:
        """Once nobody can answer any more, nobody waits any more."""
        registry.execute(store_call({}))
        with ThreadPoolExecutor() as pool:
            waiter = pool.submit(registry.approvals.wait, "call_0", 9)
            looked.wait(60)
            clock.moment += timedelta(hours=1)
            assert None is waiter.result()

    def test_a_closed_registry(self, registry: ToolRegistry, looked: threading.Event) -> None:
        """Closing the registry ends the waiting."""
        registry.execute(store_call({}))
        with ThreadPoolExecutor() as pool:
            waiter = pool.submit(registry.approvals.wait, "call_0", 9)
            looked.wait(60)
            registry.close()
            with pytest.raises(RegistryClosedError):
                waiter.result()
