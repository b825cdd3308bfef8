"""An event loop for sync code that takes the thread's own, as agent frameworks do, and closes none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def new_event_loop() -> Iterator[None]:
    """Have sync code use a loop of its own: frameworks take that of the thread, and leave one that they make open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()
