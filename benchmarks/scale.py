"""
The plan for 10,000 calls a second, simulated: processes, PostgreSQL stores, workers, and what is full first.

`python benchmarks/scale.py [--docs]`

A discrete-event simulation with the standard library alone, seeded, so that every run prints the same. What a step
takes is in `scale_costs.json`, measured by `scale_store.py` and `scale_catalogue.py`; what is assumed is said here.
`--docs` writes the tables into `docs/explanation/scale.md`; a test compares the two.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from _scale_costs import Section, read_origin, read_section

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "scale.md"

RATE: Final = 10_000.0  # calls a second of the whole plan
PROCESSES: Final = 16  # at least, over all stores
TOOL_SECONDS: Final = 0.05  # of a tool, waiting and not computing: the mean of an exponential distribution
SERVER_CORES: Final = 8  # of the machine of each store
BROKER_SECONDS: Final = 0.002  # from a caller to a worker that is free
LOOK_SECONDS: Final = 0.002  # between two looks of a process for the answers of workers
WORKER_LOAD: Final = 0.7  # how busy the workers are planned to be

_MAX_GROUP_SIZE = 1_999
_CALLERS = 64
_FULL_CALLERS = 128
"""Of each process, when a plan is to show what it carries at most."""
_RESOURCES: Final = ("interpreter", "lock", "cores", "table", "workers")
_Action = Callable[[], None]


@dataclass(frozen=True)
class Costs:
    """Seconds of each step, from what was measured in microseconds."""

    call: float  # processor time of a process for a call in a large group
    group: float  # and for each group that it writes
    lock_group: float  # under the store's lock
    lock_row: float
    log: float  # one wait for the disk
    server: float  # processor time of the server for a call
    small: float  # and for a transaction of one row
    worker_add: float  # of the one connection of a process for calls on workers
    worker_delete: float
    worker_run: float  # of a worker, to claim a call and to end it
    worker_read: float  # of the thread that looks for answers
    counted_group: float  # under the lock, for a group with calls whose grants count
    counted: float  # and for each such call
    stale: float  # under the lock, for each item of a group that a change of access has made old
    change: float  # under the lock, for a change of access
    reread: float  # of the interpreter, for each call that is decided anew after a change

    @classmethod
    def read(cls, figures: Section) -> Costs:
        """Return the costs of a section of the measured figures."""
        micro = {name.removesuffix("_us"): value / 1e6 for name, value in figures.items() if name.endswith("_us")}
        group = max(0.0, (micro["call_alone_process"] - micro["call_process"]) / 2)
        return cls(
            call=max(0.0, micro["call_process"] - 2 * group / _CALLERS), group=group,
            lock_group=micro["lock_group"], lock_row=micro["lock_row"], log=micro["log_wait"],
            server=micro["call_server"], small=micro["small_transaction_cpu"],
            worker_add=micro["worker_add"], worker_delete=micro["worker_delete"],
            worker_run=micro["worker_claim"] + micro["worker_end"], worker_read=micro["worker_read"],
            counted_group=micro["counted_group_lock"], counted=micro["counted_call_lock"],
            stale=micro["stale_item"], change=micro["change"] - micro["log_wait"],
            reread=micro["reread"],
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What is simulated; `loop` callers of each process call again at once, and then no rate counts."""

    title: str
    stores: int = 1
    processes: int = PROCESSES
    rate: float = RATE
    counted: bool = False
    changes: float = 0.0  # of access, a second, in each store
    hot: float = 0.0  # the share of the calls that the agents of the first store make beyond their part
    workers: bool = False
    loop: int = 0
    seconds: float = 0.6

    @property
    def processes_of_store(self) -> int:
        """How many processes each store has."""
        return max(1, round(self.processes / self.stores))

    @property
    def slots(self) -> int:
        """How many calls the workers of a store can have at once."""
        return math.ceil(self.rate / self.stores * TOOL_SECONDS / WORKER_LOAD)


class Clock:
    """Runs actions at their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, _Action]] = []
        self._number = 0

    def after(self, seconds: float, action: _Action) -> None:
        """Run *action* later."""
        self._number += 1
        heapq.heappush(self._queue, (self.now + seconds, self._number, action))

    def run(self, until: float) -> None:
        """Run what is due until then."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self._queue)
            action()


