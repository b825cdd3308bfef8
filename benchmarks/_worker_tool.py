"""What both kinds of workers run: one function, as a task of bare Celery and as a tool."""

from __future__ import annotations

import os
from typing import Any

from praval_tools import ToolRegistry


def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y


def make() -> ToolRegistry:
    """Return a registry whose tool runs on workers."""
    registry = ToolRegistry(
        journal=os.environ["BENCH_JOURNAL"], engine="celery", broker=os.environ["BENCH_BROKER"], timeout=60
    )
    registry.tool("add", owned_by="bench")(add)
    return registry


def make_bare() -> Any:
    """Return bare Celery, whose results are in the broker."""
    from celery import Celery

    broker = os.environ["BENCH_BROKER"]
    app = Celery("bench", broker=broker, backend=broker)
    app.conf.update(task_default_queue="bench-bare", worker_prefetch_multiplier=1)
    app.task(add, name="bench.add")
    return app


bare = make_bare() if "BENCH_BROKER" in os.environ else None
