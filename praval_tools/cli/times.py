"""Parses and formats times and time spans as people type and read them; always in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from praval_tools.config.times import parse_span, parse_time
from praval_tools.report.text import format_duration as format_duration
from praval_tools.report.text import format_iso_time as format_iso_time
from praval_tools.report.text import format_time as format_time

if TYPE_CHECKING:
    Param = click.ParamType[Any]
else:
    Param = click.ParamType  # is generic from Click 8.2 on

_ISO_ALTERNATIVE = ", or 2026-12-31T18:00 (UTC)"


class _TimeParam(Param):
    """What the types of options for times have in common: they understand time spans."""

    alternatives = ""

    def convert_span(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        try:
            span = parse_span(text)
        except OverflowError:
            self.fail(f"{text!r} is too long.", param, ctx)
        if span is None:
            self.fail(f"{text!r} is not a valid time; write 90s, 15m, 2h, 7d{self.alternatives}.", param, ctx)
        return span


class SpanParam(_TimeParam):
    """A time span."""

    name = "span"

    def convert(self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        return value if isinstance(value, timedelta) else self.convert_span(value, param, ctx)


class FutureTimeParam(_TimeParam):
    """A time, or a time span from now on."""

    name, alternatives = "when", _ISO_ALTERNATIVE

    def convert(
        self, value: str | timedelta | datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | datetime:
        if isinstance(value, timedelta | datetime):
            return value
        return parse_time(value) or self.convert_span(value, param, ctx)


class PastTimeParam(_TimeParam):
    """A time, or a time span before now."""

    name, alternatives = "when", _ISO_ALTERNATIVE

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(value) or datetime.now(UTC) - self.convert_span(value, param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is too long ago.", param, ctx)
