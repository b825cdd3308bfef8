"""A clock that the test moves."""

from __future__ import annotations

from datetime import UTC, datetime

from praval_tools.clock import SystemClock


class HandClock(SystemClock):
    """A clock that stands still until it is moved by hand."""

    moment = datetime(2030, 1, 1, tzinfo=UTC)
    seconds = 0.0

    def now(self) -> datetime:
        """Return the moment to which it was moved."""
        return self.moment

    def monotonic(self) -> float:  # type: ignore[override]
        """Return the seconds to which it was moved."""
        return self.seconds
