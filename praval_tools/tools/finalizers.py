"""
Tells whether the garbage collector runs in this thread, and runs what ends work so that it does no harm then.

The collector may run while Python changes the current context, since that makes objects. Whoever sets a context
variable at that moment, in a finalizer or in a generator that is closed, changes the same context a second time, and
corrupts it: Python 3.11 loses variables, or crashes. A copy of the context can be changed.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_phases: Final[dict[str, object]] = {}
"""The phases of the latest collection in any thread, the present one last, each with an object of its own."""
_own: Final = threading.local()
"""The same objects, of the latest collection in this thread."""

# functions in C alone: in one of Python the interpreter would look for signals, and the collector swallow Ctrl-C
gc.callbacks += [_phases.pop, _phases.__setitem__, partial(setattr, _own)]


def is_collecting() -> bool:
    """Tell whether the garbage collector runs in this thread."""
    return next(reversed(_phases), "") == "start" and getattr(_own, "start", None) is _phases.get("start")


def run_finalizer(function: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    """Call what ends work; in a copy of the context where the garbage collector runs it."""
    return copy_context().run(function, *args, **keywords) if is_collecting() else function(*args, **keywords)
