"""Parts of the views: tables, links, previews of long texts, times, charts of days."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import quote, unquote, urlencode

from praval_tools.journal.history import HistoryCall
from praval_tools.journal.index.usage import CallSum
from praval_tools.names import format_count
from praval_tools.report.markup import Markup, build_code, build_element, build_row, escape_text, join_markup
from praval_tools.report.run_charts import get_outcome_class
from praval_tools.report.text import format_duration, format_time
from praval_tools.web.activity.activity import write_json

MAX_NAME: Final = 120
MAX_PREVIEW: Final = 160
MAX_VALUE: Final = 2_000
_CELLS: Final = re.compile("<(td|th)( [^>]*|)>(–</td>)?")  # texts and attributes hold no "<" and ">": they are escaped


def build_url(path: str, **parameters: object) -> str:
    """Return a path with its parameters; those that are None or empty are left out."""
    given = {name.rstrip("_"): value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogatepass')}" if given else path


def build_link(text: object, path: str, /, **parameters: object) -> Markup:
    """Return a link."""
    return build_element("a", shorten(text), href=build_url(path, **parameters))


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


def build_section(title: str, lead: str, *parts: object) -> Markup:
    """Return a section with a heading."""
    note = build_element("p", lead, class_="lead") if lead else None
    return build_element("section", build_element("h2", title), note, *parts)


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
        return join_markup(build_element("pre", shorten(text, MAX_VALUE)), _build_rest(text, content_url))
    texts = {name: write_json(value) for name, value in values.items()}
    rows = [
        build_row(build_element("th", build_code(shorten(name)), scope="row"), _build_value(values[name], text))
        for name, text in list(texts.items())[:100]
    ]
    is_cut = len(texts) > 100 or any(len(text) > MAX_VALUE for text in texts.values())
    table = build_element("table", build_element("tbody", *rows), class_="facts")
    return join_markup(
        build_element("div", table, class_="wide", tabindex=0, role="region", aria_label=label),
        _build_rest("x" * (MAX_VALUE + 1) if is_cut else "", content_url),
    )


def _build_value(value: object, text: str) -> Markup:
    """Return a value as JSON; a text of several lines as these lines."""
    if not isinstance(value, str) or "\n" not in value.strip("\n"):
        return build_code(shorten(text, MAX_VALUE))
    lines = value.replace("\r\n", "\n").expandtabs(4)
    return build_element("pre", shorten(lines, MAX_VALUE), class_="lines")


def _build_rest(text: str, content_url: str) -> Markup:
    if len(text) <= MAX_VALUE:
        return Markup("")
    return build_element("p", build_element("a", "All of it, as text", href=content_url), " (it is cut here)")


def build_call_row(call: HistoryCall, *, has_run: bool = True) -> Markup:
    """Return a call as a row of a table."""
    record = call.record
    run = (build_link(record.run_id, "/runs/show", id=record.run_id) if record.run_id else "–",) if has_run else ()
    arguments = format_value(record.arguments) if record.arguments is not None else Markup("")
    result = shorten(record.error or "–", 200)
    if record.result is not None:
        result = build_code(format_value(record.result))
    afterwards = join_markup(
        build_element("span", call.recovery_text, class_="doubtful") if call.recovery_text else None,
        build_link(" resolve", "/doubts/show", run=record.run_id, call=record.tool_call_id)
        if record.in_doubt and record.run_id else None,
    )  # fmt: skip
    return build_row(
        build_time(record.started or record.ended),
        *run,
        shorten(call.agent),
        build_element("td", build_code(shorten(record.tool_name)), class_="inside" if call.depth else None),
        build_element("td", build_code(arguments), class_="long"),
        record.decision.rule if record.decision else "–",
        build_outcome(call.outcome),
        build_element("td", format_duration(record.latency_ms) or "–", class_="number"),
        build_element("td", result, class_="long"),
        afterwards or "–",
    )


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


def build_sum_tiles(total: CallSum) -> Markup:
    """Return how many calls there were, how they ended, and what one took."""
    average = format_duration(total.average_ms) or "–"
    figures = (
        (f"{total.calls:,}", "calls", None), (f"{total.ok:,}", "ended well", "good" if total.ok else None),
        (f"{total.failed:,}", "failed", "failed" if total.failed else None),
        (f"{total.refused:,}", "refused", "bad" if total.refused else None), (average, "on average", None),
    )  # fmt: skip
    tiles = (
        build_element("li", build_element("b", value, class_=class_), build_element("span", text))
        for value, text, class_ in figures
    )
    return build_element("ul", *tiles, class_="tiles")


def count_words(number: int, word: str) -> str:
    """Return a number with its noun."""
    return format_count(number, word)


def build_hidden(name: str, value: str) -> Markup:
    """Return a hidden field; `read_hidden` returns exactly this value, whatever characters are in it."""
    return build_element("input", type="hidden", name=name, value=quote(value, safe="", errors="surrogatepass"))


def read_hidden(fields: Mapping[str, str], name: str) -> str:
    """Return the value of a field of `build_hidden`; empty where there is none."""
    return unquote(fields.get(name, ""), errors="surrogatepass")
