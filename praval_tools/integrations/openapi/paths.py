"""Tells what else a server may read a path as: another operation of its document, or other parameters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from attrs import define, field, frozen

from praval_tools.integrations.openapi.errors import OpenApiRequestError

TEMPLATE: Final = re.compile(r"\{([^{}]*)\}")
_AFTER_PATH: Final = re.compile("[?#]")
_ANY: Final = "\0"
"""Stands for the value of a parameter; no path that is sent holds it."""


@frozen
class PathTemplate:
    """
    A path with parameters in it.

    Args:
        segments: Of each of its parts between slashes, the texts around its parameters, without case.
    """

    segments: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, path: str, prefixes: Mapping[str, str] | None = None) -> PathTemplate:
        """Return the template of a path with `{names}`; *prefixes* has what is written before values, by name."""
        segments = []
        for segment in path.split("/"):
            parts = [*TEMPLATE.split(segment), ""]  # a text, a name, a text, …
            texts = [text + (prefixes or {}).get(name, "") for text, name in zip(parts[::2], parts[1::2], strict=True)]
            segments.append(tuple(unquote(text).casefold() for text in texts))
        return cls(tuple(segments))

    def matches(self, segments: Sequence[str]) -> bool:
        """Tell whether a server may read a path as this one."""
        pairs = zip(self.segments, segments, strict=False)
        return len(self.segments) == len(segments) and all(_find_first(*pair) is not None for pair in pairs)

    def covers(self, other: PathTemplate) -> bool:
        """Tell whether every path that matches *other* matches this one, too, whatever its parameters are."""
        return self.matches([_ANY.join(texts) for texts in other.segments])

    def is_unclear(self, segments: Sequence[str]) -> bool:
        """Tell whether the parameters of a path that matches this one may be read in several ways."""
        pairs = zip(self.segments, segments, strict=True)
        return any(_find_first(texts, text) != _find_last(texts, text) for texts, text in pairs)


def _find_first(texts: Sequence[str], text: str) -> list[int] | None:
    """Return where the inner ones of *texts* are in *text*, as far to the left as they can be; None if they are not."""
    if len(texts) == 1:
        return [] if text == texts[0] else None
    if not text.startswith(texts[0]) or not text.endswith(texts[-1]):
        return None
    places, at, end = list[int](), len(texts[0]), len(text) - len(texts[-1])
    for part in texts[1:-1]:
        if (found := text.find(part, at + 1, end)) < 0:  # a parameter is never empty
            return None
        places.append(found)
        at = found + len(part)
    return places if at < end else None


def _find_last(texts: Sequence[str], text: str) -> list[int] | None:
    """Return the same, as far to the right as they can be."""
    mirrored = _find_first([part[::-1] for part in reversed(texts)], text[::-1])
    if mirrored is None:
        return None
    inner = reversed(texts[1:-1])
    return [len(text) - place - len(part) for place, part in zip(mirrored, inner, strict=True)][::-1]


@define(eq=False)
class DocumentPaths:
    """The paths of all operations of a document, those among them that are no tools."""

    _templates: dict[tuple[str, int], list[PathTemplate]] = field(factory=dict)

    def add(self, method: str, path: str) -> None:
        """Add the path of an operation."""
        template = PathTemplate.parse(_AFTER_PATH.split(path)[0])
        self._templates.setdefault((method, len(template.segments)), []).append(template)

    def check(self, method: str, template: PathTemplate, path: str) -> None:
        """
        Accept the *path* of a request that was made of *template*, if a server reads it as that.

        Raises:
            OpenApiRequestError: It may read another operation of the document, or other parameters.
        """
        own = [unquote(segment).casefold() for segment in path.split("/")]
        if template.is_unclear(own):
            text = "The path parameters could be read as other values: a text that stands between them is also in one"
            raise OpenApiRequestError(f"{text} of them.")
        for segments in _iter_readings(path, own):
            for other in self._templates.get((method, len(segments)), ()):
                if other.matches(segments) and not other.covers(template):
                    raise OpenApiRequestError("A path parameter makes the path that of another operation.")


def _iter_readings(path: str, segments: Sequence[str]) -> Iterator[list[str]]:
    """Yield the parts of a path as servers may read them: some decode it first, or drop what is after a semicolon."""
    yield [segment.strip() for segment in segments]
    text = unquote(path).replace("\\", "/").casefold()
    if "%" in path or ";" in path:
        yield [segment.strip() for segment in text.split("/")]
        yield [segment.partition(";")[0].strip() for segment in text.split("/")]
