"""Charts in text: a line of blocks per day, a bar per group; plain ASCII where blocks cannot be printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen
from rich.table import Table
from rich.text import Text

from praval_tools.cli.common import sanitize_text
from praval_tools.cli.output import to_cell
from praval_tools.demo import phrases
from praval_tools.demo.question import Question
from praval_tools.demo.statistics import Average, Comparison

_HALF_BAR_WIDTH = 5
_MAX_GROUPS = 12
_MAX_LABEL_WIDTH = 26


@frozen(kw_only=True)
class Glyphs:
    """The few signs beyond ASCII, and what stands for them where the output cannot carry them."""

    yes: str
    no: str
    change: str
    bullet: str
    levels: str
    bar: str
    axis: str
    inside: str


_UNICODE_GLYPHS = Glyphs(yes="✓", no="✗", change="→", bullet="•", levels=" ▁▂▃▄▅▆▇█", bar="█", axis="│", inside="└ ")
_ASCII_GLYPHS = Glyphs(yes="+", no="x", change=">", bullet="-", levels=" .:-=+*#%", bar="#", axis="|", inside="` ")


def select_glyphs(encoding: str) -> Glyphs:
    """Return the signs that *encoding* can carry."""
    try:
        "".join((_UNICODE_GLYPHS.yes, _UNICODE_GLYPHS.no, _UNICODE_GLYPHS.levels, _UNICODE_GLYPHS.axis)).encode(
            encoding
        )
    except (UnicodeEncodeError, LookupError):
        return _ASCII_GLYPHS
    return _UNICODE_GLYPHS


def render_hourly_averages(question: Question, averages: Sequence[Average], *, glyphs: Glyphs) -> Iterator[Text]:
    """Yield a line per first part of the groups ("2013-02-08"), with a block per second part ("15"), below an axis."""
    cells: dict[str, dict[int, Average]] = {}
    for one in averages:
        day, _, hour = one.group.partition(" · ")
        cells.setdefault(day, {})[int(hour)] = one
    highest = max(one.mean for one in averages) or 1.0
    first, last = min(map(min, cells.values())), max(map(max, cells.values()))
    label = max(map(len, cells))
    ticks = "".join(f"{hour:<6}" for hour in range(first, last + 1, 3))
    title = f"{sanitize_text(question.profile[1]):<{label}}"
    yield Text(f"{title}  {ticks:<{2 * (last - first + 1)}}  {sanitize_text(question.measure)}", style="dim")
    for day, found in cells.items():
        blocks = "".join(_render_block(found.get(hour), highest, glyphs) * 2 for hour in range(first, last + 1))
        rows = sum(one.rows for one in found.values())
        share = sum(one.mean * one.rows for one in found.values()) / rows
        yield Text.assemble(to_cell(day), "  ", (blocks, "magenta"), f"  {share:.0%} of {rows:,}")


def _render_block(one: Average | None, highest: float, signs: Glyphs) -> str:
    if one is None:
        return " "
    steps = len(signs.levels) - 1
    return signs.levels[max(1, min(steps, round(one.mean / highest * steps)))]


def build_comparison_table(question: Question, groups: Sequence[Comparison], *, glyphs: Glyphs) -> Table:
    """Return a table of the groups with a bar to the left where less than expected was observed, else to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column(to_cell(question.by, max_length=_MAX_LABEL_WIDTH), overflow="ellipsis", no_wrap=True)
    for title in (question.table.unit, to_cell(question.measure, max_length=14), "expected"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("less" + " " * (2 * _HALF_BAR_WIDTH - 7) + "more", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    judged = [one for one in groups if one.verdict != "too few"] or list(groups)
    scale = max((abs(one.observed - one.expected) for one in judged), default=0.0) or 1.0
    for one in _select_extremes(judged):
        style, verdict = ("bold", "bold green") if one.verdict == "stands out" else ("", "dim")
        table.add_row(
            Text(sanitize_text(one.group, max_length=_MAX_LABEL_WIDTH), style=style),
            f"{one.rows:,}",
            Text(phrases.format_mean(question, one.observed), style=style),
            phrases.format_mean(question, one.expected),
            _render_bar((one.observed - one.expected) / scale, glyphs, verdict),
            Text(one.verdict, style=verdict),
        )
    return table


def _select_extremes(groups: Sequence[Comparison]) -> list[Comparison]:
    if len(groups) <= _MAX_GROUPS:
        return list(groups)
    return [*groups[: _MAX_GROUPS // 2], *groups[-_MAX_GROUPS // 2 :]]


def _render_bar(share: float, signs: Glyphs, style: str) -> Text:
    length = min(_HALF_BAR_WIDTH, round(abs(share) * _HALF_BAR_WIDTH))
    bar, space = signs.bar * length, " " * (_HALF_BAR_WIDTH - length)
    left, right = (f"{space}{bar}", " " * _HALF_BAR_WIDTH) if share < 0 else (" " * _HALF_BAR_WIDTH, f"{bar}{space}")
    return Text.assemble((left, style), (signs.axis, "dim"), (right, style))
