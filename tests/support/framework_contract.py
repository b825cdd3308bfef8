"""What the adapters of all agent frameworks have to do alike: the form in which their tests run a framework."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

from attrs import define, field, frozen

from praval_tools import ToolRegistry


@frozen
class ModelCall:
    """A call that a scripted model makes; arguments may be JSON text."""

    name: str
    arguments: Mapping[str, Any] | str = field(factory=dict)
    id: str = "call_0"


Reply: TypeAlias = "str | Sequence[ModelCall] | Callable[[], str | Sequence[ModelCall]]"
"""What a model replies: a text, or calls; a function is called once the model was asked, and returns that."""


@frozen
class ToolAnswer:
    """What a model got for one of its calls."""

    id: str
    text: str
    failed: bool


@frozen
class Request:
    """What was sent to a model: the tools that it was offered, with their schemas, and the answers it had not seen."""

    tools: Mapping[str, Mapping[str, Any]]
    answers: Sequence[ToolAnswer]

    def get_answer(self, call_id: str = "call_0") -> ToolAnswer:
        """Return the answer to a call."""
        return next(answer for answer in self.answers if answer.id == call_id)


@define(eq=False)
class Script:
    """What a model replies to each request, and what it was sent."""

    replies: list[Reply]
    requests: list[Request] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock)

    def reply(self, request: Request) -> str | Sequence[ModelCall]:
        """Return the next reply."""
        with self._lock:
            self.requests.append(request)
            reply = self.replies[len(self.requests) - 1]
        return reply() if callable(reply) else reply

    @property
    def offered(self) -> list[list[str]]:
        """The names of the tools that were offered with each request."""
        return [list(request.tools) for request in self.requests]


def script(*replies: Reply) -> Script:
    """Return a script of these replies."""
    return Script(list(replies))


@frozen
class Waiting:
    """A call that waits for a person."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@frozen
class Outcome:
    """How a run of a framework ended: with a text, or with calls that wait; *state* is what the framework resumes."""

    text: str | None
    waiting: Sequence[Waiting]
    state: Any


Answers: TypeAlias = "Mapping[str, bool | Mapping[str, Any]]"
"""Call id → whether it is approved, or the arguments with which it is to run."""


class Framework(ABC):
    """A framework with agents that use the tools of a registry."""

    name: ClassVar[str]
    module: ClassVar[str]
    """What has to be installed."""
    can_edit: ClassVar[bool] = True
    """Whether a person can have a call run with other arguments."""

    @abstractmethod
    def make_adapter(self, registry: ToolRegistry, agent: Any = None) -> Any:
        """Return the adapter that several agents can share."""

    @abstractmethod
    def make_agent(self, adapter: Any, name: str, model: Script) -> Any:
        """Return an agent of the framework with a scripted model."""

    @abstractmethod
    async def run(self, agent: Any, prompt: str = "Go.", *, deps: Any = None) -> Outcome:
        """Run an agent from async code."""

    @abstractmethod
    def run_sync(self, agent: Any, prompt: str = "Go.") -> Outcome:
        """Run an agent from sync code."""

    @abstractmethod
    async def resume(self, agent: Any, outcome: Outcome, answers: Answers) -> Outcome:
        """Resume a run with the answers of a person."""

    @abstractmethod
    def alter_arguments(self, outcome: Outcome, call_id: str, arguments: Mapping[str, Any]) -> Outcome:
        """Return the state of a run that waits, with other arguments in what the framework stored of a call."""
