"""Raises a fault at any line of the package, as an interrupt or a bug would."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any


class Fault(BaseException):
    """Stands for whatever may go wrong: an interrupt, no memory, a bug."""


def run_with_fault(number: int, work: Callable[[], Any], counts: Callable[[], bool] = lambda: True) -> bool:
    """
    Run *work* with a fault before the *number*th line of the package; False: it had fewer lines.

    Lines are counted while *counts* says so. Left out are lines on which Python itself opens or closes a `with` or
    `try`, and what follows the publication.
    """
    seen = [0]

    def trace(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        if (
            "praval_tools" not in code.co_filename
            or code.co_name in ("_try_publish", "deliver_events")
            or _is_notifying(frame)
        ):
            return None
        text = linecache.getline(code.co_filename, frame.f_lineno).strip()
        if event == "line" and not text.startswith(("with ", "try:", "while ")) and counts():
            seen[0] += 1
            if seen[0] == number + 1:
                raise Fault
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except Fault:
        return True
    finally:
        sys.settrace(before)
    return seen[0] > number


def _is_notifying(frame: Any) -> bool:
    """Tell whether a subscriber is being notified: the change is published by then."""
    while frame is not None and frame.f_code.co_name != "_deliver_event":
        frame = frame.f_back
    return frame is not None
