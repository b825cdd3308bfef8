"""The section `telemetry`: switches spans and metrics on, and off again when files are loaded anew."""

# Tests of: settings, registry/telemetry

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from praval_tools import ConfigError, ToolRegistry
from praval_tools.integrations.opentelemetry.telemetry import Telemetry, get_shared_telemetry

TOOLS = "tools: [{name: add, module: sums, function: add, shared: true}]\n"
PROGRAM = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from praval_tools import ToolRegistry

registry, exporter = ToolRegistry.from_config("c.yml"), InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(exporter))
registry.execute("1", "add", {"x": 1, "password": "9876"})
(span,) = exporter.get_finished_spans()
print(span.name, span.attributes.get("gen_ai.tool.call.arguments", "no arguments").partition("[secret")[0])
"""


def write(text: str) -> Path:
    """Write the file of a configuration."""
    path = Path("c.yml")
    path.write_text(TOOLS + text, encoding="utf-8")
    return path


class TestTelemetryOfFiles:
    @pytest.mark.parametrize(
        ("text", "is_on"), [("", False), ("telemetry: {}", True), ("telemetry: {enabled: false}", False)]
    )
    def test_is_on_where_there_is_such_a_section(self, folder: Path, text: str, is_on: bool) -> None:
        """Without options it is that of `telemetry=True`."""
        registry = ToolRegistry.from_config(write(text))

        assert (get_shared_telemetry() if is_on else None) is registry.telemetry

    def test_has_its_options(self, folder: Path) -> None:
        """Registries with the same options share one."""
        text = "telemetry: {record_arguments: true, record_results: true, max_content_size: 100}"
        first, second = (ToolRegistry.from_config(write(text)) for _ in range(2))

        assert isinstance(first.telemetry, Telemetry)
        assert first.telemetry is second.telemetry is not get_shared_telemetry()

    def test_changes_when_the_files_do(self, folder: Path) -> None:
        """What files no longer say is again what the program had set; a mistake in them changes nothing."""
        own = Telemetry()
        registry = ToolRegistry(telemetry=own)
        registry.configure_from(write("telemetry: {}"))
        assert get_shared_telemetry() is registry.telemetry

        write("telemetry: {max_content_size: 3}")
        with pytest.raises(ExceptionGroup):
            registry.refresh()
        assert get_shared_telemetry() is registry.telemetry

        write("")
        registry.refresh()
        assert own is registry.telemetry

    def test_needs_its_extra(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without OpenTelemetry the section is a mistake that says what to install."""
        for name in [name for name in sys.modules if name.startswith("praval_tools.integrations.opentelemetry")]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.delattr("praval_tools.integrations.opentelemetry", raising=False)
        monkeypatch.setitem(sys.modules, "opentelemetry", None)
        monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)

        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config(write("telemetry:\n  enabled: true\n"))

        (problem,) = caught.value.problems
        assert ("telemetry", 2) == (problem.key, problem.line)
        assert "pip install 'praval-tools[otel]'" in problem.expected

    def test_makes_spans_by_the_global_provider(self, folder: Path) -> None:
        """Whenever that is set, here after the files were loaded; secrets are hidden."""
        write("telemetry: {record_arguments: true}")

        done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)

        assert 'execute_tool add {"x":1,"password":"' == done.stdout.rstrip("\n"), done.stderr
