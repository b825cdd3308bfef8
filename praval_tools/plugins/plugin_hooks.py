"""Collects and checks the hooks of one plugin, and calls them in its name; a failed policy or approver denies."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final, TypeVar

import msgspec
from pluggy import HookImpl

from praval_tools.access.records import Principal
from praval_tools.execution.context import ARGUMENTS, FrameScope, activate_frame, iter_active_frames, make_frame
from praval_tools.execution.plugin_code import run_as, take_value
from praval_tools.names import get_class_name, has_type, shorten_repr, suggest_names, to_plain_text
from praval_tools.plugins import hookspecs
from praval_tools.plugins.discovery import InstalledPlugin
from praval_tools.plugins.hookspecs import PROJECT_NAME
from praval_tools.plugins.report import CONTAINED_ERRORS
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.decision import Allow, Ask, Deny

AnswerT = TypeVar("AnswerT", Allow, Deny)
HOOK_PREFIX: Final = f"{PROJECT_NAME}_"

_PARAMETERS_BY_HOOK: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(inspect.signature(specification).parameters)
    for name, specification in vars(hookspecs).items()
    if name.startswith(HOOK_PREFIX)
}
_DEFAULT_MARK: Final = dict.fromkeys(("wrapper", "hookwrapper", "optionalhook", "tryfirst", "trylast"), False)
_MAX_NESTING: Final = 2
"""How many calls of one authorizing hook may be active in one context."""

FailureReporter = Callable[[InstalledPlugin, str, BaseException], object]
"""Takes the plugin, the hook and the exception that it raised at run time."""


class PluginHook(msgspec.Struct, frozen=True, eq=False):
    """
    One hook of one plugin, called in the plugin's name with the parameters that its implementation takes.

    Args:
        plugin: The plugin.
        name: The hook.
        function: Its implementation.
        parameters: The names of the parameters that the implementation takes.
        turn: -1: called before the hooks of other plugins, 1: after them.
    """

    plugin: InstalledPlugin
    name: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    turn: int = 0

    def __call__(self, registry: ToolRegistry | None, arguments: Mapping[str, object]) -> Any:
        """Call the implementation in the plugin's name; raises what it raises."""
        with activate_frame(make_frame(FrameScope(registry, None, self.plugin.principal), self)):
            return self.function(**{name: arguments[name] for name in self.parameters})

    def get_nesting_depth(self) -> int:
        """Return how many calls of this hook are active in this context: a tool that it calls may call it again."""
        return sum(frame[ARGUMENTS] is self for frame in iter_active_frames())


def collect_hooks(plugin: InstalledPlugin, plugin_object: object) -> dict[str, PluginHook]:
    """
    Return the hooks of a plugin by name, checked.

    Wrappers are refused: they would see, change and swallow the answers of other plugins' hooks.

    Raises:
        PluginError: A hook is unknown, has a wrong signature, is a wrapper, or lacks its mark.
    """
    hooks = dict[str, PluginHook]()
    for name in _list_candidate_names(plugin_object):
        function = getattr(plugin_object, name)
        mark = getattr(function, f"{PROJECT_NAME}_impl", None) if inspect.isroutine(function) else None
        if not isinstance(mark, dict):
            if name in _PARAMETERS_BY_HOOK and callable(function):
                raise plugin.make_error("hooks", f"{name} lacks its mark; put @hookimpl above it")
            continue
        hook = to_plain_text(mark.get("specname") or name)  # others look it up, sort and print it
        if hook in _PARAMETERS_BY_HOOK or not mark.get("optionalhook"):
            _check_hook(plugin, hook, name, mark, hook in hooks)
            hooks[hook] = _build_hook(plugin, hook, function, mark)
    return hooks


def _list_candidate_names(plugin_object: object) -> list[str]:
    """Return the names of attributes that may be hooks; few of a module's are worth a look."""
    if type(plugin_object) is not ModuleType:
        return sorted(name for name in dir(plugin_object) if isinstance(name, str))
    return [
        name
        for name, value in vars(plugin_object).items()
        if name.startswith(HOOK_PREFIX) or (type(value) is FunctionType and f"{PROJECT_NAME}_impl" in vars(value))
    ]


def _check_hook(plugin: InstalledPlugin, hook: str, name: str, mark: Mapping[str, object], is_duplicate: bool) -> None:
    if hook not in _PARAMETERS_BY_HOOK:
        hint = suggest_names(hook, _PARAMETERS_BY_HOOK, "did you mean ") or ", ".join(_PARAMETERS_BY_HOOK)
        raise plugin.make_error("hooks", f"there is no hook {hook!r}; {hint}")
    if mark.get("wrapper") or mark.get("hookwrapper"):
        problem = f"{name} is a wrapper, which would see and change what other plugins answer; write a plain hook"
        raise plugin.make_error("hooks", problem)
    if is_duplicate:
        raise plugin.make_error("hooks", f"it has two implementations of {hook}; keep one")


