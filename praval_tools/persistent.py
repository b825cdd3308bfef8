"""A persistent map: every change makes a new map and shares nearly everything with the old one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_SMALL: Final = 64
_MANY: Final = 16_384
_SEVERAL: Final = 6


class PersistentMap(Mapping[K, V]):
    """
    An immutable mapping whose `set` and `discard` cost microseconds at any size in practice.

    Small maps are one dict; larger ones are 16 × 16 dicts, very large ones 16 × 16 × 16, of which a change copies one,
    and the rows that lead to it.
    Iteration order is not meaningful: keep a sequence number where order counts.
    """

    __slots__ = ("_deep", "_rows", "_size", "_small")

    def __init__(
        self, small: dict[K, V] | None = None, *, rows: list[list[Any]] = [], size: int = 0, deep: bool = False  # noqa: B006
    ) -> None:
        self._small, self._rows = small if small is not None else {}, rows  # neither is ever changed
        self._size, self._deep = size if rows else len(self._small), deep

    def _shard(self, key: object) -> dict[K, V]:
        if not self._rows:
            return self._small
        at = hash(key)
        found = self._rows[at >> 4 & 15][at & 15]
        return found[at >> 8 & 15] if self._deep else found  # type: ignore[no-any-return]

    def __getitem__(self, key: K) -> V:
        return self._shard(key)[key]

    def get(self, key: K, default: D = None) -> V | D:  # type: ignore[assignment]
        """Return the value of *key*, else *default*."""
        return self._shard(key).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._shard(key)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        if not self._rows:
            return iter(self._small)
        if not self._deep:
            return (key for row in self._rows for shard in row for key in shard)
        return (key for row in self._rows for shards in row for shard in shards for key in shard)

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return a map in which *key* is *value*."""
        rows = self._rows
        if not rows:
            new = self._small.copy()
            new[key] = value
            return PersistentMap(new) if len(new) <= _SMALL else _spread(new)
        old = self._shard(key)
        new = old.copy()
        new[key] = value
        made = self._with(hash(key), new, self._size + len(new) - len(old))
        return made if made._deep or made._size <= _MANY else _deepened(made)

    def update(self, pairs: Iterable[tuple[K, V]]) -> PersistentMap[K, V]:
        """Return a map with all the *pairs* set."""
        made = self
        if not made._rows:
            new = {**made._small, **dict(pairs)}
            return PersistentMap(new) if len(new) <= _SMALL else _spread(new)
        pairs = list(pairs)
        if len(pairs) >= _SEVERAL and not made._deep:
            return made._updated(pairs)
        for key, value in pairs:
            made = made.set(key, value)
        return made

    def _updated(self, pairs: list[tuple[K, V]]) -> PersistentMap[K, V]:
        """Return a map with all the *pairs* set, for which each shard and row is copied once."""
        rows, mine, size = [row.copy() for row in self._rows], set[int](), self._size
        for key, value in pairs:
            at = hash(key)
            row, low = rows[at >> 4 & 15], at & 15
            if at & 255 not in mine:
                mine.add(at & 255)
                row[low] = row[low].copy()
            size += key not in row[low]
            row[low][key] = value
        made: PersistentMap[K, V] = PersistentMap(rows=rows, size=size)
        return made if size <= _MANY else _deepened(made)

    def discard(self, key: K) -> PersistentMap[K, V]:
        """Return a map without *key*; this one where it is absent."""
        old = self._shard(key)
        if key not in old:
            return self
        new = old.copy()
        del new[key]
        if not self._rows or self._size == 1:
            return PersistentMap(new)
        return self._with(hash(key), new, self._size - 1)

    def _with(self, at: int, shard: dict[K, V], size: int) -> PersistentMap[K, V]:
        high = at >> 4 & 15
        rows = self._rows.copy()
        rows[high] = row = rows[high].copy()
        if self._deep:
            row[at & 15] = shards = row[at & 15].copy()
            shards[at >> 8 & 15] = shard
        else:
            row[at & 15] = shard
        return PersistentMap(rows=rows, size=size, deep=self._deep)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def _spread(small: dict[K, V]) -> PersistentMap[K, V]:
    rows: list[list[dict[K, V]]] = [[{} for _ in range(16)] for _ in range(16)]
    for key, value in small.items():
        at = hash(key)
        rows[at >> 4 & 15][at & 15][key] = value
    return PersistentMap(rows=rows, size=len(small))


def _deepened(wide: PersistentMap[K, V]) -> PersistentMap[K, V]:
    """Return the map with each shard split in sixteen, so that a write copies little however many there are."""
    rows: list[list[Any]] = [[[{} for _ in range(16)] for _ in range(16)] for _ in range(16)]
    for row in wide._rows:
        for shard in row:
            for key, value in shard.items():
                at = hash(key)
                rows[at >> 4 & 15][at & 15][at >> 8 & 15][key] = value
    return PersistentMap(rows=rows, size=len(wide), deep=True)
