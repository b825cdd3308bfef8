"""Two tools of one agent whose functions have one name; run by a test under several hash seeds."""

from praval_rig import clean, praval, scripted

from praval_tools import ToolRegistry
from praval_tools.integrations.praval import attach, install

with clean(), ToolRegistry() as registry, install(registry):

    def declare(name: str) -> None:
        """Declare a tool whose function is called as those of the others."""

        @praval.tool(f"{name}_run", owned_by="worker")
        def run(x: int) -> str:
            """Run."""
            return name

    for one in ("first", "second", "third"):
        declare(one)
    model = scripted("script", [(f"{one}_run", {"x": 1}) for one in ("first", "second", "third")], "done")

    @praval.agent("worker", provider="script")
    def work(spore: object) -> None:
        """Work."""

    with attach(work):
        work._praval_agent.chat("go")
    print(model.offered[0], model.received)
