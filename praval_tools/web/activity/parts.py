"""Parts of the views: tables, links, previews of long texts, times, charts of days."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote, urlencode

from praval_tools.journal.history import HistoryCall
from praval_tools.journal.index.run_pages import is_process_alive
from praval_tools.journal.index.usage import CallSum
from praval_tools.journal.journal import RecordedCall
from praval_tools.journal.storage.protocol import Record
from praval_tools.names import format_count
from praval_tools.report.markup import Markup, build_code, build_element, build_row, escape_text, join_markup
from praval_tools.report.run_charts import get_outcome_class
from praval_tools.report.text import format_arguments, format_duration, format_time, sanitize_text
from praval_tools.web.activity.activity import write_json

MAX_NAME: Final = 120
MAX_PREVIEW: Final = 160
MAX_VALUE: Final = 2_000
_CELLS: Final = re.compile("<(td|th)( [^>]*|)>((?:–|<code></code>|)</td>)?")  # texts and attributes are escaped


def build_url(path: str, **parameters: object) -> str:
    """Return a path with its parameters; those that are None or empty are left out."""
    given = {name.rstrip("_"): value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


def build_link(text: object, path: str, /, **parameters: object) -> Markup:
    """Return a link."""
    return build_element("a", shorten(text), href=build_url(path, **parameters))


def build_cell_url(agent: str, tool: str, *, event: int | None = None) -> str:
    """Return the address of the page of an agent and a tool; *event*: the number of a call's first event, shown too."""
    return build_url("/matrix/cell", agent=agent, tool=tool, event=event)


def shorten(text: object, length: int = MAX_NAME) -> Markup:
    """Return a text that is safe to show, cut to a length."""
    return text if isinstance(text, Markup) else escape_text(text, max_length=length)


def build_table(titles: Sequence[str], rows: Sequence[Markup], *, class_: str = "listing", caption: str = "") -> Markup:
    """Return a table that scrolls by itself where it is too wide, also with the keyboard."""
    head = build_row(*(build_element("th", title, scope="col") if title else Markup("<td></td>") for title in titles))
    body = build_element("tbody", *(_label_cells(row, titles) for row in rows))
    note = build_element("caption", caption, class_="fine") if caption else None
    table = build_element("table", note, build_element("thead", head), body, class_=class_)
    return build_element("div", table, class_="wide", tabindex=0, role="region", aria_label=caption or "Table")


def _label_cells(row: Markup, titles: Sequence[str]) -> Markup:
    """Return a row whose cells say their columns, for narrow windows, where the style sheet shows it as a card."""
    names = iter(titles)

    def label(match: re.Match[str]) -> str:
        title = next(names, "").removesuffix(" (UTC)").partition(",")[0]
        if match[1] == "th":
            return match[0]
        name = f' data-label="{title}"' if title else ""
        empty = ' data-empty=""' if match[3] else ""
        return f"<td{match[2]}{name}{empty}>{match[3] or ''}"

    return Markup(_CELLS.sub(label, row))


def build_section(title: object, lead: str, *parts: object, stream: Markup | None = None, id_: str = "") -> Markup:
    """Return a section with a heading; beside it *stream*, which says whether the page follows what happens."""
    note, heading = build_element("p", lead, class_="lead") if lead else None, build_element("h2", title)
    head = heading if stream is None else build_element("div", heading, stream, class_="head")
    return build_element("section", head, note, *parts, id_=id_ or None)


def build_note(text: str) -> Markup:
    """Return what is said where there is nothing to show."""
    return build_element("p", text, class_="fine")


def build_time(moment: datetime | None) -> Markup:
    """Return a time in UTC, to the second, of which narrow windows show a part; the exact one is its tooltip."""
    if moment is None:
        return Markup("–")
    year, day, seconds = (text := format_time(moment))[:-14], text[-14:-3], text[-3:]
    shown = (build_element("span", year, class_="year"), day, build_element("span", seconds, class_="seconds"))
    return build_element("time", *shown, datetime=moment.isoformat(), title=moment.isoformat())


