"""A persistent (immutable) map: every change makes a new map, which shares nearly everything with the old one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, TypeAlias, TypeVar

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_Bucket: TypeAlias = dict[K, V]
_Row: TypeAlias = "list[dict[K, V] | list[dict[K, V]]]"
_Root: TypeAlias = "dict[K, V] | list[_Row[K, V]]"

_MAX_DICT_SIZE: Final = 64
"""How many keys a dict holds before they are spread over several."""

_MIN_BATCH_SIZE: Final = 6
"""From how many pairs on it pays to remember what was copied."""


class PersistentMap(Mapping[K, V]):
    """
    An immutable mapping whose `set` and `discard` cost microseconds at any size in practice.

    A small map is one dict. A larger one is 16 rows of 16 dicts, chosen by a key's hash; a dict that has grown is
    replaced by 16 more. A change copies one dict, and the lists that lead to it.
    Iteration order is not meaningful: keep a sequence number where order counts.
    """

    __slots__ = ("_root", "_size")

    def __init__(self, root: _Root[K, V] = {}, size: int = 0) -> None:  # noqa: B006  # it is never changed
        self._root, self._size = root, size

    def _find_bucket(self, key: object) -> _Bucket[K, V]:
        root = self._root
        if isinstance(root, dict):
            return root
        digits = hash(key)
        node = root[digits & 15][digits >> 4 & 15]
        return node if isinstance(node, dict) else node[digits >> 8 & 15]

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
        return chain.from_iterable(self.iter_buckets())

    def iter_buckets(self) -> Iterator[_Bucket[K, V]]:
        """Yield the dicts that hold the pairs; maps that were made of each other share most of them."""
        if isinstance(self._root, dict):
            yield self._root
            return
        for node in chain.from_iterable(self._root):
            yield from (node,) if isinstance(node, dict) else node

    def find_changed_keys(self, other: PersistentMap[K, V]) -> set[K]:
        """Return the keys that only one of both maps has, or has with another object; fast where both share much."""
        if self is other:
            return set()
        mine, theirs = ({id(bucket): bucket for bucket in tree.iter_buckets()} for tree in (self, other))
        before = {key: value for place, bucket in mine.items() if place not in theirs for key, value in bucket.items()}
        after = {key: value for place, bucket in theirs.items() if place not in mine for key, value in bucket.items()}
        changed = {key for key, value in before.items() if key not in after or after[key] is not value}
        return changed | (after.keys() - before.keys())

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return a map in which *key* is *value*."""
        root = self._root
        if isinstance(root, dict):
            bucket = root.copy()
            bucket[key] = value
            return _make_small_map(bucket)
        digits = hash(key)
        rows, bucket = _copy_path(root, digits)
        size = self._size - len(bucket)
        bucket[key] = value
        if len(bucket) > _MAX_DICT_SIZE:
            _split_if_shallow(rows, digits, bucket)
        return PersistentMap(rows, size + len(bucket))

    def update(self, pairs: Sequence[tuple[K, V]]) -> PersistentMap[K, V]:
        """Return a map with all the *pairs* set."""
        root = self._root
        if isinstance(root, dict):
            bucket = root.copy()
            bucket.update(pairs)
            return _make_small_map(bucket)
        if len(pairs) >= _MIN_BATCH_SIZE:
            return self._update_batch(root, pairs)
        result = self
        for key, value in pairs:
            result = result.set(key, value)
        return result

    def _update_batch(self, root: list[_Row[K, V]], pairs: Sequence[tuple[K, V]]) -> PersistentMap[K, V]:
        """Return a map with all the *pairs* set, for which each dict and each list is copied once."""
        rows, size = [row.copy() for row in root], self._size
        copied: set[int] = set()
        for key, value in pairs:
            digits = hash(key)
            row, column = rows[digits & 15], digits >> 4 & 15
            if digits & 255 not in copied:
                copied.add(digits & 255)
                row[column] = row[column].copy()
            node = row[column]
            if isinstance(node, dict):
                bucket = node
            else:
                if (place := digits & 4095 | 4096) not in copied:
                    copied.add(place)
                    node[digits >> 8 & 15] = node[digits >> 8 & 15].copy()
                bucket = node[digits >> 8 & 15]
            size += key not in bucket
            bucket[key] = value
            if len(bucket) > _MAX_DICT_SIZE:
                _split_if_shallow(rows, digits, bucket)
        return PersistentMap(rows, size)

    def discard(self, key: K) -> PersistentMap[K, V]:
        """Return a map without *key*; this one where it is absent."""
        root = self._root
        if key not in self._find_bucket(key):
            return self
        if isinstance(root, dict):
            rest = root.copy()
            del rest[key]
            return PersistentMap(rest, len(rest))
        if self._size == 1:
            return PersistentMap()
        rows, bucket = _copy_path(root, hash(key))
        del bucket[key]
        return PersistentMap(rows, self._size - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PersistentMap) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"PersistentMap({dict(self)!r})"


def _make_small_map(bucket: _Bucket[K, V]) -> PersistentMap[K, V]:
    """Return the map of what was one dict; many keys at once are spread at once."""
    if len(bucket) <= _MAX_DICT_SIZE:
        return PersistentMap(bucket, len(bucket))
    rows: list[_Row[K, V]] = [[*_split_bucket(row, 4)] for row in _split_bucket(bucket, 0)]
    for row in rows:
        row[:] = [
            _split_bucket(node, 8) if isinstance(node, dict) and len(node) > _MAX_DICT_SIZE else node for node in row
        ]
    return PersistentMap(rows, len(bucket))


def _copy_path(root: list[_Row[K, V]], digits: int) -> tuple[list[_Row[K, V]], _Bucket[K, V]]:
    """Return a copy of *root* with the lists and the dict copied that a key of this hash leads to, and that dict."""
    rows = root.copy()
    high, low = digits & 15, digits >> 4 & 15
    rows[high] = row = rows[high].copy()
    node = row[low] = row[low].copy()
    if isinstance(node, dict):
        return rows, node
    bucket = node[digits >> 8 & 15] = node[digits >> 8 & 15].copy()
    return rows, bucket


def _split_if_shallow(rows: list[_Row[K, V]], digits: int, bucket: _Bucket[K, V]) -> None:
    """Replace a dict of the second level by sixteen; those of the third level grow on."""
    row, low = rows[digits & 15], digits >> 4 & 15
    if row[low] is bucket:
        row[low] = _split_bucket(bucket, 8)


def _split_bucket(bucket: _Bucket[K, V], bits: int) -> list[_Bucket[K, V]]:
    """Return sixteen dicts that hold what *bucket* holds, chosen by the *bits* of a hash that follow."""
    parts: list[_Bucket[K, V]] = [{} for _ in range(16)]
    for key, value in bucket.items():
        parts[hash(key) >> bits & 15][key] = value
    return parts
