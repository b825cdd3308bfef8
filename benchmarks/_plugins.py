"""What loading many plugins costs, against importing their modules; each in fresh processes, in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from _measure import Figure, quartiles

_PLUGINS: Final = 50
_TOOLS: Final = 20
_TOOL: Final = '''
@tool
def {name}_{number}(city: str, days: int = 1, units: str = "metric") -> dict[str, float]:
    """
    Say what the weather will be.

    Args:
        city: Where.
        days: How far ahead.
    """
    return {{city: float(days)}}
'''
_START: Final = (
    "import sys, time; sys.path.insert(0, sys.argv[1])\n"
    "from praval_tools import ToolRegistry, load_plugins, tool\n"
    "registry = ToolRegistry()\n"
    "start = time.process_time()\n"
)
_IMPORTS: Final = f"import importlib\nfor at in range({_PLUGINS}): importlib.import_module(f'weather{{at:02}}')\n"
_LOADS: Final = (
    "reports = load_plugins(registry, config={})\n"
    f"assert len(registry) == {_PLUGINS * _TOOLS} and all(one.loaded for one in reports), reports\n"
)
_END: Final = "print(time.process_time() - start)"


def loading(rounds: int) -> Iterator[Figure]:
    """Yield the time of loading 50 plugins of 20 tools against that of importing their modules."""
    with tempfile.TemporaryDirectory() as folder:
        _install(Path(folder))
        for work in (_IMPORTS, _LOADS):
            _seconds(folder, work)
        imports, loads, ratios = list[float](), list[float](), list[float]()
        for _ in range(rounds):
            imports.append(_seconds(folder, _IMPORTS))
            loads.append(_seconds(folder, _LOADS))
            ratios.append(loads[-1] / imports[-1])
    yield Figure("plugins:loading", statistics.median(ratios), "x", *quartiles(ratios))
    yield Figure("plugins:loading:ms", statistics.median(loads) * 1000, "ms", *(one * 1000 for one in quartiles(loads)))
    yield Figure(
        "plugins:importing:ms", statistics.median(imports) * 1000, "ms", *(one * 1000 for one in quartiles(imports))
    )


def _install(folder: Path) -> None:
    for at in range(_PLUGINS):
        name = f"weather{at:02}"
        tools = "".join(_TOOL.format(name=name, number=number) for number in range(_TOOLS))
        (folder / f"{name}.py").write_text(f"from praval_tools import tool\n{tools}")
        metadata = folder / f"{name}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[praval_tools]\n{name} = {name}\n")


def _seconds(folder: str, work: str) -> float:
    keeps = {name: one for name, one in os.environ.items()
             if name not in ("PYTHONDONTWRITEBYTECODE", "PRAVAL_TOOLS_PLUGINS")}  # fmt: skip
    program = [sys.executable, "-c", _START + work + _END, folder]
    done = subprocess.run(program, capture_output=True, text=True, check=True, env=keeps, cwd=folder)
    return float(done.stdout.split()[-1])
