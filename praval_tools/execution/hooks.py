"""The hooks of plugins that are in force at calls; one immutable value, exchanged as a whole."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from praval_tools.execution.approvals import UNANSWERED
from praval_tools.schema.json_input import plain_copy

if TYPE_CHECKING:
    from praval_tools.access.records import AgentProfile
    from praval_tools.execution.effects import Run, Steps
    from praval_tools.execution.pipeline import Course
    from praval_tools.formats import Format
    from praval_tools.tools.approval import ApprovalRequest

Noted = Callable[..., object]
"""A hook that takes note of something, in its plugin's name; what it raises is contained there."""


class Plugged(msgspec.Struct, frozen=True, eq=False):
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
    before: tuple[Noted, ...] = ()
    after: tuple[Noted, ...] = ()
    approve: tuple[Noted, ...] = ()
    engines: Mapping[str, Any] = {}
    formats: Mapping[str, Format] = {}
    journals: Mapping[str, Callable[[str], Any]] = {}
    sources: Mapping[str, Callable[..., Any]] = {}


    @property
    def hooked(self) -> bool:
        """Whether it brings anything to calls, besides its tools and its policy."""
        return any(getattr(self, kind) for kind in (*_NOTED, *_NAMED))


def _place(one: Plugged) -> tuple[str, str]:
    return one.distribution, one.entry_point


class Hooks(msgspec.Struct, frozen=True, eq=False):
    """What all plugins of one registry bring to its calls, in the order in which it is used."""

    plugged: tuple[Plugged, ...] = ()
    before: tuple[Noted, ...] = ()
    after: tuple[Noted, ...] = ()
    approve: tuple[Noted, ...] = ()
    engines: Mapping[str, Any] = {}
    formats: Mapping[str, Format] = {}
    journals: Mapping[str, Callable[[str], Any]] = {}

    @classmethod
    def of(cls, plugged: Iterable[Plugged]) -> Hooks:
        """Return the hooks of these plugins; by distribution, then entry point."""
        mine = tuple(sorted(plugged, key=_place))
        noted = {kind: _ordered(one for plugin in mine for one in getattr(plugin, kind)) for kind in _NOTED}
        named = {kind: {name: one for plugin in mine for name, one in getattr(plugin, kind).items()} for kind in _NAMED}
        return cls(mine, **noted, **named)  # type: ignore[arg-type]

    def exchanged(self, before: Plugged | None, after: Plugged | None) -> Hooks:
        """Return the hooks with *after* in the place of *before*."""
        mine = [one for one in self.plugged if one is not before]
        if after is not None:
            insort(mine, after, key=_place)
        if any(one is not None and one.hooked for one in (before, after)):
            return Hooks.of(mine)
        return replace(self, plugged=tuple(mine))

    @property
    def watch(self) -> bool:
        """Whether calls are told to anybody, so that none may take the short road."""
        return bool(self.before or self.after)

    def begin(self, run: Run, arguments: Mapping[str, Any]) -> None:
        """Tell that a call is about to run."""
        for noted in self.before:
            call = replace(run.call, arguments=_unshared(run.call.arguments, {}))
            noted(call=call, tool=run.tool, arguments=plain_copy(arguments))

    def asked(self, request: ApprovalRequest) -> Any:
        """Return the first answer of a plugin to a call that needs an approval."""
        answers = (approve(request=request) for approve in self.approve)
        return next((one for one in answers if one is not None), UNANSWERED)


_NOTED = ("before", "after", "approve")
_NAMED = ("engines", "formats", "journals")
NO_HOOKS = Hooks()


def _ordered(noted: Iterable[Noted]) -> tuple[Noted, ...]:
    return tuple(sorted(noted, key=lambda one: getattr(one, "turn", 0)))


def announced(course: Course, steps: Steps) -> Steps:
    """Drive *steps*, and tell what came of the call, unless a replay gives it again."""
    result = yield from steps
    if not result.replayed:
        record = course.runtime.ledger.state.record(result.name)
        for noted in course.runtime.hooks.after:
            call = replace(course.call, arguments=_unshared(course.call.arguments, {}))
            told = replace(result, result=_unshared(result.result, {}))
            noted(call=call, tool=None if record is None else record.tool, result=told)
    return result


def _unshared(value: Any, known: dict[int, Any], deep: int = 64) -> Any:
    """Return a copy of the lists, dicts and sets in *value*: what a hook does to them reaches nobody."""
    kind: Any = type(value)
    if kind not in (dict, list, set) or not deep:
        return value
    made = known.get(id(value))
    if made is not None:
        return made
    made = known[id(value)] = kind()
    if kind is dict:
        made.update((name, _unshared(one, known, deep - 1)) for name, one in value.items())
    elif kind is list:
        made.extend(_unshared(one, known, deep - 1) for one in value)
    else:
        made.update(value)
    return made
