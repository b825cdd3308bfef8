"""Random histories of approvals agree with a plain model: what waits, what is answered, and what an answer lets run."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clocks import HandClock
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from praval_tools import Allow, Deny, Outcome, ToolCall, ToolRegistry, ToolResult, ToolUsageError

ARGUMENTS: tuple[Any, ...] = (
    1, True, 1.0, "1", None, [1], [True], {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": True, "b": 2},
)  # fmt: skip
CALLERS = ("ann", "cid", "sub for ann", "sub for ann, narrowed")
IDS = ("call_0", "call_1")
LIFETIME = timedelta(hours=1)


class Request:
    """A request as the model knows it: what it is bound to, its answer, and when it is over."""

    def __init__(self, key: object, approval_id: str, expires: object) -> None:
        self.key, self.id, self.expires = key, approval_id, expires
        self.answer: Allow | Deny | None = None


def freeze(value: Any) -> object:
    """Return a key that two arguments share exactly if they are the same JSON: types differ, the order of keys not."""
    if isinstance(value, dict):
        return "object", frozenset((name, freeze(member)) for name, member in value.items())
    if isinstance(value, list):
        return "list", tuple(map(freeze, value))
    return type(value).__name__, value


class Histories(RuleBasedStateMachine):
    """Requests, answers, swaps of arguments, callers and definitions, and time that passes, on one or two hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.version, self.requests = HandClock(), 0, list[Request]()
        self.ran: list[tuple[int, object]] = []
        self.folder = tempfile.TemporaryDirectory()
        self.hosts: list[ToolRegistry] = []
        self.journal: str | Path | None = None

    @initialize(journal=st.sampled_from([None, "memory", "file"]))
    def open(self, journal: str | None) -> None:
        """Without a journal, or with one in memory, there is one host; on a file there are two."""
        self.journal = Path(self.folder.name) / "runs.db" if journal == "file" else journal
        self.hosts = [
            ToolRegistry(journal=self.journal, clock=self.clock) for _ in range(2 if journal == "file" else 1)
        ]
        for host in self.hosts:
            self.declare(host)
            host.grant("store", "cid")

    def teardown(self) -> None:
        for host in self.hosts:
            host.close()
        self.folder.cleanup()

    def declare(self, host: ToolRegistry) -> None:
        """Declare the tool in its present version."""
        version = self.version

        @host.tool(
            "store", owned_by="ann", requires_approval=True, replace=True, description=f"Store, version {version}."
        )
        def store(data: Any) -> int:
            self.ran.append((version, freeze(data)))
            return version

    def send(self, host: int, caller: str, call_id: str, data: Any) -> ToolResult:
        """Send a call."""
        registry = self.hosts[host % len(self.hosts)]
        call = ToolCall(call_id, "store", {"data": data}, caller if caller in ("ann", "cid") else None)
        if call.agent is not None:
            return registry.execute(call)
        tools = ["store"] if caller.endswith("narrowed") else None
        return registry.agent("ann").delegate("sub", mode="inherit", tools=tools).execute(call)

    def live(self) -> list[Request]:
        """Return the requests that are not over."""
        return [request for request in self.requests if request.expires > self.clock.now()]  # type: ignore[operator]

    @rule(
        host=st.integers(0, 1), caller=st.sampled_from(CALLERS), call_id=st.sampled_from(IDS),
        data=st.sampled_from(ARGUMENTS),
    )  # fmt: skip
    def call(self, host: int, caller: str, call_id: str, data: Any) -> None:
        """A call passes exactly if an equal one was approved and nobody used that; else it waits, or is denied."""
        key = caller, call_id, self.version, freeze(data)
        known = next((request for request in self.live() if request.key == key), None)
        ran_before = list(self.ran)
        result = self.send(host, caller, call_id, data)
        if known is None or known.answer is None:
            assert Outcome.APPROVAL_REQUIRED is result.outcome
            assert self.ran == ran_before
            assert result.approval_id is not None
            if known is None:
                assert result.approval_id not in {request.id for request in self.requests}
                self.requests.append(Request(key, result.approval_id, self.clock.now() + LIFETIME))
            else:
                assert known.id == result.approval_id
            return
        self.requests.remove(known)
        if isinstance(known.answer, Deny):
            assert (Outcome.APPROVAL_DENIED, ran_before) == (result.outcome, self.ran)
            return
        expected = data if known.answer.arguments is None else known.answer.arguments["data"]
        assert Outcome.OK is result.outcome, result
        assert [*ran_before, (self.version, freeze(expected))] == self.ran

    @rule(
        host=st.integers(0, 1), index=st.integers(0, 9), by_call=st.booleans(),
        answer=st.sampled_from([Allow(), Deny("no"), Allow({"data": "edited"})]),
    )  # fmt: skip
    def answer(self, host: int, index: int, by_call: bool, answer: Allow | Deny) -> None:
        """An answer is of the one request that it names; an id of several, or of none that waits, is refused."""
        if not self.requests:
            return
        target = self.requests[index % len(self.requests)]
        name = target.key[1] if by_call else target.id  # type: ignore[index]
        named = [request for request in self.live() if name == request.id]
        named = named or [request for request in self.live() if name == request.key[1]]  # type: ignore[index]
        waiting = named if len(named) > 1 else [request for request in named if request.answer is None]
        approvals = self.hosts[host % len(self.hosts)].approvals
        if len(waiting) != 1:
            with pytest.raises(ToolUsageError) as refused:
                approvals.answer(name, answer)
            assert all(request.id in str(refused.value) for request in waiting)
            return
        approvals.answer(name, answer)
        waiting[0].answer = answer

    @rule(minutes=st.sampled_from([1, 25, 61]))
    def wait(self, minutes: int) -> None:
        """Time passes."""
        self.clock.moment += timedelta(minutes=minutes)

    @rule()
    def redefine(self) -> None:
        """The tool gets another definition, everywhere."""
        self.version += 1
        for host in self.hosts:
            self.declare(host)

    @rule(index=st.integers(0, 1))
    def restart(self, index: int) -> None:
        """One of the processes ends, and another takes its place; without a file everything would be lost."""
        if not isinstance(self.journal, Path):
            return
        self.hosts[index].close()
        self.hosts[index] = ToolRegistry(journal=self.journal, clock=self.clock)
        self.declare(self.hosts[index])

    @invariant()
    def all_see_what_waits(self) -> None:
        """Every host lists exactly the requests that wait, the oldest first."""
        expected = [request.id for request in self.live() if request.answer is None]
        for host in self.hosts:
            assert sorted(expected) == sorted(request.id for request in host.approvals.pending())


class TestHistories:
    def test_agree_with_the_model(self) -> None:
        """Requests, answers, swaps, expiry and restarts: what runs is what somebody approved, once, in each history."""
        run_state_machine_as_test(Histories)  # type: ignore[no-untyped-call]
