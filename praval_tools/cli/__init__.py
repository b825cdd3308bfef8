"""The command line: `praval-tools`, also `python -m praval_tools`."""

from praval_tools.cli.entry import main

__all__ = ["main"]
