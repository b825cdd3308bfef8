"""The frameworks that take the tools of an agent as plain functions: the form in which their tests run one."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import pytest
from framework_contract import ModelCall, Script

FRAMEWORKS = {
    "pydantic-ai": ("pydantic_ai", "functions_pydantic_ai", "PydanticAiFunctions"),
    "langchain": ("langchain", "functions_langchain", "LangChainFunctions"),
    "crewai": ("crewai", "functions_crewai", "CrewAi"),
    "agent-framework": ("agent_framework", "functions_agent_framework", "AgentFramework"),
    "strands": ("strands", "functions_strands", "Strands"),
}
"""Name → the module that has to be installed, the module of its form in tests, its class there."""


class FunctionFramework(ABC):
    """A framework whose agents get functions as their tools."""

    failure: ClassVar[Callable[[str], object]]
    """What makes its error, or the text that stands for one, of the text that models get."""

    @abstractmethod
    def run(self, functions: Iterable[Callable[..., Any]], model: Script) -> str:
        """Run an agent that has these functions and a scripted model; return what it ends with."""


def load_framework(name: str) -> FunctionFramework:
    """Return a framework; skip the test where it is not installed."""
    needed, module, class_name = FRAMEWORKS[name]
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed: `make frameworks` runs this")
    framework: FunctionFramework = getattr(import_module(module), class_name)()
    return framework


def write_arguments(call: ModelCall) -> str:
    """Return the arguments of a call as JSON text."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
