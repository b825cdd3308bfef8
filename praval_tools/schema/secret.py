"""The mark of a parameter whose value no journal may show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class Secret:
    """
    Marks a parameter as secret: `Annotated[str, Secret]`.

    The tool gets the value as it is; the journal gets a marker that tells equal values from different ones.
    Also inside classes, lists, dicts and unions. The schema says `writeOnly`.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret()"


def has_secret_mark(metadata: Iterable[Any]) -> bool:
    """Tell whether the metadata of an `Annotated` holds the mark, as the class or as an instance of it."""
    return any(one is Secret or type(one) is Secret for one in metadata)
