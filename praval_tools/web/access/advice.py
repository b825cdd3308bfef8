"""The view of advice: which permissions the calls of some days did not need, and the commands that narrow them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from attrs import field, frozen
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.journal.storage.protocol import Record
from praval_tools.names import format_count
from praval_tools.report.advice import Advice, collect_advice
from praval_tools.report.markup import Markup, build_code, build_element, build_row, escape_text, join_markup
from praval_tools.report.remedies import write_command
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.activity import parts
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host

_DAYS: Final = (1, 7, 30, 90)
_MAX_EVENTS: Final = 200_000
"""How many events are read for a page; the command reads all."""
_MAX_SHOWN: Final = 200
_MAX_COMMANDS: Final = 4_000
_TITLES: Final = ("advice", "calls", "first (UTC)", "last (UTC)", "commands")


@frozen
class AdviceView:
    """The view of advice."""

    access: AccessReader
    host: Host
    turn: asyncio.Lock = field(factory=asyncio.Lock)
    """Advice is made once at a time: it takes seconds, and other pages have to go on."""

    async def show_advice(self, request: Request) -> Response:
        """Show a choice of days; for those that were chosen, the advice."""
        days = parse_number(request, "days")
        async with self.turn:
            content = await run_in_threadpool(self._build, days if days in _DAYS else None)
        return self.host.render_page(request, "Advice", content)

    def _build(self, days: int | None) -> Markup:
        parts_of_page: list[object] = [_build_choice(days)]
        if self.access.registry is None:
            parts_of_page = [build_missing_program_note()]
        elif days is not None:
            parts_of_page += self._build_advice(days)
        return parts.build_section(
            "Advice",
            "Permissions that nobody used, terms that would have sufficed, tools that nobody calls, refusals that "
            "repeat. Nothing is changed by itself.",
            *parts_of_page,
        )

    def _build_advice(self, days: int) -> list[object]:
        registry = self.access.get_registry()
        journal = registry.journal
        if journal is None:
            return [parts.build_note("The registry has no journal.")]
        records = journal.store.read(since=self.access.now() - timedelta(days=days))
        try:
            found = collect_advice(registry, _bound(records))
        except _TooManyEventsError:
            text = f"These days hold more than {_MAX_EVENTS:,} events: choose fewer, or use praval-tools advise."
            return [parts.build_message(text)]
        if not found:
            return [parts.build_note("Nothing to advise: all that is permitted was used.")]
        note = f"{format_count(len(found), 'advice', 'advices')}; the first {_MAX_SHOWN} are shown."
        return [
            parts.build_note(note) if len(found) > _MAX_SHOWN else None,
            parts.build_table(_TITLES, [_build_row(one) for one in found[:_MAX_SHOWN]], caption="What is advised"),
        ]  # fmt: skip


class _TooManyEventsError(Exception):
    """There are more events than a page reads."""


def _bound(records: Iterable[Record]) -> Iterator[Record]:
    for count, record in enumerate(records):
        if count == _MAX_EVENTS:
            raise _TooManyEventsError
        yield record


def _build_row(advice: Advice) -> Markup:
    commands = [build_element("p", _build_command(command)) for command in advice.commands]
    if sum(map(len, advice.commands)) > _MAX_COMMANDS:  # one that is cut would be another one
        about = (("agent", advice.agent), ("tool", advice.tool))
        again = write_command("advise", [], [f"--{name}={value}" for name, value in about if value])
        commands = [build_element("p", "These commands are long, and said by: ", _build_command(again))]
    return build_row(
        build_element("th", parts.shorten(advice.text, 400), scope="row"),
        build_element("td", f"{advice.calls:,}" if advice.calls else "–", class_="number"),
        parts.build_time(advice.first),
        parts.build_time(advice.last),
        build_element("td", join_markup(*commands), class_="commands"),
    )


def _build_command(command: str) -> Markup:
    """Return a command of which no line ends inside of a word."""
    words = escape_text(command).split(" ")
    spans = (Markup(f'<span class="word">{word}</span>') for word in words)
    return build_code(Markup(" ".join(spans)))


def _build_choice(days: int | None) -> Markup:
    choices = (
        (format_count(number, "day"), parts.build_url("/advice", days=number), number == days) for number in _DAYS
    )  # fmt: skip
    return parts.build_choices("From the calls of the last", choices)
