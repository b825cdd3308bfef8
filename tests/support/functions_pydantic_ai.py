"""Pydantic AI with functions as tools."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from event_loop_scope import new_event_loop
from framework_contract import Script
from framework_pydantic_ai import make_model
from function_frameworks import FunctionFramework
from pydantic_ai import Agent, FunctionToolset, ToolFailed


class PydanticAiFunctions(FunctionFramework):
    """Pydantic AI with a toolset of functions."""

    failure = ToolFailed

    def run(self, functions: Iterable[Callable[..., Any]], model: Script) -> str:
        agent = Agent(make_model(model), toolsets=[FunctionToolset(list(functions))], retries=3)
        with new_event_loop():
            return agent.run_sync("Go.").output
