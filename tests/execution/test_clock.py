"""The machine's clock: ids that nobody else has, and that lie in the order in which they were made."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from praval_tools.clock import SystemClock


class TestIds:
    def test_they_sort_in_the_order_in_which_they_were_made(self) -> None:
        """
        Later ids come later in an index: calls that are made together change few pages of a store.
        """
        made = [SystemClock().new_id() for _ in range(10_000)]

        behind = sum(late > early for early, late in zip(made, made[1:], strict=False))
        assert behind > 9_000  # a machine's clock may stand still for a moment, or be set back
        assert {32} == {len(one) for one in made}

    def test_no_two_are_equal(self) -> None:
        """
        Not of several threads, though they are made in the same moment.
        """
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda _: SystemClock().new_id(), range(20_000)))

        assert 20_000 == len(set(made))

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
    def test_a_forked_process_makes_its_own(self) -> None:
        """
        Chance is not handed down to a child, which would make its parent's ids if the clock stood still.
        """
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover
            os.write(write, SystemClock().new_id()[16:].encode())
            os._exit(0)
        mine = SystemClock().new_id()[16:]
        os.waitpid(child, 0)

        assert os.read(read, 16).decode() != mine
        os.close(read)
        os.close(write)
