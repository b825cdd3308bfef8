"""What turns the course of a loop into deeds: one driver for sync code, one for async code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

from attrs import frozen

from praval_tools.errors import RegistryClosedError
from praval_tools.loop.model_calls import ReplyReader, aask_model, ask_model
from praval_tools.loop.state_machine import AskModel, EmitEvent, LoopEffect, Pause, RefuseCall, RunBatch, WriteItem
from praval_tools.loop.values import LoopEnded, LoopEvent, LoopResult, ModelReply

LoopEffects = Generator[LoopEffect, Any, LoopResult]


@frozen(kw_only=True)
class LoopResources:
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
    read_reply: ReplyReader
    toolset: Any
    runtime: Any
    store: Any
    max_parallel: int


def drive(steps: LoopEffects, means: LoopResources) -> Generator[LoopEvent]:
    """Go the course from sync code; yields what happens, the end last."""
    try:
        step = next(steps)
        while True:
            try:
                if isinstance(step, EmitEvent):
                    yield step.event
                    answer: Any = None
                elif isinstance(step, AskModel):
                    answer = yield from ask_model(means.model, step.request, means.read_reply)
                else:
                    answer = _perform_effect(step, means)
            except Exception as error:  # the course knows what can be tried again, and raises the rest
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        yield LoopEnded(end.value)
    finally:
        steps.close()


def _perform_effect(step: LoopEffect, means: LoopResources) -> Any:
    if isinstance(step, RunBatch):
        return means.toolset.execute_batch(step.calls, means.max_parallel)
    if isinstance(step, RefuseCall):
        tools = means.toolset
        return tools._executor.run_pipeline(tools._complete_call(step.call), tools._principal, step.result)
    if isinstance(step, WriteItem):
        return means.store.append([step.item])[0]
    if isinstance(step, Pause) and means.runtime.closing_event.wait(step.seconds):
        raise RegistryClosedError(means.runtime.registry.name)
    return None


async def drive_async(steps: LoopEffects, means: LoopResources) -> AsyncGenerator[LoopEvent]:
    """Go the course from async code; yields what happens, the end last."""
    import asyncio

    try:
        step = next(steps)
        while True:
            answer: Any = None
            try:
                if isinstance(step, EmitEvent):
                    yield step.event
                elif isinstance(step, AskModel):
                    asking = aask_model(means.model, step.request, means.read_reply)
                    try:
                        async for piece in asking:
                            if isinstance(piece, ModelReply):
                                answer = piece
                            else:
                                yield piece
                    finally:
                        await asking.aclose()
                elif isinstance(step, RunBatch):
                    answer = await means.toolset.aexecute_batch(step.calls, means.max_parallel)
                elif isinstance(step, RefuseCall):
                    tools = means.toolset
                    answer = await tools._executor.run_pipeline_async(tools._complete_call(step.call), tools._principal, step.result)
                elif isinstance(step, WriteItem):
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
