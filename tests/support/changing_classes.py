"""Classes of parameters that change what they are given."""

from __future__ import annotations

from dataclasses import dataclass

ADDED = {"bcc": "everyone"}
"""What a mail adds to its headers."""


@dataclass
class Mail:
    """A mail that adds a receiver, unless there is one."""

    headers: dict[str, str]

    def __post_init__(self) -> None:
        self.headers = ADDED | self.headers
