"""Guards what the host program alone sets of an attached Praval agent, by whatever method that is done."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import WrapperDescriptorType
from typing import Final

from praval_tools.integrations.praval.agent_tools import AgentTools
from praval_tools.integrations.praval.praval_modules import PravalObject, import_praval_module
from praval_tools.names import get_plain_type
from praval_tools.registry.agent_function import AgentFunction
from praval_tools.tools.frames import FrameScope, refuse_others_than_operator

_TOOLS_ATTRIBUTE: Final = "_praval_tools_of_agent"
"""The attribute of a Praval agent that says it is attached."""

HITL_ATTRIBUTES: Final = ("_hitl_enabled", "_hitl_db_path")
"""Where a Praval agent keeps who approves."""


def guard_agent(tools: AgentTools) -> Callable[[], None]:
    """Guard the attributes of an agent; return a function that ends it."""
    _guard_class()
    tools.praval_agent.__dict__[_TOOLS_ATTRIBUTE] = tools
    return lambda: tools.praval_agent.__dict__.pop(_TOOLS_ATTRIBUTE, None)


@cache
def _guard_class() -> None:
    """
    Guard the attributes in Praval's class, for agents that are attached.

    An agent's code can call the methods that set them as the class has them, so that guarded methods would not do; and
    the Reef keeps the method that reads the handler, from before the agent was attached.
    """
    agent_class = import_praval_module("praval").Agent
    agent_class._custom_spore_handler = _SporeHandler("_custom_spore_handler", "set the handler of an agent")
    for name in HITL_ATTRIBUTES:
        setattr(agent_class, name, _HostAttribute(name, "configure who approves"))


class _HostAttribute:
    """
    An attribute that the host program alone sets while the agent is attached; its value is where it would be anyway.

    Args:
        name: Its name.
        verb: What setting it does, for the error.
    """

    def __init__(self, name: str, verb: str) -> None:
        self._name, self._verb = name, verb

    def __get__(self, praval_agent: PravalObject, owner: type | None = None) -> PravalObject:
        if praval_agent is None or self._name not in praval_agent.__dict__:
            raise AttributeError(f"Praval's agent has no {self._name!r}.")
        value, tools = praval_agent.__dict__[self._name], praval_agent.__dict__.get(_TOOLS_ATTRIBUTE)
        return value if tools is None else self._get_attached(tools, value)

    def _get_attached(self, tools: AgentTools, value: object) -> object:
        return value

    def __set__(self, praval_agent: PravalObject, value: object) -> None:
        self._refuse_agents(praval_agent)
        praval_agent.__dict__[self._name] = value

    def __delete__(self, praval_agent: PravalObject) -> None:
        self._refuse_agents(praval_agent)
        if praval_agent.__dict__.pop(self._name, self) is self:
            raise AttributeError(f"Praval's agent has no {self._name!r}.")

    def _refuse_agents(self, praval_agent: PravalObject) -> None:
        if _TOOLS_ATTRIBUTE in praval_agent.__dict__:
            refuse_others_than_operator(self._verb)


class _SporeHandler(_HostAttribute):
    """What an agent does with a spore: while it is attached, in its name, whoever set it, and when."""

    def _get_attached(self, tools: AgentTools, value: PravalObject) -> object:
        if value is None:
            return None
        agent = tools.agent
        run = AgentFunction(value, FrameScope(agent.registry, agent.principal, agent.name), agent.tools)

        def handle(*args: object, **options: object) -> object:
            outcome = run(*args, **options)
            return None if _answers_for_its_class(outcome) else outcome  # Praval asks whether it is a coroutine

        return handle


def _answers_for_its_class(outcome: object) -> bool:
    """Tell whether code of its own runs where somebody asks *outcome* for its class."""
    kind = get_plain_type(outcome)
    if kind is not type(outcome):  # of a metaclass
        return True
    fields = [vars(base) for base in kind.__mro__[:-1]]
    readers = [field["__getattribute__"] for field in fields if "__getattribute__" in field]
    return any("__class__" in field for field in fields) or any(
        type(reader) is not WrapperDescriptorType for reader in readers
    )
