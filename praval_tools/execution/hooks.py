"""The hooks of plugins that are in force at calls; one immutable value, exchanged as a whole."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from praval_tools.execution.approvals import UNANSWERED
from praval_tools.schema.json_input import copy_json

if TYPE_CHECKING:
    from praval_tools.access.records import AgentProfile
    from praval_tools.formats import Format
    from praval_tools.tools.call import ToolCall, ToolResult
    from praval_tools.tools.decision import ApprovalRequest
    from praval_tools.tools.tool import Tool

HookFunction = Callable[..., object]
"""A hook that takes note of something, in its plugin's name; what it raises is contained there."""


class PluginContribution(msgspec.Struct, frozen=True, eq=False):
    """
    What one plugin brings to a registry.

    Args:
        distribution: Which ships it.
        entry_point: By which it was found.
        tools: The names of its tools.
        policy: The name of its policy; empty where it has none.
        agents: Those that it declared, as they were declared; the operator trusts it.
    """

    distribution: str
    entry_point: str
    tools: tuple[str, ...] = ()
    policy: str = ""
    agents: tuple[AgentProfile, ...] = ()
    before: tuple[HookFunction, ...] = ()
    after: tuple[HookFunction, ...] = ()
    approve: tuple[HookFunction, ...] = ()
    engines: Mapping[str, Any] = {}
    formats: Mapping[str, Format] = {}
    journals: Mapping[str, Callable[[str], Any]] = {}
    sources: Mapping[str, Callable[..., Any]] = {}

    @property
    def has_call_hooks(self) -> bool:
        """Whether it brings anything to calls, besides its tools and its policy."""
        return any(getattr(self, kind) for kind in (*_FUNCTION_KINDS, *_NAMED_KINDS))


def contribution_key(one: PluginContribution) -> tuple[str, str]:
    return one.distribution, one.entry_point


class CallHooks(msgspec.Struct, frozen=True, eq=False):
    """What all plugins of one registry bring to its calls, in the order in which it is used."""

    contributions: tuple[PluginContribution, ...] = ()
    before: tuple[HookFunction, ...] = ()
    after: tuple[HookFunction, ...] = ()
    approve: tuple[HookFunction, ...] = ()
    engines: Mapping[str, Any] = {}
    formats: Mapping[str, Format] = {}
    journals: Mapping[str, Callable[[str], Any]] = {}

    @classmethod
    def from_contributions(cls, contributions: Iterable[PluginContribution]) -> CallHooks:
        """Return the hooks of these plugins; by distribution, then entry point."""
        mine = tuple(sorted(contributions, key=contribution_key))
        noted = {
            kind: _sort_by_turn(one for plugin in mine for one in getattr(plugin, kind)) for kind in _FUNCTION_KINDS
        }
        named = {
            kind: {name: one for plugin in mine for name, one in getattr(plugin, kind).items()} for kind in _NAMED_KINDS
        }
        return cls(mine, **noted, **named)  # type: ignore[arg-type]

    def with_replaced(self, before: PluginContribution | None, after: PluginContribution | None) -> CallHooks:
        """Return the hooks with *after* in the place of *before*."""
        mine = [one for one in self.contributions if one is not before]
        if after is not None:
            insort(mine, after, key=contribution_key)
        if any(one is not None and one.has_call_hooks for one in (before, after)):
            return CallHooks.from_contributions(mine)
        return replace(self, contributions=tuple(mine))

    def notify_before_call(self, call: ToolCall, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> None:
        """Tell that a call is about to run, with these arguments after repairs."""
        for hook in self.before:
            hook(call=_copy_call(call), tool=tool, arguments=copy_json(arguments))

    def notify_after_call(self, call: ToolCall, tool: Tool[..., Any] | None, result: ToolResult) -> None:
        """Tell what came of a call, unless a replay gives it again."""
        if result.replayed:
            return
        for hook in self.after:
            copied = replace(result, result=_copy_containers(result.result, {}))
            hook(call=_copy_call(call), tool=tool, result=copied)

    def ask_approval(self, request: ApprovalRequest) -> Any:
        """Return the first answer of a plugin to a call that needs an approval."""
        answers = (approve(request=request) for approve in self.approve)
        return next((one for one in answers if one is not None), UNANSWERED)

    def shut_down_engines(self) -> None:
        """End the engines of plugins, by whichever method each has for that."""
        for engine in self.engines.values():
            for method in ("shutdown", "close"):
                if callable(end := getattr(engine, method, None)):
                    end()
                    break


_FUNCTION_KINDS = ("before", "after", "approve")
_NAMED_KINDS = ("engines", "formats", "journals")
NO_HOOKS = CallHooks()


def _sort_by_turn(noted: Iterable[HookFunction]) -> tuple[HookFunction, ...]:
    return tuple(sorted(noted, key=lambda one: getattr(one, "turn", 0)))


def _copy_call(call: ToolCall) -> ToolCall:
    return replace(call, arguments=_copy_containers(call.arguments, {}))


def _copy_containers(value: Any, known: dict[int, Any], deep: int = 64) -> Any:
    """Return a copy of the lists, dicts and sets in *value*: what a hook does to them reaches nobody."""
    kind: Any = type(value)
    if kind not in (dict, list, set) or not deep:
        return value
    made = known.get(id(value))
    if made is not None:
        return made
    made = known[id(value)] = kind()
    if kind is dict:
        made.update((name, _copy_containers(one, known, deep - 1)) for name, one in value.items())
    elif kind is list:
        made.extend(_copy_containers(one, known, deep - 1) for one in value)
    else:
        made.update(value)
    return made
