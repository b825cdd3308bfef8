"""What turns the course of a loop into deeds: one driver for sync code, one for async code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from attrs import frozen

from praval_tools.errors import RegistryClosedError
from praval_tools.loop.model_calls import Read, aask, ask
from praval_tools.loop.state_machine import Ask, Batch, Pause, Refuse, Step, Tell, Write
from praval_tools.loop.values import LoopEnded, LoopEvent, LoopResult, ModelReply

Steps = Generator[Step, Any, LoopResult]


@frozen(kw_only=True)
class Means:
    """
    What a loop works with.

    Args:
        model: Who is asked.
        read: Makes a reply of what it answers.
        toolset: Runs the calls.
        runtime: The registry's.
        store: Where to write; None: nowhere.
        max_parallel: Most calls at once.
    """

    model: Any
    read: Read
    toolset: Any
    runtime: Any
    store: Any
    max_parallel: int


def drive(steps: Steps, means: Means) -> Generator[LoopEvent]:
    """Go the course from sync code; yields what happens, the end last."""
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, Tell):
                    yield step.event
                    answer: Any = None
                elif isinstance(step, Ask):
                    answer = yield from ask(means.model, step.request, means.read)
                else:
                    answer = _done(step, means)
            except Exception as error:  # the course knows what can be tried again, and raises the rest
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        yield LoopEnded(end.value)
    finally:
        steps.close()


def _done(step: Step, means: Means) -> Any:
    if isinstance(step, Batch):
        return means.toolset.execute_batch(step.calls, means.max_parallel)
    if isinstance(step, Refuse):
        tools = means.toolset
        return tools._executor.run(tools._mine(step.call), tools._who, step.result)
    if isinstance(step, Write):
        return means.store.append([step.item])[0]
    if isinstance(step, Pause) and means.runtime.closing.wait(step.seconds):
        raise RegistryClosedError(means.runtime.home.name)
    return None


async def drive_async(steps: Steps, means: Means) -> AsyncGenerator[LoopEvent]:
    """Go the course from async code; yields what happens, the end last."""
    import asyncio

    try:
        step = next(steps)
        while True:
            answer: Any = None
            try:
                if isinstance(step, Tell):
                    yield step.event
                elif isinstance(step, Ask):
                    asking = aask(means.model, step.request, means.read)
                    try:
                        async for piece in asking:
                            if isinstance(piece, ModelReply):
                                answer = piece
                            else:
                                yield piece
                    finally:
                        await asking.aclose()
                elif isinstance(step, Batch):
                    answer = await means.toolset.aexecute_batch(step.calls, means.max_parallel)
                elif isinstance(step, Refuse):
                    tools = means.toolset
                    answer = await tools._executor.arun(tools._mine(step.call), tools._who, step.result)
                elif isinstance(step, Write):
                    answer = (await means.store.aappend((step.item,)))[0]
                else:
                    await asyncio.sleep(step.seconds)
            except Exception as error:  # the course knows what can be tried again, and raises the rest
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        yield LoopEnded(end.value)
    finally:
        steps.close()
