"""The seam between the host and one plugin: its hooks, checked against their specifications, called in its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final, Protocol

from attrs import frozen
from pluggy import PluginManager, PluginValidationError

from praval_tools.errors import PluginError
from praval_tools.execution.context import ARGUMENTS, FrameScope, activate_frame, iter_active_frames, make_frame
from praval_tools.names import find_similar_names, shorten_repr
from praval_tools.plugins import hookspecs
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.hookspecs import PROJECT_NAME
from praval_tools.plugins.report import get_class_name
from praval_tools.plugins.staging import get_plugin_principal
from praval_tools.tools.approval import Allow
from praval_tools.tools.decision import Deny

HOOK_PREFIX: Final = f"{PROJECT_NAME}_"
CONTAINED_ERRORS: Final = (Exception, SystemExit)
"""What a plugin may raise without harm to others; Ctrl-C and the like pass."""


_MAX_NESTING: Final = 2
"""How often a hook that decides may be inside of itself."""


class FailureReporter(Protocol):
    """Takes what a hook raised at run time."""

    def __call__(self, found: InstalledPlugin, hook: str, error: BaseException) -> None: ...


@frozen(eq=False)
class PluginHook:
    """
    One hook of one plugin, called in its name with the parameters that it takes.

    Args:
        found: The plugin.
        name: The hook.
        function: Its implementation.
        parameters: What that takes.
        turn: -1: before others, 1: after them.
    """

    plugin: InstalledPlugin
    name: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    turn: int = 0

    def __call__(self, home: Any, given: Mapping[str, Any]) -> Any:
        """Call it, in the plugin's name; raises what it raises."""
        with activate_frame(make_frame(FrameScope(home, None, get_plugin_principal(self.plugin)), self)):
            return self.function(**{name: given[name] for name in self.parameters})

    def get_nesting_depth(self) -> int:
        """Return how often this context is inside of this hook: it called a tool, and that asks it again."""
        return sum(frame[ARGUMENTS] is self for frame in iter_active_frames())


def create_plugin_manager() -> PluginManager:
    """Return a manager that knows the hooks."""
    made = PluginManager(PROJECT_NAME)
    made.add_hookspecs(hookspecs)
    return made


def collect_hooks(found: InstalledPlugin, plugin: Any, known: PluginManager) -> dict[str, PluginHook]:
    """
    Return the hooks of a plugin by name, checked.

    A wrapper is refused: it would see, change and swallow what the hooks of other plugins answer.

    Raises:
        PluginError: One is unknown, has a wrong signature, is a wrapper, or lacks its mark.
    """
    names = [one.name for one in _list_hook_callers(known)]
    functions, options = dict[str, Any](), dict[str, Any]()
    for name in _list_candidate_names(plugin):
        mark = known.parse_hookimpl_opts(plugin, name)
        if mark is None:
            if name in names and callable(getattr(plugin, name)):
                raise PluginError(str(found), "hooks", f"{name} lacks its mark; put @hookimpl above it")
            continue
        hook = mark.get("specname") or name
        if hook not in names and mark.get("optionalhook"):
            continue
        _check_hook(found, hook, name, mark, functions, names)
        functions[hook], options[hook] = getattr(plugin, name), mark
    return {name: _build_hook(found, name, one, options[name], known) for name, one in functions.items()}


def _list_candidate_names(plugin: Any) -> list[str]:
    """Return the names under which a hook may stand; in a module most are something else, at a glance."""
    if type(plugin) is not ModuleType:
        return sorted(name for name in dir(plugin) if isinstance(name, str))
    return [
        name for name, one in vars(plugin).items()
        if name.startswith(HOOK_PREFIX) or (type(one) is FunctionType and f"{PROJECT_NAME}_impl" in vars(one))
    ]  # fmt: skip


def _list_hook_callers(known: PluginManager) -> list[Any]:
    return [one for name, one in vars(known.hook).items() if name.startswith(HOOK_PREFIX)]


def _check_hook(
    found: InstalledPlugin,
    hook: str,
    name: str,
    mark: Mapping[str, Any],
    functions: Mapping[str, Any],
    names: list[str],
) -> None:
    problem = ""
    if hook not in names:
        match = find_similar_names(hook, names)
        problem = f"there is no hook {hook!r}; {'did you mean ' + repr(match[0]) if match else ', '.join(names)}"
    elif mark.get("wrapper") or mark.get("hookwrapper"):
        problem = f"{name} is a wrapper, which would see and change what other plugins answer; write a plain hook"
    elif hook in functions:
        problem = f"it has two implementations of {hook}; keep one"
    if problem:
        raise PluginError(str(found), "hooks", problem)


