"""Random lives of a run agree with a plain model: each call of a program has its effect once, whatever stops it."""

# Tests of: journal/replay, runs/recorder, runs/run

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from write_ahead_rig import FailingStore, StoppedCall

from praval_tools import Allow, Deny, Outcome, ToolCall, ToolContext, ToolInDoubtError, ToolRegistry, ToolResult
from praval_tools.errors import JournalError
from praval_tools.journal.storage.sql_store import SqlStore

PROGRAMS = settings().max_examples // 5
"""How many programs and their lives there are."""
LEAVES = ["plain", "idempotent", "asked", "asked_idempotent"]
OUTER = ["outer", "outer_idempotent"]
ENTERED_FAULTS = ["nothing", "nothing", "nothing", "stop", "doubt", "error"]
"""What may happen in a tool, after its effect."""
FAULTS = ["nothing", "nothing", "cancel", "drop", "refuse start", "refuse result"]
"""What may happen around a call."""
FAILING_RECORDS = {"refuse start": "agent_tool_call", "refuse result": "agent_tool_result"}
ENDS = (Outcome.OK, Outcome.APPROVAL_DENIED, Outcome.TOOL_ERROR)


class Stopped(BaseException):
    """Ends a call in its tool, as the end of the process would."""


class Step(NamedTuple):
    """A call of the program, with the calls that its tool makes."""

    tool: str
    number: int
    call_id: str | None
    inner: tuple[Step, ...] = ()


def make_program(random: Random, mode: str) -> list[Step]:
    """Make a program: some of its calls are equal, some have ids, some have calls inside."""
    total = 0

    def make_step(depth: int) -> Step:
        nonlocal total
        total += 1
        call_id = f"c{total}" if mode == "id" or random.random() < 0.25 else None
        if depth < 2 and random.random() < 0.33:
            number = total
            inner = tuple(make_step(depth + 1) for _ in range(random.randint(1, 2)))
            return Step(random.choice(OUTER), number, call_id, inner)
        return Step(random.choice(LEAVES), random.randint(0, 1), call_id)

    return [make_step(0) for _ in range(random.randint(1, 3))]


