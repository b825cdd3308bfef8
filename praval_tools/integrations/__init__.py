"""Adapters for agent frameworks, one module and one extra each."""
