"""Functions that the tests of ToolRegistry's seeds make tools of."""

import asyncio


def calculate_area(length: float, width: float) -> float:
    """Calculate the area of a rectangle."""
    return length * width


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def divide(a: float, b: float) -> float:
    """Divide a by b."""
    return a / b


async def fetch_data(url: str) -> dict:
    """Fetch data from a URL asynchronously."""
    # Async implementation
    await asyncio.sleep(0)
    return {"url": url, "data": "sample"}
