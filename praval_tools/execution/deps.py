"""Passes deps (a program's own objects, such as a database) to tools that declare `ToolContext[Deps]`."""

from __future__ import annotations

from typing import Final

from praval_tools.execution.context import SCOPE, Frame, get_current_frame, get_work_frame, iter_active_frames
from praval_tools.execution.runtime import Runtime
from praval_tools.names import OPERATOR
from praval_tools.schema.type_hints import Hint
from praval_tools.tools.context import NO_DEPS
from praval_tools.tools.context_settings import ContextSetting, use_setting


class _PassedDeps:
    """Deps, with the registry and the frame in which they were passed; shows nothing of itself."""

    __slots__ = ("deps", "frame", "outer", "registry")

    def __init__(self, registry: object, deps: object, outer: _PassedDeps | None) -> None:
        self.registry, self.deps, self.outer = registry, deps, outer
        self.frame: Frame | None = get_work_frame(get_current_frame())


_current_deps: Final = ContextSetting[_PassedDeps]()


def use_deps(registry: object, deps: object) -> use_setting[_PassedDeps]:
    """Pass *deps* to the calls of *registry* in this context, and to those made from them; None passes nothing new."""
    passed = None if deps is None else _PassedDeps(registry, deps, _current_deps.get())
    return use_setting(_current_deps, passed)


def get_deps(registry: object) -> object:
    """
    Return the deps of a call of *registry* in this context: passed to it, or to the call whose tool makes it.

    Policies and plugins are no part of the call that they are asked about: calls that they make inherit nothing.

    Returns:
        The deps; `NO_DEPS` where there are none.
    """
    passed = _current_deps.get()
    while passed is not None and passed.registry is not registry:
        passed = passed.outer
    if passed is None:
        return NO_DEPS
    for frame in iter_active_frames():
        if frame is passed.frame:
            break
        if frame[SCOPE].principal is None and frame[SCOPE].actor != OPERATOR:
            return NO_DEPS
    return passed.deps


def take_deps(runtime: Runtime, name: object, arguments: dict[str, object]) -> object:
    """Take the `deps=` of a call out of its keywords and return them; None where the tool has a parameter `deps`."""
    record = runtime.access_store.state.find_tool_record(str(getattr(name, "name", name)))
    if record is not None and "deps" in record.tool.implementation.argument_names:
        return None
    return arguments.pop("deps", None)


def is_without_deps(hint: Hint | None) -> bool:
    """Tell whether a tool that declares *hint* for its deps gets none."""
    return hint is None or hint is type(None)
