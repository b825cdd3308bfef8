"""Prepares the files of `docs stubs`: the module of the agents, and the stub beside it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from keyword import iskeyword
from pathlib import Path

from praval_tools import ToolRegistry
from praval_tools.cli.common import UsageError
from praval_tools.cli.tool_docs.folder import FileMakers, OutputFolder
from praval_tools.cli.tool_stubs.toolset_stubs import MARKER, list_agent_stubs, write_module, write_stub


def prepare_stubs(
    registry: ToolRegistry, agents: Iterable[str], out: Path, module: str
) -> tuple[OutputFolder, FileMakers]:
    """
    Return the folder and the files; nothing is written yet.

    Raises:
        UsageError: *module* is not the name of a module.
    """
    if not module.isidentifier() or not module.isascii() or iskeyword(module):
        raise UsageError(f"{module!r} is not the name of a module; use letters, digits and '_': agent_tools.")
    stubs = list_agent_stubs(registry, agents)
    files = {f"{module}.py": partial(write_module, stubs), f"{module}.pyi": partial(write_stub, registry, stubs)}
    return OutputFolder(out, MARKER), files
