"""Refuses values with too many equal hashes, which would make sets and dicts slow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from praval_tools.schema.type_handler import Mismatch

_MAX_EQUAL_HASHES: Final = 100
"""How many values of one hash a set or a dict may hold: each is compared with all the others."""


def check_hash_collisions(values: Sequence[object]) -> None:
    """
    Accept *values* if a set or a dict of them is made in time in proportion to their number.

    Who sends numbers can choose their hashes, and Python compares each value with all others of its hash.

    Raises:
        Mismatch: Too many of them share one hash.
    """
    if len(values) > _MAX_EQUAL_HASHES and max(Counter(map(hash, values)).values()) > _MAX_EQUAL_HASHES:
        raise Mismatch(f"holds more than {_MAX_EQUAL_HASHES} values of one hash, so gathering them takes too long")
