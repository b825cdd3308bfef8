"""
The demo: four agents with owned, shared, requested, listed and lent tools answer a question about real data.

`praval-tools demo` plays it; `registry` is where its tools live, to look at with the other commands:
`praval-tools --app praval_tools.demo:registry matrix`.
"""

from praval_tools.demo.app import registry

__all__ = ["registry"]
