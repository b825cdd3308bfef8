"""
Models for `ToolLoop` over clients of the `openai` and `anthropic` SDKs, and which of their errors to retry.

The client is yours: its key, its base URL (any server that speaks the protocol), its time-outs. Its own retries are
switched off; the loop's are bounded, and honour what the provider says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from praval_tools.clock import SystemClock
from praval_tools.errors import ModelError, ToolUsageError
from praval_tools.formats.response_fields import get_member, get_text
from praval_tools.loop.values import ModelRequest
from praval_tools.names import shorten_repr

_RETRYABLE_STATUSES: Final = frozenset({408, 409, 425, 429})
_CONNECTION_ERRORS: Final = frozenset({"APIConnectionError", "APITimeoutError", "TransportError"})
_RETRYABLE_TYPES: Final = frozenset({"overloaded_error", "api_error", "rate_limit_error", "server_error"})


class SdkModel(ABC):
    """
    Base of the ready-made models.

    Args:
        client: The SDK's client, sync or async.
        model: The provider's name of the model.
        options: More members of each request: `temperature`, `max_tokens`, `timeout`, `extra_headers`, …

    Raises:
        ToolUsageError: *client* is none, or an option would replace what the loop decides: the tools, the
            conversation, the instructions, whether it is streamed, or how many answers there are.
    """

    format: ClassVar[str]
    path: ClassVar[str]
    reserved: ClassVar[frozenset[str]]

    def __init__(self, client: Any, model: str, **options: Any) -> None:
        quiet = client.with_options(max_retries=0) if callable(getattr(client, "with_options", None)) else client
        create = quiet
        for part in self.path.split("."):
            create = getattr(create, part, None)
        if not callable(create):
            raise ToolUsageError(f"{shorten_repr(client)} is not a client of this kind: it has no {self.path}.")
        self.name, self._create, self._options = model, create, options
        _check_options(type(self), options)
        self.is_async = type(client).__name__.startswith("Async")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    @abstractmethod
    def body(self, request: ModelRequest) -> dict[str, object]:
        """Return the request as the provider takes it."""

    def reply(self, request: ModelRequest) -> Any:
        """
        Send the request.

        Raises:
            ModelError: It failed; its `retryable` says whether it may succeed later.
        """
        body = {"model": self.name, "stream": request.stream, **self.body(request), **self._options}
        _check_tool_choice(body, request)
        if self.is_async:
            return self._areply(body)
        answer = _call_sdk(lambda: self._create(**body))
        return _iter_chunks(answer) if body["stream"] else _check_reply(answer)

    async def _areply(self, body: dict[str, object]) -> Any:
        try:
            answer = await self._create(**body)
        except Exception as error:  # the boundary to the SDK: whatever it raises becomes one class
            raise to_model_error(error) from error
        return _aiter_chunks(answer) if body["stream"] else _check_reply(answer)


class OpenAIChat(SdkModel):
    """A model behind OpenAI's Chat Completions, or a server that speaks them: `OpenAIChat(OpenAI(), "gpt-5")`."""

    format: ClassVar = "openai-chat"
    path: ClassVar = "chat.completions.create"
    reserved: ClassVar = frozenset(("messages", "functions", "function_call"))

    def body(self, request: ModelRequest) -> dict[str, object]:
        """Return the request as the provider takes it."""
        system = [{"role": "system", "content": request.instructions}] if request.instructions else []
        return {"messages": [*system, *request.messages], **({"tools": request.tools} if request.tools else {})}


class OpenAIResponses(SdkModel):
    """A model behind OpenAI's Responses: `OpenAIResponses(OpenAI(), "gpt-5")`."""

    format: ClassVar = "openai-responses"
    path: ClassVar = "responses.create"
    reserved: ClassVar = frozenset(
        ("input", "instructions", "prompt", "previous_response_id", "conversation", "background")
    )

    def body(self, request: ModelRequest) -> dict[str, object]:
        """Return the request as the provider takes it."""
        instructions = {"instructions": request.instructions} if request.instructions else {}
        return {"input": request.messages, **instructions, **({"tools": request.tools} if request.tools else {})}


class AnthropicMessages(SdkModel):
    """
    A model behind Anthropic's Messages: `AnthropicMessages(Anthropic(), "claude-sonnet-5")`.

    `max_tokens` is 4,096 where the options say nothing else.
    """

    format: ClassVar = "anthropic"
    path: ClassVar = "messages.create"
    reserved: ClassVar = frozenset(("messages", "system", "mcp_servers"))

    def body(self, request: ModelRequest) -> dict[str, object]:
        """Return the request as the provider takes it."""
        system = {"system": request.instructions} if request.instructions else {}
        tools = {"tools": request.tools} if request.tools else {}
        return {"max_tokens": 4_096, "messages": request.messages, **system, **tools}


# ── options ──────────────────────────────────────────────────────────────────────────────────────

_RESERVED: Final = frozenset(("model", "tools", "stream"))
_TOOLS_ONLY: Final = ("tool_choice", "parallel_tool_calls")
"""Options that providers refuse in a request without tools."""


