"""What a run says: a table for the terminal, JSON, and the page for the documentation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from _measure import Figure, Series
from _plot import draw
from _targets import TARGETS, Target, shown
from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

_FORMS: Final = ("call:", "async:", "peer:", "bare")


@frozen
class Report:
    """The figures of one run with what they were measured on."""

    figures: dict[str, Figure]
    series: dict[str, Series]
    installed: dict[str, str]
    machine: str
    quick: bool

    def show(self) -> None:
        """Print the targets, the calls side by side, and how many targets are met."""
        console = Console()
        console.print(self._targets_table())
        if self.series:
            console.print(self._calls_table())
        judged = [(target, self.figures[target.key]) for target in TARGETS if target.key in self.figures]
        missed = [target for target, figure in judged if not target.met(figure)]
        console.print(f"{len(judged) - len(missed)} of {len(judged)} targets met, on {self.machine}.")
        for target in missed:
            figure = self.figures[target.key]
            console.print(f"Not met: {target.work.strip()}: {_value(figure)}, promised {target.text}.", style="red")
        if self.quick:
            console.print("A quick run: few samples and a smaller catalogue; only a full run is a verdict.")

    def _targets_table(self) -> Table:
        table = Table(title="Targets")
        for heading in ("work", "against", "target"):
            table.add_column(heading)
        for heading in ("measured", "quartiles"):
            table.add_column(heading, justify="right")
        table.add_column("met?")
        for target, figure in self._judged():
            met = "[green]yes[/]" if target.met(figure) else "[bold red]NO[/]"
            table.add_row(_plain(target.work), target.versus, target.text, _value(figure), _spread(figure), met)
        return table

    def _calls_table(self) -> Table:
        table = Table(title="A validated call with two floats, side by side")
        table.add_column("call")
        table.add_column("package")
        for heading in ("× bare", "quartiles", "µs"):
            table.add_column(heading, justify="right")
        for one in self._by_cost():
            ratio, time = one.figures()
            table.add_row(_plain(one.case.title), one.case.made_with or "praval_tools", *_cells(ratio, time))
        return table

    def _judged(self) -> Iterator[tuple[Target, Figure]]:
        return ((target, self.figures[target.key]) for target in TARGETS if target.key in self.figures)

    def _by_cost(self) -> list[Series]:
        return sorted(self.series.values(), key=lambda one: one.ratio)

    def write_json(self, path: Path) -> None:
        """Write every figure, the targets with their verdicts, and what it was measured on."""
        verdicts = [
            {**asdict(target), "measured": figure.value, "met": target.met(figure)} for target, figure in self._judged()
        ]
        report = {
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": self.machine,
            "quick": self.quick,
            "peers": self.installed,
            "targets": verdicts,
            "figures": [asdict(one) for one in self.figures.values()],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def draw(self, path: Path) -> None:
        """Draw the calls as bars."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draw(self._by_cost(), path, self.machine)

    def write_docs(self, root: Path) -> None:
        """Write the page about speed with its plot, and the targets beside the benchmarks."""
        self.draw(root / "docs" / "assets" / "benchmarks.svg")
        page = root / "docs" / "explanation" / "speed.md"
        page.write_text("\n".join(self._list_page_lines()) + "\n", encoding="utf-8")
        targets = root / "benchmarks" / "TARGETS.md"
        targets.write_text("\n".join(self._list_target_lines()) + "\n", encoding="utf-8")

    def _describe_run(self) -> dict[str, str]:
        peers = ", ".join(f"{name} {version}" for name, version in self.installed.items())
        return {"machine": self.machine, "peers": peers, "date": f"{datetime.now(UTC):%Y-%m-%d}"}

    def _list_page_lines(self) -> Iterator[str]:
        yield _HEAD.format(**self._describe_run())
        yield "## Calls side by side\n"
        yield "| call | package | × bare | quartiles | µs |"
        yield "|---|---|---:|---:|---:|"
        for series in self._by_cost():
            cells = (_code(series.case.title), series.case.made_with or "praval_tools", *_cells(*series.figures()))
            yield "| " + " | ".join(cells) + " |"
        yield "\n## Other figures\n"
        yield "| work | against | measured | quartiles |"
        yield "|---|---|---:|---:|"
        for target, figure in self._judged():
            yield "| " + " | ".join((_code(target.work), target.versus, _value(figure), _spread(figure))) + " |"
        yield _PARTS

    def _list_target_lines(self) -> Iterator[str]:
        judged = list(self._judged())
        missed = [target for target, figure in judged if not target.met(figure)]
        yield _TARGETS_HEAD.format(**self._describe_run())
        yield f"{len(judged) - len(missed)} of {len(judged)} are met.\n"
        yield "| work | against | target | measured | quartiles | met |"
        yield "|---|---|---|---:|---:|---|"
        for target, figure in judged:
            met = "yes" if target.met(figure) else "**no**"
            cells = (_code(target.work), target.versus, target.text, _value(figure), _spread(figure), met)
            yield "| " + " | ".join(cells) + " |"
        yield _MISSED
        yield "## Other figures\n"
        yield "| figure | value | quartiles | note |"
        yield "|---|---:|---:|---|"
        keys = {target.key for target in TARGETS}
        for figure in self.figures.values():
            if figure.key not in keys and not figure.key.startswith(_FORMS):
                yield f"| `{figure.key}` | {_value(figure)} | {_spread(figure)} | {figure.note} |"


