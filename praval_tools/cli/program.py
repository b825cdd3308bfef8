"""Finds the words with which a reader of this terminal starts a program again."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from praval_tools.report.command_line import PROGRAM


def find_program() -> list[str]:
    """Return the words that start this command line: its name where the shell finds it, else as it was started."""
    started = Path(sys.argv[0])
    if started.stem == PROGRAM:
        return [shorten_program(started)]
    if started.name == "__main__.py":  # python -m
        shortened = shorten_program(Path(sys.executable).with_name(PROGRAM))
        return [PROGRAM] if shortened == PROGRAM else [sys.orig_argv[0], "-m", "praval_tools"]
    return [PROGRAM]  # from a program of another name


def find_pip() -> list[str]:
    """Return the words that start the pip of this interpreter; none where it has no pip."""
    return [shorten_program(Path(sys.executable)), "-m", "pip"] if is_installed("pip") else []


def is_installed(name: str) -> bool:
    """Tell whether this interpreter has a distribution."""
    from importlib.metadata import PackageNotFoundError, distribution  # only the demo needs it

    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def shorten_program(path: Path) -> str:
    """Return the name of a program where the shell finds this one by it, else its path."""
    found = shutil.which(path.name)
    is_found = found is not None and path.exists() and os.path.samefile(found, path)
    return path.name if is_found else shorten_path(path)


def shorten_path(path: Path) -> str:
    """Return a path as it is typed in the working directory; never like a bare name."""
    try:
        here = Path.cwd()
    except OSError:  # it was deleted
        return str(path)
    return os.path.join(".", path.relative_to(here)) if path.is_relative_to(here) else str(path)
