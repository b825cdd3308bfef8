"""The measured figures behind the plan for scale: the file `scale_costs.json`, read and written by section."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("scale_costs.json")
"""Sections of figures, each with the day and the machine."""

Section = dict[str, float]


def read_section(name: str) -> Section:
    """Return the figures of a section."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))[name]["figures"])


def read_origin(name: str) -> str:
    """Return the day and the machine of a section."""
    section = json.loads(FILE.read_text(encoding="utf-8"))[name]
    return f"{section['day']}, {section['machine']}"


def write_section(name: str, figures: Mapping[str, float], server: str = "") -> None:
    """Replace the figures of a section; the others stay."""
    sections = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}{server}"
    sections[name] = {"day": datetime.now(UTC).date().isoformat(), "machine": machine, "figures": dict(figures)}
    FILE.write_text(json.dumps(dict(sorted(sections.items())), indent=2) + "\n", encoding="utf-8")
