"""The persistent map: a dict that never changes, at every size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from praval_tools.persistent import PersistentMap

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
