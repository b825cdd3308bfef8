"""The loop between a model and an agent's tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import aclosing, closing, contextmanager
from typing import Any, Final

import msgspec

from praval_tools.errors import ModelError, ToolUsageError
from praval_tools.execution.context import current_call
from praval_tools.formats import FORMATS, format_of
from praval_tools.formats.response_fields import assign_call_ids, to_plain_data
from praval_tools.loop.drivers import LoopResources, drive, drive_async
from praval_tools.loop.replies import read_reply
from praval_tools.loop.state_machine import LoopOptions, LoopStateMachine
from praval_tools.loop.values import LoopEnded, LoopEvent, LoopResult, Model, ModelReply
from praval_tools.names import shorten_repr
from praval_tools.registry.agents import Agent
from praval_tools.registry.export_cache import has_matching_tags, to_tag_set
from praval_tools.runs.model_log import ModelLog, find_current_run
from praval_tools.runs.open_run import reset_current_run
from praval_tools.schema.json_input import MalformedArgumentsError, normalize_json
from praval_tools.tools.call import ToolCall

Prompt = str | Sequence[Any]
_DEFAULT_MAX_PARALLEL: Final = 16


class ToolLoop:
    """
    A conversation between a model and an agent's tools: send the tools, run the calls, return the results, again.

    Unknown and forbidden tools and bad arguments come back to the model as results, so that it can go on. With a
    journal everything is recorded in a run: begun again under its id, the loop repeats no call and asks for no
    reply that is recorded. One loop may be run any number of times, at the same time, too.

    Args:
        agent: Whose tools the model is offered; asked anew before each request.
        model: Anything with a method `reply`; see `Model`, `OpenAIChat`, `OpenAIResponses`, `AnthropicMessages`.
        max_steps: Most replies.
        max_calls: Most calls, over all replies; None: any number.
        max_parallel: Most calls at once.
        instructions: What the model is told beforehand.
        strict: In the provider's strict mode, for the tools that can.
        tags: Only tools with one of these are offered; calls of others are refused in this loop.
        exclude_tags: No tools with one of these are offered.
        think_augment: Ask for the reason of each call; it is kept in the journal.
        retries: How often a request is sent again that may succeed later.
        retry_wait: Seconds before the first of them, doubled each time; what the provider says counts more.

    Raises:
        UnknownFormatError: The model's `format` is none.
        ToolUsageError: It is no model, or a limit makes no sense.
    """

    def __init__(
        self, agent: Agent, model: Model, max_steps: int = 10, max_calls: int | None = 100, *,
        max_parallel: int = _DEFAULT_MAX_PARALLEL, instructions: str = "", strict: bool = False,
        tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None, think_augment: bool = False,
        retries: int = 2, retry_wait: float = 1.0,
    ) -> None:  # fmt: skip
        if not isinstance(agent, Agent):
            raise ToolUsageError(f"{shorten_repr(agent)} is no agent: ToolLoop(registry.agent('name'), model).")
        if not callable(getattr(model, "reply", None)):
            raise ToolUsageError(f"{shorten_repr(model)} is no model: it has no method reply(request).")
        for name, value, least in (("max_steps", max_steps, 1), ("max_calls", max_calls, 0),
                                   ("max_parallel", max_parallel, 1), ("retries", retries, 0)):  # fmt: skip
            if not (value is None and name == "max_calls") and (type(value) is not int or value < least):
                raise ToolUsageError(f"{name}={shorten_repr(value)} is no whole number from {least} on.")
        if type(retry_wait) not in (int, float) or not 0 <= retry_wait < float("inf"):
            raise ToolUsageError(f"retry_wait={shorten_repr(retry_wait)} is no number of seconds.")
        known = {**FORMATS, **agent.registry._runtime.hooks.formats}
        self.agent, self.model, self.form = agent, model, format_of(getattr(model, "format", "openai-chat"), known)
        self._limits, self._max_parallel, self._instructions = (max_steps, max_calls), max_parallel, instructions
        self._tag_filters = to_tag_set(tags), to_tag_set(exclude_tags)
        self._export_options: dict[str, Any] = {
            "strict": strict, "think_augment": think_augment, "tags": self._tag_filters[0], "exclude_tags": self._tag_filters[1],
        }  # fmt: skip
        self._retry_options = (retries, retry_wait)

    def __repr__(self) -> str:
        return f"<ToolLoop of {self.agent.name!r} with {self._get_model_name()}>"

    # ── sync ─────────────────────────────────────────────────────────────────────────────────────

    def run(self, prompt: Prompt | None = None, run_id: str | None = None) -> LoopResult:
        """
        Talk until the model answers, or until something else ends it.

        Args:
            prompt: What a person says, or messages in the model's format; None: go on with the recorded ones.
            run_id: The run, begun or gone on with; None: that of the context, or a new one.

        Raises:
            ModelError: The model could not be asked; the run can be gone on with.
            RunBusyError: The run is open somewhere else.
            ReplayMismatchError: The run is another conversation's.
        """
        with closing(self._iter_events(prompt, run_id, stream=False)) as events:
            for event in events:
                if isinstance(event, LoopEnded):
                    return event.result
        raise AssertionError("the last event is the end")

    def resume(self, run_id: str) -> LoopResult:
        """Go on with a run: after an approval, a resolved call, a raised limit, a kill."""
        return self.run(None, run_id)

    def stream(self, prompt: Prompt | None = None, run_id: str | None = None) -> Generator[LoopEvent]:
        """Do what `run` does, and yield what happens: pieces of text, replies, results, the end."""
        return self._iter_events(prompt, run_id, stream=True)

    def _iter_events(self, prompt: Prompt | None, run_id: str | None, *, stream: bool) -> Generator[LoopEvent]:
        with self._open_run(prompt, run_id, stream=stream) as (messages, first, course, means):
            if first is not None:
                _check_written(means.store.append([first])[0])
            with closing(drive(course.run_loop(messages), means)) as events:
                yield from events

    # ── async ────────────────────────────────────────────────────────────────────────────────────

    async def arun(self, prompt: Prompt | None = None, run_id: str | None = None) -> LoopResult:
        """Do what `run` does, from async code; cancelling it cancels its calls."""
        async with aclosing(self._aiter_events(prompt, run_id, stream=False)) as events:
            async for event in events:
                if isinstance(event, LoopEnded):
                    return event.result
        raise AssertionError("the last event is the end")

    async def aresume(self, run_id: str) -> LoopResult:
        """Do what `resume` does, from async code."""
        return await self.arun(None, run_id)

    def astream(self, prompt: Prompt | None = None, run_id: str | None = None) -> AsyncGenerator[LoopEvent]:
        """Do what `stream` does, from async code."""
        return self._aiter_events(prompt, run_id, stream=True)

    async def _aiter_events(
        self, prompt: Prompt | None, run_id: str | None, *, stream: bool
    ) -> AsyncGenerator[LoopEvent]:
        with self._open_run(prompt, run_id, stream=stream) as (messages, first, course, means):
            if first is not None:
                _check_written((await means.store.aappend((first,)))[0])
            async with aclosing(drive_async(course.run_loop(messages), means)) as events:
                async for event in events:
                    yield event

    # ── what both need ───────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _open_run(
        self, prompt: Prompt | None, run_id: str | None, *, stream: bool
    ) -> Generator[tuple[Any, Any, LoopStateMachine, LoopResources]]:
        """Open the run, where there is a journal, and find what was recorded of it."""
        registry: Any = self.agent.registry
        recorder, own = registry._runtime.recorder if registry.journal is not None else None, None
        given = None if prompt is None else self._build_conversation(prompt)
        open_run = None if recorder is None else find_current_run(recorder)
        if recorder is None:
            _refuse_unrecorded(given, run_id)
        elif open_run is None or run_id not in (None, open_run.run_id):
            own = registry.run(run_id or registry._runtime.clock.new_id())
            own.__enter__()
            reset_current_run(own._token)  # what the caller does between two events is no part of it
            own._token, open_run = None, own._require_open_run()
        try:
            talk, first = None, None
            if recorder is not None and open_run is not None:
                above = current_call()
                talk = ModelLog(recorder, open_run, self.agent.name, None if above is None else above.tool_call_id)
                given, first = talk.begin_loop(given, self._get_model_name(), owns_run=own is not None)
            yield self._prepare_loop(given, first, talk, stream=stream)
        finally:
            if own is not None:
                own.__exit__(None, None, None)

    def _prepare_loop(
        self, given: Any, first: Any, talk: ModelLog | None, *, stream: bool
    ) -> tuple[Any, Any, LoopStateMachine, LoopResources]:
        runtime, toolset = self.agent.registry._runtime, self.agent.tools
        terms = LoopOptions(
            agent=self.agent.name, model_format=self.form, instructions=given["instructions"], stream=stream,
            max_steps=self._limits[0], max_calls=self._limits[1], retries=self._retry_options[0], retry_wait=self._retry_options[1],
        )  # fmt: skip
        course = LoopStateMachine(
            terms, lambda: toolset.schemas(self.form, **self._export_options), self._is_offered, now=runtime.clock.monotonic,
            model_log=talk,
        )  # fmt: skip
        means = LoopResources(
            model=self.model, read_reply=self._read_reply, toolset=toolset, runtime=runtime,
            store=None if runtime.recorder is None else getattr(runtime.recorder, "store", None),
            max_parallel=self._max_parallel,
        )  # fmt: skip
        return given["messages"], first, course, means

    def _is_offered(self, name: Any) -> bool:
        """Tell whether the tags let the loop be about a tool; of one that does not exist the call says so."""
        state = self.agent.registry._runtime.access_store.state
        record = state.find_tool_record(state.resolve_tool_name(name)) if isinstance(name, str) else None
        return record is None or has_matching_tags(record.tool, *self._tag_filters)

    def _build_conversation(self, prompt: Prompt) -> dict[str, Any]:
        messages = [self.form.user(prompt)] if isinstance(prompt, str) else [to_plain_data(one) for one in prompt]
        try:
            return normalize_json({"instructions": self._instructions, "messages": messages})  # type: ignore[no-any-return]
        except MalformedArgumentsError as error:
            told = "; ".join(f"{one.path} {one.reason}" for one in error.problems[:3])
            raise ToolUsageError(f"The prompt is neither a text nor messages: {told}.") from None

    def _read_reply(self, answer: Any) -> ModelReply:
        if isinstance(answer, ModelReply):
            if not all(isinstance(one, ToolCall) for one in answer.calls) or not isinstance(answer.text, str):
                raise ModelError(f"its text is no text, or its calls are no ToolCalls: {shorten_repr(answer)}.")
            if answer.messages:
                return answer
            return msgspec.structs.replace(answer, calls=tuple(assign_call_ids(answer.calls)))
        if isinstance(answer, str):
            return ModelReply(text=answer)
        return read_reply(
            self.form, answer, self.agent.tools, strict=self._export_options["strict"] is True,
            think_augment=self._export_options["think_augment"] is True,
        )  # fmt: skip

    def _get_model_name(self) -> str:
        name = getattr(self.model, "name", None)
        return name if isinstance(name, str) else type(self.model).__name__


def _check_written(answer: Any) -> None:
    if answer.error is not None:
        raise answer.error


def _refuse_unrecorded(given: Any, run_id: str | None) -> None:
    if run_id is not None or given is None:
        raise ToolUsageError(
            "This registry has no journal, so no loop can be gone on with: ToolRegistry(journal='runs.db').",
            "no-journal",
        )
