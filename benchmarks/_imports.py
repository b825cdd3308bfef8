"""What importing costs, each in fresh processes, in turn, compiled files warm."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from _measure import Figure, quartiles

_PROGRAM: Final = "import time; start = time.process_time(); import {modules}; print(time.process_time() - start)"
_BASE: Final = "attrs, cattrs, pluggy"
_PEERS: Final = {
    "toolregistry": "toolregistry", "langchain-core": "langchain_core.tools", "pydantic-ai-slim": "pydantic_ai",
    "praval": "praval",
}  # fmt: skip


def importing(installed: dict[str, str], rounds: int) -> Iterator[Figure]:
    """Yield the time of `import praval_tools` against its foundations, and the peers' times."""
    for modules in (_BASE, "praval_tools"):
        _seconds(modules)
    ours, base, ratios = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        base.append(_seconds(_BASE))
        ours.append(_seconds("praval_tools"))
        ratios.append(ours[-1] / base[-1])
    yield Figure("import:ours", statistics.median(ratios), "x", *quartiles(ratios))
    yield Figure("import:ours:ms", statistics.median(ours) * 1000, "ms", *(one * 1000 for one in quartiles(ours)))
    yield Figure("import:base:ms", statistics.median(base) * 1000, "ms", *(one * 1000 for one in quartiles(base)))
    for package, module in _PEERS.items():
        if package in installed:
            _seconds(module)
            times = [_seconds(module) for _ in range(max(3, rounds // 8))]
            note = f"{package} {installed[package]}"
            yield Figure(f"import:{package}:ms", statistics.median(times) * 1000, "ms", note=note)


def _seconds(modules: str) -> float:
    keeps = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    program = [sys.executable, "-c", _PROGRAM.format(modules=modules)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=keeps)
    return float(done.stdout.split()[-1])
