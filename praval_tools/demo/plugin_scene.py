"""An installed package of tools in the house: found, callable by nobody, let in for one call, at work."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from praval_tools.demo.agents import AgentContext, DemoApp
from praval_tools.demo.statistics import Comparison
from praval_tools.demo.steps import PictureStep, RemarkStep, SceneStep
from praval_tools.plugins.discovery import find_plugins, read_allow_list
from praval_tools.plugins.loader import load_plugins

PACKAGE_NAME: Final = "praval-tools-data"
_ROOT_NAME: Final = "demo"
_TABLE_FILE, _PICTURE_FILE = "figures.csv", "figures.png"


def is_package_available() -> bool:
    """Tell whether the package is there, and may be loaded."""
    may = read_allow_list()
    return (may is None or PACKAGE_NAME in may) and any(one.distribution == PACKAGE_NAME for one in find_plugins())


def run_plugin_scene(house: DemoApp, stage: AgentContext, folder: Path) -> None:
    """
    Have the package's tools loaded, one of them granted, and a picture of the answer drawn by it.

    Args:
        house: Whose registry the tools come into.
        stage: Where it is told.
        folder: The only one that the tools may use.
    """
    text = f"{PACKAGE_NAME} is installed. Its tools come into the registry, and nobody may call them."
    stage.emit(SceneStep(5, "A package brings tools", text))
    roots = [{"name": _ROOT_NAME, "path": str(folder.absolute()), "writable": True}]
    for report in load_plugins(
        house.registry, only=[PACKAGE_NAME], settings={PACKAGE_NAME: {"roots": roots}}, config={}
    ):
        stage.emit(RemarkStep(str(report.error) if report.error is not None else _describe_ownership(report.version)))
        if report.loaded:
            _draw_picture(house, stage, folder)


def _describe_ownership(version: str) -> str:
    return f"{PACKAGE_NAME} {version} owns them as plugin:{PACKAGE_NAME}: installed is not granted."


def _draw_picture(house: DemoApp, stage: AgentContext, folder: Path) -> None:
    _write_table(folder / _TABLE_FILE, stage.groups)
    reporter = house.agents["reporter"]
    wanted = {
        "path": f"{_ROOT_NAME}/{_TABLE_FILE}", "output": f"{_ROOT_NAME}/{_PICTURE_FILE}", "kind": "bar", "x": "group",
        "y": ["observed", "expected"], "title": stage.question.measure,
    }  # fmt: skip
    stage.try_call_as(reporter, "data_plot", **wanted)
    house.registry.grant("data_plot", reporter, max_calls=1, key="picture", reason="one picture for the report")
    if stage.try_call_as(reporter, "data_plot", **wanted).success:
        stage.emit(PictureStep((folder / _PICTURE_FILE).read_bytes(), f"Drawn by data_plot of {PACKAGE_NAME}."))


def _write_table(path: Path, groups: list[Comparison]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("group", "observed", "expected"))
        table.writerows((one.group, one.observed, one.expected) for one in groups)
