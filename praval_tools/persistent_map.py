"""A persistent map: every change makes a new map and shares nearly everything with the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_MAX_DICT_SIZE: Final = 64
"""How many keys a dict holds before they are spread over several."""

_MIN_BATCH_SIZE: Final = 6
"""From how many pairs on it pays to remember what was copied."""


class PersistentMap(Mapping[K, V]):
    """
    An immutable mapping whose `set` and `discard` cost microseconds at any size in practice.

    A small map is one dict. A larger one is 16 rows of 16 dicts, told apart by a key's hash;
    in the place of a dict that has grown stand 16 more.
    A change copies one dict, and the lists that lead to it.
    Iteration order is not meaningful: keep a sequence number where order counts.
    """

    __slots__ = ("_root", "_size")

    def __init__(self, root: dict[K, V] | list[Any] = {}, size: int = 0) -> None:  # noqa: B006  # it is never changed
        self._root, self._size = root, size

    def _find_bucket(self, key: object) -> dict[K, V]:
        root: Any = self._root
        if type(root) is dict:
            return root
        at = hash(key)
        found = root[at & 15][at >> 4 & 15]
        return found if type(found) is dict else found[at >> 8 & 15]

    def __getitem__(self, key: K) -> V:
        return self._find_bucket(key)[key]

    def get(self, key: K, default: D = None) -> V | D:  # type: ignore[assignment]
        """Return the value of *key*, else *default*."""
        return self._find_bucket(key).get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._find_bucket(key)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(_iter_buckets(self._root))

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return a map in which *key* is *value*."""
        root: Any = self._root
        if type(root) is dict:
            new = root.copy()
            new[key] = value
            return PersistentMap(new if len(new) <= _MAX_DICT_SIZE else _build_rows(new), len(new))
        at = hash(key)
        high, low = at & 15, at >> 4 & 15
        rows = root.copy()
        rows[high] = row = rows[high].copy()
        row[low] = new = row[low].copy()
        if type(new) is list:
            row, low = new, at >> 8 & 15
            row[low] = new = row[low].copy()
        size = self._size - len(new)
        new[key] = value
        if len(new) > _MAX_DICT_SIZE and row is rows[high]:
            row[low] = _split_bucket(new, 8)
        return PersistentMap(rows, size + len(new))

    def update(self, pairs: Sequence[tuple[K, V]]) -> PersistentMap[K, V]:
        """Return a map with all the *pairs* set."""
        root: Any = self._root
        if type(root) is dict:
            new = root.copy()
            new.update(pairs)
            return PersistentMap(new if len(new) <= _MAX_DICT_SIZE else _build_rows(new), len(new))
        if len(pairs) < _MIN_BATCH_SIZE:
            made = self
            for key, value in pairs:
                made = made.set(key, value)
            return made
        return self._update_batch(pairs)

    def _update_batch(self, pairs: Sequence[tuple[K, V]]) -> PersistentMap[K, V]:
        """Return a map with all the *pairs* set, for which each dict and each list is copied once."""
        root: Any = self._root
        rows, size = [row.copy() for row in root], self._size
        mine: set[int] = set()
        for key, value in pairs:
            at = hash(key)
            row, low = rows[at & 15], at >> 4 & 15
            if at & 255 not in mine:
                mine.add(at & 255)
                row[low] = row[low].copy()
            new = row[low]
            if type(new) is list:
                row, low = new, at >> 8 & 15
                if (sub := at & 4095 | 4096) not in mine:
                    mine.add(sub)
                    row[low] = row[low].copy()
                new = row[low]
            size += key not in new
            new[key] = value
            if len(new) > _MAX_DICT_SIZE and row is rows[at & 15]:
                row[low] = _split_bucket(new, 8)
        return PersistentMap(rows, size)

    def discard(self, key: K) -> PersistentMap[K, V]:
        """Return a map without *key*; this one where it is absent."""
        old = self._find_bucket(key)
        if key not in old:
            return self
        root: Any = self._root
        new = old.copy()
        del new[key]
        if root is old or self._size == 1:
            return PersistentMap(new, len(new))
        at = hash(key)
        high, low = at & 15, at >> 4 & 15
        rows = root.copy()
        rows[high] = row = rows[high].copy()
        if type(row[low]) is list:
            row[low] = row = row[low].copy()
            low = at >> 8 & 15
        row[low] = new
        return PersistentMap(rows, self._size - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def _iter_buckets(part: Any) -> Iterator[dict[Any, Any]]:
    if type(part) is dict:
        yield part
    else:
        for one in part:
            yield from _iter_buckets(one)


def _split_bucket(grown: dict[Any, Any], bits: int) -> list[dict[Any, Any]]:
    """Return sixteen dicts that hold what *grown* holds, told apart by the *bits* of a hash that follow."""
    made: list[dict[Any, Any]] = [{} for _ in range(16)]
    for key, value in grown.items():
        made[hash(key) >> bits & 15][key] = value
    return made


def _build_rows(grown: dict[Any, Any]) -> list[Any]:
    """Return the sixteen rows in which a map is that was one dict; many keys at once are spread further."""
    rows: list[Any] = [_split_bucket(row, 4) for row in _split_bucket(grown, 0)]
    for row in rows:
        row[:] = [one if len(one) <= _MAX_DICT_SIZE else _split_bucket(one, 8) for one in row]
    return rows
