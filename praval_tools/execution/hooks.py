"""The plugin hooks and engines that calls use, in order: one immutable value per registry, replaced as a whole."""

from __future__ import annotations

import copy
from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec.structs import replace

from praval_tools.execution.approvals import UNANSWERED
from praval_tools.execution.plugin_code import run_as
from praval_tools.names import get_plain_type, get_qualified_name
from praval_tools.schema.json_input import copy_json
from praval_tools.schema.json_values import MAX_DEPTH, SCALAR_TYPES, are_scalars
from praval_tools.tools.decision import Allow

if TYPE_CHECKING:
    from praval_tools.access.records import AgentProfile
    from praval_tools.formats import Format
    from praval_tools.tools.call import ToolCall, ToolResult
    from praval_tools.tools.decision import ApprovalRequest
    from praval_tools.tools.tool import AnyTool

HookFunction = Callable[..., object]
"""A hook that is notified, in its plugin's name; its exceptions are contained there."""


class Engine(Protocol):
    """An engine that a plugin contributes: calls the work that it is given in a thread of its own."""

    def submit(self, work: Callable[[], None], /) -> object:
        """Take *work*, to be called once."""
        ...


class PluginContribution(msgspec.Struct, frozen=True, eq=False):
    """
    What one plugin contributes to a registry.

    Args:
        distribution: The distribution that ships it.
        entry_point: The entry point under which it was found.
        source: The `[[sources]]` table for which it loaded this; None: this is the plugin itself.
        tools: The names of its tools.
        policy: The name of its policy; empty where it has none.
        agents: The agents that a trusted plugin declared, as they were declared.
    """

    distribution: str
    entry_point: str
    source: Mapping[str, object] | None = None
    tools: tuple[str, ...] = ()
    policy: str = ""
    agents: tuple[AgentProfile, ...] = ()
    before: tuple[HookFunction, ...] = ()
    after: tuple[HookFunction, ...] = ()
    approve: tuple[HookFunction, ...] = ()
    engines: Mapping[str, Engine] = {}
    formats: Mapping[str, Format] = {}
    journals: Mapping[str, Callable[[str], Any]] = {}
    sources: Mapping[str, Callable[..., object]] = {}

    @property
    def has_call_hooks(self) -> bool:
        """Whether it contributes anything to calls, besides its tools and its policy."""
        return any(getattr(self, kind) for kind in (*_FUNCTION_KINDS, *_NAMED_KINDS))


def get_contribution_key(contribution: PluginContribution) -> tuple[str, str]:
    """Return the key by which contributions are sorted."""
    return contribution.distribution, contribution.entry_point


