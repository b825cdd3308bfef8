"""Encodes the values of a database as JSON."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterable
from datetime import date, datetime, time

from attrs import define


@define
class Encoder:
    """
    Turns values into JSON: dates in ISO 8601, decimals and what JSON has no number for as text, bytes in base64.

    Args:
        max_length: Characters of a text at most.
        cut_count: How many texts were longer, and were cut.
    """

    max_length: int
    cut_count: int = 0

    def encode_row(self, values: Iterable[object]) -> list[object]:
        """Return the values of a row."""
        return [self.encode_value(value) for value in values]

    def encode_value(self, value: object) -> object:
        """Return one value."""
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, str):
            return self._encode_text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            whole = bytes(value)
            self.cut_count += (fits := len(whole) * 4 // 3 <= self.max_length) is False
            return b64encode(whole if fits else whole[: self.max_length // 4 * 3]).decode()
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, list | tuple):
            return self.encode_row(value)
        if isinstance(value, dict):
            return {self._encode_text(str(key)): self.encode_value(item) for key, item in value.items()}
        return self._encode_text(str(value))

    def _encode_text(self, text: str) -> str:
        text = text.encode("utf-8", "replace").decode("utf-8")
        if len(text) <= self.max_length:
            return text
        self.cut_count += 1
        return text[: self.max_length]
