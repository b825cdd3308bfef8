"""The command line: `praval-tools`, also `python -m praval_tools`."""

import sys
from collections.abc import Sequence
from typing import NoReturn

from praval_tools.lazy_import import load

__all__ = ["main"]

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; Ctrl-C ends it in one line at any moment, also while modules are imported."""
    try:
        code: int = load("praval_tools.cli.entry").run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
        sys.stderr.write("Stopped: interrupted.\n")
    sys.exit(code)
