"""Runs the calls of tools: decides, checks, admits and runs them, on the fast path or through one pipeline."""
