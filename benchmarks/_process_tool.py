"""The function that other processes run, in a module that imports nothing."""


def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y
