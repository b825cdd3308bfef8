"""Where a tool comes from."""

from __future__ import annotations

from typing import Literal

import msgspec

SourceKind = Literal["code", "plugin", "config", "mcp", "openapi", "object"]


class Source(msgspec.Struct, frozen=True, gc=False):
    """
    Where a tool comes from: the kind, the distribution that ships it, and the place of its definition.

    Args:
        kind: `code` for a declaration in Python, else the mechanism that brought it.
        distribution: The installed distribution, empty for the host's own code.
        version: That distribution's version.
        file: The file of the definition, empty where there is none.
        line: Its line, from 1; 0 where there is none.
        trusted: False: a plugin brought it, and what it asks for the operator has not granted.
    """

    kind: SourceKind = "code"
    distribution: str = ""
    version: str = ""
    file: str = ""
    line: int = 0
    trusted: bool = True

    def __str__(self) -> str:
        parts = [f"{self.distribution} {self.version}".strip(), f"{self.file}:{self.line}" if self.file else ""]
        return ", ".join(part for part in parts if part) or self.kind
