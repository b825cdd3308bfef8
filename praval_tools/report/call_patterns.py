"""What the recorded calls of one tool by one agent have in common: how many, when, and bounds that they all fit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import Factory, define

MIN_CALLS_FOR_BOUNDS: Final = 20
"""From how many calls on bounds are concluded."""

_MAX_VALUES: Final = 12
_MIN_PREFIX: Final = 3
_MAX_LENGTH: Final = 200
"""Characters up to which a text is kept as a value, and of the beginnings of texts."""
_PREFIX: Final = re.compile(r"[A-Za-z0-9_/.:@+ -]*")
_MARKER: Final = "[secret "

_Scalar = str | int | float | bool | None


@define
class _ArgumentPattern:
    """The values of one argument, as far as they are plain."""

    count: int = 0
    values: dict[str, _Scalar] = Factory(dict)
    has_many_values: bool = False
    minimum: int | float | None = None
    maximum: int | float | None = None
    prefix: str | None = None
    kinds: set[type] = Factory(set)

    def add(self, value: object) -> None:
        self.count += 1
        self.kinds.add(type(value))
        if not isinstance(value, _Scalar):
            return
        if type(value) in (int, float):
            self.minimum = value if self.minimum is None else min(self.minimum, value)  # type: ignore[type-var,assignment]
            self.maximum = value if self.maximum is None else max(self.maximum, value)  # type: ignore[type-var,assignment]
        elif isinstance(value, str):
            if _MARKER in value:
                self.kinds.add(object)  # a secret: nothing is concluded
            start = value[:_MAX_LENGTH]
            self.prefix = start if self.prefix is None else _find_common_prefix(self.prefix, start)
            if start != value:
                self.has_many_values = True
                return
        self.values.setdefault(json.dumps(value), value)
        if len(self.values) > _MAX_VALUES:
            self.has_many_values = True
            self.values.popitem()

    def build_bound(self) -> dict[str, object] | None:
        """Return a bound that all values fit; None: nothing can be said of them."""
        if not self.kinds <= {str, int, float, bool, type(None)}:
            return None
        if self.kinds <= {int, float}:
            return {"minimum": self.minimum, "maximum": self.maximum}
        if not self.has_many_values:
            return {"enum": list(self.values.values())}
        prefix = _PREFIX.match(self.prefix or "") if self.kinds == {str} else None
        text = "" if prefix is None else prefix[0]
        return {"pattern": f"^{_escape(text)}"} if len(text) >= _MIN_PREFIX else None


def _find_common_prefix(first: str, second: str) -> str:
    length = next((at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other), None)
    return first[:length] if length is not None else min(first, second, key=len)


def _escape(text: str) -> str:
    return re.sub(r"([.+])", r"\\\1", text)


@define
class CallPattern:
    """
    The calls that one agent made of one tool.

    Args:
        count: How many.
        first: When the first one was made.
        last: When the latest one was.
        has_other_arguments: Some had arguments of which nothing is known, so that no bounds are concluded.
    """

    count: int = 0
    first: datetime | None = None
    last: datetime | None = None
    has_other_arguments: bool = False
    _arguments: dict[str, _ArgumentPattern] = Factory(dict)

    def add(self, time: datetime, arguments: object) -> None:
        """Add a call."""
        self.count += 1
        self.first = time if self.first is None else min(self.first, time)
        self.last = time if self.last is None else max(self.last, time)
        if not isinstance(arguments, Mapping):
            self.has_other_arguments = True
            return
        for name, value in arguments.items():
            if isinstance(name, str):
                self._arguments.setdefault(name, _ArgumentPattern()).add(value)

    def build_bounds(self) -> dict[str, dict[str, object]]:
        """Return bounds of arguments that every call gave and all calls fit; from few calls nothing is concluded."""
        if self.count < MIN_CALLS_FOR_BOUNDS or self.has_other_arguments:
            return {}
        given = {name: pattern for name, pattern in self._arguments.items() if pattern.count == self.count}
        bounds = {name: pattern.build_bound() for name, pattern in given.items()}
        return {name: bound for name, bound in bounds.items() if bound is not None}
