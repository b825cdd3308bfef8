"""A program that makes calls in other processes in one run, until it is killed; started again, it goes on."""

from __future__ import annotations

import sys

from process_tools import mark

from praval_tools import ToolCall, ToolRegistry

if __name__ == "__main__":
    journal, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with ToolRegistry(journal=journal, engine="process", processes=2) as registry:
        registry.tool("mark", shared=True)(mark)
        calls = [ToolCall(str(at), "mark", {"folder": folder, "name": str(at)}, "ann") for at in range(count)]
        with registry.run("marks", match="id"):
            results = registry.execute_batch(calls, max_parallel=3)
        print(*(result.outcome.value for result in results))
