"""
The demo: four agents with owned, shared, requested, listed and granted tools answer a question about real data.

`praval-tools demo` runs it; `registry` is its registry, to inspect with the other commands:
`praval-tools --app praval_tools.demo:registry matrix`.
"""

from praval_tools.demo.app import registry

__all__ = ["registry"]
