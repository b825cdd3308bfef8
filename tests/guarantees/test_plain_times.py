"""Times that an agent's code makes run no code as the host, where the host reads them or passes them on."""

# Tests of: values/plain_times, access/grants, journal/tokens

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

import pytest
from watchers import actors, make_watcher

from praval_tools import ToolCall, ToolError, ToolRegistry
from praval_tools.journal.tokens import open_tokens
from praval_tools.tools.frames import get_current_actor
from praval_tools.values.plain_times import to_plain_time

READERS = (
    "__repr__", "__str__", "__format__", "__hash__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__add__",
    "__radd__", "__sub__", "__rsub__", "__reduce__", "utcoffset", "astimezone", "isoformat", "total_seconds",
)  # fmt: skip
Span, Moment = make_watcher(timedelta, READERS), make_watcher(datetime, READERS)
Text = make_watcher(str)


class Zone(make_watcher(tzinfo, READERS)):  # type: ignore[misc]
    """A zone that is an hour ahead."""

    def utcoffset(self, moment: datetime | None) -> timedelta:
        """Note who asks."""
        actors.append(get_current_actor())
        return Span(hours=1)  # type: ignore[no-any-return]


MAKES: dict[str, Callable[[], Any]] = {
    "moment": lambda: Moment(2999, 1, 1, tzinfo=UTC),
    "span": lambda: Span(days=1),
    "zone": lambda: datetime(2999, 1, 1, tzinfo=Zone()),
    "parts of a zone": lambda: datetime(2999, 1, 1, tzinfo=timezone(Span(hours=1), Text("z"))),
}


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("who", ["agent", "host"])
def test_ends_of_grants(make: str, who: str) -> None:
    """Broken promise: the offset and the name of a zone were kept, and shown as the operator."""
    registry = ToolRegistry()
    expires = MAKES[make]()

    @registry.tool("own", owned_by="mal")
    def own() -> None:
        """Lend it."""
        registry.grant("own", "bob", expires=expires)

    actors.clear()
    if who == "agent":
        assert registry.execute(ToolCall("1", "own", {}, "mal")).success
    else:
        registry.grant("own", "bob", expires=expires)
    (grant,) = registry.grants()
    assert repr(grant)
    assert registry.explain("bob", "own").allowed
    assert "operator" not in actors


USES: dict[str, Callable[[Any, Any, Any], object]] = {
    "read since": lambda journal, tokens, time: list(journal.read(since=time)),
    "read until": lambda journal, tokens, time: list(journal.read(until=time)),
    "records": lambda journal, tokens, time: list(journal.read_records(since=time)),
    "events": lambda journal, tokens, time: list(journal.events(until=time)),
    "prune": lambda journal, tokens, time: journal.prune(time),
    "token": lambda journal, tokens, time: (tokens.add("ann", expires=time), repr(tokens.list())),
}


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("use", USES)
def test_times_that_are_passed_on(make: str, use: str, tmp_path: Path) -> None:
    """Broken promise: times compared and added themselves as the operator."""
    with ToolRegistry(journal=str(tmp_path / "runs.db")) as registry:
        tokens = open_tokens(registry.journal)
        registry.tool("note", shared=True, description="Note.")(lambda: 1)
        registry.execute(ToolCall("1", "note", {}, "ann"))
        time = MAKES[make]()
        actors.clear()
        with suppress(ToolError, TypeError, ValueError, AttributeError):
            USES[use](registry.journal, tokens, time)
    assert "operator" not in actors


@pytest.mark.parametrize(
    "time", [datetime(2999, 1, 1), datetime(2999, 1, 1, tzinfo=UTC), timedelta(1), "2999-01-01", 5, None]
)
def test_plain_times_stay(time: object) -> None:
    """They are the same objects, as all other values are."""
    assert time is to_plain_time(time)


@pytest.mark.parametrize("make", MAKES)
def test_plain_times_are_equal(make: str) -> None:
    """They mean the same, and hold plain parts."""
    given = MAKES[make]()
    plain = to_plain_time(given)
    assert given == plain
    assert type(plain) in (datetime, timedelta)
    if isinstance(plain, datetime) and plain.tzinfo is not UTC:
        assert type(plain.tzinfo) is timezone
        assert type(plain.utcoffset()) is timedelta
