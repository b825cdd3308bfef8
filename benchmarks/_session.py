"""One run: measure the parts that are asked for, then show, keep and draw what came out."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import _calls
import _catalogue
import _frameworks
import _imports
import _live
import _mcp
import _peers
import _plugins
import _processes
import _report
import _web
import _web_access
import _web_journal
import _workers
import journal_calls
import journal_postgres
from _measure import Figure, Series
from _venv import ROOT


def run(options: argparse.Namespace) -> int:
    """Measure what *options* ask for and put it where they say."""
    _peers.quiet()
    installed = _peers.versions()
    figures: dict[str, Figure] = {}
    series: dict[str, Series] = {}
    for name, part in _PARTS.items():
        if options.only and name not in options.only:
            continue
        start = time.perf_counter()
        print(f"measuring {name} …", end="", file=sys.stderr, flush=True)
        for one in part(installed, options.quick, series):
            figures[one.key] = one
        print(f" {time.perf_counter() - start:.0f} s", file=sys.stderr)
    report = _report.Report(figures, series, installed, machine(), options.quick)
    report.show()
    if options.json:
        report.write_json(options.json)
    if options.plot:
        report.draw(options.plot)
    if options.docs:
        report.write_docs(ROOT)
    return 0


def machine() -> str:
    """Say what it was measured on."""
    return f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}, CPython {platform.python_version()}"


def _call_part(installed: dict[str, str], quick: bool, series: dict[str, Series]) -> Iterable[Figure]:
    made, figures = _calls.measure(installed, rounds=8 if quick else 40)
    series.update(made)
    return figures


def _declare_part(installed: dict[str, str], quick: bool, _: dict[str, Series]) -> Iterable[Figure]:
    return _catalogue.declaring(installed, 2_000 if quick else 10_000)


def _lookup_part(installed: dict[str, str], quick: bool, _: dict[str, Series]) -> Iterator[Figure]:
    large, spent = _catalogue.catalogue(10_000 if quick else 100_000)
    yield from _catalogue.registering(spent)
    yield from _catalogue.looking(large, rounds=8 if quick else 30)
    yield from _catalogue.searching(large, installed, rounds=8 if quick else 30)
    yield from _catalogue.finding(10_000, rounds=8 if quick else 30)


def _export_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterable[Figure]:
    return _catalogue.exporting(rounds=8 if quick else 30)


def _live_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterator[Figure]:
    yield from _live.revoking(20 if quick else 200)
    yield from _live.waiting(0.3 if quick else 1.0)


def _import_part(installed: dict[str, str], quick: bool, _: dict[str, Series]) -> Iterable[Figure]:
    return _imports.importing(installed, rounds=8 if quick else 40)


def _web_part(installed: dict[str, str], quick: bool, series: dict[str, Series]) -> Iterable[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        _web_journal.make_journal(path, 100_000 if quick else 1_000_000)
        yield from _web.measure(path, quick=quick)
        yield from _web_access.measure(path, quick=quick)


def _plugin_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterable[Figure]:
    return _plugins.loading(rounds=8 if quick else 40)


def _journal_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterable[Figure]:
    yield from journal_calls.journaling(rounds=8 if quick else 40)
    yield from journal_postgres.journaling(rounds=8 if quick else 40)


def _process_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterable[Figure]:
    return _processes.calling(rounds=8 if quick else 40)


def _worker_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterable[Figure]:
    return _workers.calling(rounds=4 if quick else 20)


def _mcp_part(_: dict[str, str], quick: bool, __: dict[str, Series]) -> Iterable[Figure]:
    return _mcp.serving(quick)


def _framework_part(installed: dict[str, str], quick: bool, _: dict[str, Series]) -> Iterable[Figure]:
    return _frameworks.comparing(installed, rounds=8 if quick else 40)


_Part = Callable[[dict[str, str], bool, dict[str, Any]], Iterable[Figure]]
_PARTS: Final[dict[str, _Part]] = {
    "import": _import_part,
    "calls": _call_part,
    "exports": _export_part,
    "live": _live_part,
    "declare": _declare_part,
    "lookups": _lookup_part,
    "journal": _journal_part,
    "web": _web_part,
    "plugins": _plugin_part,
    "processes": _process_part,
    "workers": _worker_part,
    "mcp": _mcp_part,
    "frameworks": _framework_part,
}
