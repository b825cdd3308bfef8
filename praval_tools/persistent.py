"""A persistent map: every change makes a new map and shares nearly everything with the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_SMALL: Final = 64


class PersistentMap(Mapping[K, V]):
    """
    An immutable mapping whose `set` and `discard` cost microseconds at any size in practice.

    Small maps are one dict; larger ones are 16 × 16 dicts of which a change copies one, and its row.
    Iteration order is not meaningful: keep a sequence number where order counts.
    """

    __slots__ = ("_rows", "_size", "_small")

    def __init__(
        self, small: dict[K, V] | None = None, rows: tuple[tuple[dict[K, V], ...], ...] = (), size: int = 0
    ) -> None:
        self._small, self._rows = small if small is not None else {}, rows
        self._size = size if rows else len(self._small)

    def _shard(self, key: object) -> dict[K, V]:
        if not self._rows:
            return self._small
        at = hash(key)
        return self._rows[at >> 4 & 15][at & 15]

    def __getitem__(self, key: K) -> V:
        return self._shard(key)[key]

    def get(self, key: K, default: D = None) -> V | D:  # type: ignore[assignment, override]
        """Return the value of *key*, else *default*."""
        return self._shard(key).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._shard(key)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        if not self._rows:
            return iter(self._small)
        return (key for row in self._rows for shard in row for key in shard)

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return a map in which *key* is *value*."""
        old = self._shard(key)
        new = old.copy()
        new[key] = value
        if not self._rows:
            return PersistentMap(new) if len(new) <= _SMALL else _spread(new)
        return self._with(key, new, self._size + len(new) - len(old))

    def discard(self, key: K) -> PersistentMap[K, V]:
        """Return a map without *key*; this one where it is absent."""
        old = self._shard(key)
        if key not in old:
            return self
        new = old.copy()
        del new[key]
        if not self._rows or self._size == 1:
            return PersistentMap(new)
        return self._with(key, new, self._size - 1)

    def _with(self, key: K, shard: dict[K, V], size: int) -> PersistentMap[K, V]:
        at = hash(key)
        rows, row = list(self._rows), list(self._rows[at >> 4 & 15])
        row[at & 15] = shard
        rows[at >> 4 & 15] = tuple(row)
        return PersistentMap(None, tuple(rows), size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def _spread(small: dict[K, V]) -> PersistentMap[K, V]:
    rows: tuple[tuple[dict[K, V], ...], ...] = tuple(tuple({} for _ in range(16)) for _ in range(16))
    for key, value in small.items():
        at = hash(key)
        rows[at >> 4 & 15][at & 15][key] = value
    return PersistentMap(None, rows, len(small))
