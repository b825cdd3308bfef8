"""A program that forks with an attached agent: run by the tests in a process of its own."""

import os

from praval_rig import Model, praval, scripted

from praval_tools import Tool, ToolRegistry
from praval_tools.integrations.praval import attach, install


def host(x: int) -> str:
    """Answer."""
    return "host"


scripted("script")
registry = ToolRegistry(name="bank")
registry.register_tool(Tool.from_function(host, owned_by="clerk"))
install(registry)
agent = praval.Agent("clerk", provider="script")
held = attach(agent, registry)


def said() -> list[str]:
    """Chat once, and return what the tools said."""
    agent.provider = agent.runtime.provider = model = Model([("host", {"x": 1})], "done")
    agent.chat("go")
    return model.received


child = os.fork()
if not child:
    praval.reset_tool_registry()
    output = said()
    held.detach()
    print("child", output, list(agent.tools), flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("parent", said(), list(agent.tools))
