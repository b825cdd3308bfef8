"""Makes the keys under which what was made for a type hint is found again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from praval_tools.schema.constraints import read_constraints
from praval_tools.schema.type_hints import Hint, get_origin, has_secret_mark


def make_hint_key(hint: Hint) -> Any:
    """
    Return a hashable key for *hint* that tells apart what must not share a hook.

    `int | str == str | int` for Python, and `1 == True`: neither is the same hint here. Of metadata, what is read of it
    counts, and not how it writes itself.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        metadata = hint.__metadata__
        return (
            Annotated, make_hint_key(hint.__origin__), repr(read_constraints(metadata)), has_secret_mark(metadata)
        )  # fmt: skip
    if origin is Literal:
        return (Literal, *((type(value), value) for value in hint.__args__))
    if origin is None:
        return hint
    return (origin, *map(make_hint_key, getattr(hint, "__args__", ())))