def build_outcome(outcome: str) -> Markup:
    """Return how a call ended, in its colour."""
    return build_element("span", outcome.replace("_", " "), class_=f"chip {get_outcome_class(outcome)}")


def is_running(call: HistoryCall) -> bool:
    """Tell whether a call may run still, as far as that is known here; else one without a result is in doubt."""
    return call.record.outcome is None and is_process_alive(call.process)


def build_call_outcome(call: HistoryCall) -> Markup:
    """Return how a call ended, in its colour, or that it runs."""
    return build_element("span", "running", class_="chip calm") if is_running(call) else build_outcome(call.outcome)


def build_live_region(name: str, *parts: object) -> Markup:
    """Return a part of a page that is replaced when there is news."""
    return build_element("div", *parts, data_live=name, id=f"live-{name}")


def build_stream(topic: str, seq: int) -> Markup:
    """Return what makes the page follow a topic, and says whether it does."""
    text = "The page follows what happens where scripts run; else reload it."
    url = build_url("/activity/stream", topic=topic, after=seq)
    return build_element("p", text, class_="fine", role="status", data_stream=url, id="stream-state")


def format_value(value: object, length: int = MAX_PREVIEW) -> Markup:
    """Return a value as JSON, cut to a length."""
    return escape_text(write_json(value), max_length=length)


def build_values(values: object, content_url: str, *, label: str = "Arguments") -> Markup:
    """Return arguments, a row each, cut where they are long; all of them are behind a link; *label* says whose."""
    if not isinstance(values, Mapping):
        text = write_json(values)
        rest = _build_rest(content_url, is_cut=_is_cut(text))
        return join_markup(build_element("pre", shorten(text, MAX_VALUE)), rest)
    texts = {name: _write_value(value) for name, value in values.items()}
    rows = [
        build_row(build_element("th", build_code(shorten(name)), scope="row"), _build_value(text))
        for name, text in list(texts.items())[:100]
    ]
    is_cut = len(texts) > 100 or any(map(_is_cut, texts.values()))
    table = build_element("table", build_element("tbody", *rows), class_="facts")
    return join_markup(
        build_element("div", table, class_="wide", tabindex=0, role="region", aria_label=label),
        _build_rest(content_url, is_cut=is_cut),
    )


def _write_value(value: object) -> str:
    """Return a value as JSON, which has no line breaks; a text of several lines as these lines."""
    if not isinstance(value, str) or "\n" not in value.strip("\n"):
        return write_json(value)
    return value.replace("\r\n", "\n").expandtabs(4)


def _build_value(text: str) -> Markup:
    if "\n" in text:
        return build_element("pre", shorten(text, MAX_VALUE), class_="lines")
    return build_code(shorten(text, MAX_VALUE))


def _is_cut(text: str) -> bool:
    """Tell whether a text is shown in part: spelling out what shows nothing makes it longer."""
    return len(text) > MAX_VALUE or len(sanitize_text(text, keep_line_breaks=True)) > MAX_VALUE


def _build_rest(content_url: str, *, is_cut: bool) -> Markup:
    if not is_cut:
        return Markup("")
    return build_element("p", build_element("a", "All of it, as text", href=content_url), " (it is cut here)")


def build_call_row(call: HistoryCall, *, has_run: bool = True) -> Markup:
    """Return a call as a row of a table."""
    record = call.record
    run = (build_run_cell(record.run_id),) if has_run else ()
    arguments = format_arguments(record.arguments) if record.arguments is not None else ""
    result = build_reason(call)
    if record.result is not None:
        result = build_code(format_value(record.result))
    afterwards = join_markup(
        build_element("span", call.recovery_text, class_="doubtful") if call.recovery_text else None,
        f" by {sanitize_text(record.resolved_by, max_length=MAX_NAME)}" if record.resolved_by else None,
    )  # fmt: skip
    return build_row(
        build_time(record.started or record.ended),
        shorten(call.agent),
        build_element("td", build_code(shorten(record.tool_name)), class_="inside" if call.depth else None),
        build_element("td", build_code(shorten(arguments, MAX_PREVIEW)), class_="long"),
        _build_rule(call),
        build_call_outcome(call),
        build_element("td", format_duration(record.latency_ms) or "–", class_="number"),
        build_element("td", result, class_="long"),
        afterwards or "–",
        *run,
    )


