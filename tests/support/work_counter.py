"""Counts the work of an action, for promises about cost that hold on any machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_steps(action: Callable[[], object]) -> int:
    """Return how many Python functions *action* enters: work, whatever else the machine does."""
    steps = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal steps
        steps += event == "call"

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return steps
