"""The plot: validated calls side by side, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from _measure import Series
from _targets import shown

_OURS: Final = "#2f6f4f"
_THEIRS: Final = "#b9bec6"
_BARE: Final = "#5b6673"
_SHOWN: Final = (
    "bare", "call:toolset.call", "call:bound", "call:registry.execute", "call:json", "async:toolset.acall",
    "async:registry.aexecute", "peer:pydantic-core", "peer:pydantic-validate_call", "peer:praval", "peer:toolregistry",
    "peer:toolregistry-invoke", "peer:pydantic-ai", "peer:langchain-run", "peer:langchain",
)  # fmt: skip


def draw(series: Sequence[Series], path: Path, machine: str) -> None:
    """Write *series* as an SVG of horizontal bars; the same figures give the same bytes."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"svg.hashsalt": "praval_tools", "svg.fonttype": "none", "font.family": "sans-serif"})
    rows = [one for one in series if one.case.key in _SHOWN][::-1]
    figure, axes = pyplot.subplots(figsize=(9.6, 0.38 * len(rows) + 1.2))
    values = [one.ratio for one in rows]
    bars = axes.barh([_label(one) for one in rows], values, color=[_colour(one) for one in rows], height=0.7)
    axes.bar_label(bars, [f"{shown(value, 'x')}" for value in values], padding=4, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(0.8, max(values) * 4)
    axes.set_xlabel("CPU time as a multiple of the bare Python call (logarithmic; shorter is better)", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(
        "Validated calls with two floats; green: praval_tools, checked for access too", fontsize=10, loc="left"
    )
    figure.text(0.995, 0.005, machine, ha="right", fontsize=6, color=_BARE)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _label(one: Series) -> str:
    return one.case.title.split(" → ")[0]


def _colour(one: Series) -> str:
    if one.case.made_with:
        return _THEIRS
    return _BARE if one.case.key == "bare" else _OURS
