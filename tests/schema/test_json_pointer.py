"""JSON pointers are followed inside of one document, and nowhere else."""

import pytest

from praval_tools.schema.json_pointer import format_json_path, resolve_pointer, split_json_path

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


@pytest.mark.parametrize(
    "steps", [[], ["rows", 3, "amount"], ["it's", 'a "b"', "\\n\n]", ""], ["a.b", "[0]", "ä", 0, 12]]
)
def test_the_steps_of_a_json_path_are_read_back(steps):
    """A path is split into the steps that it was written of, each with its text."""
    path = format_json_path(steps)
    parts = split_json_path(path)

    assert steps == [step for _, step in parts]
    assert path == "$" + "".join(text for text, _ in parts)


@pytest.mark.parametrize("path", ["$.a…", "$.a['b", "$['" + "k" * 20 + "…\\'", "$.a.[secret 0]"])
def test_what_is_left_of_a_shortened_path_is_a_step(path):
    """Nothing of a path that was cut is lost."""
    assert path == "$" + "".join(text for text, _ in split_json_path(path))
