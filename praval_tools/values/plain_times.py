"""Makes plain moments and time spans, whose classes, and those of their time zones, may have code of their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeVar, cast

from praval_tools.names import enter_object_context

T = TypeVar("T")


def to_plain_time(value: T) -> T:
    """Return a moment or time span as a plain one, its time zone as its offset at that moment; all else as it is."""
    kind = type(value)
    if issubclass(kind, timedelta):
        return value if kind is timedelta else cast(T, timedelta.__add__(timedelta(), cast(timedelta, value)))
    if not issubclass(kind, datetime):
        return value
    moment = cast(datetime, value)
    if kind is datetime and (moment.tzinfo is None or moment.tzinfo is UTC):
        return value
    with enter_object_context():  # the time zone may be of any class, and so may its parts
        text = datetime.isoformat(moment)
    return cast(T, datetime.fromisoformat(text))
