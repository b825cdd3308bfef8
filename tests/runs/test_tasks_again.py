# Tests of: journal/equal_calls, journal/recorded_tasks, runs/calling_tasks
"""Programs with several tasks, whose pauses last otherwise in each life, go on where they were, and repeat nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

import pytest

from praval_tools import Agent, ToolCall, ToolRegistry
from praval_tools.loop import ModelReply, ToolLoop


class Shop:
    """A shop in one life of the program; what it took and shipped is in files of *folder*."""

    def __init__(self, registry: ToolRegistry, folder: Path, pauses: Random) -> None:
        self.registry, self._folder, self._pauses = registry, folder, pauses
        self.clerks = [Agent(f"clerk{number}", registry=registry) for number in range(2)]

        @registry.tool("take", shared=True)
        async def take(place: str = "") -> int:
            """Take the next order."""
            await self.pause()
            return self.add_line("taken", place)

        @registry.tool("ship", shared=True)
        async def ship(order: int, by: str) -> str:
            """Ship an order."""
            await self.pause()
            self.add_line("shipped", str(order))
            return f"{order} by {by}"

        @registry.tool("look", shared=True)
        async def look(place: str) -> str:
            """Look."""
            return place

    def add_line(self, name: str, line: str) -> int:
        """Add a line to a file; return how many it has."""
        with (self._folder / name).open("a") as file:
            print(line, file=file)
        return len(read_lines(self._folder / name))

    async def pause(self) -> None:
        """Wait for some rounds of the loop, as for a model or a request; for others in each life."""
        for _ in range(self._pauses.choice((0, 0, 1, 5, 40))):
            await asyncio.sleep(0)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file; none where it does not exist."""
    return path.read_text().splitlines() if path.exists() else []


Program = Callable[[Shop], Awaitable[object]]


def with_workers(work: Callable[[Shop, Agent, str], Awaitable[object]], *, same_agent: bool = False) -> Program:
    """Return a program of two workers, of an agent each, or of the same one."""

    async def program(shop: Shop) -> object:
        clerks = [shop.clerks[0]] * 2 if same_agent else shop.clerks
        return await asyncio.gather(*(work(shop, clerk, str(number)) for number, clerk in enumerate(clerks)))

    return program


async def work_with_deadlines(shop: Shop, clerk: Agent, name: str) -> object:
    """Take and ship orders; each call that takes one has a deadline, and up to Python 3.11 a task of its own."""
    shipped = []
    for step in range(4):
        await shop.pause()
        order = await asyncio.wait_for(clerk.acall("take"), 60)
        shipped.append(await clerk.acall("ship", order=order, by=f"{name}{step}"))
    return shipped


async def work_in_tasks(shop: Shop, clerk: Agent, name: str) -> object:
    """Take and ship orders, each in a task of its own."""

    async def take_and_ship(step: int) -> object:
        await shop.pause()
        order = await clerk.acall("take")
        await shop.pause()
        return await clerk.acall("ship", order=order, by=f"{name}{step}")

    return [await asyncio.create_task(take_and_ship(step)) for step in range(4)]


async def work_in_pairs(shop: Shop, clerk: Agent, name: str) -> object:
    """Take two orders at once, and ship them, twice."""
    shipped: list[object] = []
    for step in range(2):
        await shop.pause()
        orders = await asyncio.gather(clerk.acall("take"), clerk.acall("take"))
        calls = (clerk.acall("ship", order=order, by=f"{name}{step}{place}") for place, order in enumerate(orders))
        shipped += await asyncio.gather(*calls)
    return shipped


async def work_in_batches(shop: Shop, clerk: Agent, name: str) -> object:
    """Take orders in batches of two, and ship them."""
    shipped: list[object] = []
    for step in range(2):
        await shop.pause()
        results = await clerk.aexecute_batch([ToolCall(None, "take")] * 2)
        for place, result in enumerate(results):
            shipped.append(await clerk.acall("ship", order=result.result, by=f"{name}{step}{place}"))
    return shipped


async def work_at_a_place(shop: Shop, clerk: Agent, name: str) -> object:
    """Take orders of one's own place, and ship them."""
    shipped = []
    for step in range(4):
        await shop.pause()
        order = await asyncio.wait_for(clerk.acall("take", place=name), 60)
        await shop.pause()
        shipped.append(await asyncio.wait_for(clerk.acall("ship", order=order, by=f"{name}{step}"), 60))
    return shipped


async def work_after_a_look(shop: Shop, clerk: Agent, name: str) -> object:
    """Look at one's own place, which tells the workers apart, and go on with pauses."""
    await shop.pause()
    await clerk.acall("look", place=name)
    shipped = []
    for step in range(4):
        await shop.pause()
        order = await clerk.acall("take")
        shipped.append(await clerk.acall("ship", order=order, by=f"{name}{step}"))
    return shipped


class Model:
    """A model that takes an order and ships it, and answers with what it shipped."""

    format, name = "openai-chat", "m"

    def __init__(self, shop: Shop, by: str) -> None:
        self._shop, self._by = shop, by

    async def reply(self, request: Any) -> ModelReply | str:
        """Ask for the next call."""
        await self._shop.pause()
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        if len(results) == 2:
            return str(results[1])
        arguments = {"order": int(results[0]), "by": self._by} if results else {}
        return ModelReply(calls=(ToolCall(f"c{len(results)}", "ship" if results else "take", arguments),))


