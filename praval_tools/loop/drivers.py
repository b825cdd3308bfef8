"""Drivers of a loop: carry out the effects that its state machine yields, in sync and in async code."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

from attrs import frozen

from praval_tools.errors import RegistryClosedError
from praval_tools.execution.effects import AppendToJournal
from praval_tools.execution.runtime import Runtime
from praval_tools.loop.batch_progress import (
    astream_batch,
    has_context_parameter,
    run_calls,
    run_calls_async,
    stream_batch,
)
from praval_tools.loop.model_calls import ReplyReader, aask_model, ask_model
from praval_tools.loop.state_machine import AskModel, EmitEvent, LoopEffect, Pause, RefuseCall, RunBatch
from praval_tools.loop.values import LoopEnded, LoopEvent, LoopResult, Model, ModelReply
from praval_tools.registry.toolset import Toolset, refuse_call, refuse_call_async
from praval_tools.tools.call import ToolCall
from praval_tools.tools.reports import ToolLog, ToolProgress

LoopEffects: TypeAlias = Generator[LoopEffect, Any, LoopResult]


@frozen(kw_only=True)
class LoopResources:
    """
    The objects that a loop works with.

    Args:
        model: Answers the requests.
        read_reply: Makes a reply of the model's answer.
        toolset: Runs the calls.
        runtime: The registry's.
        max_parallel: Most calls at once.
        stream: Whether the caller wants events while calls run.
    """

    model: Model
    read_reply: ReplyReader
    toolset: Toolset
    runtime: Runtime
    max_parallel: int
    stream: bool

    def streams_progress(self, calls: Sequence[ToolCall]) -> bool:
        """Tell whether a tool that is called can report its progress, and the caller of the loop wants to hear it."""
        return self.stream and any(has_context_parameter(self.toolset, call.name) for call in calls)


def drive(effects: LoopEffects, resources: LoopResources) -> Generator[LoopEvent]:
    """Drive a loop from sync code; yields its events, the end last."""
    try:
        effect = next(effects)
        while True:
            outcome: object = None
            try:
                if isinstance(effect, EmitEvent):
                    yield effect.event
                elif isinstance(effect, RunBatch) and resources.streams_progress(effect.calls):
                    outcome = yield from stream_batch(resources.toolset, effect.calls, resources.max_parallel)
                elif isinstance(effect, AskModel):
                    outcome = yield from ask_model(resources.model, effect.request, resources.read_reply)
                else:
                    outcome = _perform_effect(effect, resources)
            except Exception as error:  # the state machine knows what can be tried again, and raises the rest
                effect = effects.throw(error)
            else:
                effect = effects.send(outcome)
    except StopIteration as end:
        yield LoopEnded(end.value)
    finally:
        effects.close()


def _perform_effect(effect: RunBatch | RefuseCall | AppendToJournal | Pause, resources: LoopResources) -> object:
    if isinstance(effect, RunBatch):
        return run_calls(resources.toolset, effect.calls, resources.max_parallel)
    if isinstance(effect, RefuseCall):
        return refuse_call(resources.toolset, effect.call, effect.result)
    if isinstance(effect, AppendToJournal):
        return effect.store.append([effect.item])[0]
    if resources.runtime.closing_event.wait(effect.seconds):
        raise RegistryClosedError(resources.runtime.registry.name)
    return None


async def drive_async(effects: LoopEffects, resources: LoopResources) -> AsyncGenerator[LoopEvent]:
    """Drive a loop from async code; yields its events, the end last."""
    try:
        effect = next(effects)
        while True:
            outcome: object = None
            try:
                if isinstance(effect, EmitEvent):
                    yield effect.event
                elif isinstance(effect, AskModel):
                    async with aclosing(aask_model(resources.model, effect.request, resources.read_reply)) as pieces:
                        async for piece in pieces:
                            if isinstance(piece, ModelReply):
                                outcome = piece
                            else:
                                yield piece
                elif isinstance(effect, RunBatch) and resources.streams_progress(effect.calls):
                    batch = astream_batch(resources.toolset, effect.calls, resources.max_parallel)
                    async with aclosing(batch) as items:
                        async for item in items:
                            if isinstance(item, ToolProgress | ToolLog):
                                yield item
                            else:
                                outcome = item
                else:
                    outcome = await _perform_effect_async(effect, resources)
            except Exception as error:  # the state machine knows what can be tried again, and raises the rest
                effect = effects.throw(error)
            else:
                effect = effects.send(outcome)
    except StopIteration as end:
        yield LoopEnded(end.value)
    finally:
        effects.close()


async def _perform_effect_async(
    effect: RunBatch | RefuseCall | AppendToJournal | Pause, resources: LoopResources
) -> object:
    import asyncio

    if isinstance(effect, RunBatch):
        return await run_calls_async(resources.toolset, effect.calls, resources.max_parallel)
    if isinstance(effect, RefuseCall):
        return await refuse_call_async(resources.toolset, effect.call, effect.result)
    if isinstance(effect, AppendToJournal):
        return (await effect.store.aappend([effect.item]))[0]
    await asyncio.sleep(effect.seconds)
    return None
