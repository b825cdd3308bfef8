"""Converts type hints to JSON Schema, and JSON values to typed Python values and back."""
