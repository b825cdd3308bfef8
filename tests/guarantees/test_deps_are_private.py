"""Dependencies that a tool is given reach the tool, and nothing else."""

# Tests of: tools/context, runs/call_writer, integrations/attributes

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from praval_tools import Allow, ToolCall, ToolContext, ToolRegistry, use_registry

WORDS = "seven-green-bottles"


class Deps:
    """What a program gives its tools."""

    def __init__(self) -> None:
        self.password = WORDS

    def __repr__(self) -> str:
        return f"Deps({self.password})"


def test_are_in_no_record_span_schema_or_error(tmp_path: Path) -> None:
    """Broken promise: dependencies are never exported, journaled or shown, also where the tool fails."""
    pytest.importorskip("opentelemetry.sdk")
    from telemetry_rig import RECORD_ALL, Collector

    collector, seen = Collector(), list[object]()
    with ToolRegistry(journal=tmp_path / "runs.db") as registry, use_registry(registry):
        registry.telemetry = collector.make_telemetry(**RECORD_ALL)

        @registry.tool(owned_by="clerk", requires_approval=True)
        def look_up(context: ToolContext[Deps], fails: bool = False) -> str:
            """Look up."""
            seen.append(context.deps.password)
            if fails:
                raise ValueError("not there")
            return "found"

        registry.set_approval_handler(lambda request: seen.append(request) or Allow())
        registry.add_policy(lambda agent, tool, arguments: seen.append((agent, tool, dict(arguments))))
        toolset = registry.toolset("clerk", deps=Deps())
        with registry.run("1"):
            answers = [toolset.execute(ToolCall(str(fails), "look_up", {"fails": fails})) for fails in (False, True)]
        texts: list[Any] = [
            collector.read_spans(), json.dumps(toolset.schemas()), [answer.for_model() for answer in answers],
            [item for item in seen if item != WORDS], list(registry.journal.events()),
        ]  # fmt: skip

    assert 2 == seen.count(WORDS)
    assert 2 == len(collector.call_spans)
    assert "bottles" not in str(texts)
    assert not any(WORDS.encode() in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
