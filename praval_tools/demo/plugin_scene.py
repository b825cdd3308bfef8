"""An installed package of tools in the house: found, callable by nobody, let in for one call, at work."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

from praval_tools.demo.agents import House, Stage
from praval_tools.demo.statistics import Comparison
from praval_tools.demo.steps import Pictured, Remarked, Scene
from praval_tools.plugins.discovery import allowed, find
from praval_tools.plugins.loader import load_plugins

PACKAGE: Final = "praval-tools-data"
_PLACE: Final = "demo"
_TABLE, _PICTURE = "figures.csv", "figures.png"


def installed() -> bool:
    """Tell whether the package is there, and may be loaded."""
    may = allowed()
    return (may is None or PACKAGE in may) and any(one.distribution == PACKAGE for one in find())


def at_work(house: House, stage: Stage, folder: Path) -> None:
    """
    Have the package's tools loaded, one of them granted, and a picture of the answer drawn by it.

    Args:
        house: Whose registry the tools come into.
        stage: Where it is told.
        folder: The only one that the tools may use.
    """
    text = f"{PACKAGE} is installed. Its tools come into the registry, and nobody may call them."
    stage.tell(Scene(5, "A package brings tools", text))
    roots = [{"name": _PLACE, "path": str(folder.absolute()), "writable": True}]
    for report in load_plugins(house.registry, only=[PACKAGE], settings={PACKAGE: {"roots": roots}}, config={}):
        stage.tell(Remarked(str(report.error) if report.error is not None else _brought(report.version)))
        if report.loaded:
            _draw(house, stage, folder)


def _brought(version: str) -> str:
    return f"{PACKAGE} {version} owns them as plugin:{PACKAGE}: installed is not granted."


def _draw(house: House, stage: Stage, folder: Path) -> None:
    _write(folder / _TABLE, stage.groups)
    reporter = house.agents["reporter"]
    wanted = {
        "path": f"{_PLACE}/{_TABLE}", "output": f"{_PLACE}/{_PICTURE}", "kind": "bar", "x": "group",
        "y": ["observed", "expected"], "title": stage.question.measure,
    }  # fmt: skip
    stage.attempt_as(reporter, "data_plot", **wanted)
    house.registry.grant("data_plot", reporter, max_calls=1, key="picture", reason="one picture for the report")
    if stage.attempt_as(reporter, "data_plot", **wanted).success:
        stage.tell(Pictured((folder / _PICTURE).read_bytes(), f"Drawn by data_plot of {PACKAGE}."))


def _write(path: Path, groups: list[Comparison]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(("group", "observed", "expected"))
        table.writerows((one.group, one.observed, one.expected) for one in groups)
