"""`ToolLoop`: a conversation between a model and an agent's tools, until the model answers."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import aclosing, closing
from functools import partial

import msgspec

from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import resolve_caller
from praval_tools.execution.deps import get_deps, use_deps
from praval_tools.execution.engines.call_forwarding import CallForwarder
from praval_tools.formats import FORMATS, format_of
from praval_tools.formats.deferred_loading import SEARCH_TOOL_NAME
from praval_tools.formats.response_fields import to_plain_data
from praval_tools.loop.drivers import LoopEffects, LoopResources, drive, drive_async
from praval_tools.loop.replies import JsonObject, check_reply, read_reply
from praval_tools.loop.state_machine import STOP_REASONS, LoopOptions, LoopStateMachine
from praval_tools.loop.tool_search import FoundTools, ToolSearch, list_found_tools, narrow_searches
from praval_tools.loop.values import LoopEnded, LoopEvent, LoopResult, Model, ModelReply, ModelRequest
from praval_tools.misuse import explain_misuse
from praval_tools.names import get_name, get_plain_type, has_type, shorten_repr, suggest_names, to_plain_text
from praval_tools.registry.agents import Agent
from praval_tools.registry.export_cache import has_matching_tags, to_tag_set
from praval_tools.registry.toolset import get_executor
from praval_tools.runs.model_log import ModelLog
from praval_tools.runs.open_run import find_run_of
from praval_tools.runs.run import open_outside_context
from praval_tools.schema.json_input import MalformedArgumentsError, normalize_json
from praval_tools.tools.context import choose_deps
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.tool import AnyTool

Prompt = str | Sequence[object]
History = LoopResult | Sequence[object]


@explain_misuse
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
        instructions: The system prompt.
        strict: In the provider's strict mode, for the tools that can.
        tags: Only tools with one of these are offered; calls of others are refused in this loop.
        exclude_tags: No tools with one of these are offered.
        think_augment: Ask for the reason of each call; it is recorded in the journal.
        answer_tool: The tool whose first successful call ends the loop; what it returned is the result's `answer`. It
            has to exist when a loop begins.
        retries: How often a request is sent again that may succeed later.
        retry_wait: Seconds before the first of them, doubled each time; what the provider says counts more.
        tool_search: The model is sent a tool that finds others, and those that it found; None: all of the agent's.

    Raises:
        UnknownFormatError: The model's `format` is none.
        ToolUsageError: It is not a model, a limit makes no sense, *tool_search* is of another registry, or this is
            another process than that of the agent's registry.
    """

    def __init__(
        self,
        agent: Agent,
        model: Model,
        max_steps: int = 10,
        max_calls: int | None = 100,
        *,
        max_parallel: int = 16,
        instructions: str = "",
        strict: bool = False,
        tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] | None = None,
        think_augment: bool = False,
        answer_tool: str | AnyTool | None = None,
        retries: int = 2,
        retry_wait: float = 1.0,
        tool_search: ToolSearch | None = None,
    ) -> None:
        _check_participants(agent, model, tool_search)
        self._runtime = get_executor(agent.tools).runtime
        known_formats = {**FORMATS, **self._runtime.hooks.formats}
        self._agent, self.model, self._tool_search = agent, model, tool_search
        self.form = format_of(getattr(model, "format", "openai-chat"), known_formats)
        self._strict, self._think_augment, self._max_parallel = strict, think_augment, max_parallel
        self._tags, self._excluded_tags = to_tag_set(tags), to_tag_set(exclude_tags)
        self._options = LoopOptions(
            agent=agent.name,
            model_format=self.form,
            instructions=instructions,
            max_steps=_check_limit("max_steps", max_steps, 1),
            max_calls=None if max_calls is None else _check_limit("max_calls", max_calls, 0),
            retries=_check_limit("retries", retries, 0),
            retry_wait=retry_wait,
            answer_tool=None if answer_tool is None else get_name(answer_tool),
        )
        _check_limit("max_parallel", max_parallel, 1)
        if get_plain_type(retry_wait) not in (int, float) or not 0 <= retry_wait < float("inf"):
            raise ToolUsageError(f"retry_wait={shorten_repr(retry_wait)} is not a number of seconds.")

    def __repr__(self) -> str:
        return f"<ToolLoop of {self.agent.name!r} with {self._get_model_name()}>"

    @property
    def agent(self) -> Agent:
        """Whose calls it makes."""
        return self._agent

    # ── sync ─────────────────────────────────────────────────────────────────────────────────────

    def run(
        self, prompt: Prompt | None = None, run_id: str | None = None, *, history: History = (), deps: object = None
    ) -> LoopResult:
        """
        Send requests and run calls until the model answers, or until something else ends the loop.

        Args:
            prompt: What a person says, or messages in the model's format; None: go on with the recorded ones.
            run_id: The run to begin or to continue; None: that of the context, or a new one.
            history: An earlier conversation that this one continues: what `run` returned, or its messages.
            deps: For tools that declare `ToolContext[Deps]`; neither recorded nor shown to the model.

        Raises:
            ModelError: The model could not be asked; the run can be gone on with.
            RunBusyError: The run is open somewhere else.
            ReplayMismatchError: The run is another conversation's.
            ToolUsageError: There is no tool of the name `answer_tool`, or the journal that a run needs is missing.
        """
        beginning = self._build_beginning(prompt, history)
        with closing(self._iter_events(beginning, run_id, deps, stream=False)) as events:
            for event in events:
                if isinstance(event, LoopEnded):
                    return event.result
        raise AssertionError("the last event is the end")

    def resume(self, run_id: str, *, deps: object = None) -> LoopResult:
        """Go on with a run: after an approval, a resolved call, a raised limit, a kill."""
        return self.run(None, run_id, deps=deps)

    def stream(
        self, prompt: Prompt | None = None, run_id: str | None = None, *, history: History = (), deps: object = None
    ) -> Generator[LoopEvent]:
        """Do what `run` does, and yield what happens: pieces of text, replies, results, the end."""
        return self._iter_events(self._build_beginning(prompt, history), run_id, deps, stream=True)

    def _iter_events(
        self, beginning: JsonObject | None, run_id: str | None, deps: object, *, stream: bool
    ) -> Generator[LoopEvent]:
        with self._open_conversation(beginning, run_id) as (conversation, model_log):
            found_tools = self._make_found_tools(conversation)
            resources = self._build_resources(deps, stream, found_tools)
            if model_log is None or model_log.is_new:
                self._check_tools(deps)
            effects = self._build_state_machine(conversation, model_log, deps, found_tools, stream=stream)
            with closing(drive(effects, resources)) as events:
                yield from events

    # ── async ────────────────────────────────────────────────────────────────────────────────────

    async def arun(
        self, prompt: Prompt | None = None, run_id: str | None = None, *, history: History = (), deps: object = None
    ) -> LoopResult:
        """Do what `run` does, from async code; cancelling it cancels its calls."""
        beginning = self._build_beginning(prompt, history)
        async with aclosing(self._aiter_events(beginning, run_id, deps, stream=False)) as events:
            async for event in events:
                if isinstance(event, LoopEnded):
                    return event.result
        raise AssertionError("the last event is the end")

    async def aresume(self, run_id: str, *, deps: object = None) -> LoopResult:
        """Do what `resume` does, from async code."""
        return await self.arun(None, run_id, deps=deps)

    def astream(
        self, prompt: Prompt | None = None, run_id: str | None = None, *, history: History = (), deps: object = None
    ) -> AsyncGenerator[LoopEvent]:
        """Do what `stream` does, from async code."""
        return self._aiter_events(self._build_beginning(prompt, history), run_id, deps, stream=True)

    async def _aiter_events(
        self, beginning: JsonObject | None, run_id: str | None, deps: object, *, stream: bool
    ) -> AsyncGenerator[LoopEvent]:
        with self._open_conversation(beginning, run_id) as (conversation, model_log):
            found_tools = self._make_found_tools(conversation)
            resources = self._build_resources(deps, stream, found_tools)
            if model_log is None or model_log.is_new:
                self._check_tools(deps)
            effects = self._build_state_machine(conversation, model_log, deps, found_tools, stream=stream)
            async with aclosing(drive_async(effects, resources)) as events:
                async for event in events:
                    yield event

    # ── sync and async ───────────────────────────────────────────────────────────────────────────

    @plain_manager
    def _open_conversation(
        self, conversation: JsonObject | None, run_id: str | None
    ) -> Generator[tuple[JsonObject, ModelLog | None]]:
        """
        Open the run, where there is a journal.

        Returns:
            The instructions and messages to begin with, and the log of the loop.
        """
        if self.agent.registry.journal is None:
            if run_id is not None or conversation is None:
                raise ToolUsageError(
                    "This registry has no journal, so no loop can be gone on with: ToolRegistry(journal='runs.db').",
                    "no-journal",
                )
            yield conversation, None
            return
        recorder = self._runtime.recorder
        open_run, own_run = find_run_of(recorder), None
        if open_run is None or run_id not in (None, open_run.run_id):
            own_run = self.agent.registry.run(run_id or self._runtime.clock.new_id())
            open_run = open_outside_context(own_run)  # the caller's code between two events is not a part of it
        try:
            principal = resolve_caller(self.agent.principal)  # inside delegated work the chain is part of it
            model_log = ModelLog(open_run.recorder, open_run, principal, self.form)
            try:
                owns_run = own_run is not None
                yield model_log.begin_loop(conversation, self._get_model_name(), owns_run=owns_run), model_log
            finally:
                model_log.leave_loop()
        finally:
            if own_run is not None:
                own_run.__exit__(*sys.exc_info())

    def _check_tools(self, deps: object) -> None:
        """Refuse to begin where the tool of the answer does not exist, or a tool needs deps and there are none."""
        state, answer_tool = self._runtime.access_store.state, self._options.answer_tool
        if answer_tool is not None and state.find_tool_record(state.resolve_tool_name(answer_tool)) is None:
            raise ToolUsageError(
                f"answer_tool={shorten_repr(answer_tool)}: there is no such tool, so the loop of {self.agent.name!r} "
                f"would never end with an answer.{suggest_names(answer_tool, state.tools)}",
                "no-answer-tool",
            )
        self._check_deps(deps)

    def _check_deps(self, deps: object) -> None:
        """Refuse to ask a model for calls of tools that need deps where there are none."""
        with use_deps(self.agent.registry, deps):  # rather than when the model has asked for a call
            for tool in self.agent.registry.get_tools_for_agent(self.agent):
                if has_matching_tags(tool, self._tags, self._excluded_tags):
                    choose_deps(tool.name, tool.implementation.deps_hint, get_deps(self.agent.registry))

    def _make_found_tools(self, conversation: JsonObject) -> FoundTools | None:
        """Return what the conversation has found so far, where its tools are searched for."""
        if self._tool_search is None:
            return None
        names = conversation.get("found_tools", ())
        return FoundTools(self._tool_search, self.agent.tools, self.form, self._tags, self._excluded_tags, names)

    def _build_resources(self, deps: object, stream: bool, found_tools: FoundTools | None) -> LoopResources:
        registry, toolset = self.agent.registry, self.agent.registry.toolset(self.agent, deps=deps)
        if found_tools is not None:
            scope = partial(narrow_searches, registry, self._tags, self._excluded_tags, deps)
            toolset = self._runtime.dispatcher.get_scoped_toolset(self.agent, scope)
        return LoopResources(
            model=self.model,
            read_reply=partial(self._read_reply, found_tools),
            toolset=toolset,
            runtime=self._runtime,
            max_parallel=self._max_parallel,
            stream=stream,
        )

    def _build_state_machine(
        self, conversation: JsonObject, model_log: ModelLog | None, deps: object, found_tools: FoundTools | None, *,
        stream: bool,
    ) -> LoopEffects:  # fmt: skip
        def add_tools(request: ModelRequest) -> ModelRequest:
            self._check_deps(deps)  # of a loop that goes on: replies and results that are recorded need none
            if found_tools is not None:
                return found_tools.complete_request(request, strict=self._strict, think_augment=self._think_augment)
            return msgspec.structs.replace(request, tools=self._export_tools())

        state, answer_tool = self._runtime.access_store.state, self._options.answer_tool
        options = msgspec.structs.replace(
            self._options, instructions=conversation["instructions"], stream=stream,
            answer_tool=None if answer_tool is None else state.resolve_tool_name(answer_tool),
        )  # fmt: skip
        machine = LoopStateMachine(
            options, add_tools, self._is_offered, now=self._runtime.clock.monotonic, model_log=model_log,
            **({} if found_tools is None else {"add_results": found_tools.add_results}),
        )  # fmt: skip
        return machine.run_loop(conversation["messages"])

    def _export_tools(self) -> list[JsonObject]:
        return self.agent.tools.schemas(
            self.form,
            strict=self._strict,
            think_augment=self._think_augment,
            tags=self._tags,
            exclude_tags=self._excluded_tags,
        )

    def _is_offered(self, name: object) -> bool:
        """Tell whether the tags let the loop call a tool; of one that does not exist the call says so."""
        state = self._runtime.access_store.state
        record = state.find_tool_record(state.resolve_tool_name(name)) if isinstance(name, str) else None
        is_search = self._tool_search is not None and name == SEARCH_TOOL_NAME
        return record is None or is_search or has_matching_tags(record.tool, self._tags, self._excluded_tags)

    def _build_beginning(self, prompt: Prompt | None, history: History) -> JsonObject | None:
        """Return the instructions and messages to begin with, or None where the run has them."""
        earlier = self._get_messages(history) if isinstance(history, LoopResult) else list(map(to_plain_data, history))
        if prompt is None and not earlier:
            return None
        prompted = [self.form.user(prompt)] if isinstance(prompt, str) else list(map(to_plain_data, prompt or ()))
        messages = [*earlier, *prompted]
        beginning: JsonObject = {"instructions": self._options.instructions, "messages": messages}
        if self._tool_search is not None and isinstance(history, LoopResult):
            beginning |= {"found_tools": names} if (names := list_found_tools(history.results)) else {}
        try:
            conversation: JsonObject = normalize_json(beginning)
        except MalformedArgumentsError as error:
            problems = "; ".join(f"{problem.path} {problem.reason}" for problem in error.problems[:3])
            raise ToolUsageError(f"The prompt is neither a text nor messages: {problems}.") from None
        return conversation

    def _get_messages(self, result: LoopResult) -> list[object]:
        """Return the messages of an earlier conversation, if this model can take it up."""
        if result.waiting:
            raise ToolUsageError(
                f"The earlier conversation waits for {', '.join(result.waiting)} ({result.reason}): answer or resolve "
                f"that, and resume({result.run_id!r}).",
                "unfinished-conversation",
            )
        if result.api_format not in ("", self.form.name):
            raise ToolUsageError(
                f"The earlier conversation is in {result.api_format!r}, and {self._get_model_name()} speaks "
                f"{self.form.name!r}; go on with a model of that format.",
                "foreign-conversation",
            )
        return list(result.messages)

    def _read_reply(self, found_tools: FoundTools | None, answer: object) -> ModelReply:
        if has_type(answer, str):
            return ModelReply(text=to_plain_text(answer))
        if has_type(answer, ModelReply):
            return check_reply(answer, STOP_REASONS)
        return read_reply(
            self.form,
            answer,
            self.agent.tools if found_tools is None else found_tools.list_sent_tools(),
            self._runtime.options,
            strict=self._strict is True,
            think_augment=self._think_augment is True,
        )

    def _get_model_name(self) -> str:
        name = getattr(self.model, "name", None)
        return name if isinstance(name, str) else type(self.model).__name__


def _check_participants(agent: object, model: object, tool_search: object) -> None:
    if not isinstance(agent, Agent):
        raise ToolUsageError(f"{shorten_repr(agent)} is not an agent: ToolLoop(registry.agent('name'), model).")
    if isinstance(get_executor(agent.tools).runtime.recorder, CallForwarder):
        raise ToolUsageError(
            f"This function runs in another process than the registry of {agent.name!r}, and the tools are known there "
            f"alone: run the loop in a tool that does not run with engine='process'.",
            "registry-of-another-process",
        )
    if not callable(getattr(model, "reply", None)):
        raise ToolUsageError(f"{shorten_repr(model)} is not a model: it has no method reply(request).")
    if tool_search is not None and getattr(tool_search, "registry", None) is not agent.registry:
        text = f"{shorten_repr(tool_search)} does not search in {agent.registry!r}, whose tools {agent.name!r} has"
        raise ToolUsageError(f"{text}: tool_search=ToolSearch(registry).")


def _check_limit(name: str, value: int, least: int) -> int:
    if type(value) is not int or value < least:
        raise ToolUsageError(f"{name}={shorten_repr(value)} is not a whole number from {least} on.")
    return value
