"""Times and time spans, as people write them; without a time zone a time is in UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_SPAN_PATTERN: Final = re.compile(
    r"(?:([0-9]{1,9})w)?(?:([0-9]{1,9})d)?(?:([0-9]{1,9})h)?(?:([0-9]{1,9})m)?(?:([0-9]{1,9})s)?"
)
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds")


def parse_span(text: str) -> timedelta | None:
    """
    Parse a time span: `90s`, `15m`, `2h`, `7d`, `2w`, `1h30m`.

    Returns:
        The span, or None for any other text.

    Raises:
        OverflowError: It is longer than a `timedelta` can be.
    """
    match = _SPAN_PATTERN.fullmatch(text.strip())
    if match is None or not any(match.groups()):
        return None
    return timedelta(**{unit: int(number) for unit, number in zip(_UNITS, match.groups(), strict=True) if number})


def parse_time(text: str) -> datetime | None:
    """
    Parse a time in ISO 8601; without a time zone it is in UTC.

    Returns:
        The time in UTC, or None for any other text.
    """
    try:
        time = datetime.fromisoformat(text.strip())
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