def _build_hook(
    found: InstalledPlugin, name: str, function: Any, mark: Mapping[str, Any], known: PluginManager
) -> PluginHook:
    inner = getattr(function, "__func__", function)
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        raise PluginError(str(found), "hooks", f"{name} is async, and hooks are called in place; make it a plain one")
    try:  # on a stand-in, so that no plugin's own methods are asked
        stand_in = ModuleType(str(found))
        setattr(stand_in, name, function)
        known.register(stand_in, str(found))
        try:
            (impl,) = [one for one in getattr(known.hook, name).get_hookimpls() if one.plugin is stand_in]
        finally:
            known.unregister(stand_in)
    except PluginValidationError:
        spec = inspect.signature(getattr(hookspecs, name))
        wanted = ", ".join(spec.parameters) or "nothing"
        text = f"{name}{_format_signature(inner)} does not fit: it may take {wanted}, by these names"
        raise PluginError(str(found), "hooks", text) from None
    turn = -1 if mark.get("tryfirst") else 1 if mark.get("trylast") else 0
    known_to_spec = inspect.signature(getattr(hookspecs, name)).parameters
    taken = (*impl.argnames, *(one for one in impl.kwargnames if one in known_to_spec))
    return PluginHook(found, name, function, taken, turn)


def _format_signature(function: Any) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"


@frozen(eq=False)
class ObserverHook:
    """A hook at run time that takes note of something: what it raises is reported, and stops nothing."""

    hook: PluginHook
    registry: Any
    report_failure: FailureReporter

    @property
    def turn(self) -> int:
        """Its place among others."""
        return self.hook.turn

    def __call__(self, **given: Any) -> None:
        if self.hook.get_nesting_depth():  # two calls in a hook that is told of them would never end
            return
        try:
            answer = self.hook(self.registry, given)
            if answer is not None:
                _close_awaitable(answer)
                raise TypeError(f"{self.hook.name} returned {shorten_repr(answer)}; it is to return nothing")
        except CONTAINED_ERRORS as error:  # isolation: the call goes on, and the failure is told
            self.report_failure(self.hook.plugin, self.hook.name, error)


@frozen(eq=False)
class ApprovalHook:
    """The hook that answers for a person: whatever is no clear answer is a no."""

    hook: PluginHook
    registry: Any
    report_failure: FailureReporter

    @property
    def turn(self) -> int:
        """Its place among others."""
        return self.hook.turn

    def __call__(self, **given: Any) -> Allow | Deny | None:
        name = get_plugin_principal(self.hook.plugin)
        try:
            answer = self.hook(self.registry, given)
            if answer is not None and not isinstance(answer, Allow | Deny):
                _close_awaitable(answer)
                raise TypeError(
                    f"{self.hook.name} answered {shorten_repr(answer)}, which is neither Allow, Deny nor None"
                )
        except CONTAINED_ERRORS as error:  # isolation: it counts as a no, and the failure is told
            self.report_failure(self.hook.plugin, self.hook.name, error)
            return Deny("the plugin that was asked failed", name)
        return answer


@frozen(eq=False)
class AuthorizationHook:
    """The hook that refuses calls, as a policy; where it fails, the policy does, and the call is refused."""

    hook: PluginHook
    registry: Any
    report_failure: FailureReporter

    def __call__(self, agent: str | None, tool: Any, arguments: dict[str, Any]) -> Any:
        if self.hook.get_nesting_depth() >= _MAX_NESTING:
            return Deny("it is asked about the calls that it makes itself; let those pass first")
        try:
            return self.hook(self.registry, {"agent": agent, "tool": tool, "arguments": arguments})
        except CONTAINED_ERRORS as error:  # isolation: refused, and the failure is told
            self.report_failure(self.hook.plugin, self.hook.name, error)
            return Deny(f"it raised {get_class_name(error)}")


def _close_awaitable(answer: Any) -> None:
    if hasattr(answer, "__await__") and callable(getattr(answer, "close", None)):
        answer.close()
