"""Runs the demo's scene with an installed plugin: its tools are found, callable by nobody, granted for one call."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from praval_tools.demo.agents import AgentContext
from praval_tools.demo.app import DemoApp
from praval_tools.demo.statistics import Comparison
from praval_tools.demo.steps import PictureStep, RemarkStep, SceneStep
from praval_tools.plugins.discovery import find_plugins, read_allow_list
from praval_tools.plugins.loader import load_plugins

PACKAGE_NAME: Final = "praval-tools-data"
_NEEDED_PACKAGES: Final = ("praval-tools-files",)
_ROOT_NAME: Final = "demo"
_TABLE_FILE, _PICTURE_FILE = "figures.csv", "figures.png"


def is_package_available() -> bool:
    """Whether the package is installed, and may be loaded."""
    allowed = read_allow_list()
    is_allowed = allowed is None or PACKAGE_NAME in allowed
    return is_allowed and any(plugin.distribution == PACKAGE_NAME for plugin in find_plugins())


def find_package_folders() -> list[Path]:
    """Return the folders to install the package from, with the packages that it needs: a checkout has them."""
    folders = [Path(__file__).parents[2] / "plugins" / name for name in (*_NEEDED_PACKAGES, PACKAGE_NAME)]
    return folders if all((folder / "pyproject.toml").is_file() for folder in folders) else []


def run_plugin_scene(app: DemoApp, context: AgentContext, folder: Path) -> None:
    """
    Load the package's tools, grant one of them, and let it draw a picture of the answer.

    Args:
        app: Its registry gets the tools.
        context: Calls the tools and emits the steps.
        folder: The only folder that the tools may use.
    """
    text = f"{PACKAGE_NAME} is installed. Its tools come into the registry, and nobody may call them."
    context.emit(SceneStep(5, "A package brings tools", text))
    roots = [{"name": _ROOT_NAME, "path": str(folder.absolute()), "writable": True}]
    for report in load_plugins(app.registry, only=[PACKAGE_NAME], settings={PACKAGE_NAME: {"roots": roots}}, config={}):
        context.emit(RemarkStep(str(report.error) if report.error is not None else _describe_ownership(report.version)))
        if report.loaded:
            _draw_picture(app, context, folder)


def _describe_ownership(version: str) -> str:
    return f"{PACKAGE_NAME} {version} owns them as plugin:{PACKAGE_NAME}: installed is not granted."


def _draw_picture(app: DemoApp, context: AgentContext, folder: Path) -> None:
    _write_table(folder / _TABLE_FILE, context.groups)
    reporter = app.agents["reporter"]
    arguments = {
        "path": f"{_ROOT_NAME}/{_TABLE_FILE}",
        "output": f"{_ROOT_NAME}/{_PICTURE_FILE}",
        "kind": "bar",
        "x": "group",
        "y": ["observed", "expected"],
        "title": context.question.measure,
    }
    context.try_call_as(reporter, "data_plot", **arguments)
    app.registry.grant("data_plot", reporter, max_calls=1, key="picture", reason="one picture for the report")
    if context.try_call_as(reporter, "data_plot", **arguments).success:
        context.emit(PictureStep((folder / _PICTURE_FILE).read_bytes(), f"Drawn by data_plot of {PACKAGE_NAME}."))


def _write_table(path: Path, groups: list[Comparison]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("group", "observed", "expected"))
        table.writerows((group.group, group.observed, group.expected) for group in groups)
