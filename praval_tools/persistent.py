"""A persistent map: every change makes a new map and shares nearly everything with the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_SHARDS: Final = 256
_SMALL: Final = 64


class PersistentMap(Mapping[K, V]):
    """
    An immutable mapping whose `set` and `discard` cost microseconds at any size in practice.

    Small maps are one dict; larger ones are 256 dicts of which a change copies one.
    Iteration order is not meaningful: keep a sequence number where order counts.
    """

    __slots__ = ("_size", "_small", "_shards")

    def __init__(self, small: dict[K, V] | None = None, shards: tuple[dict[K, V], ...] = (), size: int = 0) -> None:
        self._small, self._shards = small if small is not None else {}, shards
        self._size = size if shards else len(self._small)

    def __getitem__(self, key: K) -> V:
        if self._shards:
            return self._shards[hash(key) & 255][key]
        return self._small[key]

    def get(self, key: K, default: D = None) -> V | D:  # type: ignore[assignment, override]
        """Return the value of *key*, else *default*."""
        return (self._shards[hash(key) & 255] if self._shards else self._small).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in (self._shards[hash(key) & 255] if self._shards else self._small)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        if not self._shards:
            return iter(self._small)
        return (key for shard in self._shards for key in shard)

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return a map in which *key* is *value*."""
        if not self._shards:
            small = {**self._small, key: value}
            return PersistentMap(small) if len(small) <= _SMALL else _spread(small)
        at = hash(key) & 255
        old = self._shards[at]
        size = self._size + (key not in old)
        return PersistentMap(None, (*self._shards[:at], {**old, key: value}, *self._shards[at + 1 :]), size)

    def discard(self, key: K) -> PersistentMap[K, V]:
        """Return a map without *key*; this one where it is absent."""
        if key not in self:
            return self
        if not self._shards:
            return PersistentMap({one: value for one, value in self._small.items() if one != key})
        at = hash(key) & 255
        shard = dict(self._shards[at])
        del shard[key]
        if self._size == 1:
            return PersistentMap()
        return PersistentMap(None, (*self._shards[:at], shard, *self._shards[at + 1 :]), self._size - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def _spread(small: dict[K, V]) -> PersistentMap[K, V]:
    shards: tuple[dict[K, V], ...] = tuple({} for _ in range(_SHARDS))
    for key, value in small.items():
        shards[hash(key) & 255][key] = value
    return PersistentMap(None, shards, len(small))
