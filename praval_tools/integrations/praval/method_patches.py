"""
The places of a Praval agent and its model runtime that an attachment stands in.

They are methods of the two objects, replaced on the objects alone: other agents, and Praval's classes, are untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.entries import Live
from praval_tools.integrations.praval.praval_modules import TESTED, part

if TYPE_CHECKING:
    from praval_tools.integrations.praval.attachment import Attachment

_GONE: Any = object()


def hooked(attachment: Attachment, theirs: Any) -> Callable[[], None]:
    """
    Stand in the places of an agent and its runtime; returns what leaves them as they were.

    Raises:
        ToolUsageError: This Praval has not all of the places.
    """
    hooks, runtime = _Hooks(attachment, theirs), theirs.runtime
    places = [
        (theirs, "_runtime_call_options", hooks.options),
        (runtime, "_build_request", hooks.request),
        (runtime, "_restore_runtime_request", hooks.request),
        (runtime, "_execute_runtime_tool_call", hooks.one_call(awaited=False)),
        (runtime, "_execute_runtime_tool_call_async", hooks.one_call(awaited=True)),
        (runtime, "resume_tool_flow", hooks.resumed(awaited=False)),
        (runtime, "resume_tool_flow_async", hooks.resumed(awaited=True)),
        (runtime, "_call_provider", hooks.provider),
        (runtime, "_acall_provider", hooks.provider),
    ]
    missing = [name for owner, name, _ in places if not callable(getattr(owner, name, None))]
    if missing:
        version = part("praval").__version__
        raise ToolUsageError(
            f"praval {version} has no {', '.join(missing)}, which attach() needs; it is made for praval {TESTED}.",
            "untested-version",
        )
    taken = [_Place(owner, name, hook) for owner, name, hook in places]

    def leave() -> None:
        for one in taken:
            one.leave()

    return leave


class _Place:
    """A method that is stood in for; where somebody has replaced ours since, theirs stays, and calls Praval's."""

    def __init__(self, owner: Any, name: str, hook: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._owner, self._name = owner, name
        self._before = owner.__dict__.get(name, _GONE)
        plain = getattr(owner, name)
        self._called = hook(plain)

        @wraps(plain)
        def ours(*args: Any, **more: Any) -> Any:
            return self._called(*args, **more)

        self._plain, self._ours = plain, ours
        setattr(owner, name, ours)

    def leave(self) -> None:
        self._called = self._plain
        if self._owner.__dict__.get(self._name) is not self._ours:
            return
        if self._before is _GONE:
            del self._owner.__dict__[self._name]
        else:
            self._owner.__dict__[self._name] = self._before


class _Hooks:
    """What is done in each place; every method takes what was there and returns what stands in for it."""

    def __init__(self, attachment: Attachment, theirs: Any) -> None:
        self._attachment, self._theirs = attachment, theirs
        self._spec = part("praval.model_runtime").legacy_tool_to_spec

    def options(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A chat gets live entries, narrowed to what it allows."""

        @wraps(plain)
        def hooked(kwargs: dict[str, Any], **more: Any) -> Any:
            given = kwargs.get("allowed_tool_names")
            only = None if given is None else tuple(given)  # it may be an iterator, and is gone through twice
            try:
                return self._attachment.narrowed(plain({**kwargs, "allowed_tool_names": only}, **more), only)
            except KeyError as gone:  # taken away since Praval looked
                raise ValueError(f"Unknown allowed tools: {list(gone.args)}") from gone

        return hooked

    def request(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A request offers, in every round, what the agent may call then."""

        @wraps(plain)
        def hooked(*args: Any, tools: Any, **more: Any) -> Any:
            made = plain(*args, tools=tools, **more)
            if isinstance(tools, Live):
                made.tools = Live(lambda: self._specs(tools.names), tools.names)
            elif tools is not None:  # a resumed chat: Praval narrows it no more
                made.tools = Live(lambda: self._specs(None))
            return made

        return hooked

    def _specs(self, names: tuple[str, ...] | None) -> list[Any]:
        strict = bool(getattr(self._theirs.config, "strict_tools", False))
        return [self._spec(one, strict=strict) for one in self._attachment.entries(names)]

    def one_call(self, *, awaited: bool) -> Callable[..., Any]:
        """A call finds the tool that it names, whatever the chat began with."""

        def standing_in(plain: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(plain)
            def hooked(request: Any, tool_call: Any, *, tools: Any, **more: Any) -> Any:
                asked = bool((request.hitl_context or {}).get("enabled"))
                found = self._called(tool_call.name, request.tools, awaited, asked)
                return plain(request, tool_call, tools=found, **more)

            return hooked

        return standing_in

    def _called(self, name: str, offered: Any, awaited: bool, asked: bool) -> list[Any]:
        """Return the entry of the called tool; none where the chat was narrowed to others."""
        names = offered.names if isinstance(offered, Live) else None
        if names is not None and self._attachment.meant(name) not in names:
            return []
        return [self._attachment.entry_called(name, awaited=awaited, approved=asked)]

    def resumed(self, *, awaited: bool) -> Callable[..., Any]:
        """A decided call finds its tool, to be decided again."""

        def standing_in(plain: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(plain)
            def hooked(suspended_state: Any, tools: Any, hitl_context: Any = None) -> Any:
                decided = (hitl_context or {}).get("resume_intervention") or {}
                called = self._attachment.entry_called(
                    str(decided.get("tool_name") or ""), awaited=awaited, approved=True
                )
                return plain(suspended_state=suspended_state, tools=[called], hitl_context=hitl_context)

            return hooked

        return standing_in

    def provider(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Gemini's adapter keeps what it offered first with its answers; it offers what is so now."""

        @wraps(plain)
        def hooked(operation: str, request: Any, fn: Any, *args: Any, **more: Any) -> Any:
            for one in args:
                payload = (getattr(one, "metadata", None) or {}).get("gemini_payload")
                if isinstance(payload, dict) and isinstance(request.tools, Live):
                    declared = self._theirs.provider._format_tools(self._attachment.entries(request.tools.names))
                    payload.pop("tools", None)
                    payload.update({"tools": [{"functionDeclarations": declared}]} if declared else {})
            return plain(operation, request, fn, *args, **more)

        return hooked
