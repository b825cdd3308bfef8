"""`registry.telemetry`: switched on by the operator alone, and not there for anybody else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from praval_tools import Agent, ToolExecutionError, ToolRegistry, ToolUsageError
from praval_tools.integrations.opentelemetry import Telemetry

# Tests of: integrations/telemetry


class TestTelemetry:
    def test_is_off_by_default(self) -> None:
        """A registry has none, and false is none, too."""
        assert None is ToolRegistry().telemetry is ToolRegistry(telemetry=False).telemetry

    def test_is_one_for_all_registries_that_say_true(self) -> None:
        """True stands for the global providers, which all registries share."""
        first, second = ToolRegistry(telemetry=True), ToolRegistry()
        second.telemetry = True

        assert isinstance(first.telemetry, Telemetry)
        assert first.telemetry is second.telemetry

    def test_can_be_set_and_taken_away(self) -> None:
        """What was set is what is read."""
        registry, telemetry = ToolRegistry(), Telemetry()

        registry.telemetry = telemetry
        assert telemetry is registry.telemetry
        assert "<Telemetry of 1 registry>" == repr(telemetry)
        registry.telemetry = None
        assert None is registry.telemetry
        assert "<Telemetry of 0 registries>" == repr(telemetry)

    @pytest.mark.parametrize("wrong", ["yes", 1, object()])
    def test_of_another_kind_is_refused(self, wrong: Any) -> None:
        """The error says what to set."""
        with pytest.raises(ToolUsageError, match=r"The telemetry cannot be .*: set True, or a Telemetry\(…\)"):
            ToolRegistry(telemetry=wrong)

    def test_is_the_operators(self) -> None:
        """An agent's code can neither switch it on nor off."""
        registry = ToolRegistry(telemetry=True)
        Agent("ann", registry=registry)

        @registry.tool("spy", owned_by="ann")
        def spy() -> None:
            """Change the telemetry."""
            registry.telemetry = None

        with pytest.raises(ToolExecutionError, match="'ann' may not set the telemetry"):
            registry.agent("ann").call("spy")


def run(program: str) -> str:
    """Run a program in a process of its own; return what it prints."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


class TestExtra:
    def test_is_named_where_it_is_missing(self) -> None:
        """Without OpenTelemetry, the error says what to install; a registry without telemetry does not care."""
        printed = run(
            "import sys; sys.modules['opentelemetry'] = None\n"
            "from praval_tools import MissingExtraError, ToolRegistry\n"
            "def use(): import praval_tools.integrations.opentelemetry\n"
            "for switch in (lambda: ToolRegistry(telemetry=True), use):\n"
            "    try: switch()\n"
            "    except MissingExtraError as error: print(error.extra, error)\n"
            "ToolRegistry()\n"
        )

        assert 2 * ["otel Telemetry needs an extra: pip install 'praval-tools[otel]'."] == printed.splitlines()

    def test_is_not_imported_where_nobody_asks(self) -> None:
        """A program without telemetry imports no OpenTelemetry, and nothing of ours for it."""
        printed = run(
            "import sys\n"
            "from praval_tools import ToolRegistry\n"
            "registry = ToolRegistry(telemetry=None)\n"
            "registry.tool('one', shared=True, description='One.')(lambda: 1)\n"
            "registry.execute_tool('one')\n"
            "print([name for name in sys.modules if 'opentelemetry' in name or 'trace_context' in name])\n"
        )

        assert "[]\n" == printed
