"""Regular expressions that are compiled when they are first used, so that importing a module does not pay for them."""

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
        method = self.__dict__[name] = getattr(re.compile(self._text), name)  # next time found without this method
        return method
