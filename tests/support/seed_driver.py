"""
The program of the Agentic-AI seed: `python seed_driver.py URL STOP`, in a folder with its configuration.

It asks the model at URL in the run `r`; with a STOP of 1 it is killed once the results of the first batch are there.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from loop_driver import PlainModel

from praval_tools import ToolRegistry
from praval_tools.loop import ToolLoop


class Model(PlainModel):
    """A model whose second request kills the process, where that is asked for."""

    def __init__(self, url: str, stop: bool) -> None:
        super().__init__(url)
        self._stop, self._replies = stop, 0

    def reply(self, request: Any) -> Any:
        if self._stop and self._replies == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self._replies += 1
        return super().reply(request)


def main() -> None:
    """Run the loop, and print how it ended."""
    sys.path.insert(0, os.getcwd())
    with ToolRegistry.from_config("tools.yml", "config.yml", "system.yml") as registry:
        tools = [schema["function"]["name"] for schema in registry.schemas_for_model("assistant", "gpt-4o")]
        result = ToolLoop(registry.agent("assistant"), Model(sys.argv[1], sys.argv[2] == "1"), retries=0).run(
            "Go.", "r"
        )
        values = {one.name: one.result for one in result.results}
    print(json.dumps({"tools": tools, "text": result.text, "results": values}))


if __name__ == "__main__":
    main()
