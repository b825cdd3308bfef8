"""Reads and checks the files of a configuration, such as `praval_tools.toml` and `pyproject.toml`; loads nothing."""
