# Tests of: time_formats
"""The formats for times in schemas of pydantic models, and in schemas that are supplied."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import Allow, ApprovalRequest, Outcome, Tool, ToolCall, ToolRegistry, ToolResult


class Event(pydantic.BaseModel):
    begin: datetime | None = None
    day: date | None = None
    clock: time | None = None
    length: timedelta | None = None


class Flight(pydantic.BaseModel):
    begin: pydantic.NaiveDatetime


OFFSETS = st.sampled_from([None, UTC, timezone(timedelta(hours=-5, minutes=-30)), timezone(timedelta(hours=14))])
EVENTS = st.builds(
    Event,
    begin=st.datetimes(timezones=OFFSETS),
    day=st.dates(),
    clock=st.builds(lambda value, zone: value.replace(tzinfo=zone), st.times(), OFFSETS),
    length=st.timedeltas(timedelta(days=-10_000_000), timedelta(days=10_000_000)),
)


def repeat(given: object) -> object:
    """Give it back."""
    return given


def send(function: Any, given: object) -> ToolResult:
    """Give a tool made of *function* a value as JSON."""
    with ToolRegistry() as registry:
        registry.tool("plan", owned_by="ann")(function)
        return registry.agent("ann").execute(ToolCall(name="plan", arguments={"given": given}))


class TestModels:
    """What a pydantic model writes of a time is taken."""

    @given(event=EVENTS)
    def test_each_time_is_taken_as_it_is_written(self, event: Event) -> None:
        """With and without an offset, of any sign and fraction."""

        def plan(given: Event) -> Event:
            """Plan it."""
            return given

        assert event == send(plan, event.model_dump(mode="json")).result

    @given(event=EVENTS)
    def test_who_judges_sees_each_time_as_it_is_written(self, event: Event) -> None:
        """A bound on another field, a policy and an approver get it, and the tool gets what they saw."""
        shown = list[Any]()
        given = event.model_dump(mode="json")

        def allow(request: ApprovalRequest) -> Allow:
            shown.append(request.arguments["given"])
            return Allow()

        with ToolRegistry() as registry:

            @registry.tool("plan", owned_by="ann", requires_approval=True)
            def plan(given: Event) -> Event:
                """Plan it."""
                return given

            registry.grant("plan", "bob", where={"given": {"properties": {"day": {"const": given["day"]}}}})
            registry.set_approval_handler(allow)
            result = registry.agent("bob").execute(ToolCall(name="plan", arguments={"given": given}))

        assert event == result.result == Event.model_validate(shown[0])

    def test_a_field_may_want_a_time_without_an_offset(self) -> None:
        """One with an offset is refused by pydantic then."""

        def plan(given: Flight) -> str:
            """Plan it."""
            return given.begin.isoformat()

        assert "2026-03-02T10:00:00" == send(plan, {"begin": "2026-03-02T10:00:00"}).result
        assert Outcome.INVALID_ARGUMENTS is send(plan, {"begin": "2026-03-02T10:00:00Z"}).outcome

    def test_a_bound_may_name_such_a_time(self) -> None:
        """It is one that the tool takes."""
        with ToolRegistry() as registry:

            @registry.tool("plan", owned_by="ann")
            def plan(given: Event) -> str:
                """Plan it."""
                return str(given.length)

            registry.grant("plan", "bob", where={"given": {"properties": {"length": {"const": "-PT1.5S"}}}})
            registry.agent("bob")
            sent = [
                registry.execute(ToolCall(name="plan", agent="bob", arguments={"given": {"length": text}}))
                for text in ("-PT1.5S", "PT1.5S")
            ]

        assert [Outcome.OK, Outcome.FORBIDDEN] == [result.outcome for result in sent]
        assert str(timedelta(seconds=-1.5)) == sent[0].result


class TestSuppliedSchemas:
    """The formats of a schema that somebody supplied."""

    @pytest.mark.parametrize(
        ("name", "text", "is_taken"),
        [
            ("date-time", "2026-03-02T10:00:00Z", True),
            ("date-time", "2026-03-02T10:00:00.25", True),
            ("date-time", "2026-03-02", False),
            ("date-time", "2026-02-30T10:00:00", False),
            ("time", "10:00:00+01:00", True),
            ("time", "10:00:00", True),
            ("time", "25:00:00", False),
            ("duration", "P1Y35DT0.5S", True),
            ("duration", "-P2W", True),
            ("duration", "P", False),
            ("duration", "P1DT", False),
            ("duration", "90", False),
        ],
    )
    @pytest.mark.parametrize(
        "draft", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
    )
    def test_are_checked(self, name: str, text: str, is_taken: bool, draft: str) -> None:
        """As widely as ISO 8601 has them; a draft that knows no durations leaves them unchecked."""
        schema = {"type": "object", "properties": {"given": {"type": "string", "format": name}}}
        tool = Tool("plan", "Plan.", {"$schema": draft, **schema}, repeat)
        with ToolRegistry() as registry:
            registry.register(tool)
            registry.grant("plan", "ann")
            result = registry.execute(ToolCall(name="plan", agent="ann", arguments={"given": text}))

        assert (is_taken or (name == "duration" and "07" in draft)) is (result.outcome is Outcome.OK)

    def test_bounds_keep_the_standard(self) -> None:
        """A bound that names a format takes no time without an offset."""
        schema = {"type": "object", "properties": {"given": {"type": "string"}}}
        with ToolRegistry() as registry:
            registry.register(Tool("plan", "Plan.", schema, repeat))
            registry.grant("plan", "ann", where={"given": {"format": "date-time"}})
            outcomes = [
                registry.execute(ToolCall(name="plan", agent="ann", arguments={"given": text})).outcome
                for text in ("2026-03-02T10:00:00Z", "2026-03-02T10:00:00")
            ]

        assert [Outcome.OK, Outcome.FORBIDDEN] == outcomes
