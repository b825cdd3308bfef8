"""The command line: `praval-tools`, also `python -m praval_tools`."""

import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from praval_tools.lazy_import import load

__all__ = ["main"]

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None, *, has_working_folder: bool = False) -> NoReturn:
    """
    Run the command line and exit; Ctrl-C ends it in one line at any moment, also while modules are imported.

    Args:
        arguments: The words after the program's name; None: those that it was started with.
        has_working_folder: Python has put the working directory in front of `sys.path`, as for `python -m`. No
            plugins are looked for in it: nobody installed them.
    """
    try:
        run: Callable[[list[str], bool], int] = load("praval_tools.cli.entry").run
        code = run(list(sys.argv[1:] if arguments is None else arguments), has_working_folder)
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
        sys.stderr.write("Stopped: interrupted.\n")
    sys.exit(code)
