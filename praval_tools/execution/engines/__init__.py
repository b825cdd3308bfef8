"""Engines: where the function of a tool runs, such as in a thread."""