_HEAD: Final = """\
# Speed

<!-- Written by `python3 benchmarks/run.py --docs`; change the script, not this page. -->

A call that is checked for access and whose arguments are validated costs about as much as validating them alone.
`make bench` measures what this page says, on your machine, beside the peers at the versions named here;
each peer runs by its documented fastest call that validates.
What we aim at, and what is missed, stands in `benchmarks/TARGETS.md`.

What a number means:

- *× bare* is the ratio to the plain Python call `f(x=…, y=…)`, timed directly before each sample,
  so that a noisy machine hits both sides; the median of all samples counts, and the quartiles stand beside it.
- Times are CPU time of the process, except waits, which are wall-clock time.
- No call is journaled unless the row says so, and policies, limits and hooks take part only where the row says so.

Measured on {date}: {machine}; {peers}.

![Validated calls side by side](../assets/benchmarks.svg)
"""
_PARTS: Final = """
## What the steps of a call cost

- Of `toolset.call` Python itself takes about 5 × bare for three calls and the keywords, and the arguments' check 2.6;
  the context variable that says who runs costs 3.8 to set and to reset, the frame in it 1.3.
  Without one of these, tasks that a tool leaves behind would not be known as its agent's.
- A policy is asked in a frame of its own, and shown a copy of the arguments; a hook is notified of the call and its
  result in copies of its own.
- More than half of a journaled call is Python: its place in the run, two events as JSON, two rounds of the event loop.
  The rest is the statement that writes the group, for which its callers wait.
- Half of a replay is reading: 20,000 rows of twelve columns become Python values.
- A call over MCP that is audited in SQLite waits for two commits: the call is durable before its tool starts, and its
  result before it is returned. On this disk a commit took 0.2 ms at best and 0.45 ms in the middle, and a whole call
  over stdio to the bare server 1.1 ms: two durable rows alone cost more than the quarter that an audit may cost.
"""
_TARGETS_HEAD: Final = """\
# Targets

<!-- Written by `python3 benchmarks/run.py --docs`; change the script, not this page. -->

Measured on {date}: {machine}; {peers}.
What a number means is said in [docs/explanation/speed.md](../docs/explanation/speed.md).
"""
_MISSED: Final = """
## What stands in the way of the others

- Of the 14 × of `toolset.call` Python itself takes 5 for three calls and the keywords, and the arguments' check 2.6;
  the context variable that says who runs costs 3.8 to set and to reset, the frame in it 1.3.
  To look for `deps=` and for arguments by position takes 0.9.
- A call of a `BoundTool` costs 6.7 × before its `__call__`, which takes any keywords, does anything;
  what happens behind it is what `toolset.call` does.
- An after-call hook is notified of the call and its result in copies of its own, and both have to be made as objects
  first.
- pydantic-core's bare validator only validates, below pydantic's public interface;
  by its `TypeAdapter` the two cost the same.
- `registry.aexecute` looks the agent up, makes the call its own and a result object around the same call.
- Of 10,000 declarations about half of the time is the registration's: four of the maps that it adds to are large,
  and a copy of what it changes in one touches memory that no cache holds any more; the garbage collector takes 5 %.
- The same is why the last of 100,000 registrations cost more than the first: maps that are small fit into the caches.
- More than half of a journaled call is Python, see the page:
  all calls are recorded in one way, and a second, shorter one for plain calls was given up for the guarantees.
  Writing one group while the tasks make the next was tried and gains nothing: both threads need the interpreter.
- An audit in SQLite commits twice in each call over MCP, see the page.
  `mcp:…:call:bare-sqlite` below is the SDK's bare server with two durable rows in each call, and nothing else.
- Loading 50 plugins imports `importlib.metadata`, and looks at the metadata of all that is installed beside them:
  more than half of what it does beyond importing their modules.

Frames and counters of calls in flight are lists, values are `msgspec.Struct`s,
and the checks of a call are generated once per tool:
each was measured against the plainer way.
"""


def _value(figure: Figure) -> str:
    return shown(figure.value, figure.unit)


def _spread(figure: Figure) -> str:
    if figure.low is None or figure.high is None:
        return ""
    return f"{shown(figure.low, figure.unit).split()[0]}–{shown(figure.high, figure.unit).split()[0]}"


def _cells(ratio: Figure, time: Figure) -> tuple[str, str, str]:
    return shown(ratio.value, "x").split()[0], _spread(ratio), shown(time.value, "us").split()[0]


def _plain(text: str) -> str:
    """Keep square brackets from being read as markup."""
    return text.replace("[", r"\[")


def _code(text: str) -> str:
    return f"`{text}`" if "(" in text and " " not in text.split("(")[0] else text
