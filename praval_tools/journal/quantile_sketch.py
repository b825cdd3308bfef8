"""Estimates quantiles of durations from counts in buckets that grow by two per cent (DDSketch), in less than 4 KB."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from typing import Final

RELATIVE_ERROR: Final = 0.0099
"""The relative error of a quantile, as long as the window below reaches down to it."""

_GAMMA: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_BUCKETS_PER_E_FOLD: Final = 1 / math.log(_GAMMA)
_MAX_BUCKETS: Final = 960
"""From the greatest value down they span a factor of 10⁸; all smaller values share the lowest bucket."""

_MIN_VALUE: Final = 1e-6
_MAX_VALUE: Final = 1e15
_MAX_COUNT: Final = 2**32 - 1
_NO_COUNTS: Final = array("I")


class QuantileSketch:
    """
    Counts values by size; equal for equal values in any order.

    Values are positive numbers; what is smaller than 10⁻⁶, or not a number, counts as 10⁻⁶.
    """

    __slots__ = ("_counts", "_first_bucket")

    def __init__(self) -> None:
        self._counts, self._first_bucket = _NO_COUNTS, 0

    def add(self, value: float) -> None:
        """Count one value."""
        if not value > _MIN_VALUE:
            value = _MIN_VALUE
        elif value > _MAX_VALUE:
            value = _MAX_VALUE
        index = math.ceil(math.log(value) * _BUCKETS_PER_E_FOLD)
        at = index - self._first_bucket
        if not 0 <= at < len(self._counts):
            at = self._extend_to_bucket(index)
        if self._counts[at] < _MAX_COUNT:
            self._counts[at] += 1

    def _extend_to_bucket(self, index: int) -> int:
        """Make room for the bucket *index*; return its position."""
        counts, at = self._counts, index - self._first_bucket
        if not counts:
            self._counts, self._first_bucket = array("I", [0]), index
            return 0
        if at < 0:
            grown = min(-at, _MAX_BUCKETS - len(counts))
            self._counts, self._first_bucket = array("I", [0]) * grown + counts, self._first_bucket - grown
            return max(at + grown, 0)
        lost = max(at + 1 - _MAX_BUCKETS, 0)
        if lost:  # the smallest values share the lowest bucket that is left
            below = sum(counts[: lost + 1])
            counts = array("I", [min(below, _MAX_COUNT)]) + counts[lost + 1 :]
            self._first_bucket += lost
        self._counts = counts + array("I", [0]) * (at + 1 - lost - len(counts))
        return at - lost

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self._counts)

    def quantile(self, share: float) -> float | None:
        """Return the value below or at which *share* of all values lie, by nearest rank; None where there are none."""
        left = max(math.ceil(share * self.count - 1e-9), 1)
        for position, count in enumerate(self._counts):
            left -= count
            if left <= 0 and count:
                return 2.0 * math.exp((self._first_bucket + position) / _BUCKETS_PER_E_FOLD) / (_GAMMA + 1.0)
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantileSketch):
            return NotImplemented
        return self._first_bucket == other._first_bucket and self._counts == other._counts

    __hash__ = None  # type: ignore[assignment]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self._counts.__sizeof__()

    def to_dict(self) -> dict[str, object]:
        """Return the sketch for `from_dict`."""
        return {"first": self._first_bucket, "counts": self._counts.tolist()}

    @classmethod
    def from_dict(cls, content: Mapping[str, object]) -> QuantileSketch:
        """
        Return the sketch of which `to_dict` made *content*.

        Raises:
            ValueError: The content is not that of a sketch.
        """
        sketch, first, counts = cls(), content.get("first"), content.get("counts")
        if type(first) is not int or type(counts) is not list or len(counts) > _MAX_BUCKETS:
            raise ValueError("a sketch has a first bucket and at most 960 counts")
        if not all(type(count) is int and 0 <= count <= _MAX_COUNT for count in counts):
            raise ValueError("the counts of a sketch are whole numbers")
        sketch._first_bucket, sketch._counts = first, array("I", counts)
        return sketch
