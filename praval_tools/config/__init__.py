"""Configuration: reads and checks `praval_tools.toml`, or `[tool.praval_tools]` in `pyproject.toml`."""
