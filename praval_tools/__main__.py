"""`python -m praval_tools` is `praval-tools`."""

import sys

from praval_tools.cli import main

if __name__ == "__main__":
    main(has_working_folder=not sys.flags.safe_path)
