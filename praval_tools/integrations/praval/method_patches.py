"""
The places of a Praval agent and its model runtime that an attachment stands in.

They are methods of the two objects, replaced on the objects alone: other agents, and Praval's classes, are untouched.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.entries import LiveList
from praval_tools.integrations.praval.praval_modules import TESTED, import_praval_module

if TYPE_CHECKING:
    from praval_tools.integrations.praval.attachment import Attachment

_MISSING: Any = object()


def patch_agent(attachment: Attachment, theirs: Any) -> Callable[[], None]:
    """
    Stand in the places of an agent and its runtime; returns what leaves them as they were.

    Raises:
        ToolUsageError: This Praval has not all of the places.
    """
    hooks, runtime = _MethodPatches(attachment, theirs), theirs.runtime
    places = [
        (theirs, "_runtime_call_options", hooks.patch_call_options),
        (runtime, "_build_request", hooks.patch_request),
        (runtime, "_restore_runtime_request", hooks.patch_request),
        (runtime, "_execute_runtime_tool_call", hooks.patch_tool_call(awaited=False)),
        (runtime, "_execute_runtime_tool_call_async", hooks.patch_tool_call(awaited=True)),
        (runtime, "resume_tool_flow", hooks.patch_resume(awaited=False)),
        (runtime, "resume_tool_flow_async", hooks.patch_resume(awaited=True)),
        (runtime, "_call_provider", hooks.patch_provider_call),
        (runtime, "_acall_provider", hooks.patch_provider_call),
    ]
    missing = [name for owner, name, _ in places if not callable(getattr(owner, name, None))]
    if missing:
        version = import_praval_module("praval").__version__
        raise ToolUsageError(
            f"praval {version} has no {', '.join(missing)}, which attach() needs; it is made for praval {TESTED}.",
            "untested-version",
        )
    taken = [_PatchedMethod(owner, name, hook) for owner, name, hook in places]

    def restore_all() -> None:
        for one in taken:
            one.restore()

    return restore_all


class _PatchedMethod:
    """A method that is stood in for; where somebody has replaced ours since, theirs stays, and calls Praval's."""

    def __init__(self, owner: Any, name: str, hook: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        self._owner, self._name = owner, name
        self._previous = owner.__dict__.get(name, _MISSING)
        plain = getattr(owner, name)
        self._replacement = hook(plain)

        @wraps(plain)
        def wrapper(*args: Any, **more: Any) -> Any:
            return self._replacement(*args, **more)

        self._original, self._wrapper = plain, wrapper
        setattr(owner, name, wrapper)

    def restore(self) -> None:
        self._replacement = self._original
        if self._owner.__dict__.get(self._name) is not self._wrapper:
            return
        if self._previous is _MISSING:
            del self._owner.__dict__[self._name]
        else:
            self._owner.__dict__[self._name] = self._previous


class _MethodPatches:
    """What is done in each place; every method takes what was there and returns what stands in for it."""

    def __init__(self, attachment: Attachment, theirs: Any) -> None:
        self._attachment, self._praval_agent = attachment, theirs
        self._tool_to_spec = import_praval_module("praval.model_runtime").legacy_tool_to_spec

    def patch_call_options(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A chat gets live entries, narrowed to what it allows."""

        @wraps(plain)
        def wrapper(kwargs: dict[str, Any], **more: Any) -> Any:
            given = kwargs.get("allowed_tool_names")
            only = None if given is None else tuple(given)  # it may be an iterator, and is gone through twice
            try:
                return self._attachment.narrowed(plain({**kwargs, "allowed_tool_names": only}, **more), only)
            except KeyError as gone:  # taken away since Praval looked
                raise ValueError(f"Unknown allowed tools: {list(gone.args)}") from gone

        return wrapper

    def patch_request(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """A request offers, in every round, what the agent may call then."""

        @wraps(plain)
        def wrapper(*args: Any, tools: Any, **more: Any) -> Any:
            made = plain(*args, tools=tools, **more)
            if isinstance(tools, LiveList):
                made.tools = LiveList(lambda: self._build_specs(tools.allowed_names), tools.allowed_names)
            elif tools is not None:  # a resumed chat: Praval narrows it no more
                made.tools = LiveList(lambda: self._build_specs(None))
            return made

        return wrapper

    def _build_specs(self, names: tuple[str, ...] | None) -> list[Any]:
        strict = bool(getattr(self._praval_agent.config, "strict_tools", False))
        return [self._tool_to_spec(one, strict=strict) for one in self._attachment.entries(names)]

    def patch_tool_call(self, *, awaited: bool) -> Callable[..., Any]:
        """A call finds the tool that it names, whatever the chat began with."""

        def decorate(plain: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(plain)
            def wrapper(request: Any, tool_call: Any, *, tools: Any, **more: Any) -> Any:
                asked = bool((request.hitl_context or {}).get("enabled"))
                found = self._find_called_entry(tool_call.name, request.tools, awaited, asked)
                return plain(request, tool_call, tools=found, **more)

            return wrapper

        return decorate

    def _find_called_entry(self, name: str, offered: Any, awaited: bool, asked: bool) -> list[Any]:
        """Return the entry of the called tool; none where the chat was narrowed to others."""
        names = offered.allowed_names if isinstance(offered, LiveList) else None
        if names is not None and self._attachment.meant(name) not in names:
            return []
        return [self._attachment.entry_called(name, awaited=awaited, approved=asked)]

    def patch_resume(self, *, awaited: bool) -> Callable[..., Any]:
        """A decided call finds its tool, to be decided again."""

        def decorate(plain: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(plain)
            def wrapper(suspended_state: Any, tools: Any, hitl_context: Any = None) -> Any:
                decided = (hitl_context or {}).get("resume_intervention") or {}
                called = self._attachment.entry_called(
                    str(decided.get("tool_name") or ""), awaited=awaited, approved=True
                )
                return plain(suspended_state=suspended_state, tools=[called], hitl_context=hitl_context)

            return wrapper

        return decorate

    def patch_provider_call(self, plain: Callable[..., Any]) -> Callable[..., Any]:
        """Gemini's adapter keeps what it offered first with its answers; it offers what is so now."""

        @wraps(plain)
        def wrapper(operation: str, request: Any, fn: Any, *args: Any, **more: Any) -> Any:
            for one in args:
                payload = (getattr(one, "metadata", None) or {}).get("gemini_payload")
                if isinstance(payload, dict) and isinstance(request.tools, LiveList):
                    declared = self._praval_agent.provider._format_tools(
                        self._attachment.entries(request.tools.allowed_names)
                    )
                    payload.pop("tools", None)
                    payload.update({"tools": [{"functionDeclarations": declared}]} if declared else {})
            return plain(operation, request, fn, *args, **more)

        return wrapper
