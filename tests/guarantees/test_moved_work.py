"""Work that waits goes on as whom it began, whatever the context in which it goes on or ends."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

import pytest

from praval_tools import Agent, Allow, NotOwnerError, ToolCall, ToolRegistry, agent

Outcomes = list[type[BaseException] | None]
Step = Generator[Any, Any, Any]


class Pause:
    """Waits once."""

    def __await__(self) -> Step:
        yield


@pytest.fixture
def outcomes() -> Outcomes:
    """What came of what the work tried, which the operator may do and the agent may not."""
    return []


@pytest.fixture
def registry(outcomes: Outcomes) -> ToolRegistry:
    """`secret` belongs to the bank; everybody may call `work`, which tries to share it before and after it waits."""
    made = ToolRegistry()

    @made.tool("secret", owned_by="bank")
    def secret() -> str:
        """Know."""
        return "known"

    for name, options in (("work", {}), ("work_long", {"timeout": None}), ("work_retried", {"retries": 1})):

        @made.tool(name, shared=True, **options)  # type: ignore[arg-type]
        async def work() -> None:
            """Try, wait, and try again."""
            await try_and_wait(made, outcomes)

    return made


def try_to_share(registry: ToolRegistry, outcomes: Outcomes) -> None:
    """Share `secret`, and note what came of it."""
    try:
        registry.share_tool("secret")
    except NotOwnerError as error:
        outcomes.append(type(error))
    else:
        outcomes.append(None)


async def try_and_wait(registry: ToolRegistry, outcomes: Outcomes) -> None:
    """Try before and after each of two waits, and at the end."""
    try:
        for _ in range(2):
            try_to_share(registry, outcomes)
            await Pause()
    finally:
        try_to_share(registry, outcomes)


class Later:
    """An object of an agent's that is awaited later."""

    def __init__(self, registry: ToolRegistry, outcomes: Outcomes) -> None:
        self.registry, self.outcomes = registry, outcomes

    def __await__(self) -> Step:
        return try_and_wait(self.registry, self.outcomes).__await__()


Begin = Callable[[ToolRegistry, Outcomes], Awaitable[Any]]

KINDS: dict[str, Begin] = {
    "agent": lambda registry, outcomes: Agent("clerk", registry=registry, function=try_and_wait)(registry, outcomes),
    "coroutine of a function": lambda registry, outcomes: agent("clerk", registry=registry)(
        lambda: try_and_wait(registry, outcomes)
    )(),
    "awaitable": lambda registry, outcomes: agent("clerk", registry=registry)(lambda: Later(registry, outcomes))(),
    "acall": lambda registry, outcomes: registry.agent("clerk").acall("work"),
    "without a deadline": lambda registry, outcomes: registry.agent("clerk").acall("work_long"),
    "pipeline": lambda registry, outcomes: registry.agent("clerk").acall("work_retried"),
    "aexecute": lambda registry, outcomes: registry.aexecute(ToolCall("1", "work", {}, "clerk")),
    "delegated": lambda registry, outcomes: registry.agent("boss").delegate("clerk").acall("work"),
    "function": lambda registry, outcomes: registry.agent("clerk").tools.functions()[0](),
}  # fmt: skip


def run_steps(steps: Step) -> None:
    """Take each step in a context of its own."""
    for _ in steps_of(steps, Context):
        pass


def steps_of(steps: Step, make_context: Callable[[], Context]) -> Iterator[None]:
    """Yield after each step of the work that is taken in a context from *make_context*."""
    while True:
        try:
            make_context().run(next, steps)
        except StopIteration:
            return
        yield


def close_elsewhere(steps: Step) -> None:
    """Begin in one context and close in another."""
    Context().run(next, steps)
    Context().run(steps.close)


def throw_elsewhere(steps: Step) -> None:
    """Begin in one context and raise in another."""
    Context().run(next, steps)
    with suppress(ValueError, StopIteration):
        Context().run(steps.throw, ValueError("thrown"))


def begin_in_loop(work: Callable[[], object]) -> None:
    """Run *work* where an event loop runs, which deadlines need."""

    async def run() -> None:
        work()

    asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
