"""
A pipeline of Praval agents by spores, on a registry that owns their tools.

The agents are Praval's, decorated with its `@agent` and started with its `start_agents`.
The model follows a script, so that no key and no network are needed.

Prints:
    finder was offered: find_flights
    finder: 3 flights
    averager was offered: average
    averager: 12.0 minutes
    averager tried find_flights: forbidden
    --- and in the journal
    finder find_flights ok
    averager average ok
    averager find_flights forbidden
"""

from __future__ import annotations

from typing import Any

import praval
from praval.models import ModelResponse, ProviderCapabilities, ToolCall
from praval.providers.registry import get_provider_registry

from praval_tools import ToolRegistry
from praval_tools.integrations.praval import attach, install

DELAYS = [4, 10, 22]
TOOLS = ProviderCapabilities(tools=True)


class Script:
    """A model that makes the calls of its script, then says what came of the last one."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = list(calls)
        self.offered: list[str] = []

    def invoke(self, request: Any, tools: Any = None) -> ModelResponse:
        """Ask for the calls."""
        self.offered = [spec.name for spec in request.tools]
        calls = [ToolCall(id=str(at), name=name, arguments=given) for at, (name, given) in enumerate(self.calls)]
        return ModelResponse(tool_calls=calls)

    def continue_with_tool_results(self, request: Any, response: Any, results: Any) -> ModelResponse:
        """Say what came of the calls."""
        return ModelResponse(content=results[0].content, metadata={"errors": [one.is_error for one in results]})


def model(name: str, *calls: tuple[str, dict[str, Any]]) -> Script:
    """Make a model that Praval finds under *name*."""
    made = Script(*calls)
    get_provider_registry().register_provider(name, lambda config: made, default_model="script", capabilities=TOOLS)
    return made


def main() -> None:
    """Run the pipeline, and show what the journal tells of it."""
    registry = ToolRegistry(name="airport", journal="memory")
    finds = model("finding", ("find_flights", {}))
    averages = model("averaging", ("average", {"numbers": DELAYS}), ("find_flights", {}))

    with registry, install(registry):

        @praval.tool("find_flights", owned_by="finder")
        def find_flights() -> list[int]:
            """Return the delays of today's flights, in minutes."""
            return DELAYS

        @praval.tool("average", owned_by="averager")
        def average(numbers: list[float]) -> float:
            """Return the average."""
            return sum(numbers) / len(numbers)

        @praval.agent("finder", provider="finding", responds_to=["question"], auto_broadcast=False)
        def finder(spore: Any) -> None:
            """Find flights."""
            found = praval.chat(spore.knowledge["question"])
            print("finder was offered:", *finds.offered)
            print("finder:", len(found.split(",")), "flights")
            praval.broadcast({"type": "found", "delays": found})

        @praval.agent("averager", provider="averaging", responds_to=["found"], auto_broadcast=False)
        def averager(spore: Any) -> None:
            """Average delays."""
            said = praval.chat(spore.knowledge["delays"])
            print("averager was offered:", *averages.offered)
            print("averager:", said, "minutes")
            print("averager tried find_flights:", registry.explain("averager", "find_flights").outcome)

        with attach(finder), attach(averager):
            question = {"type": "question", "question": "How late are flights?"}
            praval.start_agents(finder, averager, initial_data=question)
            praval.get_reef().wait_for_completion()
            praval.get_reef().shutdown()

        print("--- and in the journal")
        for event in registry.journal.events() if registry.journal else ():
            if hasattr(event, "outcome"):
                print(event.agent, event.tool_name, event.outcome)


if __name__ == "__main__":
    main()
