"""A fake model for tests of loops: its replies are scripted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec

from praval_tools.formats import format_of
from praval_tools.loop import ModelReply, ModelRequest
from praval_tools.tools.call import ToolCall

_WORD_PATTERN = re.compile(r"\S+\s*|\s+")


class FakeModel:
    """
    A model for `ToolLoop` whose replies are scripted; `requests` holds what it was asked.

    Args:
        replies: One a request, in order; see `fake_model`.
        api_format: The format of the requests.
    """

    name = "fake"

    def __init__(self, replies: tuple[Any, ...], api_format: str) -> None:
        self.format, self.requests = format_of(api_format).name, list[ModelRequest]()
        self._replies, self._call_numbers = list(replies), count(1)

    @property
    def left(self) -> int:
        """How many replies were not asked for."""
        return max(0, len(self._replies) - len(self.requests))

    def reply(self, request: ModelRequest) -> Any:
        """Return the next reply of the script."""
        self.requests.append(request)
        if len(self.requests) > len(self._replies):
            raise AssertionError(
                f"The model was asked for reply {len(self.requests)}, and the script has {len(self._replies)}. "
                f"The conversation ends with: {request.messages[-1:]!r}"
            )
        return self._build_reply(self._replies[len(self.requests) - 1], request)

    def _build_reply(self, reply: Any, request: ModelRequest) -> Any:
        if isinstance(reply, BaseException):
            raise reply
        if isinstance(reply, Callable) and not isinstance(reply, type):  # type: ignore[arg-type]
            return self._build_reply(reply(request), request)
        if isinstance(reply, tuple | ToolCall):
            reply = [reply]
        if isinstance(reply, list):
            return ModelReply(calls=tuple(self._build_call(call) for call in reply))
        return _split_words(reply) if isinstance(reply, str) and request.stream else reply

    def _build_call(self, request: ToolCall | tuple[Any, ...]) -> ToolCall:
        call = request if isinstance(request, ToolCall) else ToolCall(None, request[0], *(request[1:2] or ({},)))
        if call.tool_call_id:
            return call
        return msgspec.structs.replace(call, tool_call_id=f"call_{next(self._call_numbers)}")


def _split_words(text: str) -> Iterator[str]:
    yield from _WORD_PATTERN.findall(text)


def fake_model(*replies: Any, api_format: str = "openai-chat") -> FakeModel:
    """
    Return a model that gives *replies*, one a request.

    Args:
        replies: Each a text (an answer), a call as `(name, arguments)` or `ToolCall`, a list of calls, a `ModelReply`,
            what a provider would send in the format, an exception, which is raised, or a function of the request
            that returns one of these.
        api_format: The format of the requests that the test looks at.
    """
    return FakeModel(replies, api_format)
