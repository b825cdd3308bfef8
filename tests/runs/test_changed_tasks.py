# Tests of: journal/equal_calls, journal/recorded_tasks, runs/calling_tasks, runs/open_run
"""Tasks of another shape than in the life before find the recorded calls again, as far as these are left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from praval_tools import ToolRegistry

Pay = Callable[[], Awaitable[int]]
Program = Callable[[Pay], Coroutine[Any, Any, None]]


def live(folder: Path, program: Program) -> int:
    """Run a program in a run, as one life of it; return how many payments were made in all lives."""
    paid = folder / "paid"
    with ToolRegistry(journal=folder / "runs.db") as registry:
        clerk = registry.agent("clerk")

        @registry.tool(shared=True)
        async def pay() -> int:
            """Pay."""
            with paid.open("a") as file:
                file.write("x")
            return paid.stat().st_size

        async def main() -> None:
            async with registry.run("r"):
                await program(lambda: clerk.acall("pay"))

        asyncio.run(main())
    return paid.stat().st_size


def pay_times(number: int) -> Program:
    """Return a program that pays, in the task that opened the run."""

    async def program(pay: Pay) -> None:
        for _ in range(number):
            await pay()

    return program


def pay_in_a_task(number: int) -> Program:
    """Return a program that pays in a task with a deadline."""

    async def program(pay: Pay) -> None:
        await asyncio.wait_for(asyncio.create_task(pay_times(number)(pay)), 60)

    return program


def pay_with_deadlines(number: int) -> Program:
    """Return a program in which each payment has a deadline."""

    async def program(pay: Pay) -> None:
        for _ in range(number):
            await asyncio.wait_for(pay(), 60)

    return program


def pay_beside_each_other(*numbers: int) -> Program:
    """Return a program whose workers pay so many times each."""

    async def program(pay: Pay) -> None:
        await asyncio.gather(*(pay_times(number)(pay) for number in numbers))

    return program


def pay_and_begin_again(number: int, *, stops_at: int) -> Program:
    """Return a program whose only worker is begun again after an error of its own."""

    async def program(pay: Pay) -> None:
        paid = 0

        async def work() -> None:
            nonlocal paid
            while paid < number:
                await pay()
                paid += 1
                if paid == stops_at and not errors:
                    errors.append("the line broke")
                    raise ConnectionError

        errors = list[str]()
        for _ in range(2):
            with suppress(ConnectionError):
                await asyncio.create_task(work())

    return program


def pay_behind_a_semaphore(number: int) -> Program:
    """Return a program whose tasks pay once each, two at a time."""

    async def program(pay: Pay) -> None:
        semaphore = asyncio.Semaphore(2)

        async def work() -> None:
            async with semaphore:
                await pay()

        await asyncio.gather(*(work() for _ in range(number)))

    return program


async def pay_alone_and_in_a_task(pay: Pay) -> None:
    """Pay once in a task, and once more in a task that this one begins."""

    async def work() -> None:
        await pay()
        await asyncio.gather(pay())

    await asyncio.gather(work())


@pytest.mark.parametrize(
    ("lives", "number"),
    [
        pytest.param([pay_alone_and_in_a_task] * 3, 2, id="in a task and in one inside of it"),
        pytest.param([pay_times(4), pay_in_a_task(6), pay_in_a_task(6)], 6, id="a task with a deadline since"),
        pytest.param([pay_in_a_task(4), pay_times(6), pay_times(6)], 6, id="no task any more"),
        pytest.param([pay_with_deadlines(3), pay_times(5), pay_with_deadlines(5)], 5, id="deadlines of calls"),
        pytest.param([pay_and_begin_again(4, stops_at=0), pay_and_begin_again(5, stops_at=2)], 5, id="again now"),
        pytest.param(
            [pay_and_begin_again(4, stops_at=2), pay_and_begin_again(5, stops_at=0)], 5, id="again in the first"
        ),
        pytest.param([pay_beside_each_other(2, 2, 1), pay_beside_each_other(2, 2)], 5, id="fewer workers"),
        pytest.param([pay_beside_each_other(2, 2), pay_beside_each_other(2, 2, 2)], 6, id="more workers"),
        pytest.param([pay_beside_each_other(2, 2), pay_times(4)], 4, id="one after another now"),
        pytest.param([pay_times(4), pay_beside_each_other(2, 2)], 4, id="beside each other now"),
        pytest.param([pay_behind_a_semaphore(12)] * 3, 12, id="two at a time"),
    ],
)
def test_no_payment_is_made_again(lives: list[Program], number: int, tmp_path: Path) -> None:
    """Broken promise: the calls of tasks were not found any more, and everything was paid twice."""
    assert number == [live(tmp_path, program) for program in lives][-1]


@pytest.mark.parametrize("begin", ["gather", "deadline", "task"])
def test_one_call_more_in_front_shifts_no_workers(begin: str, tmp_path: Path) -> None:
    """Broken promise: each worker got what the one beside it had got, and did it again."""
    lives = list[list[tuple[str, int]]]()

    def make_program(*, is_longer: bool) -> Program:
        async def program(pay: Pay) -> None:
            got = list[tuple[str, int]]()

            async def work(name: str) -> None:
                got.extend([(name, await pay()) for _ in range(4)])

            if is_longer and begin == "gather":
                await asyncio.gather(look())
            elif is_longer:
                await (asyncio.wait_for(look(), 60) if begin == "deadline" else asyncio.create_task(look()))
            await asyncio.gather(work("ann"), work("bob"))
            lives.append(sorted(got))

        async def look() -> Any:
            return await registry.agent("clerk").acall("look")

        return program

    with ToolRegistry(journal=tmp_path / "runs.db") as registry:
        numbers = iter(range(100))

        @registry.tool(shared=True)
        async def pay() -> int:
            """Pay."""
            return next(numbers)

        @registry.tool(shared=True)
        async def look() -> str:
            """Look."""
            return "seen"

        async def main(program: Program) -> None:
            async with registry.run("r"):
                await program(lambda: registry.agent("clerk").acall("pay"))

        for is_longer in (False, True, False):
            asyncio.run(main(make_program(is_longer=is_longer)))

    assert lives[0] == lives[1] == lives[2]


def test_workers_that_call_in_two_runs_keep_their_paths(tmp_path: Path) -> None:
    """Runs of two registries are open at once, and each worker makes its calls in both, in turn."""
    lives = list[list[tuple[str, int, int]]]()

    async def main(first: ToolRegistry, second: ToolRegistry) -> None:
        got = list[tuple[str, int, int]]()

        async def work(name: str) -> None:
            for _ in range(4):
                paid = await asyncio.wait_for(first.agent("clerk").acall("pay"), 60)
                got.append((name, paid, await second.agent("clerk").acall("pay")))

        async with first.run("r"), second.run("r"):
            await asyncio.gather(work("ann"), work("bob"))
        lives.append(sorted(got))

    for life in range(3):
        registries = [ToolRegistry(journal=tmp_path / f"{name}.db") for name in ("first", "second")]
        for registry in registries:
            numbers = iter(range(100 * life, 100 * life + 100))

            def pay(numbers: Any = numbers) -> int:
                return next(numbers)  # type: ignore[no-any-return]

            registry.tool("pay", description="Pay.", shared=True)(lambda numbers=numbers: pay(numbers))
        asyncio.run(main(*registries))
        for registry in registries:
            registry.close()

    assert lives[0] == lives[1] == lives[2]


def test_a_run_that_a_tool_opens_counts_its_own_tasks(tmp_path: Path) -> None:
    """Broken promise: in another place of the tool, workers of a run got each other's calls."""
    lives = list[list[tuple[str, int]]]()
    with ToolRegistry(journal=tmp_path / "runs.db") as registry:
        numbers, clerk = iter(range(100)), registry.agent("clerk")

        @registry.tool(shared=True)
        async def pay(day: int) -> int:
            """Pay."""
            return next(numbers)

        @registry.tool(shared=True, idempotent=True)
        async def work(days: list[int]) -> None:
            """Work through the days."""
            for day in days:
                got = list[tuple[str, int]]()

                async def pay_all(name: str, day: int = day, got: list[tuple[str, int]] = got) -> None:
                    for _ in range(3):
                        got.append((name, await clerk.acall("pay", day=day)))

                async with registry.run(f"day {day}"):
                    await asyncio.gather(*(pay_all(name) for name in ("ann", "bob")[:day]))
            lives.append(sorted(got))

        async def main(days: list[int]) -> None:
            async with registry.run(f"night of {days}"):
                await clerk.acall("work", days=days)

        for days in ([1, 2], [2], [1, 2, 2]):
            asyncio.run(main(days))

    assert lives[0] == lives[1] == lives[2]


def test_a_list_that_workers_share_is_as_it_was(tmp_path: Path) -> None:
    """As they wait for nothing but calls: recorded results come in the order in which they came first."""
    done = list[tuple[str, int]]()
    with ToolRegistry(journal=tmp_path / "runs.db") as registry:

        @registry.tool(shared=True)
        async def ship(worker: str, order: int) -> None:
            """Ship an order."""
            for _ in range(order % 3):
                await asyncio.to_thread(int)
            done.append((worker, order))

        async def main() -> None:
            orders = list(range(12))

            async def work(worker: str) -> None:
                while orders:
                    await registry.agent("clerk").acall("ship", worker=worker, order=orders.pop(0))

            async with registry.run("r"):
                await asyncio.gather(work("ann"), work("bob"), work("cid"))

        for _ in range(3):
            asyncio.run(main())

    assert list(range(12)) == sorted(order for _, order in done)
