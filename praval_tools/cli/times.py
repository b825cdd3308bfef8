"""Moments and spans of time, as people type and read them; always in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    Param = click.ParamType[Any]
else:
    Param = click.ParamType  # is generic from Click 8.2 on

_SPAN_PATTERN = re.compile(
    r"(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?"
)
_UNITS = ("weeks", "days", "hours", "minutes", "seconds")


def parse_span(text: str) -> timedelta | None:
    """
    Return the time span that *text* means: `90s`, `15m`, `2h`, `7d`, `2w`, `1h30m`; None: it means none.

    Raises:
        OverflowError: It is longer than any calendar.
    """
    found = _SPAN_PATTERN.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        return None
    return timedelta(**{unit: int(number) for unit, number in zip(_UNITS, found.groups(), strict=True) if number})


def parse_moment(text: str) -> datetime | None:
    """Return the moment that *text*, in ISO 8601, means; without a zone it is one of UTC. None: it means none."""
    try:
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


class SpanParam(Param):
    """A time span."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        return value if isinstance(value, timedelta) else _convert_span(value, self, param, ctx)


class FutureTimeParam(Param):
    """A time span from now on, or a moment."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta | datetime:
        if isinstance(value, timedelta | datetime):
            return value
        return parse_moment(value) or _convert_span(value, self, param, ctx)


class PastTimeParam(Param):
    """A moment, or a time span before now."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if (found := parse_moment(value)) is not None:
            return found
        try:
            return datetime.now(UTC) - _convert_span(value, self, param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is too long ago.", param, ctx)


def _convert_span(value: str, kind: Param, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
    try:
        found = parse_span(value)
    except OverflowError:
        kind.fail(f"{value!r} is too long.", param, ctx)
    if found is None:
        other = ", or 2026-12-31T18:00 (UTC)" if kind.name == "when" else ""
        kind.fail(f"{value!r} is no time; write 90s, 15m, 2h, 7d{other}.", param, ctx)
    return found


def format_time(when: datetime) -> str:
    """Return *when* to the second."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def format_duration(milliseconds: float | None) -> str:
    """Return a duration in the unit that suits it."""
    if milliseconds is None:
        return ""
    if milliseconds < 1_000:
        return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3_600 else f"{seconds / 3_600:.1f} h"