def _build_hook(
    plugin: InstalledPlugin, name: str, function: Callable[..., object], mark: Mapping[str, Any]
) -> PluginHook:
    inner, allowed = getattr(function, "__func__", function), _PARAMETERS_BY_HOOK[name]
    if inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner):
        problem = f"{name} is async, and hooks are called synchronously; make it a plain function"
        raise plugin.make_error("hooks", problem)
    options: Any = {**_DEFAULT_MARK, "specname": None, **mark}
    implementation = HookImpl(plugin, str(plugin), function, options)
    if not set(implementation.argnames) <= set(allowed):
        accepted = ", ".join(allowed) or "nothing"
        raise plugin.make_error(
            "hooks", f"{name}{_format_signature(inner)} does not fit: it may take {accepted}, by these names"
        )
    optional = (parameter for parameter in implementation.kwargnames if parameter in allowed)
    turn = -1 if mark.get("tryfirst") else 1 if mark.get("trylast") else 0
    return PluginHook(plugin, name, function, (*implementation.argnames, *optional), turn)


def _format_signature(function: Callable[..., object]) -> str:
    try:
        return str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(…)"


class _CallHook(msgspec.Struct, frozen=True, eq=False):
    """A hook that is called at calls, long after the plugin was loaded; its failures are reported."""

    hook: PluginHook
    registry: ToolRegistry
    report_failure: FailureReporter

    @property
    def turn(self) -> int:
        """Where it is called among the hooks of other plugins: -1 before them, 1 after them."""
        return self.hook.turn

    def _report(self, error: BaseException) -> None:
        self.report_failure(self.hook.plugin, self.hook.name, error)

    def _describe_answer(self, answer: object) -> str:
        """Return the text of an answer that is refused, which may be code of the plugin."""
        with run_as(self.hook.plugin.principal):
            if hasattr(answer, "__await__") and callable(close := getattr(answer, "close", None)):
                close()
            return shorten_repr(answer)


class ObserverHook(_CallHook, frozen=True, eq=False):
    """A hook that observes calls: what it raises is reported, and stops nothing."""

    def __call__(self, **arguments: object) -> None:
        if self.hook.get_nesting_depth():  # a tool that the hook calls is not reported to the hook, without end
            return
        try:
            answer = self.hook(self.registry, arguments)
            if answer is not None:
                raise TypeError(f"{self.hook.name} returned {self._describe_answer(answer)}; it is to return nothing")
        except CONTAINED_ERRORS as error:  # isolation: the call goes on, and the failure is reported
            self._report(error)


class ApprovalHook(_CallHook, frozen=True, eq=False):
    """A hook that answers approval requests for a person: any unclear answer denies."""

    def __call__(self, **arguments: object) -> Allow | Deny | None:
        try:
            answer: object = self.hook(self.registry, arguments)
            if answer is None:
                return None
            if type(answer) is Allow or type(answer) is Deny:  # a class of its own may answer differently later
                taken: Allow | Deny = _to_plain_answer(take_value(answer, self.hook.plugin.principal))
                return taken
            text = self._describe_answer(answer)
            raise TypeError(f"{self.hook.name} answered {text}, which is neither Allow, Deny nor None")
        except CONTAINED_ERRORS as error:  # isolation: the failure denies, and is reported
            self._report(error)
            return Deny("the plugin that was asked failed", self.hook.plugin.principal)


class AuthorizationHook(_CallHook, frozen=True, eq=False):
    """A hook that refuses calls, as a policy; where it fails, the call is refused."""

    def __call__(
        self, agent: str | None, tool: object, arguments: dict[str, Any], *, principal: Principal | None
    ) -> Deny | Ask | None:
        if self.hook.get_nesting_depth() >= _MAX_NESTING:
            return Deny("it is asked about the calls that it makes itself; let those pass first")
        try:
            shown = {"agent": agent, "tool": tool, "arguments": arguments, "principal": principal}
            return self._normalize_answer(self.hook(self.registry, shown))
        except CONTAINED_ERRORS as error:  # isolation: the call is refused, and the failure is reported
            self._report(error)
            return Deny(f"it raised {get_class_name(type(error))}")

    def _normalize_answer(self, answer: object) -> Deny | Ask | None:
        """Return the answer as a plain value, which runs no code of the plugin when it is read later."""
        if answer is None:
            return None
        if has_type(answer, str):
            return Deny(to_plain_text(answer))
        if type(answer) is Deny:
            return _to_plain_answer(answer)
        if type(answer) is Ask:
            return Ask(_read_text(answer.reason))
        return Deny(f"it answered {self._describe_answer(answer)}, which is not None, a text, Deny or Ask")


def _read_text(value: object) -> str:
    """Return *value* as a plain text; an empty one where it is none."""
    return to_plain_text(value) if has_type(value, str) else ""


def _to_plain_answer(answer: AnswerT) -> AnswerT:
    """Return an answer whose texts have no class of their own."""
    return msgspec.structs.replace(answer, **{name: _read_text(getattr(answer, name)) for name in ("reason", "by")})
