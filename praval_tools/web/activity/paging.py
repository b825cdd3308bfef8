"""`Paging`: the links from one part of a long list to the next."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from praval_tools.report.markup import Markup, build_element
from praval_tools.web.activity import parts


@frozen(kw_only=True)
class Paging:
    """
    A part of a list.

    Args:
        start: Where it begins.
        size: How long it may be.
        total: How long the list is.
        word: What is in it, in the singular.
        parameter: What the address calls its start.
    """

    start: int
    size: int
    total: int
    word: str
    parameter: str = "start"

    @property
    def slice(self) -> slice:
        """The part."""
        return slice(self.start, self.start + self.size)

    def build_links(self, path: str, parameters: dict[str, str]) -> Markup | None:
        """Return which part this is, with links to the others; nothing where it is all."""
        if self.total <= self.size and not self.start:
            return None
        return build_element("p", *self._iter_links(path, parameters), class_="fine paging")

    def _iter_links(self, path: str, parameters: dict[str, str]) -> Iterator[object]:
        last = min(self.start + self.size, self.total)
        shown = f"{self.word.capitalize()}s {self.start + 1:,} to {last:,} of {self.total:,}. "
        yield shown if self.start < self.total else f"There are only {parts.count_words(self.total, self.word)}. "
        if self.start:
            start = max(0, min(self.start - self.size, self.total - 1) // self.size * self.size)
            yield parts.build_link(f"Earlier {self.word}s", path, **{**parameters, self.parameter: start or None})
            yield " "
        if last < self.total:
            yield parts.build_link(f"Later {self.word}s", path, **{**parameters, self.parameter: last})