def _check_options(kind: type[SdkModel], options: dict[str, object]) -> None:
    """Raise `ToolUsageError` if an option, or what the SDK writes over the request, replaces what the loop decides."""
    extra_body = options.get("extra_body")
    for place in (options, extra_body if isinstance(extra_body, dict) else {}):
        for name in place:
            if name in _RESERVED | kind.reserved:
                raise ToolUsageError(
                    f"{kind.__name__}({name}=…) would replace what the loop sends: the tools are the agent's, prompt "
                    f"and instructions are given to ToolLoop; for requests of your own, override its body().",
                    "reserved-option",
                )
        if place.get("n") not in (None, 1):
            raise ToolUsageError(
                f"{kind.__name__}(n={shorten_repr(place['n'])}): a loop goes on with one answer; leave n out.",
                "reserved-option",
            )


def _check_tool_choice(body: dict[str, object], request: ModelRequest) -> None:
    """Leave out the options on tools where there are none; raise `ToolUsageError` if one forces a hidden tool."""
    if not body.get("tools"):
        for name in _TOOLS_ONLY:
            body.pop(name, None)
    offered_names = set(_iter_names(body.get("tools")))
    choices = [body.get("tool_choice"), get_member(body.get("extra_body"), "tool_choice")]
    for name in _iter_names(choices):
        if name not in offered_names:
            raise ToolUsageError(
                f"tool_choice names {name!r}, which {request.agent!r} is not offered: grant it, or choose one of "
                f"{', '.join(sorted(offered_names)) or 'its tools, of which there are none'}.",
                "reserved-option",
            )


def _iter_names(value: object) -> Iterator[str]:
    """Yield the names of the tools in a list of tools, or in a choice of tools."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _iter_names(item)
    elif isinstance(value, dict):
        if isinstance(name := value.get("name"), str):
            yield name
        for member in ("function", "custom", "allowed_tools", "tools"):
            yield from _iter_names(value.get(member))


# ── errors ───────────────────────────────────────────────────────────────────────────────────────


def _call_sdk(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:  # the boundary to the SDK: whatever it raises becomes one class
        raise to_model_error(error) from error


def _check_reply(answer: object) -> object:
    """Return the reply; an SDK returns the page of a server that does not speak its protocol as text."""
    if isinstance(answer, str | bytes):
        raise ModelError(f"what it sent is not a reply: {shorten_repr(answer)}; look at the client's base_url.")
    return answer


def _iter_chunks(answer: Any) -> Generator[object]:
    chunk = None
    try:
        for chunk in answer:
            yield chunk
        if chunk is None:
            raise _build_empty_stream_error()
    except ModelError:
        raise
    except Exception as error:  # the boundary to the SDK: whatever it raises becomes one class
        raise to_model_error(error) from error
    finally:
        answer.close()


async def _aiter_chunks(answer: Any) -> AsyncGenerator[object]:
    chunk = None
    try:
        async for chunk in answer:
            yield chunk
        if chunk is None:
            raise _build_empty_stream_error()
    except ModelError:
        raise
    except Exception as error:  # the boundary to the SDK: whatever it raises becomes one class
        raise to_model_error(error) from error
    finally:
        await answer.close()


def _build_empty_stream_error() -> ModelError:
    return ModelError("its stream was empty", retryable=True)


def to_model_error(error: Exception) -> ModelError:
    """Return an exception of an SDK as `ModelError`, with whether, and when, the same request may succeed."""
    status, class_names = getattr(error, "status_code", None), {kind.__name__ for kind in type(error).__mro__}
    body = getattr(error, "body", None)
    details = get_member(body, "error") or body
    kind = get_text(details, "type") or str(getattr(error, "type", "") or "")
    is_quota_spent = "insufficient_quota" in (get_text(details, "code"), str(getattr(error, "code", "")), kind)
    is_retryable = (
        status in _RETRYABLE_STATUSES
        or (isinstance(status, int) and status >= 500)
        or kind in _RETRYABLE_TYPES
        or not class_names.isdisjoint(_CONNECTION_ERRORS)
        or (status is None and "APIError" in class_names)
    )
    text = f"{type(error).__name__}: {error}"
    return ModelError(text[:1_000], is_retryable and not is_quota_spent, _get_retry_after(error))


def _get_retry_after(error: Exception) -> float | None:
    """Return the seconds after which a provider wants to be asked again; None where it does not say, or not clearly."""
    headers = getattr(getattr(error, "response", None), "headers", None)
    if headers is None:
        return None
    for name, unit in (("retry-after-ms", 1_000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name)) / unit
        except (TypeError, ValueError):  # absent, or a date
            seconds = _get_seconds_until(headers.get(name), headers.get("date"))
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def _get_seconds_until(text: object, now: object) -> float:
    """Return the seconds to the date of a header, from the provider's own *now* where it says it; else a negative."""
    moment = _parse_http_date(text)
    if moment is None:
        return -1.0
    return (moment - (_parse_http_date(now) or SystemClock().now())).total_seconds()


def _parse_http_date(text: object) -> datetime | None:
    from email.utils import parsedate_to_datetime  # costs more than the rest of this module

    try:
        moment = parsedate_to_datetime(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
