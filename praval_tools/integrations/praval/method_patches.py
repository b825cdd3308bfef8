"""
Replaces the methods of a Praval agent and its model runtime through which an attachment works.

They are replaced on the two objects alone: other agents are untouched. In Praval's classes, the method by which each
approval reaches its store is replaced, and what the host program alone sets of an attached agent is guarded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import partial, wraps
from typing import Any

from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.agent_tools import AgentTools
from praval_tools.integrations.praval.entries import LiveList, ToolEntry
from praval_tools.integrations.praval.host_attributes import HITL_ATTRIBUTES, guard_agent
from praval_tools.integrations.praval.person_approvals import PersonApproval, add_shown_tool, guard_decisions
from praval_tools.integrations.praval.praval_modules import TESTED, PravalObject, copy_names, import_praval_module

Method = Callable[..., Any]

_MISSING: Any = object()
ADDED_METHODS = ("add_tool", "remove_tool", "list_tools", "tool_exists")
"""The methods of `AgentTools` that an attached agent has, where Praval gives it none of the name."""


def patch_agent(tools: AgentTools) -> Callable[[], None]:
    """
    Replace the methods of an agent and its runtime, and add those that manage its tools.

    Returns:
        A function that restores and removes them.

    Raises:
        ToolUsageError: This Praval lacks some of the methods.
    """
    replacements, praval_agent, runtime = _Replacements(tools), tools.praval_agent, tools.praval_agent.runtime
    call, resume = replacements.replace_tool_call, replacements.replace_resume
    patches: list[tuple[PravalObject, str, Callable[[Method], Method]]] = [
        (praval_agent, "_runtime_call_options", replacements.replace_call_options),
        (runtime, "_build_request", replacements.replace_request),
        (runtime, "_restore_runtime_request", replacements.replace_request),
        (runtime, "_execute_runtime_tool_call", partial(call, is_async=False)),
        (runtime, "_execute_runtime_tool_call_async", partial(call, is_async=True)),
        (runtime, "resume_tool_flow", partial(resume, is_async=False)),
        (runtime, "resume_tool_flow_async", partial(resume, is_async=True)),
        (runtime, "_call_provider", replacements.replace_provider_call),
        (runtime, "_acall_provider", replacements.replace_provider_call),
    ]
    needed = [(owner, name) for owner, name, _ in patches]
    needed += [(praval_agent, "configure_hitl"), (praval_agent, "set_spore_handler")]
    needed.append((import_praval_module("praval.hitl.store").HITLStore, "decide_intervention"))
    missing = [name for owner, name in needed if not callable(getattr(owner, name, None))]
    missing += [name for name in HITL_ATTRIBUTES if name not in praval_agent.__dict__]
    if missing:
        version = import_praval_module("praval").__version__
        raise ToolUsageError(
            f"praval {version} has no {', '.join(missing)}, which attach() needs; it is made for praval {TESTED}.",
            "untested-version",
        )
    guard_decisions()
    patched = [_PatchedMethod(owner, name, replace) for owner, name, replace in patches]
    added = {name: getattr(tools, name) for name in ADDED_METHODS if not hasattr(praval_agent, name)}
    praval_agent.__dict__.update(added)
    end_guard = guard_agent(tools)

    def restore_all() -> None:
        end_guard()
        for method in patched:
            method.restore()
        for name, method in added.items():
            if praval_agent.__dict__.get(name) == method:
                del praval_agent.__dict__[name]

    return restore_all


class _PatchedMethod:
    """A replaced method; where somebody has replaced it again since, that stays, and calls Praval's own."""

    def __init__(self, owner: PravalObject, name: str, replace: Callable[[Method], Method]) -> None:
        self._owner, self._name = owner, name
        self._previous = owner.__dict__.get(name, _MISSING)
        original = getattr(owner, name)
        self._replacement = replace(original)

        @copy_names(original)
        def wrapper(*args: Any, **options: Any) -> Any:
            return self._replacement(*args, **options)

        self._original, self._wrapper = original, wrapper
        setattr(owner, name, wrapper)

    def restore(self) -> None:
        self._replacement = self._original
        if self._owner.__dict__.get(self._name) is not self._wrapper:
            return
        if self._previous is _MISSING:
            del self._owner.__dict__[self._name]
        else:
            self._owner.__dict__[self._name] = self._previous


