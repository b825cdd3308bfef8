"""What the checks of the source read is the source, whatever other tests have left behind."""

from __future__ import annotations

import traceback

from source_tree import list_package_files, read_tree


class Garbage:
    """What formats an error of deeper code when it is collected, as an abandoned task does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        fail(20)


def fail(depth: int) -> str:
    """Return a formatted error from *depth* calls inside."""
    if depth:
        return fail(depth - 1)
    try:
        return str(1 / depth)
    except ZeroDivisionError:
        return traceback.format_exc()


def test_a_tree_is_read_while_garbage_waits() -> None:
    """Garbage that formats an error is collected before or after a file is parsed, not meanwhile."""
    assert "1 / depth" in fail(0)
    for path in list_package_files()[:20]:
        for _ in range(30):
            Garbage()
        assert read_tree.__wrapped__(path).body