async def work_with_loops(shop: Shop, clerk: Agent, name: str) -> object:
    """Have a model ship an order, in equal loops, and tell where."""
    shipped = list[object]()
    for step in range(3):
        result = await ToolLoop(clerk, Model(shop, f"{name}{step}")).arun("Ship the next order.")
        shipped.append(await clerk.acall("look", place=f"{name}: {result.text}"))
        await shop.pause()
    return shipped


class LookingModel:
    """A model that looks once."""

    format, name = "openai-chat", "m"

    async def reply(self, request: Any) -> ModelReply | str:
        """Look, and answer."""
        if any(message["role"] == "tool" for message in request.messages):
            return "fine"
        return ModelReply(calls=(ToolCall("c", "look", {"place": "here"}),))


async def work_after_loops(shop: Shop, clerk: Agent, name: str) -> object:
    """Begin equal loops, and then take an order with a deadline, and one without."""
    for _ in range(3):
        await ToolLoop(clerk, LookingModel()).arun("How is the weather?")
        await shop.pause()
    first = await asyncio.wait_for(clerk.acall("take"), 60)
    orders = [first, await clerk.acall("take")]
    return [await clerk.acall("ship", order=order, by=f"{name}{place}") for place, order in enumerate(orders)]


async def work_beside_a_heartbeat(shop: Shop) -> object:
    """Take and ship orders, with deadlines, while another task makes calls."""

    async def beat() -> None:
        for number in range(12):
            await asyncio.wait_for(shop.clerks[1].acall("look", place=str(number % 2)), 60)
            await shop.pause()

    shipped, _ = await asyncio.gather(work_with_deadlines(shop, shop.clerks[0], "a"), beat())
    return shipped


async def handle_jobs(shop: Shop) -> object:
    """Begin a task for each job, as jobs come; how many are at work at once differs from life to life."""

    async def handle(job: int) -> object:
        order = await shop.clerks[0].acall("take")
        return await shop.clerks[0].acall("ship", order=order, by=str(job))

    jobs = list[asyncio.Task[object]]()
    for job in range(8):
        jobs.append(asyncio.create_task(handle(job)))
        await asyncio.sleep(0)  # it makes its first call
        await shop.pause()
    return await asyncio.gather(*jobs)


async def ship_from_a_queue(shop: Shop) -> object:
    """Ship what a queue in memory holds: who ships which order differs from life to life."""
    queue = asyncio.Queue[int]()

    async def consume() -> None:
        while (order := await queue.get()) > 0:
            await shop.pause()
            shipped.append(await shop.clerks[0].acall("ship", order=order, by="shop"))
            await shop.pause()

    shipped = list[object]()
    consumers = [asyncio.create_task(consume()) for _ in range(3)]
    for _ in range(9):
        queue.put_nowait(await shop.clerks[1].acall("take"))
        await shop.pause()
    for _ in consumers:
        queue.put_nowait(0)
    await asyncio.gather(*consumers)
    return sorted(map(str, shipped))


PROGRAMS = {
    "calls with deadlines": with_workers(work_with_deadlines),
    "a task for each order": with_workers(work_in_tasks),
    "two calls at once": with_workers(work_in_pairs),
    "batches": with_workers(work_in_batches),
    "arguments that differ": with_workers(work_at_a_place, same_agent=True),
    "a first call that differs": with_workers(work_after_a_look, same_agent=True),
    "a heartbeat": work_beside_a_heartbeat,
    "jobs": handle_jobs,
    "calls after loops": with_workers(work_after_loops),
    "loops": with_workers(work_with_loops, same_agent=True),
    "a queue": ship_from_a_queue,
}


def live(folder: Path, name: str, seed: int, *, is_killed: bool = False) -> object:
    """Live once with a program, until three orders are shipped if it is killed."""

    async def work(shop: Shop) -> object:
        async with shop.registry.run("monday") as run:
            for call in run.in_doubt:
                has_shipped = call.tool_name == "ship" and str(call.arguments["order"]) in read_lines(shipped)
                result = {"result": "{order} by {by}".format_map(call.arguments)} if has_shipped else {"rerun": True}
                run.resolve(call, **result)
            program = asyncio.ensure_future(PROGRAMS[name](shop))
            while is_killed and len(read_lines(shipped)) < 3:
                await asyncio.sleep(0)
            if is_killed:
                os._exit(9)
            return await program

    shipped = folder / "shipped"
    with ToolRegistry(journal=folder / "shop.db") as registry:
        return asyncio.run(work(Shop(registry, folder, Random(seed))))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(4))
