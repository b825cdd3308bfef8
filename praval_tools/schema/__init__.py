"""Type hints to JSON Schema, and JSON to typed Python values."""
