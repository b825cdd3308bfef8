"""Loads one plugin in a subprocess that can be killed, for `praval-tools plugins check`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any, Final

import attrs

from praval_tools.config.plugins import read_plugins_config
from praval_tools.errors import PluginError, PluginWarning
from praval_tools.plugins.discovery import InstalledPlugin, list_plugin_folders
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
    with tempfile.TemporaryDirectory() as folder:  # the process inherits no descriptor that the plugin could write to
        output = Path(folder) / "reports"
        arguments = {"path": list_plugin_folders(), "folder": str(Path.cwd()), "plugin": plugin.qualified_name}
        encoded = json.dumps({**arguments, "output": str(output)})
        try:
            process = subprocess.run(  # noqa: S603 - this interpreter, this package
                [sys.executable, "-P", "-c", _BOOTSTRAP_CODE, encoded],
                timeout=timeout,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            text = f"it was not loaded after {timeout:g} s, and its process was killed; see why it hangs"
            return build_failure_report(plugin, "timeout", plugin.make_error("timeout", text))
        lines = output.read_text("utf-8").splitlines() if output.exists() else []
    reports = [_report_from_json(json.loads(line)) for line in lines]
    own = next((report for report in reports if (report.distribution, report.entry_point) == plugin.key), None)
    if own is not None:
        return own
    text = f"its process ended with {process.returncode} before it was loaded; see what it does at import"
    return build_failure_report(plugin, "import", plugin.make_error("import", text))


def run_in_probe_process(name: str, output: str) -> None:
    """Load the plugin `distribution:entry-point` here, and write its reports, a line each, to the file *output*."""
    config, distribution = read_plugins_config(), name.partition(":")[0]
    alone = attrs.evolve(config, plugins={distribution: config.get_table(distribution)}, sources=())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        reports = load_plugins(ToolRegistry(name="probe"), only=[name], config=alone)
    Path(output).write_text("".join(json.dumps(report_to_json(report)) + "\n" for report in reports), "utf-8")


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