def test_programs_repeat_nothing(name: str, seed: int, tmp_path: Path) -> None:
    """Broken promise: a worker got its own orders in another order, or those of another one, and shipped them again."""
    lives = [live(tmp_path, name, 10 * seed + number) for number in range(3)]

    shipped = read_lines(tmp_path / "shipped")
    assert sorted(set(shipped)) == sorted(shipped)
    assert lives[0] == lives[1] == lives[2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_killed_programs_repeat_nothing(name: str, tmp_path: Path) -> None:
    """Nor after their process was killed."""
    process = get_context("spawn").Process(target=live, args=(tmp_path, name, 0), kwargs={"is_killed": True})
    process.start()
    process.join(60)
    lives = [live(tmp_path, name, number) for number in range(1, 4)]

    shipped = read_lines(tmp_path / "shipped")
    assert 9 == process.exitcode
    assert sorted(set(shipped)) == sorted(shipped)
    assert lives[0] == lives[1] == lives[2]


Take = Callable[[Agent], Awaitable[int]]


async def take_with_a_deadline(clerk: Agent) -> int:
    """Take an order in a task of its own, up to Python 3.11."""
    return await asyncio.wait_for(clerk.acall("take", place="shelf"), 60)


async def take_beside_another_call(clerk: Agent) -> int:
    """Take an order in one of two tasks."""
    return (await asyncio.gather(clerk.acall("take", place="shelf"), clerk.acall("look", place="shelf")))[0]


TAKES: dict[str, Take] = {
    "plain": lambda clerk: clerk.acall("take", place="shelf"),
    "deadline": take_with_a_deadline,
    "gather": take_beside_another_call,
}


async def take_orders(folder: Path, turns: list[str], ways: dict[str, str]) -> dict[str, list[int]]:
    """Let two workers sign in, and then take two orders each, in *turns*; stop after the last of these."""
    orders: dict[str, list[int]] = {"ann": [], "bob": []}
    with ToolRegistry(journal=folder / "runs.db") as registry:
        shop = Shop(registry, folder, Random(0))
        left = list(turns)

        async def work(name: str) -> None:
            clerk = shop.clerks[0]
            await clerk.acall("look", place=name)
            for _ in range(2):
                while left[:1] != [name]:
                    await asyncio.sleep(0)
                orders[name].append(await TAKES[ways[name]](clerk))
                await clerk.acall("ship", order=orders[name][-1], by=name)
                left.pop(0)

        async with registry.run("r"):
            tasks = [asyncio.create_task(work(name)) for name in orders]
            while left:
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return orders


@pytest.mark.parametrize("first", TAKES)
@pytest.mark.parametrize("second", TAKES)
def test_a_call_that_another_task_got_is_its_call_from_then_on(first: str, second: str, tmp_path: Path) -> None:
    """Broken promise: a finished run repeats nothing. One call was found by nobody, and a worker made it again."""
    ways = {"ann": first, "bob": second}
    asyncio.run(take_orders(tmp_path, ["ann"], ways))  # stopped before bob took an order
    lives = [
        asyncio.run(take_orders(tmp_path, turns, ways))
        for turns in (["bob", "bob"], ["bob", "bob", "ann", "ann"], ["ann", "bob", "ann", "bob"])
    ]

    assert [[1, 2]] * 3 == [life["bob"] for life in lives]
    assert [[3, 4]] * 2 == [life["ann"] for life in lives[1:]]
    assert 4 == len(read_lines(tmp_path / "taken"))


class Payer:
    """A model that orders one thing, whoever asks."""

    format, name = "openai-chat", "payer"

    async def reply(self, request: Any) -> Any:
        """Take an order; then say what it was."""
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        if results:
            return ModelReply(text=str(results[0]))
        return ModelReply(calls=(ToolCall("c0", "take", {"place": "shelf"}),))


async def ask_models(folder: Path, turns: list[str]) -> dict[str, str]:
    """Let two workers begin equal loops, which go on in *turns*; stop after the last of these."""
    texts = dict[str, str]()
    with ToolRegistry(journal=folder / "runs.db") as registry:
        shop = Shop(registry, folder, Random(0))
        left = list(turns)

        class Waiting(Payer):
            def __init__(self, worker: str) -> None:
                self.worker = worker

            async def reply(self, request: Any) -> Any:
                while left[:1] != [self.worker]:
                    await asyncio.sleep(0)
                left.pop(0)
                return await super().reply(request)

        async def work(name: str) -> None:
            await shop.clerks[0].acall("look", place=name)
            texts[name] = (await ToolLoop(shop.clerks[0], Waiting(name)).arun("Take one.")).text

        async with registry.run("r"):
            tasks = [asyncio.create_task(work(name)) for name in ("ann", "bob")]
            while left and not all(task.done() for task in tasks):
                await asyncio.sleep(0)
            if turns:
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return texts


def test_loops_take_no_calls_of_each_other(tmp_path: Path) -> None:
    """Broken promise: a loop got the call of another one, which then found its own by its id, and ran once more."""
    asyncio.run(ask_models(tmp_path, ["ann", "ann"]))
    asyncio.run(ask_models(tmp_path, ["bob", "bob"]))
    asyncio.run(ask_models(tmp_path, ["ann", "bob", "ann", "bob"]))
    ended = asyncio.run(ask_models(tmp_path, []))

    assert 2 == len(read_lines(tmp_path / "taken"))
    assert {"ann": "1", "bob": "2"} == ended