def build_run_cell(run_id: str | None) -> Markup:
    """Return a link to a run as a cell, of one line however long its id is."""
    link = build_element("a", shorten(run_id), href=build_url("/runs/show", id=run_id), title=run_id)
    return build_element("td", link if run_id else "–", class_="name")


def build_reason(call: HistoryCall) -> Markup:
    """Return why a call did not end well, for the operator; of a refusal with a link to what changes it."""
    record, decision = call.record, call.record.decision
    if record.in_doubt and record.run_id and not is_running(call):
        return join_markup(shorten(record.error or "No result is recorded.", 200), " ", _build_resolve_link(record))
    if decision is None or decision.allowed:
        return shorten(record.error or "–", 200)
    return join_markup(shorten(decision.reason or record.error, 200), " ", build_why_link(record))


def build_why_link(record: RecordedCall | Record) -> Markup | None:
    """Return a link to every rule about the agent and the tool of a call, and to what changes them."""
    tool = record.tool_name if isinstance(record, RecordedCall) else record.tool
    if not record.agent or not tool:  # the operator's own calls are decided by no rule
        return None
    return build_element("a", "What changes it", href=build_cell_url(record.agent, tool, event=record.seq))


def _build_resolve_link(record: RecordedCall) -> Markup:
    return build_link("Resolve", "/doubts/show", run=record.run_id, call=record.tool_call_id)


def _build_rule(call: HistoryCall) -> Markup:
    record = call.record
    if record.decision is None:
        return Markup("–")
    if record.agent is None:
        return shorten(record.decision.rule)
    url = build_cell_url(record.agent, record.tool_name, event=record.seq)
    return build_element("a", record.decision.rule, href=url, title="Every rule about the agent and the tool")


def build_message(text: str, class_: str = "message") -> Markup:
    """Return what became of something that a person did."""
    return build_element("p", text, class_=class_, role="status")


def build_progress_note(percent: int) -> Markup:
    """Return what is said while the index is made."""
    text = f"The journal is being read for the first time: {percent} %. Reload the page to see more."
    return build_element("p", text, class_="message", role="status")


def build_choices(name: str, choices: Iterable[tuple[str, str, bool]]) -> Markup:
    """Return links of which one is chosen: each with its words, its address, and whether it is that one."""
    links = (
        build_element("li", build_element("a", words, href=url, aria_current="true" if is_chosen else None))
        for words, url, is_chosen in choices
    )
    return build_element("nav", build_element("ul", *links), class_="spans", aria_label=name)


def build_tiles(*figures: tuple[int | str, str, str | None, str | None]) -> Markup:
    """Return figures, each with its words, the colour that it has unless it is 0, and where it leads, if anywhere."""
    tiles = []
    for value, words, class_, url in figures:
        number = build_element(
            "b", f"{value:,}" if isinstance(value, int) else value, class_=class_ if value else "zero"
        )
        content = (number, build_element("span", words))
        tiles.append(build_element("li", *content if url is None else (build_element("a", *content, href=url),)))
    return build_element("ul", *tiles, class_="tiles")


def build_sum_tiles(total: CallSum) -> Markup:
    """Return how many calls there were, how they ended, and what one took."""
    return build_tiles(
        (total.calls, "calls", None, None), (total.ok, "ended well", "good", None),
        (total.failed, "failed", "failed", None), (total.refused, "refused", "bad", None),
        (format_duration(total.average_ms) or "–", "on average", None, None),
    )  # fmt: skip


def count_words(number: int, word: str) -> str:
    """Return a number with its noun."""
    return format_count(number, word)


def build_hidden(name: str, value: str) -> Markup:
    """Return a hidden field; `read_hidden` returns exactly this value, whatever characters are in it."""
    return build_element("input", type="hidden", name=name, value=quote(value, safe="", errors="surrogatepass"))


def read_hidden(fields: Mapping[str, str], name: str) -> str:
    """Return the value of a field of `build_hidden`; empty where there is none."""
    return unquote(fields.get(name, ""), errors="surrogatepass")
