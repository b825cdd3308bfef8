"""JSON pointers are followed inside of one document, and nowhere else."""

import pytest

from praval_tools.schema.json_pointer import resolve_pointer

DOCUMENT = {"$defs": {"A": {"type": "string"}, "a/b": {"x": 1}, "m~n": 2, "null": None}, "allOf": [{"y": 3}]}


@pytest.mark.parametrize(
    ("pointer", "expected"),
    [
        ("#", DOCUMENT),
        ("#/$defs/A", {"type": "string"}),
        ("#/$defs/a~1b/x", 1),
        ("#/$defs/m~0n", 2),
        ("#/allOf/0/y", 3),
    ],
)
def test_a_pointer_is_resolved_with_its_escapes_and_list_indexes(pointer, expected):
    """A pointer leads to the value of each key or index that it names."""
    assert resolve_pointer(DOCUMENT, pointer) == expected


@pytest.mark.parametrize(
    "pointer",
    ["#/$defs/B", "#/allOf/1", "#/allOf/-1", "#/allOf/x", "#/$defs/A/type/0", "other.json#/A", "", None, 7, ["#"]],
)
def test_an_unresolved_pointer_gives_the_default(pointer):
    """Nothing is fetched, nothing raises."""
    sentinel = object()

    assert resolve_pointer(DOCUMENT, pointer) is None
    assert resolve_pointer(DOCUMENT, pointer, sentinel) is sentinel


def test_null_is_a_value():
    """A resolved null differs from an unresolved pointer."""
    assert resolve_pointer(DOCUMENT, "#/$defs/null", "unresolved") is None