class _Replacements:
    """The replacements; every method takes the original method and returns what replaces it."""

    def __init__(self, tools: AgentTools) -> None:
        self._tools, self._praval_agent = tools, tools.praval_agent
        self._to_spec = import_praval_module("praval.model_runtime").legacy_tool_to_spec

    def replace_call_options(self, original: Method) -> Method:
        """Give a chat live entries, narrowed to the tools that it allows."""

        @wraps(original)
        def wrapper(kwargs: dict[str, Any], **options: Any) -> PravalObject:
            allowed: Iterable[str] | None = kwargs.get("allowed_tool_names")
            only = None if allowed is None else tuple(allowed)  # it may be an iterator, and is read twice
            try:
                call_options = original({**kwargs, "allowed_tool_names": only}, **options)
                known = self._tools.names()
                names = None if only is None else tuple(known[name] for name in only)
            except KeyError as error:  # removed since Praval looked
                raise ValueError(f"Unknown allowed tools: {list(error.args)}") from error
            return dataclasses.replace(call_options, tools=LiveList(lambda: self._tools.entries(names), names))

        return wrapper

    def replace_request(self, original: Method) -> Method:
        """Offer, in every round of a chat, what the agent may call then."""

        @wraps(original)
        def wrapper(*args: Any, tools: object, **options: Any) -> PravalObject:
            request = original(*args, tools=tools, **options)
            if tools is not None:  # else a resumed chat: Praval does not narrow it any more
                names = tools.allowed_names if isinstance(tools, LiveList) else None
                request.tools = LiveList(lambda: self._build_specs(names), names)
            return request

        return wrapper

    def _build_specs(self, names: tuple[str, ...] | None) -> list[PravalObject]:
        strict = bool(getattr(self._praval_agent.config, "strict_tools", False))
        return [self._to_spec(entry, strict=strict) for entry in self._tools.entries(names)]

    def replace_tool_call(self, original: Method, *, is_async: bool) -> Method:
        """Let a call find the tool that it names, whatever the chat began with."""

        @wraps(original)
        def wrapper(
            request: PravalObject, tool_call: PravalObject, *,
            tools: object, continuation_state: Mapping[str, object] | None = None, **options: object,
        ) -> PravalObject:  # fmt: skip
            entries = self._find_called_entry(tool_call.name, request.tools, is_async)
            if continuation_state is not None and entries and entries[0].shown:
                continuation_state = add_shown_tool(continuation_state, entries[0].shown)
            return original(request, tool_call, tools=entries, continuation_state=continuation_state, **options)

        return wrapper

    def _find_called_entry(self, name: str, offered: object, is_async: bool) -> list[ToolEntry]:
        """Return the entry of the called tool; none where the chat was narrowed to others."""
        names = offered.allowed_names if isinstance(offered, LiveList) else None
        if names is not None and self._tools.resolve_wire_name(name) not in names:
            return []
        return [self._tools.build_called_entry(name, is_async=is_async)]

    def replace_resume(self, original: Method, *, is_async: bool) -> Method:
        """Let a call that a person decided on find its tool, to be decided again."""

        @wraps(original)
        def wrapper(suspended_state: PravalObject, tools: object, hitl_context: PravalObject = None) -> Any:
            intervention = (hitl_context or {}).get("resume_intervention") or {}
            name = str(intervention.get("tool_name") or "")
            approval = PersonApproval(hitl_context or {})
            entry = self._tools.build_called_entry(name, is_async=is_async, approval=approval)
            return original(suspended_state=suspended_state, tools=[entry], hitl_context=hitl_context)

        return wrapper

    def replace_provider_call(self, original: Method) -> Method:
        """Offer the present tools to Gemini: its adapter keeps those that it offered first with its answers."""

        @wraps(original)
        def wrapper(operation: str, request: PravalObject, fn: object, *args: Any, **options: Any) -> Any:
            for answer in args:
                payload = (getattr(answer, "metadata", None) or {}).get("gemini_payload")
                if isinstance(payload, dict) and isinstance(request.tools, LiveList):
                    entries = self._tools.entries(request.tools.allowed_names)
                    declared = self._praval_agent.provider._format_tools(entries)
                    payload.pop("tools", None)
                    payload.update({"tools": [{"functionDeclarations": declared}]} if declared else {})
            return original(operation, request, fn, *args, **options)

        return wrapper
