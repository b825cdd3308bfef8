"""What the process that works on data cannot do, before it is told as JSON."""

from __future__ import annotations


class Problem(Exception):
    """Why something was not done: the kind, what went wrong, and what to do."""

    def __init__(self, kind: str, problem: str, fix: str) -> None:
        super().__init__(kind, problem, fix)
        self.kind, self.problem, self.fix = kind, problem, fix
