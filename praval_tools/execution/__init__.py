"""Runs the calls of tools: decides on them, checks arguments, and runs functions, by the fast path or the pipeline."""
