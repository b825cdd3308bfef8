"""Engines: where the function of a tool runs."""
