"""The path of a task is the same in every life in which tasks make their first calls in the same order."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from praval_tools.runs.task_paths import CallingTask, find_calling_task


def test_number_tasks_by_their_first_calls() -> None:
    """Among the tasks of a group, which is over once all of them have ended; the first task of all has no number."""
    paths = list[tuple[str, str]]()

    async def call(name: str, scope: CallingTask, *inner: str) -> None:
        paths.append((name, find_calling_task(scope).path))
        await asyncio.sleep(0)  # as while its call is at work
        await asyncio.gather(*(call(one, scope) for one in inner))
        paths.append((name, find_calling_task(scope).path))

    async def main() -> None:
        scope = CallingTask()
        await call("main", scope)
        await asyncio.gather(call("ann", scope, "ann's first", "ann's second"), call("bob", scope, "bob's first"))
        await asyncio.wait_for(call("cid", scope), 60)
        await call("main", scope)

    asyncio.run(main())
    assert {
        ("main", ""), ("ann", "1:1"), ("bob", "2:1"), ("ann's first", "1:1.1:1"), ("ann's second", "1:1.2:1"),
        ("bob's first", "2:1.1:1"), ("cid", "1:2"),
    } == set(paths)  # fmt: skip


def test_begin_anew_in_each_scope() -> None:
    """What a call's tool does is apart from what its caller does, in whichever task."""

    async def main() -> list[str]:
        outer = CallingTask()

        async def run_tool() -> list[str]:
            inner = CallingTask()
            return [find_calling_task(outer).path, find_calling_task(inner).path, find_calling_task(inner).path]

        return [*await asyncio.create_task(run_tool()), find_calling_task(outer).path]

    assert ["1:1", "", "", ""] == asyncio.run(main())


def test_stay_the_same_whatever_a_task_calls_in_between() -> None:
    """In another run, or inside of a tool, which does not run in a replay."""

    async def main() -> list[str]:
        outer = CallingTask()

        async def call(scope: CallingTask) -> str:
            path = find_calling_task(scope).path
            await asyncio.sleep(0)  # as while its call is at work
            return path

        async def work(is_replay: bool) -> list[str]:
            paths = [find_calling_task(outer).path]
            if not is_replay:
                inner = CallingTask()
                paths += [find_calling_task(inner).path, *await asyncio.gather(call(inner), call(inner))]
            return [paths[0], *await asyncio.gather(call(outer), call(outer))]

        first = await asyncio.create_task(work(is_replay=False))
        return [*first, *await asyncio.create_task(work(is_replay=True))]

    assert ["1:1", "1:1.1:1", "1:1.2:1", "1:2", "1:2.1:1", "1:2.2:1"] == asyncio.run(main())


def test_sync_code_belongs_to_who_began_its_thread() -> None:
    """A thread of a task has its path; one that was begun outside of tasks has none."""

    async def main() -> list[str]:
        scope = CallingTask()

        async def call_in_thread() -> list[str]:
            return [find_calling_task(scope).path, (await asyncio.to_thread(find_calling_task, scope)).path]

        return await asyncio.create_task(call_in_thread())

    assert ["1:1", "1:1"] == asyncio.run(main())
    with ThreadPoolExecutor(1) as threads:
        assert "" == threads.submit(find_calling_task, CallingTask()).result().path