class Queue:
    """Serves in the order of arrival, several at once: an interpreter, a lock, cores, workers."""

    def __init__(self, clock: Clock, places: int = 1) -> None:
        self._clock, self.places = clock, places
        self._waiting: deque[tuple[float, _Action]] = deque()
        self._busy = 0
        self.served = 0.0  # seconds

    def ask(self, seconds: float, done: _Action) -> None:
        """Be served for *seconds*, and then do *done*."""
        self._waiting.append((seconds, done))
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._busy < self.places:
            seconds, done = self._waiting.popleft()
            self._busy += 1
            self.served += seconds
            self._clock.after(seconds, lambda done=done: self._end(done))  # type: ignore[misc]

    def _end(self, done: _Action) -> None:
        self._busy -= 1
        done()
        self._serve()


class Log:
    """Makes durable what has come before a write began; who comes later is in the next write."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._seconds = clock, seconds
        self._waiting: list[_Action] = []
        self._is_writing = False
        self.served = 0.0

    def ask(self, done: _Action) -> None:
        """Do *done* once all before is durable."""
        self._waiting.append(done)
        if not self._is_writing:
            self._write()

    def _write(self) -> None:
        actions, self._waiting, self._is_writing = self._waiting, [], True
        self.served += self._seconds
        self._clock.after(self._seconds, lambda: self._end(actions))

    def _end(self, actions: Sequence[_Action]) -> None:
        self._is_writing = False
        for action in actions:
            action()
        if self._waiting and not self._is_writing:
            self._write()


class Store:
    """One PostgreSQL store with its lock, its log, its cores and its workers."""

    def __init__(self, clock: Clock, costs: Costs, plan: Plan) -> None:
        self.clock, self.costs, self.plan = clock, costs, plan
        self.lock, self.log = Queue(clock), Log(clock, costs.log)
        self.workers = Queue(clock, plan.slots)
        self.processes = [Process(self) for _ in range(plan.processes_of_store)]
        if plan.changes:
            clock.after(1 / plan.changes, self._change)

    def _change(self) -> None:
        def end() -> None:
            for process in self.processes:
                process.is_stale = True

        self.lock.ask(self.costs.change, end)
        self.clock.after(1 / self.plan.changes, self._change)


class Process:
    """An interpreter with a thread that writes what waits, one group at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: list[tuple[bool, _Action]] = []
        self._is_writing = False
        self.is_stale = False
        self.interpreter = Queue(store.clock)
        self.table = Queue(store.clock)  # of calls on workers
        self._on_workers = 0
        self._answered: list[_Action] = []

    def send(self, run: _Action) -> None:
        """Add a call to the table of calls on workers; then *run*."""
        self._on_workers += 1
        self.table.ask(self._store.costs.worker_add, run)
        if self._on_workers == 1:
            self._look_later()

    def take_answer(self, done: _Action) -> None:
        """Do *done* when the answer of a worker, which is there now, is looked for."""
        self._answered.append(done)

    def _look_later(self) -> None:
        self._store.clock.after(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        answered, self._answered = self._answered, []
        costs = self._store.costs
        seconds = costs.worker_read + (costs.worker_delete if answered else 0)
        self.table.ask(seconds, lambda: self._deliver(answered))

    def _deliver(self, answered: Sequence[_Action]) -> None:
        self._on_workers -= len(answered)
        for done in answered:
            done()
        if self._on_workers:
            self._look_later()

    def append(self, is_start: bool, done: _Action) -> None:
        """Write a record, the start of a call or its end, with the next group."""
        self._pending.append((is_start, done))
        if not self._is_writing:
            self._take_group()

    def _take_group(self) -> None:
        items, self._pending = self._pending[:_MAX_GROUP_SIZE], self._pending[_MAX_GROUP_SIZE:]
        self._is_writing = True
        self.interpreter.ask(self._store.costs.group, lambda: self._lock(items))

    def _lock(self, items: list[tuple[bool, _Action]]) -> None:
        costs = self._store.costs
        seconds = costs.lock_group + costs.lock_row * len(items)
        if self.is_stale:
            seconds = costs.stale * len(items)
        elif self._store.plan.counted and (starts := sum(is_start for is_start, _ in items)):
            seconds = costs.counted_group + costs.counted * starts
        was_stale, self.is_stale = self.is_stale, False
        self._store.lock.ask(seconds, lambda: self._store.log.ask(lambda: self._end(items, was_stale)))

    def _end(self, items: list[tuple[bool, _Action]], was_stale: bool) -> None:
        self._is_writing = False
        for is_start, done in items:
            if was_stale and is_start:  # decided anew
                self.interpreter.ask(self._store.costs.reread, partial(self.append, is_start, done))
            else:
                done()
        if self._pending and not self._is_writing:
            self._take_group()


@dataclass
class Run:
    """One simulation of a plan."""

    plan: Plan
    costs: Costs
    clock: Clock = field(default_factory=Clock)
    waits: list[tuple[float, float]] = field(default_factory=list)
    """When each call ended, and the seconds that it took beyond those of its tool."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.plan.title)
        self.stores = [Store(self.clock, self.costs, self.plan) for _ in range(self.plan.stores)]

    def run(self) -> Run:
        """Simulate all, and return this."""
        if self.plan.loop:
            for process in [process for store in self.stores for process in store.processes]:
                for _ in range(self.plan.loop):
                    self._call(process, self._draw_tool(), again=True)
        else:
            self.clock.after(0.0, self._arrive)
        self.clock.run(self.plan.seconds)
        return self

    def _arrive(self) -> None:
        is_hot = self.random.random() < self.plan.hot
        store = self.stores[0 if is_hot else int(self.random.random() * len(self.stores))]
        process = store.processes[int(self.random.random() * len(store.processes))]
        self._call(process, self._draw_tool(), again=False)
        self.clock.after(self.random.expovariate(self.plan.rate), self._arrive)

    def _draw_tool(self) -> float:
        """Return the seconds that a tool takes; none where only the way to it and back is asked for."""
        return 0.0 if self.plan.loop and not self.plan.workers else self.random.expovariate(1 / TOOL_SECONDS)

    def _call(self, process: Process, tool: float, *, again: bool) -> None:
        began, clock, half = self.clock.now, self.clock, self.costs.call / 2
        store = process._store

        def end() -> None:
            self.waits.append((clock.now, clock.now - began - tool))
            if again:
                self._call(process, self._draw_tool(), again=True)

        def finish() -> None:
            process.interpreter.ask(half, lambda: process.append(False, end))

        def run_tool() -> None:
            if not self.plan.workers:
                clock.after(tool, finish) if tool else finish()
                return
            process.send(lambda: clock.after(BROKER_SECONDS, run_on_worker))

        def run_on_worker() -> None:
            store.workers.ask(tool + self.costs.worker_run, lambda: process.take_answer(finish))

        process.interpreter.ask(half, lambda: process.append(True, run_tool))

    # ── what came out ────────────────────────────────────────────────────────────────────────────

    @property
    def rate(self) -> float:
        """Calls that ended, a second, in the second half of the time."""
        return 2 * sum(ended > self.plan.seconds / 2 for ended, _ in self.waits) / self.plan.seconds

    def wait(self, share: float) -> float:
        """Return the milliseconds that so large a share of the calls took at most, beyond their tools' own time."""
        waits = sorted(wait for ended, wait in self.waits if ended > self.plan.seconds / 2) or [0.0]
        return 1000 * waits[min(len(waits) - 1, int(share * len(waits)))]

    @property
    def loads(self) -> dict[str, float]:
        """How busy each thing of the busiest store is, from 0 to 1."""
        seconds, store = self.plan.seconds, max(self.stores, key=lambda store: store.lock.served)
        calls = self.rate * store.lock.served / sum(other.lock.served for other in self.stores)
        loads = {
            "interpreter": max(process.interpreter.served for process in store.processes) / seconds,
            "lock": store.lock.served / seconds,
            "cores": calls * (self.costs.server + (3 * self.costs.small if self.plan.workers else 0)) / SERVER_CORES,
        }
        if self.plan.workers:
            loads["table"] = max(process.table.served for process in store.processes) / seconds
            loads["workers"] = store.workers.served / seconds / store.workers.places
        return loads

    @property
    def fullest(self) -> str:
        """What is busiest."""
        return max(self.loads, key=lambda name: self.loads[name])


def find_limit(plan: Plan, costs: Costs) -> tuple[float, str]:
    """Return the calls a second that a plan carries at most, and what is full then: one store, and that many times."""
    one = replace(plan, stores=1, processes=plan.processes_of_store, rate=plan.rate / plan.stores, hot=0.0)
    seconds = 1.5 if plan.counted else 0.5 if plan.workers else 0.1
    full = Run(replace(one, loop=_FULL_CALLERS, seconds=seconds), costs).run()
    share = plan.hot + (1 - plan.hot) / plan.stores  # of the busiest store
    return full.rate / share, full.fullest


# ── tables ───────────────────────────────────────────────────────────────────────────────────────


def make_tables() -> dict[str, str]:
    """Return the tables of the page, by name."""
    figures, catalogue = read_section("store"), read_section("catalogue")
    costs = Costs.read(figures)
    return {
        "inputs": _make_inputs(figures),
        "one-store": _make_check(costs, figures),
        "stores": _make_runs([_make_plan(count) for count in (1, 4, 16, 64)], costs),
        "special": _make_runs(_list_special_plans(), costs),
        "volume": _make_volume(figures),
        "memory": _make_memory(catalogue, figures),
    }


def _make_plan(stores: int, title: str = "", **changes: float) -> Plan:
    """Return the plan of 10,000 calls a second over so many stores."""
    count = f"{stores} stores" if stores > 1 else "1 store"
    plan = Plan(f"{count}, {title}" if title else count, stores=stores, processes=max(PROCESSES, stores))
    return replace(plan, **changes)  # type: ignore[arg-type]


def _list_special_plans() -> list[Plan]:
    each, counted = "tools on workers", "each call counted by its grant"
    return [
        *(_make_plan(stores, each, workers=True) for stores in (1, 4, 16)),
        *(_make_plan(stores, counted, counted=True) for stores in (1, 4, 16)),
        *(
            _make_plan(stores, f"{changes} changes of access a second in each", changes=changes)
            for stores, changes in ((1, 4), (1, 16), (4, 4), (16, 4))
        ),
        _make_plan(16, "a third of the calls in one", hot=0.3),
    ]


def _round(rate: float) -> float:
    """Return a rate with the two digits that mean something."""
    return round(rate, 1 - math.floor(math.log10(rate)))


def _make_row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |\n"


def _make_head(*names: str) -> str:
    return _make_row(names) + _make_row(["---"] + ["---:"] * (len(names) - 1))


def _make_runs(plans: Sequence[Plan], costs: Costs) -> str:
    heads = ("plan", "processes", "p50", "p99", *_RESOURCES, "at most", "full first")
    text = _make_head(*heads)
    for plan in plans:
        run = Run(plan, costs).run()
        loads, rate = run.loads, run.rate
        if plan.changes:  # how much a change costs depends on how many wait: there is no one limit
            limit, fullest = rate, run.fullest
        else:
            limit, fullest = find_limit(plan, costs)
        is_full = min(rate, limit) < 0.95 * plan.rate
        waits = ["grows", "grows"] if is_full else [f"{run.wait(share):.1f} ms" for share in (0.5, 0.99)]
        busy = [f"{min(1, loads[name]):.0%}" if name in loads else "" for name in _RESOURCES]
        processes = plan.processes_of_store * plan.stores
        at_most = "" if plan.changes else f"{_round(limit):,.0f}/s"
        text += _make_row([plan.title, processes, *waits, *busy, at_most, fullest])
    return text


def _make_check(costs: Costs, figures: Section) -> str:
    text = _make_head("processes, 64 callers each", "simulated", "measured, all on 2 cores", "full first")
    changes = figures["changes_beside_calls_per_s"]
    plans = [(f"{count}", Plan(f"loop {count}", processes=count), f"processes_{count}") for count in (1, 2, 4, 8, 16)]
    beside = Plan("loop beside", processes=1, changes=changes, seconds=0.5)
    plans.append((f"1, and {changes:.0f} changes of access a second", beside, "calls_beside_changes"))
    for title, plan, key in plans:
        run = Run(replace(plan, loop=_CALLERS, seconds=plan.seconds if plan.changes else 0.2), costs).run()
        measured = figures.get(f"{key}_per_s", figures.get(f"{key}_calls_per_s"))
        text += _make_row([title, f"{run.rate:,.0f}/s", f"{measured:,.0f}/s" if measured else "", run.fullest])
    return text


def _make_inputs(figures: Section) -> str:
    rows = [
        ("a call, 64 at once: processor time of the process", "call_process_us", "µs"),
        ("a call, alone: processor time of the process", "call_alone_process_us", "µs"),
        ("a call, alone: from its start to its end", "call_alone_us", "µs"),
        ("a call: processor time of the server", "call_server_us", "µs"),
        ("a group: time under the store's lock", "lock_group_us", "µs"),
        ("  … and for each of its rows", "lock_row_us", "µs"),
        ("a wait for the log, alone", "log_wait_us", "µs"),
        ("a group with calls whose grants count: time under the lock", "counted_group_lock_us", "µs"),
        ("  … and for each such call", "counted_call_lock_us", "µs"),
        ("a call or result in a group that a change has made old: time under the lock", "stale_item_us", "µs"),
        ("a change of access, alone", "change_us", "µs"),
        ("a call that is decided anew after a change: time of the process", "reread_us", "µs"),
        ("a run that is opened and closed, alone", "run_us", "µs"),
        ("a transaction of one row: processor time of the server", "small_transaction_cpu_us", "µs"),
        ("a call on a worker: to add it to the table", "worker_add_us", "µs"),
        ("  … to claim it, on the disk", "worker_claim_us", "µs"),
        ("  … to end it", "worker_end_us", "µs"),
        ("  … to look for its answer", "worker_read_us", "µs"),
        ("  … to delete it", "worker_delete_us", "µs"),
        ("stored changes that a process reads when it starts", "stored_changes_per_s", "/s"),
        ("a call: bytes of the log", "call_log_bytes", "B"),
        ("a call: bytes of table and indexes", "call_table_bytes", "B"),
    ]
    text = f"Measured on {read_origin('store')}.\n\n" + _make_head("what", "measured")
    for title, key, unit in rows:
        value = figures[key]
        text += _make_row([title, f"{value:,.1f} {unit}" if value < 100 else f"{value:,.0f} {unit}"])
    return text


def _make_volume(figures: Section) -> str:
    text = _make_head("stores", "log of each", "tables of each", "tables of each, a day", "30 days of each")
    for stores in (1, 4, 16, 64):
        log, table = (RATE * figures[f"call_{name}_bytes"] / stores for name in ("log", "table"))
        day, month = table * 86_400 / 1e9, table * 86_400 * 30 / 1e12
        rates = f"{log / 1e6:.1f} MB/s", f"{table / 1e6:.1f} MB/s"
        text += _make_row([stores, *rates, f"{day:,.0f} GB", f"{month:,.1f} TB"])
    return text


def _make_memory(catalogue: Section, figures: Section) -> str:
    tools, agents = int(catalogue["tools"]), int(catalogue["agents"])
    text = f"Measured on {read_origin('catalogue')}.\n\n" + _make_head("what", "time", "memory")
    for title, key in (
        (f"Python's own: {tools:,} functions, compiled", "functions"),
        (f"{tools:,} tools declared", "tools"),
        (f"{agents:,} agents declared", "agents"),
        (f"{tools:,} grants, one of each tool", "grants"),
    ):
        text += _make_row([title, f"{catalogue[f'{key}_s']:,.1f} s", f"{catalogue[f'{key}_gb']:.2f} GB"])
    text += _make_row(["the whole process", "", f"{catalogue['process_gb']:.1f} GB"])
    for title, key in (
        ("then: a call", "call_us"), ("a list of an agent's tools", "list_us"), ("an explanation", "explain_us"),
        ("a change of access", "change_us"), ("the first call after a change", "call_after_change_us"),
    ):  # fmt: skip
        text += _make_row([title, f"{catalogue[key]:,.1f} µs", ""])
    title = f"computed: a process that starts reads {tools:,} stored changes"
    return text + _make_row([title, f"{tools / figures['stored_changes_per_s']:,.0f} s", ""])


# ── the page ─────────────────────────────────────────────────────────────────────────────────────


def fill_page(text: str, tables: dict[str, str]) -> str:
    """Return the text of the page with the tables between their marks."""
    for name, table in tables.items():
        marks = f"<!-- table: {name} -->\n\n", "\n<!-- end -->"
        text, count = re.subn(
            f"{re.escape(marks[0])}.*?{re.escape(marks[1])}",
            lambda _, table=table: f"{marks[0]}{table}{marks[1]}",  # type: ignore[misc]
            text,
            flags=re.DOTALL,
        )
        if count != 1:
            raise SystemExit(f"the page has no place for the table {name!r}")
    return text


def main() -> None:
    """Print the tables, or write them into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", action="store_true")
    tables = make_tables()
    if parser.parse_args().docs:
        PAGE.write_text(fill_page(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")
        return
    for name, table in tables.items():
        print(f"{name}\n\n{table}")


if __name__ == "__main__":
    main()
