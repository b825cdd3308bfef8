"""Loading a plugin in a process of its own, which can be killed: what `plugins check` does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from praval_tools.config.plugins import read_plugins_config
from praval_tools.errors import PluginError, PluginWarning
from praval_tools.plugins.discovery import ALLOW_LIST_VARIABLE, InstalledPlugin
from praval_tools.plugins.loader import load_plugins
from praval_tools.plugins.report import PluginReport, build_failure_report
from praval_tools.registry.registry import ToolRegistry

_BOOTSTRAP_CODE: Final = (
    "import json, os, sys; said = json.loads(sys.argv[1]); sys.path[:] = said['path']; os.chdir(said['folder']); "
    "from praval_tools.plugins.probe import probe; probe(said['plugin'], said['out'])"
)
_TEXT_FIELDS: Final = (
    "distribution",
    "version",
    "entry_point",
    "stage",
    "error_type",
    "traceback",
    "upgraded_from",
    "reason",
)
_LIST_FIELDS: Final = ("tools", "withheld", "wishes", "hooks", "changed")


def probe_in_subprocess(found: InstalledPlugin, *, timeout: float) -> PluginReport:
    """
    Return what becomes of a plugin that is loaded alone, in a process that ends after *timeout* seconds at the latest.

    A process that the plugin ends by itself, or that crashes, is a failure of the plugin and of nothing else.
    """
    keeps = {name: value for name, value in os.environ.items() if name != ALLOW_LIST_VARIABLE}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:  # a pipe would be full of a long report
        out = told.fileno()
        said = {"path": sys.path, "folder": str(Path.cwd()), "plugin": found.distribution, "out": out}
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter, this package
                [sys.executable, "-P", "-c", _BOOTSTRAP_CODE, json.dumps(said)], timeout=timeout, pass_fds=(out,), env=keeps,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            text = f"it was not loaded after {timeout:g} s, and its process was killed; see why it hangs"
            return build_failure_report(found, "timeout", PluginError(str(found), "timeout", text))
        told.seek(0)
        lines = told.read().splitlines()
    mine = [one for one in map(json.loads, lines) if one["entry_point"] == found.entry_point]
    if not mine:
        text = f"its process ended with {done.returncode} before it was loaded; see what it does at import"
        return build_failure_report(found, "import", PluginError(str(found), "import", text))
    return _report_from_json(mine[0])


def probe(plugin: str, out: int) -> None:
    """Load one plugin here and write the reports, a line each, to the file descriptor *out*."""
    config = read_plugins_config()
    alone = attrs.evolve(config, plugins={plugin: config.get_table(plugin)}, sources=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        reports = load_plugins(ToolRegistry(name="probe"), only=[plugin], config=alone)
    with os.fdopen(out, "w", encoding="utf-8") as told:
        for one in reports:
            told.write(json.dumps(report_to_json(one)) + "\n")


def report_to_json(report: PluginReport) -> dict[str, Any]:
    """Return a report as JSON values."""
    found: dict[str, Any] = {name: getattr(report, name) for name in _TEXT_FIELDS}
    found |= {name: list(getattr(report, name)) for name in _LIST_FIELDS}
    return found | {"loaded": report.loaded, "error": None if report.error is None else report.error.problem}


def _report_from_json(told: Mapping[str, Any]) -> PluginReport:
    words: dict[str, Any] = {name: told[name] for name in _TEXT_FIELDS}
    lists: dict[str, Any] = {name: tuple(told[name]) for name in _LIST_FIELDS}
    name = f"{told['distribution']} {told['version']} ({told['entry_point']})"
    error = None if told["error"] is None else PluginError(name, told["stage"], told["error"])
    return PluginReport(**words, **lists, error=error)
