"""LangChain, as the tests of all frameworks run it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from framework_contract import Answers, Framework, ModelCall, Outcome, Request, Script, ToolAnswer, Waiting
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from praval_tools import ToolRegistry
from praval_tools.integrations.langchain import ToolAccess


class ScriptedModel(BaseChatModel):
    """A chat model that replies by a script."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Runnable[Any, AIMessage]:
        functions = [convert_to_openai_tool(tool)["function"] for tool in tools]
        return self.bind(tools={function["name"]: function["parameters"] for function in functions})

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        reply = self.script.reply(Request(options.get("tools", {}), read_answers(messages)))
        message = AIMessage(reply) if isinstance(reply, str) else AIMessage("", tool_calls=list(map(to_call, reply)))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        message = self._generate(messages, **options).generations[0].message
        assert isinstance(message, AIMessage)
        for index, call in enumerate(message.tool_calls):
            text = json.dumps(call["args"])
            for part in (text[:3], text[3:]):
                first = part == text[:3]
                chunk = {
                    "index": index,
                    "args": part,
                    "name": call["name"] if first else None,
                    "id": call["id"] if first else None,
                    "type": "tool_call_chunk",
                }
                yield ChatGenerationChunk(message=AIMessageChunk("", tool_call_chunks=[chunk]))
        if message.text:
            yield ChatGenerationChunk(message=AIMessageChunk(message.text))


def to_call(call: ModelCall) -> Any:
    """Return a call as LangChain has it."""
    arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else dict(call.arguments)
    return {"type": "tool_call", "name": call.name, "args": arguments, "id": call.id}


def read_answers(messages: Sequence[BaseMessage]) -> list[ToolAnswer]:
    """Return the answers that came after the last reply."""
    answers: list[ToolAnswer] = []
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            break
        answers.insert(0, ToolAnswer(message.tool_call_id, message.text, message.status == "error"))
    return answers


class LangChain(Framework):
    """LangChain."""

    name = "langchain"
    module = "langchain"

    def __init__(self) -> None:
        self.saver = InMemorySaver()
        self.threads = iter(range(1_000))

    def make_adapter(self, registry: ToolRegistry, agent: Any = None) -> ToolAccess:
        return ToolAccess(registry, agent)

    def make_agent(self, adapter: ToolAccess, name: str, model: Script) -> Any:
        return create_agent(ScriptedModel(script=model), name=name, middleware=[adapter], checkpointer=self.saver)

    async def run(self, agent: Any, prompt: str = "Go.", *, deps: Any = None) -> Outcome:
        config = {"configurable": {"thread_id": f"thread {next(self.threads)}"}}
        return self._read(agent, config, await agent.ainvoke({"messages": [("user", prompt)]}, config, context=deps))

    def run_sync(self, agent: Any, prompt: str = "Go.") -> Outcome:
        config = {"configurable": {"thread_id": f"thread {next(self.threads)}"}}
        return self._read(agent, config, agent.invoke({"messages": [("user", prompt)]}, config))

    async def resume(self, agent: Any, outcome: Outcome, answers: Answers) -> Outcome:
        decisions: dict[str, Any] = {}
        for call_id, answer in answers.items():
            (call,) = [call for call in outcome.waiting if call.id == call_id]
            if isinstance(answer, bool):
                decisions[call_id] = {"type": "approve" if answer else "reject"}
            else:
                decisions[call_id] = {"type": "edit", "edited_action": {"name": call.name, "args": dict(answer)}}
        _, config, ids = outcome.state
        resume = {ids[call_id]: decision for call_id, decision in decisions.items()} if ids else decisions["call_0"]
        return self._read(agent, config, await agent.ainvoke(Command(resume=resume), config))

    def alter_arguments(self, outcome: Outcome, call_id: str, arguments: Mapping[str, Any]) -> Outcome:
        agent, config, _ = outcome.state
        message = agent.get_state(config).values["messages"][-1].model_copy(deep=True)
        (call,) = [call for call in message.tool_calls if call["id"] == call_id]
        call["args"] = dict(arguments)
        altered = agent.update_state(config, {"messages": [message]}, as_node="model")
        return Outcome(outcome.text, outcome.waiting, (agent, altered, {}))  # no ids: the answer goes to whoever asks

    def _read(self, agent: Any, config: Any, result: Any) -> Outcome:
        interrupts = {one.value["tool_call_id"]: one for one in result.get("__interrupt__", ())}
        if not interrupts:
            return Outcome(result["messages"][-1].text, (), (agent, config, {}))
        waiting = [Waiting(call_id, one.value["name"], one.value["args"]) for call_id, one in interrupts.items()]
        latest = {"configurable": {"thread_id": config["configurable"]["thread_id"]}}
        ids = {call_id: one.id for call_id, one in interrupts.items()}
        return Outcome(None, waiting, (agent, agent.get_state(latest).config, ids))
