"""Loads one plugin in a subprocess that can be killed, for `praval-tools plugins check`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import warnings
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
    "import json, os, sys; args = json.loads(sys.argv[1]); sys.path[:] = args['path']; os.chdir(args['folder']); "
    "from praval_tools.plugins.probe import run_in_probe_process; run_in_probe_process(args['plugin'], args['output'])"
)


def probe_in_subprocess(plugin: InstalledPlugin, *, timeout: float) -> PluginReport:
    """
    Load a plugin alone, in a process that is killed after *timeout* seconds at the latest, and return its report.

    A process that the plugin ends by itself, or that crashes, is a failure of the plugin and of nothing else.
    """
    environment = {name: value for name, value in os.environ.items() if name != ALLOW_LIST_VARIABLE}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:  # a pipe would be full of a long report
        arguments = {"path": sys.path, "folder": str(Path.cwd()), "plugin": plugin.distribution}
        encoded = json.dumps({**arguments, "output": output.fileno()})
        try:
            process = subprocess.run(  # noqa: S603 - this interpreter, this package
                [sys.executable, "-P", "-c", _BOOTSTRAP_CODE, encoded],
                timeout=timeout,
                pass_fds=(output.fileno(),),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            text = f"it was not loaded after {timeout:g} s, and its process was killed; see why it hangs"
            return build_failure_report(plugin, "timeout", plugin.error("timeout", text))
        output.seek(0)
        reports = [_report_from_json(json.loads(line)) for line in output]
    own = next((report for report in reports if report.entry_point == plugin.entry_point), None)
    if own is not None:
        return own
    text = f"its process ended with {process.returncode} before it was loaded; see what it does at import"
    return build_failure_report(plugin, "import", plugin.error("import", text))


def run_in_probe_process(distribution: str, output: int) -> None:
    """Load one plugin here and write its reports, a line each, to the file descriptor *output*."""
    config = read_plugins_config()
    alone = attrs.evolve(config, plugins={distribution: config.get_table(distribution)}, sources=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        reports = load_plugins(ToolRegistry(name="probe"), only=[distribution], config=alone)
    with os.fdopen(output, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(report_to_json(report)) + "\n" for report in reports)


def report_to_json(report: PluginReport) -> dict[str, Any]:
    """Return a report as JSON values."""
    values = attrs.asdict(report, recurse=False)
    lists = {name: list(value) for name, value in values.items() if isinstance(value, tuple)}
    error = None if report.error is None else report.error.problem
    return {**values, **lists, "loaded": report.loaded, "error": error}


def _report_from_json(values: dict[str, Any]) -> PluginReport:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    del fields["loaded"]
    if fields["error"] is not None:
        plugin = f"{fields['distribution']} {fields['version']} ({fields['entry_point']})"
        fields["error"] = PluginError(plugin, fields["stage"], fields["error"])
    return PluginReport(**fields)
