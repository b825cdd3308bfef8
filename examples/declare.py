"""
Declare tools: one that an agent owns, one that is shared, one for whoever asks for its category.

Prints:
    calculator: add, log, mean
    clerk: log
    add(x=1, y=2) = 3
    refused: 'clerk' may not call 'add': nothing gives it this tool.
"""

from praval_tools import ToolAccessError, ToolRegistry, agent, current_agent, tool

registry = ToolRegistry(name="office")


@tool("add", owned_by="calculator", registry=registry)
def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y


@tool("log", shared=True, registry=registry)
def log(text: str) -> int:
    """Write a line into the log; returns its length."""
    return len(text)


@tool("mean", category="statistics", registry=registry)
def mean(numbers: list[float]) -> float:
    """Return the average of numbers."""
    return sum(numbers) / len(numbers)


@agent("calculator", tool_categories=["statistics"], registry=registry)
def calculator() -> str:
    """Add two numbers, as the agent that is running."""
    return f"add(x=1, y=2) = {current_agent().call('add', x=1, y=2):g}"


@agent("clerk", registry=registry)
def clerk() -> str:
    """Try a tool that nobody gave to the clerk."""
    try:
        return str(current_agent().call("add", x=1, y=2))
    except ToolAccessError as error:
        return f"refused: {error.decision.reason}"


if __name__ == "__main__":
    for one in (calculator, clerk):
        print(f"{one.name}: {', '.join(one.list_tools())}")
    print(calculator())
    print(clerk())
