"""The requests, answers and problems that go between a tool and the process that works on a file."""

from __future__ import annotations

from typing import Any, TypeAlias

Request: TypeAlias = dict[str, Any]
Answer: TypeAlias = dict[str, Any]
"""JSON objects, whose keys both sides know."""


class Problem(Exception):
    """Why a request was not carried out: the kind, what went wrong, and what to do."""

    def __init__(self, kind: str, problem: str, fix: str) -> None:
        super().__init__(kind, problem, fix)
        self.kind, self.problem, self.fix = kind, problem, fix
