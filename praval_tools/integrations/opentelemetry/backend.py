"""Keeps the failures of a telemetry backend away from the calls: each kind of failure is reported once."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from praval_tools.access.problems import RegistryProblem
from praval_tools.errors import get_user_stacklevel
from praval_tools.names import describe_error, get_class_name, shorten_repr

P = ParamSpec("P")
T = TypeVar("T")

_CONTAINED_ERRORS: Final = (Exception, SystemExit)
_MAX_FAILURES: Final = 20
"""How many different failures are reported."""


class TelemetryWarning(RuntimeWarning):
    """The telemetry backend failed; the calls went on without it."""


class Backend:
    """Does what reaches the code of a tracer or meter provider, which may raise anything."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, type], RegistryProblem] = {}

    def attempt(self, action: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T | None:
        """Return what *action* returns; None, and a report, where it raises."""
        try:
            return action(*args, **keywords)
        except _CONTAINED_ERRORS as error:  # isolation: the call goes on, and the failure is reported
            self._report(getattr(action, "__name__", "telemetry"), error)
            return None

    def list_problems(self) -> list[RegistryProblem]:
        """Return a problem for each kind of failure."""
        return list(self._problems.values())

    def _report(self, action: str, error: BaseException) -> None:
        key = (action, type(error))
        if key in self._problems or len(self._problems) >= _MAX_FAILURES:
            return
        text = f"Telemetry failed ({get_class_name(type(error))}: {shorten_repr(describe_error(error), 200)})."
        problem = RegistryProblem("telemetry", "telemetry", text, "Calls go on without; see the provider's set-up.")
        if self._problems.setdefault(key, problem) is not problem:
            return
        try:
            warnings.warn(str(problem), TelemetryWarning, stacklevel=get_user_stacklevel())
        except TelemetryWarning:  # where warnings are errors; the call is not at fault, and the problem stands
            return
