"""The frameworks that are installed, for the tests that hold for all of them."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest
from framework_contract import Framework

FRAMEWORKS = {
    "pydantic-ai": ("pydantic_ai", "framework_pydantic_ai", "PydanticAi"),
    "langchain": ("langchain", "framework_langchain", "LangChain"),
    "openai-agents": ("agents", "framework_openai_agents", "OpenAiAgents"),
    "openai-agents-tools": ("agents", "framework_openai_agents", "OpenAiAgentsTools"),
}
"""Name → the module that has to be installed, the module of its form in tests, its class there."""


def load_framework(name: str) -> Framework:
    """Return a framework; skip the test where it is not installed."""
    needed, module, class_name = FRAMEWORKS[name]
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    framework: Framework = getattr(import_module(module), class_name)()
    return framework
