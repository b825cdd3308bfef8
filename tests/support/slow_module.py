"""A module whose import takes longer than the calls of its function may."""

import time

if "praval_tools.registry.worker" in __import__("sys").modules:
    time.sleep(0.6)


def wait(seconds: float) -> float:
    """Sleep."""
    time.sleep(seconds)
    return seconds
