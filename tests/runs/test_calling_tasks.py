"""A task is known by the one that began it, if that made a call before; else by the one that began that."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from praval_tools.runs.calling_tasks import CallingTask, find_calling_task


def call(scope: CallingTask, name: str) -> str:
    """Make a call in the task that is called so; return the name of the one that began it, before its own."""
    task = find_calling_task(scope)
    if task.path is None:
        task.path = name
    assert name in (task.path, "any")
    return f"{task.outer_path} > {task.path}"


def test_tasks_are_known_by_those_that_began_them() -> None:
    """As far as these make calls; each is the same task at every call."""
    seen = list[str]()

    async def work(scope: CallingTask, name: str, *inner: str, calls: bool = True) -> None:
        if calls:
            seen.append(call(scope, name))
            await asyncio.sleep(0)  # as while its call is at work
        await asyncio.gather(*(work(scope, one) for one in inner))
        if calls:
            seen.append(call(scope, name))

    async def main() -> None:
        scope = CallingTask()
        await work(scope, "")
        await asyncio.gather(
            work(scope, "ann", "ann's first", "ann's second"), work(scope, "bob", "bob's first", calls=False)
        )
        await asyncio.wait_for(work(scope, "cid"), 60)
        await work(scope, "")

    asyncio.run(main())
    assert {" > ", " > ann", "ann > ann's first", "ann > ann's second", " > bob's first", " > cid"} == set(seen)
    assert 14 == len(seen)


def test_begin_anew_in_each_scope() -> None:
    """What a call's tool does is apart from what its caller does, in whichever task."""

    async def main() -> list[str]:
        outer = CallingTask()

        async def run_tool() -> list[str]:
            inner = CallingTask()
            return [call(outer, "tool"), call(inner, ""), call(inner, "")]

        return [*await asyncio.create_task(run_tool()), call(outer, "")]

    assert [" > tool", " > ", " > ", " > "] == asyncio.run(main())


def test_stay_the_same_whatever_a_task_calls_in_between() -> None:
    """In another run, or inside of a tool, which does not run in a replay."""

    async def main() -> list[str]:
        outer = CallingTask()

        async def call_in_task(scope: CallingTask, name: str) -> str:
            await asyncio.sleep(0)
            return call(scope, name)

        async def work(name: str, *, is_replay: bool) -> list[str]:
            seen = [call(outer, name)]
            if not is_replay:
                inner = CallingTask()
                call(inner, "")
                await asyncio.gather(call_in_task(inner, "a"), call_in_task(inner, "b"))
            return [*seen, *await asyncio.gather(call_in_task(outer, "c"), call_in_task(outer, "d"))]

        first = await asyncio.create_task(work("first", is_replay=False))
        return [*first, *await asyncio.create_task(work("second", is_replay=True))]

    first, second = [" > first", "first > c", "first > d"], [" > second", "second > c", "second > d"]
    assert [*first, *second] == asyncio.run(main())


def test_tasks_that_call_in_many_scopes_in_turn() -> None:
    """As workers that make calls in many runs which are open at once."""

    async def main() -> set[str]:
        scopes = [CallingTask() for _ in range(6)]

        async def inner(scope: CallingTask) -> str:
            return call(scope, "inner")

        async def work() -> list[str]:
            for scope in scopes:
                call(scope, "worker")
            return [await asyncio.create_task(inner(scope)) for scope in scopes]

        return {*await asyncio.create_task(work())}

    assert {"worker > inner"} == asyncio.run(main())


def test_paths_beside_are_of_tasks_at_work() -> None:
    """The latest first, however many have ended."""

    async def main() -> None:
        scope, go_on = CallingTask(), asyncio.Event()

        async def work(number: int) -> list[str | None]:
            task = find_calling_task(scope)
            task.path = str(number)
            if number % 100 == 0:
                await go_on.wait()
            return list(task.iter_paths_beside())

        begun = list[asyncio.Task[list[str | None]]]()
        for number in range(300):
            begun.append(asyncio.create_task(work(number)))
            await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(*begun)
        assert ["200", "100", "0"] == begun[299].result()

    asyncio.run(main())


def test_tasks_that_begin_the_next_one_are_kept_no_longer() -> None:
    """As where each job begins the one after it, and ends: from the twentieth on, they count as beside each other."""

    async def main() -> list[int]:
        scope, depths = CallingTask(), list[int]()

        async def work(left: int) -> None:
            task = find_calling_task(scope)
            task.path = f"{left}"
            depths.append(task.depth)
            if left:
                await asyncio.create_task(work(left - 1))

        await asyncio.create_task(work(50))
        return depths

    assert [*range(1, 21), *[20] * 31] == asyncio.run(main())


def test_sync_code_belongs_to_who_began_its_thread() -> None:
    """A thread of a task has its path; one that was begun outside of tasks has none."""

    async def main() -> list[str]:
        scope = CallingTask()

        async def call_in_thread() -> list[str]:
            return [call(scope, "worker"), await asyncio.to_thread(call, scope, "worker")]

        return await asyncio.create_task(call_in_thread())

    assert [" > worker", " > worker"] == asyncio.run(main())
    with ThreadPoolExecutor(1) as threads:
        assert " > " == threads.submit(call, CallingTask(), "").result()
