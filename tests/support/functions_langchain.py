"""LangChain with functions as tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from framework_contract import Script
from framework_langchain import ScriptedModel
from function_frameworks import FunctionFramework
from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, ToolException


class LangChainFunctions(FunctionFramework):
    """LangChain with a `StructuredTool` of each function."""

    failure = ToolException

    def run(self, functions: Iterable[Callable[..., Any]], model: Script) -> str:
        tools = [
            StructuredTool.from_function(
                **{"coroutine" if inspect.iscoroutinefunction(function) else "func": function}, handle_tool_error=True
            )
            for function in functions
        ]
        agent = create_agent(ScriptedModel(script=model), tools=tools)
        return str(asyncio.run(agent.ainvoke({"messages": [("user", "Go.")]}))["messages"][-1].text)
