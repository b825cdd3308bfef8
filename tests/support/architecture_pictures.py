"""
The two pictures of docs/explanation/architecture.md, drawn from the code.

`python tests/support/architecture_pictures.py` writes them; a test compares them with the files.
"""

from __future__ import annotations

import textwrap
import tomllib
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "docs" / "assets"

JOBS = {
    "cli": "The command line",
    "demo": "Four agents answer a question about data",
    "testing": "Fixtures and helpers for users' tests",
    "integrations": "Adapters for agent frameworks",
    "config_loading": "Loads a system that files declare",
    "web": "Pages of what happens, for operators",
    "plugins": "Find, admit and activate plugins",
    "loop": "Between a model and an agent's tools",
    "compat": "Praval's interface on this registry",
    "report": "Texts and charts of what happened",
    "registry": "ToolRegistry, Agent, Toolset, decorators, discovery",
    "runs": "Record calls in the journal, replay them, resume runs",
    "execution": "Calls: fast path, pipeline, limits, approvals, engines",
    "journal": "Events, redaction, storage in SQLite, statistics",
    "search": "Tools by words: the index of what an agent may call",
    "access": "Who may call what: rules, grants, bounds, state, events",
    "formats": "Provider formats, out and back in",
    "tools": "Tool, ToolCall, ToolResult, metadata, content",
    "config": "Files of TOML and YAML, read and checked",
    "schema": "Type hints to JSON Schema, JSON to typed values",
    "errors": "Errors, problems",
    "names": "Name rules",
    "clock": "Time",
    "persistent_map": "Immutable map",
    "lazy_regex": "Patterns",
    "lazy_import": "Late imports",
    "forks": "Forks, locks",
    "misuse": "Wrong calls",
    "values": "Plain values",
}
"""What each package and root module is for, in the words of the picture."""


class Step(NamedTuple):
    """One step of a call: its title, the functions that do it, and what happens."""

    title: str
    functions: tuple[str, ...]
    text: str


STEPS = (
    Step(
        "Request",
        ("registry.dispatch:CallDispatcher.execute", "execution.executor:Executor.execute"),
        "agent.call, toolset.call and registry.execute meet in one executor.",
    ),
    Step(
        "Fast path",
        ("execution.fast_path:make_fast_path",),
        "One generated function per agent and tool, if nothing has to wait; policies, limits and hooks are its steps.",
    ),
    Step(
        "Pipeline",
        ("execution.pipeline:make_pipeline",),
        "Every other call: a generator that yields effects; a sync and an async driver perform them.",
    ),
    Step(
        "Recorder",
        ("runs.recorder:Recorder.record_call",),
        "With a journal: a recorded call is replayed; a new one is written before and after it runs.",
    ),
    Step("Access", ("access.rules:resolve_access",), "The one resolver: which rule permits the call, or refuses it."),
    Step(
        "Arguments",
        ("tools.implementation:ToolImplementation.bind_coerced",),
        "Checked against the schema, repaired, converted.",
    ),
    Step("Bounds", ("access.rules:choose_path",), "The first permission whose bounds the arguments meet."),
    Step("Policies", ("execution.policies:ask_policies",), "Functions of the host may refuse, or ask for an approval."),
    Step("Limits", ("execution.limits:Limits.acquire",), "How many calls at once, in a minute, in a run."),
    Step(
        "Approval",
        ("execution.approvals:Approvals.take_answer",),
        "A person or a handler answers; then all is decided again.",
    ),
    Step(
        "Engine",
        ("execution.effects:RunTool.run",),
        "In this thread, in another one, in another process, on a worker, or on an engine of a plugin.",
    ),
    Step(
        "Admission",
        ("execution.effects:RunTool.admit",),
        "The last look at the state; counted grants are spent; then the function runs.",
    ),
    Step(
        "Result", ("execution.results:build_success_result",), "Value or error become a ToolResult; some are retried."
    ),
    Step(
        "Hooks",
        ("execution.hooks:CallHooks.notify_after_call",),
        "Plugins take note, once the result is in the journal.",
    ),
)
"""The way of a call, in the order in which the functions are entered first."""

_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2937 }
  .name { font-weight: 600 }
  .small { font-size: 12px; fill: #4b5563 }
  .code { font: 11.5px ui-monospace, monospace; fill: #4b5563 }
  rect { fill: #eef2ff; stroke: #6366f1; rx: 6px }
  rect.fast { fill: #ecfdf5; stroke: #059669 }
  path { fill: none; stroke: #9ca3af; stroke-width: 1.5 }
  path.fast { stroke: #059669 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb } .small, .code { fill: #9ca3af }
    rect { fill: #1e1b4b } rect.fast { fill: #052e2b }
  }
"""


def read_layers() -> list[list[str]]:
    """Return the packages of each layer, top to bottom, as import-linter checks them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = settings["tool"]["importlinter"]["contracts"][0]
    return [[name.strip() for name in layer.replace("|", ":").split(":")] for layer in contract["layers"]]


def _svg(width: int, height: int, title: str, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{body}\n</svg>\n"
    )


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def draw_layers() -> str:
    """Return the picture of the layers: a box for each package, with its job."""
    width, gap, margin = 860, 10, 10
    parts: list[str] = []
    y = margin
    for layer in read_layers():
        box = (width - 2 * margin - gap * (len(layer) - 1)) / len(layer)
        lines = {name: textwrap.wrap(JOBS[name], int((box - 20) / 6)) for name in layer}
        height = 34 + 16 * max(map(len, lines.values()))
        for index, name in enumerate(layer):
            x = margin + index * (box + gap)
            parts.append(f'<rect x="{x:g}" y="{y}" width="{box:g}" height="{height}"/>')
            parts.append(_text(x + 10, y + 21, name, "name"))
            parts.extend(_text(x + 10, y + 39 + 16 * row, line, "small") for row, line in enumerate(lines[name]))
        y += height + gap
    return _svg(width, y - gap + margin, "The packages: each imports only from the rows below its own", parts)


def draw_call() -> str:
    """Return the picture of a call: its steps from top to bottom, and the fast path beside them."""
    width, left, box, step_height = 860, 60, 790, 58
    parts: list[str] = []
    for index, step in enumerate(STEPS):
        y = 10 + index * step_height
        kind = ' class="fast"' if step.title == "Fast path" else ""
        parts.append(f'<rect x="{left}" y="{y}" width="{box}" height="46"{kind}/>')
        parts.append(_text(left + 12, y + 28, step.title, "name"))
        parts.append(_text(left + 120, y + 19, step.text, "small"))
        names = ", ".join(function.replace(":", ".") for function in step.functions)
        parts.append(_text(left + 120, y + 37, names, "code"))
        if index + 1 < len(STEPS):
            parts.append(f'<path d="M{left + 60} {y + 46}V{y + step_height}"/>')
    fast = 10 + [step.title for step in STEPS].index("Fast path") * step_height + 23
    end = 10 + [step.title for step in STEPS].index("Result") * step_height + 23
    parts.append(f'<path class="fast" d="M{left} {fast}H30V{end}H{left}m-7 -5l7 5l-7 5"/>')
    return _svg(width, 10 + len(STEPS) * step_height, "The steps of a call", parts)


PICTURES = {"layers.svg": draw_layers, "call.svg": draw_call}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (ASSETS / name).write_text(draw(), encoding="utf-8")
