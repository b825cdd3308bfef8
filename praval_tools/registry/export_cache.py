"""An agent's tools as a provider gets them: written piece by piece, and kept as long as they say what is so."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from praval_tools.access.queries import candidates, permitting
from praval_tools.access.records import Principal
from praval_tools.access.state import State
from praval_tools.errors import UnknownFormatError
from praval_tools.formats import FORMATS, Format, Offer, format_of, offered
from praval_tools.formats.response_fields import writable_value
from praval_tools.formats.strict import Cost
from praval_tools.schema.encode import json_text
from praval_tools.tools.tool import Tool

_MOST: Final = 64
"""How many lists are kept of one agent: each combination of format, mode and tags is one."""

Key = tuple[str | Format, bool, frozenset[str] | None, frozenset[str] | None, bool]
_Piece = tuple[bytes, Cost | None]


def labels(tags: Iterable[str] | None) -> frozenset[str] | None:
    """Return tags as they are looked for; None stays."""
    return None if tags is None else frozenset((tags,) if isinstance(tags, str) else tags)


def fits(tool: Tool[..., Any], tags: frozenset[str] | None, without: frozenset[str] | None) -> bool:
    """Tell whether a tool has one of *tags*, where they are given, and none of those that it is to be *without*."""
    mine = tool.metadata.tags
    return (tags is None or not tags.isdisjoint(mine)) and (not without or without.isdisjoint(mine))


class Shown(msgspec.Struct):
    """
    One list as it was written last.

    Args:
        state: When that was.
        lasting: Only another state can alter it.
        tools: What is in it, each with the bounds that were merged into its schema.
        text: The list as JSON.
    """

    state: State
    lasting: bool
    tools: list[tuple[Tool[..., Any], tuple[Any, ...]]]
    text: bytes


class Pieces:
    """Tools as JSON, each written once for a format and mode; shared by all agents of a registry."""

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Tool[..., Any], dict[Any, _Piece]] = WeakKeyDictionary()

    def of(
        self, form: Format, tool: Tool[..., Any], bounds: tuple[Any, ...], *, strictly: bool, reason: bool
    ) -> _Piece:
        """Return a tool as JSON, and what it costs of the strict tools of a request."""
        if bounds:
            return _written(form, tool, bounds, strictly=strictly, reason=reason)
        kept = self._kept.get(tool)
        if kept is None:
            kept = self._kept[tool] = {}
        key = (form, strictly, reason)
        piece = kept.get(key)
        if piece is None:
            piece = kept[key] = _written(form, tool, (), strictly=strictly, reason=reason)
        return piece


def _written(
    form: Format, tool: Tool[..., Any], bounds: tuple[Any, ...], *, strictly: bool, reason: bool
) -> _Piece:
    compiled = tool.definition_.compiled
    parameters = compiled.parameters_schema
    for one in bounds:
        parameters = one.merged(parameters)
    offer = Offer(
        name=tool.name, description=tool.description, parameters=parameters, metadata=tool.metadata,
        result=compiled.result_schema,
    )  # fmt: skip
    made, cost = offered(form, offer, strictly=strictly, reason=reason)
    try:
        return json_text(made), cost
    except UnicodeEncodeError:  # half of a surrogate pair somewhere in a schema
        return json_text(writable_value(made)), cost


class Offers:
    """
    The tools of one agent as providers get them, kept.

    A change of the registry that leaves the agent's tools as they are leaves the texts as they are.

    Args:
        pieces: Those of the registry.
        who: The agent.
        ledger: Tells what is so.
        now: Tells the time.
        more: Gives the formats that plugins bring.
    """

    def __init__(
        self, pieces: Pieces, who: Principal, ledger: Any, now: Callable[[], datetime],
        more: Callable[[], Mapping[str, Format]],
    ) -> None:  # fmt: skip
        self._pieces, self._who, self._ledger, self._now, self._more = pieces, who, ledger, now, more
        self._kept: dict[Key, Shown] = {}

    def text(
        self, api_format: str | Format, strict: bool, tags: Iterable[str] | None, without: Iterable[str] | None,
        reason: bool,
    ) -> bytes:  # fmt: skip
        """Return the tools as JSON, sorted by name; the same bytes until one of them changes."""
        if (more := self._more()) and isinstance(api_format, str):
            api_format = format_of(api_format, {**FORMATS, **more})
        key = (
            api_format, strict, labels(tags), labels(without), reason,
        )  # fmt: skip
        try:
            shown = self._kept.get(key)
        except TypeError:
            raise UnknownFormatError(str(api_format), FORMATS) from None
        state = self._ledger.present()
        if shown is not None and shown.state is state and shown.lasting:
            return shown.text
        return self._looked_at(key, shown, state)

    def _looked_at(self, key: Key, known: Shown | None, state: State) -> bytes:
        form = format_of(key[0])
        tools, lasting = _present(state, self._who, self._now(), key[2], key[3])
        if known is not None and _same(known.tools, tools):
            self._kept[key] = Shown(state, lasting, known.tools, known.text)
            return known.text
        text = self._joined(form, tools, strictly=key[1], reason=key[4])
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = Shown(state, lasting, tools, text)
        return text

    def _joined(self, form: Format, tools: list[Any], *, strictly: bool, reason: bool) -> bytes:
        made, left = [], form.budget
        for tool, bounds in tools:
            piece, cost = self._pieces.of(form, tool, bounds, strictly=strictly, reason=reason)
            if cost is not None and left is not None:
                after = Cost(left.tools - cost.tools, left.optional - cost.optional, left.unions - cost.unions)
                if min(after.tools, after.optional, after.unions) < 0:
                    piece, _ = self._pieces.of(form, tool, bounds, strictly=False, reason=reason)
                else:
                    left = after
            made.append(piece)
        return b"[" + b",".join(made) + b"]"


def _same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(
        tool is known and len(bounds) == len(held) and all(map(_is, bounds, held))
        for (tool, bounds), (known, held) in zip(one, other, strict=True)
    )


def _is(one: Any, other: Any) -> bool:
    return one is other


def _present(
    state: State, who: Principal, now: datetime, tags: frozenset[str] | None, without: frozenset[str] | None
) -> tuple[list[tuple[Tool[..., Any], tuple[Any, ...]]], bool]:
    """Return the tools by name, with the bounds on all their calls, and whether only another state alters them."""
    found = []
    lasting = not any(_is_unfinished(state.tools[name].tool) for name in candidates(state, who))
    for verdict in permitting(state, who, now):
        tool = verdict.record.tool  # type: ignore[union-attr]
        if not fits(tool, tags, without):
            continue
        lasting = lasting and all(path.lasting for path in verdict.paths)
        if tool.definition_.usable:
            found.append((tool, tuple(verdict.paths[0].bounds) if len(verdict.paths) == 1 else ()))
    return sorted(found, key=lambda one: one[0].name), lasting


def _is_unfinished(tool: Tool[..., Any]) -> bool:
    """Tell whether a hint of the tool leads nowhere yet; one day it may, and no state tells that day."""
    return tool.definition_.signature.unresolved and not tool.definition_.usable
