"""
Three agents, one journal: the clerk's model looks up the rent, books it and pays it, once a person has approved.

Killed and started again, it goes on and does nothing twice. It needs examples/first_plugin and a model's server.

Prints:
    Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, and ask again.
"""

import os
from pathlib import Path

from praval_tools import Agent, ToolRegistry, load_plugins
from praval_tools.loop import OpenAIChat, ToolLoop

registry = ToolRegistry(name="home")
treasurer, bookkeeper, clerk = (Agent(name, registry=registry) for name in ("treasurer", "bookkeeper", "clerk"))


@treasurer.tool(requires_approval=True, risk_level="high", approval_reason="it moves money")
def pay(to: str, amount: int) -> str:
    """Pay somebody."""
    with Path("done.txt").open("a") as file:
        file.write(f"paid {amount} to {to}\n")
    return "paid"


@bookkeeper.tool
def book(text: str) -> str:
    """Write a line into the books."""
    with Path("done.txt").open("a") as file:
        file.write(f"booked {text}\n")
    return "booked"


def main(url: str, key: str, model: str) -> None:
    """Pay the rent, and wait for the person who approves it: `praval-tools approvals --journal home.db`."""
    from openai import OpenAI

    registry.journal = "home.db"
    load_plugins(registry, only=["first-plugin"], strict=True)
    registry.assign_tool_to_agent("first_rent", clerk, key="rent")
    registry.assign_tool_to_agent("book", clerk, by=bookkeeper, key="books", max_calls=5)
    registry.assign_tool_to_agent("pay", clerk, by=treasurer, key="pay", where={"amount": {"maximum": 600}})
    with registry:
        loop = ToolLoop(clerk, OpenAIChat(OpenAI(base_url=url, api_key=key), model))
        ended = loop.run("Pay the rent of May.", run_id="may")
        while ended.reason == "approval_required":
            print("waiting for an approval", flush=True)
            registry.approvals.wait(ended.waiting[0])
            ended = loop.resume("may")
        print(ended.text)


if __name__ == "__main__":
    settings = [os.environ.get(f"OPENAI_{name}", "") for name in ("BASE_URL", "API_KEY", "MODEL")]
    if not all(settings):
        print("Set OPENAI_BASE_URL, OPENAI_API_KEY and OPENAI_MODEL, and ask again.")
    else:
        main(*settings)
