"""`python -m praval_tools` is `praval-tools`."""

from praval_tools.cli import main

if __name__ == "__main__":
    main()