class TestWorkOfAnAgent:
    @pytest.mark.parametrize("move", [run_steps, close_elsewhere, throw_elsewhere])
    def test_in_other_contexts(
        self, registry: ToolRegistry, outcomes: Outcomes, kind: str, move: Callable[[Step], None]
    ) -> None:
        """Whoever moves it to another context, or ends it there, does not make its code the operator's."""
        begin_in_loop(lambda: move(KINDS[kind](registry, outcomes).__await__()))  # type: ignore[arg-type]
        assert {NotOwnerError} == set(outcomes)

    def test_collected_with_its_loop(self, registry: ToolRegistry, outcomes: Outcomes, kind: str) -> None:
        """A task that is destroyed while it waits ends as the agent, not as whoever runs at that moment."""

        async def begin() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda *_: None)
            tasks = [loop.create_task(await_it(KINDS[kind](registry, outcomes)))]
            tasks[0].add_done_callback(lambda _: tasks.clear())  # a cycle
            await asyncio.sleep(0)

        loop = asyncio.new_event_loop()
        loop.run_until_complete(begin())
        loop.close()
        del loop
        gc.collect()
        assert {NotOwnerError} == set(outcomes)
        assert len(outcomes) > 1

    def test_in_a_context_of_two_tasks(self, registry: ToolRegistry, outcomes: Outcomes, kind: str) -> None:
        """Two agents' tasks in one context, by `create_task(context=…)`, are each their own agent."""
        owned: Outcomes = []

        async def keep_sharing() -> None:
            for _ in range(6):
                try_to_share(registry, owned)
                await Pause()

        bank = Agent("bank", registry=registry, function=keep_sharing)

        async def run_both() -> None:
            context, loop = copy_context(), asyncio.get_running_loop()
            tasks = [
                loop.create_task(await_it(work), context=context) for work in (KINDS[kind](registry, outcomes), bank())
            ]
            await asyncio.gather(*tasks)

        asyncio.run(run_both())
        assert ({NotOwnerError}, {None}) == (set(outcomes), set(owned))

    def test_leaves_the_context_as_it_was(self, registry: ToolRegistry, outcomes: Outcomes, kind: str) -> None:
        """Who drives it by hand is itself again after each step."""
        between: Outcomes = []

        def drive() -> None:
            context = copy_context()
            for _ in steps_of(KINDS[kind](registry, outcomes).__await__(), lambda: context):  # type: ignore[arg-type]
                context.run(try_to_share, registry, between)

        begin_in_loop(drive)
        assert [None, None] == between
        assert {NotOwnerError} == set(outcomes)


async def await_it(work: Awaitable[Any]) -> None:
    """Await *work*."""
    await work


class TestIterators:
    def test_async_generators(self, registry: ToolRegistry, outcomes: Outcomes) -> None:
        """Each step of an agent's async generator, and its end, is the agent's in any context."""

        async def produce() -> AsyncIterator[int]:
            try:
                try_to_share(registry, outcomes)
                await Pause()
                try_to_share(registry, outcomes)
                yield 1
            finally:
                await Pause()
                try_to_share(registry, outcomes)

        items: Any = agent("clerk", registry=registry)(produce)()
        for steps in (items.__anext__(), items.aclose()):
            run_steps(steps.__await__())
        assert [NotOwnerError] * 3 == outcomes


class TestHandlers:
    def test_wait_as_the_host(self, registry: ToolRegistry, outcomes: Outcomes) -> None:
        """While an async handler of approvals waits, others in its context are not the operator's."""

        @registry.tool("wire", shared=True, requires_approval=True)
        async def wire() -> None:
            """Send."""

        async def approve(request: object) -> Allow:
            await Pause()
            await Pause()
            return Allow()

        registry.approvals.handler = approve

        async def clerk() -> None:
            context, steps = copy_context(), registry.agent("clerk").acall("wire").__await__()
            for _ in steps_of(steps, lambda: context):
                context.run(try_to_share, registry, outcomes)

        asyncio.run(Agent("clerk", registry=registry, function=clerk)())
        assert {NotOwnerError} == set(outcomes)
