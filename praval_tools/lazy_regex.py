"""Regular expressions that cost nothing at import."""

from __future__ import annotations

import re
from typing import Any


class LazyRegex:
    """
    A regular expression that is compiled when it is first used; it has the methods of `re.Pattern`.

    Args:
        text: The expression.
    """

    def __init__(self, text: str) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(re.compile(self._text), name)  # found without this method from now on
        return found