class CallHooks(msgspec.Struct, frozen=True, eq=False):
    """What all plugins of one registry contribute to its calls, in the order in which it is used."""

    contributions: tuple[PluginContribution, ...] = ()
    before: tuple[HookFunction, ...] = ()
    after: tuple[HookFunction, ...] = ()
    approve: tuple[HookFunction, ...] = ()
    engines: Mapping[str, Engine] = {}
    formats: Mapping[str, Format] = {}
    journals: Mapping[str, Callable[[str], Any]] = {}

    @classmethod
    def from_contributions(cls, contributions: Iterable[PluginContribution]) -> CallHooks:
        """Return the hooks of these plugins; by distribution, then entry point."""
        ordered = tuple(sorted(contributions, key=get_contribution_key))
        functions = {
            kind: _sort_by_turn(hook for plugin in ordered for hook in getattr(plugin, kind))
            for kind in _FUNCTION_KINDS
        }
        named = {
            kind: {name: value for plugin in ordered for name, value in getattr(plugin, kind).items()}
            for kind in _NAMED_KINDS
        }
        return cls(ordered, **functions, **named)  # type: ignore[arg-type]

    def with_replaced(self, before: PluginContribution | None, after: PluginContribution | None) -> CallHooks:
        """Return the hooks with *after* in the place of *before*."""
        contributions = [contribution for contribution in self.contributions if contribution is not before]
        if after is not None:
            insort(contributions, after, key=get_contribution_key)
        if any(changed is not None and changed.has_call_hooks for changed in (before, after)):
            return CallHooks.from_contributions(contributions)
        return replace(self, contributions=tuple(contributions))

    def notify_before_call(self, call: ToolCall, tool: AnyTool, arguments: Mapping[str, object]) -> None:
        """Notify the plugins that a call is about to run, with its arguments after repairs."""
        for hook in self.before:
            hook(call=replace(call, arguments=_copy_value(call.arguments)), tool=tool, arguments=copy_json(arguments))

    def notify_after_call(self, call: ToolCall, tool: AnyTool | None, result: ToolResult) -> None:
        """Notify the plugins of the result of a call, unless it is replayed."""
        if result.replayed:
            return
        is_plain = get_plain_type(result.result) in SCALAR_TYPES and result.exception is None
        for hook in self.after:
            shown = replace(call, arguments=_copy_value(call.arguments))
            hook(call=shown, tool=tool, result=result if is_plain else _copy_result(result))

    def ask_approval(self, request: ApprovalRequest) -> object:
        """Return the first answer of a plugin to a request for an approval, or `UNANSWERED`."""
        answers = (approve(request=request.copy()) for approve in self.approve)
        return next((answer for answer in answers if answer is not None), UNANSWERED)

    def ask_both(self, others: CallHooks, request: ApprovalRequest) -> object:
        """Return the answer of the plugins, where *others* are about to take their place: both must allow."""
        first = self.ask_approval(request)
        if type(first) is not Allow:
            return first
        second = others.ask_approval(request)
        is_edited = type(second) is Allow and (first.arguments is not None or second.arguments is not None)
        return UNANSWERED if is_edited else second

    def shut_down_engines(self) -> None:
        """Shut down the engines of plugins: each by its `shutdown`, else its `close`, where it has one."""
        for engine in self.engines.values():
            for method in ("shutdown", "close"):
                if callable(end := getattr(engine, method, None)):
                    end()
                    break


_FUNCTION_KINDS = ("before", "after", "approve")
_NAMED_KINDS = ("engines", "formats", "journals")
NO_HOOKS = CallHooks()
_COPIER = "tool:(copier)"
"""Who copies what hooks are shown: owns nothing, and makes calls for nobody."""


def _sort_by_turn(hooks: Iterable[HookFunction]) -> tuple[HookFunction, ...]:
    return tuple(sorted(hooks, key=lambda hook: getattr(hook, "turn", 0)))


def _copy_result(result: ToolResult) -> ToolResult:
    return replace(result, result=_copy_value(result.result), exception=None)


def _copy_value(value: Any) -> object:
    """
    Return a copy of *value* that shares nothing with it which can be changed, so that a hook changes nobody else's.

    Classes copy their values by code of their own, which runs in nobody's name.
    """
    kind = get_plain_type(value)
    if kind in SCALAR_TYPES:
        return value
    if kind is dict and are_scalars((copied := value.copy()).values()):  # as mostly
        return copied
    with run_as(_COPIER):
        return _copy_part(value, {}, MAX_DEPTH)


def _copy_part(value: Any, copies: dict[int, Any], depth: int) -> Any:
    """Return a copy of *value*; of what refuses to be copied, a text that says so."""
    kind = type(value)
    if kind in SCALAR_TYPES:
        return value
    if kind is dict and SCALAR_TYPES.issuperset(map(type, (copied := value.copy()).values())):  # as mostly
        return copies.setdefault(id(value), copied)
    if kind not in (dict, list, tuple) or not depth:
        try:
            return copy.deepcopy(value, copies)
        except (Exception, SystemExit):  # the seam to any class: its code may raise anything
            return f"<{get_qualified_name(kind)} that cannot be copied>"
    if (copied := copies.get(id(value))) is not None:
        return copied
    if kind is tuple:
        return copies.setdefault(id(value), tuple(_copy_part(item, copies, depth - 1) for item in value))
    copied = copies[id(value)] = kind()
    if kind is dict:
        copied.update((name, _copy_part(item, copies, depth - 1)) for name, item in value.copy().items())
    else:
        copied.extend(_copy_part(item, copies, depth - 1) for item in value.copy())
    return copied
