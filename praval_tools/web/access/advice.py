"""The view of advice: which permissions the calls of some days did not need, and the commands that narrow them."""

from __future__ import annotations

from functools import partial
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from praval_tools.names import format_count
from praval_tools.report.advice import Advice
from praval_tools.report.command_line import CommandLine
from praval_tools.report.markup import Markup, build_code, build_element, build_row, escape_text, join_markup
from praval_tools.report.text import format_time
from praval_tools.web.access.access import AccessReader, build_missing_program_note
from praval_tools.web.access.advice_making import AdviceMaker, AdviceProgress, SpanAdvice
from praval_tools.web.activity import parts
from praval_tools.web.activity.calls import parse_number
from praval_tools.web.activity.host import Host

_DAYS: Final = (1, 7, 30, 90)
_REFRESH_SECONDS: Final = 1
_MAX_COMMANDS: Final = 4_000
_TITLES: Final = ("advice", "calls", "first (UTC)", "last (UTC)", "commands")


class AdviceView:
    """
    The view of advice.

    Args:
        access: The registry and its journal.
        host: The server.
    """

    def __init__(self, access: AccessReader, host: Host) -> None:
        self._access, self._host = access, host
        self._maker = AdviceMaker(access, partial(_build_row, access.command_line))

    async def show_advice(self, request: Request) -> Response:
        """Show a choice of days; for those that were chosen, the advice, or how far it is."""
        number = parse_number(request, "days")
        days = number if number in _DAYS else None
        found = await run_in_threadpool(self._find_advice, days)
        content = parts.build_section(
            "Advice",
            "Permissions that nobody used, terms that would have sufficed, tools that nobody calls, refusals that "
            "repeat. Nothing is changed by itself.",
            None if self._access.registry is None else _build_choice(days),
            _build_progress(found, days) if isinstance(found, AdviceProgress) else found,
        )
        answer = self._host.render_page(request, "Advice", content)
        if isinstance(found, AdviceProgress):
            answer.headers["refresh"] = str(_REFRESH_SECONDS)  # the browser asks again, also without scripts
        return answer

    def _find_advice(self, days: int | None) -> AdviceProgress | Markup | None:
        registry = self._access.registry
        if registry is None:
            return build_missing_program_note(self._access)
        if days is None:
            return None
        if registry.journal is None:
            return parts.build_note("The registry has no journal.")
        if not self._access.index.is_ready:
            return parts.build_progress_note(self._access.index.progress.percent)
        found = self._maker.find_advice(registry.journal.store, days)
        return found if isinstance(found, AdviceProgress) else _build_advice(found, self._access.command_line)


def _build_progress(progress: AdviceProgress, days: int | None) -> Markup:
    whose = "The advice" if progress.days == days else f"First the advice of {format_count(progress.days, 'day')}"
    events = "its events are counted"
    if progress.events is not None:
        events = f"{progress.count:,} of {format_count(progress.events, 'event')} are read"
    return parts.build_message(f"{whose} is being made: {events}. This page shows the advice when it is done.")


def _build_advice(advice: SpanAdvice, command_line: CommandLine) -> Markup:
    if not advice.is_read:
        text = f"These days hold {advice.events:,} events, too many for a page: choose fewer, or use "
        return parts.build_message(f"{text}{command_line.write('advise')}.")
    note = f"Made at {format_time(advice.time)} (UTC) from {format_count(advice.events, 'event')}."
    if not advice.rows:
        return parts.build_note(f"{note} Nothing to advise: all that is permitted was used.")
    if advice.count > len(advice.rows):
        note += f" {format_count(advice.count, 'advice', 'advices')}; the first {len(advice.rows)} are shown."
    return join_markup(parts.build_note(note), parts.build_table(_TITLES, advice.rows, caption="What is advised"))


def _build_row(command_line: CommandLine, advice: Advice) -> Markup:
    commands = [build_element("p", _build_command(command)) for command in advice.commands]
    if sum(map(len, advice.commands)) > _MAX_COMMANDS:  # one that is cut would be another one
        about = (("agent", advice.agent), ("tool", advice.tool))
        again = command_line.write("advise", [], [f"--{name}={value}" for name, value in about if value])
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
