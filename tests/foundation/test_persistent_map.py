"""The persistent map: a dict that never changes, at every size."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from praval_tools.persistent_map import PersistentMap

KEYS = st.integers(0, 200) | st.text(max_size=2)
STEPS = st.lists(st.tuples(st.sampled_from(["set", "discard", "update"]), KEYS, st.integers()), max_size=200)


class TestAgainstADict:
    @given(STEPS)
    def test_any_history(self, steps: list[tuple[str, int | str, int]]) -> None:
        """Every version of the map stays what it was, and equals the dict that took the same steps."""
        made: PersistentMap[int | str, int] = PersistentMap()
        model: dict[int | str, int] = {}
        versions = []
        for verb, key, value in steps:
            if verb == "discard":
                made = made.discard(key)
                model.pop(key, None)
            else:
                made = made.set(key, value) if verb == "set" else made.update([(key, value), (value, value)])
                model.update({key: value} if verb == "set" else {key: value, value: value})
            versions.append((made, dict(model)))
        for one, expected in versions:
            assert expected == dict(one)
            assert len(expected) == len(one)

    @given(st.dictionaries(st.integers(0, 2_000), st.integers(0, 3), max_size=300), st.integers(0, 400), STEPS)
    def test_what_differs(
        self, pairs: dict[int | str, int], more: int, steps: list[tuple[str, int | str, int]]
    ) -> None:
        """The keys that differ between two versions are those of which one has another object, or none."""
        pairs.update((key, 0) for key in range(more))
        first = second = PersistentMap[int | str, int]().update(list(pairs.items()))
        for verb, key, value in steps:
            second = second.discard(key) if verb == "discard" else second.set(key, value)
        nothing = object()
        expected = {key for key in (*first, *second) if first.get(key, nothing) is not second.get(key, nothing)}
        assert expected == first.find_changed_keys(second) == second.find_changed_keys(first)

    def test_a_large_one(self) -> None:
        """Past every size at which it is spread further: set, read, replaced, discarded, and old versions untouched."""
        made: PersistentMap[str, int] = PersistentMap()
        for at in range(40_000):
            made = made.set(f"key {at}", at)
        whole = made
        for at in range(0, 40_000, 3):
            made = made.discard(f"key {at}")
        for at in range(1, 40_000, 3):
            made = made.set(f"key {at}", -at)

        assert {f"key {at}": at for at in range(40_000)} == dict(whole)
        assert {f"key {at}": -at if at % 3 == 1 else at for at in range(40_000) if at % 3} == dict(made)
        assert (40_000, len(dict(made))) == (len(whole), len(made))
        assert made.discard("key 0") is made
        assert (None, 5) == (made.get("key 0"), made.get("key 5"))

    @given(st.lists(st.integers(1, 9_000), min_size=1, max_size=5), st.integers(0, 30_000))
    @settings(max_examples=20)
    def test_many_at_once(self, counts: list[int], gone: int) -> None:
        """Batches of any length, which meet keys that are there, leave what a dict would hold, and the old versions."""
        made: PersistentMap[str, int] = PersistentMap()
        model: dict[str, int] = {}
        versions = []
        for turn, count in enumerate(counts):
            pairs = [(f"key {turn * 4_000 + at}", turn) for at in range(count)]
            made = made.update(pairs).discard(f"key {gone}")
            model.update(pairs)
            model.pop(f"key {gone}", None)
            versions.append((made, dict(model)))
        for one, expected in versions:
            assert (expected, len(expected)) == (dict(one), len(one))

    def test_keys_of_one_hash(self) -> None:
        """Keys that nothing tells apart are kept, too, however many."""

        class Same(str):
            def __hash__(self) -> int:
                return 7

        keys = [Same(at) for at in range(300)]
        made: PersistentMap[str, int] = PersistentMap()
        for at, key in enumerate(keys):
            made = made.set(key, at)
        made = made.update([(key, -1) for key in keys[:100]])

        assert {key: -1 if at < 100 else at for at, key in enumerate(keys)} == dict(made)
        assert 300 == len(made)
