"""The registry that the tests of access share."""

from __future__ import annotations

import pytest
from access_cases import pay
from clocks import HandClock

from praval_tools import (
    Tool,
    ToolRegistry,
)  # fmt: skip


@pytest.fixture
def registry(clock: HandClock) -> ToolRegistry:
    """Return a registry with the tool `pay`, which `bank` owns."""
    made = ToolRegistry(clock=clock)
    made.register_tool(Tool.from_function(pay, owned_by="bank", category="money", tags=["risky"]))
    return made