class ModeledRun:
    """A run of a program over one journal, in one life after another, and what a plain model says of its calls."""

    def __init__(self, folder: Path, mode: Any, random: Random) -> None:
        self.mode, self.random, self.program = mode, random, make_program(random, mode)
        self.store = FailingStore(SqlStore(folder / "runs.db"))
        self.is_undisturbed = False
        steps = list_steps(self.program)
        self.steps = Counter((step.tool, step.number) for step in steps)
        self.inner = {step.number: step.inner for step in steps if step.inner}
        self.kinds = dict[str, tuple[str, int]]()
        self.entered, self.permitted, self.approved = Counter[str](), Counter[str](), Counter[str]()
        self.ended, self.violations = set[str](), list[str]()
        self.registry, self.run = ToolRegistry(), Any

    def choose(self, *options: Any) -> Any:
        """Choose what happens; in an undisturbed life that is the first of the options."""
        return options[0] if self.is_undisturbed else self.random.choice(options)

    # ── the tools, and what the model says of them ──────────────────────────────────────────────

    def declare_tools(self) -> None:
        """Open a registry with the tools, as the next process has it."""
        self.registry = registry = ToolRegistry(journal=self.store, retry_wait=0)

        def declare(name: str) -> None:
            async def work(number: int, context: ToolContext) -> str:
                """Work."""
                call_id = str(context.idempotency_key).partition("/")[2]
                self.enter(name, number, call_id)
                for step in self.inner[number] if name in OUTER else ():
                    if (await self.request(step)).outcome not in ENDS:
                        raise ToolInDoubtError("a call inside has not ended")
                await asyncio.sleep(0)
                self.fail()
                return f"{call_id} {self.entered[call_id]}"

            options: Any = {"requires_approval": "asked" in name, "idempotent": "idempotent" in name}
            registry.tool(name, owned_by="ann", **options)(work)

        for name in [*LEAVES, *OUTER]:
            declare(name)
            registry.limits.set(tool=name, per_run=sum(self.steps[step] for step in self.steps if step[0] == name) or 1)

    def enter(self, name: str, number: int, call_id: str) -> None:
        """Count an effect, and note where the model does not allow it: an error here would be one of the tool."""
        self.entered[call_id] += 1
        kind = self.kinds.setdefault(call_id, (name, number))
        checks = {
            "it is another call": (name, number) == kind,
            "it has ended, or was denied": call_id not in self.ended,
            "nobody let it run again": "idempotent" in name or self.entered[call_id] <= 1 + self.permitted[call_id],
            "nobody approved it": "asked" not in name or self.entered[call_id] <= self.approved[call_id],
            "the program has fewer such calls": Counter(self.kinds.values())[kind] <= self.steps[kind],
        }
        self.violations += [f"{name}({number}) {call_id}: {check}" for check, holds in checks.items() if not holds]

    def fail(self) -> None:
        """Fail as chosen, after the effect."""
        fault = self.choose(*ENTERED_FAULTS)
        if fault == "stop":
            raise Stopped
        if fault == "doubt":
            raise ToolInDoubtError("the line broke")
        if fault == "error":
            raise ValueError("wrong")

    # ── the program ─────────────────────────────────────────────────────────────────────────────

    async def request(self, step: Step) -> ToolResult:
        """Make a call once."""
        call = ToolCall(step.call_id, step.tool, {"number": step.number}, "ann")
        result = await self.registry.aexecute(call)
        if result.outcome is Outcome.LIMITED:
            self.violations.append(f"{step}: a call is counted once")
        if result.outcome in ENDS and step.call_id is None:
            self.ended.add(str(result.tool_call_id))
        return result

    async def try_call(self, step: Step) -> ToolResult | None:
        """Make a call once, with what is chosen to happen around it; return None where it was stopped."""
        fault = self.choose(*FAULTS)
        places = self.random.sample(range(1, 7), self.random.randint(1, 2)) if fault in ("cancel", "drop") else []
        self.store.fails = {FAILING_RECORDS[fault]} if fault in FAILING_RECORDS else set()

        async def make_call() -> ToolResult:
            return await StoppedCall(self.request(step), places.__contains__, drops=fault == "drop")

        try:
            return await asyncio.ensure_future(make_call())
        except (asyncio.CancelledError, JournalError, Stopped):
            return None
        finally:
            self.store.fails = set()

    async def make_call(self, step: Step) -> str | None:
        """Make a call until it has ended, and return how; None: the life ends before."""
        for _ in range(20 if self.is_undisturbed else 4):
            ends = self.count_ends()
            result = await self.try_call(step)
            if result is not None and result.outcome in ENDS:
                return f"{result.outcome.value} {result.result}"
            if result is None and step.call_id is None and ends != self.count_ends():
                return None  # it has ended as it was stopped: made again, it would be the next call
            if not self.choose(True, False):
                return None
            self.answer_and_resolve()
        return None

    def count_ends(self) -> int:
        """Return how many calls of the run have ended, as far as is recorded."""
        return sum(recorded.outcome in ENDS for recorded in self.run.calls)

    def answer_and_resolve(self) -> None:
        """Resolve what is in doubt, and answer what waits, as chosen."""
        for recorded in self.run.in_doubt:
            how = self.choose("rerun", "rerun", "result", "error")
            if how == "rerun":
                self.permitted[recorded.tool_call_id] += 1
                self.run.resolve(recorded, rerun=True)
            else:
                self.ended.add(recorded.tool_call_id)
                self.run.resolve(recorded, **{how: "given"})
        for request in self.registry.approvals.pending():
            if self.choose(True, True, False):
                self.approved[request.tool_call_id] += 1
                self.registry.approvals.answer(request.id, Allow())
            else:
                self.ended.add(request.tool_call_id)
                self.registry.approvals.answer(request.id, Deny("no"))

    async def live(self) -> list[str] | None:
        """Run the program, and return how its calls ended; None: the life ends before."""
        self.declare_tools()
        try:
            async with self.registry.run("r", self.mode) as self.run:
                if self.choose(True, False):
                    self.answer_and_resolve()
                ends = []
                for step in self.program:
                    if (end := await self.make_call(step)) is None:
                        return None
                    ends.append(end)
                return ends
        finally:
            self.registry.close()


def list_steps(steps: Iterable[Step]) -> list[Step]:
    """Return steps with all that are inside of them."""
    return [one for step in steps for one in (step, *list_steps(step.inner))]


@pytest.mark.parametrize("mode", ["content", "position", "id"])
@pytest.mark.parametrize("seed", range(PROGRAMS))
@pytest.mark.filterwarnings("ignore:A result was lost:praval_tools.errors.JournalWarning")
def test_each_call_has_its_effect_once(mode: Any, seed: int) -> None:
    """
    Whatever stops calls and lives, and whoever answers and resolves: no call has an effect that nobody allowed.

    In the end the unchanged program goes through, with the same results each time, and with no further effect.
    """
    with tempfile.TemporaryDirectory() as folder:
        modeled = ModeledRun(Path(folder), mode, Random(seed))
        try:
            for _ in range(modeled.random.randint(1, 3)):
                asyncio.run(modeled.live())
            modeled.is_undisturbed = True
            ends = asyncio.run(modeled.live())
            assert ends is not None, "the program does not go through"
            entered = dict(modeled.entered)
            assert ends == asyncio.run(modeled.live())
            assert entered == modeled.entered
            assert [] == modeled.violations
        finally:
            modeled.store.store.close()
