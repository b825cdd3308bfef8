"""
The official conformance suite of the Model Context Protocol: every scenario for a server, or a client, of tools.

`make conformance` installs it. What does not apply is listed in `docs/reference/conformance.md`, with the reason.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from source_tree import ROOT

pytest.importorskip("mcp")

SUPPORT = ROOT / "tests" / "support"
PAGE = ROOT / "docs" / "reference" / "conformance.md"
STABLE, NEXT = "0.1.16", "0.2.0-alpha.12"
OLDEST, OLD, HANDSHAKE, MODERN = "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"

SCENARIOS = [
    "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
    "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
]  # fmt: skip
HANDSHAKE_SCENARIOS = ["server-initialize", "ping", "logging-set-level", "tools-call-with-logging"]
LATER_SCENARIOS = ["json-schema-2020-12", "server-sse-multiple-streams", "dns-rebinding-protection"]
MODERN_SCENARIOS = ["server-stateless", "caching", "http-header-validation", "http-custom-header-server-validation"]

SERVER_SCENARIOS = {
    (STABLE, OLD): SCENARIOS + HANDSHAKE_SCENARIOS,
    (STABLE, HANDSHAKE): SCENARIOS + HANDSHAKE_SCENARIOS + LATER_SCENARIOS,
    (NEXT, OLDEST): ["server-session-lifecycle"],
    (NEXT, OLD): [*SCENARIOS, *HANDSHAKE_SCENARIOS, "server-session-lifecycle"],
    (NEXT, HANDSHAKE): [*SCENARIOS, *HANDSHAKE_SCENARIOS, *LATER_SCENARIOS, "server-session-lifecycle"],
    (NEXT, MODERN): SCENARIOS + LATER_SCENARIOS + MODERN_SCENARIOS,
}
CLIENT_SCENARIOS = [
    *((STABLE, HANDSHAKE, scenario) for scenario in ("initialize", "tools_call", "sse-retry")),
    *((NEXT, HANDSHAKE, scenario) for scenario in ("initialize", "tools_call", "sse-retry")),
    *(
        (NEXT, MODERN, scenario)
        for scenario in (
            "tools_call", "request-metadata", "json-schema-ref-no-deref", "json-schema-2020-12-preservation",
            "http-standard-headers", "http-custom-headers", "http-invalid-tool-headers",
        )
    ),
]  # fmt: skip
"""By the release of the suite and the version of the protocol."""


def find_suite(release: str) -> list[str]:
    """Return the command that runs the suite; skip where it is not installed."""
    home = ROOT / ".conformance" / release
    if not (home / "complete").exists():
        pytest.skip("the conformance suite is not installed: make conformance")
    commands = home / "node_modules" / ".bin"
    return [str(commands / "node"), str((commands / "conformance").resolve())]


def run_suite(release: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a part of the suite."""
    command = [*find_suite(release), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def read_checks(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Return, for each scenario, the checks by how they ended."""
    scenarios: dict[str, dict[str, list[str]]] = {}
    for file in folder.glob("*/checks.json"):
        name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name)
        for check in json.loads(file.read_text("utf-8")):
            scenarios.setdefault(name, {}).setdefault(check["status"], []).append(check["id"])
    return scenarios


def read_table(heading: str) -> dict[str, str]:
    """Return the rows of a table of the page: what does not apply, and why."""
    section = PAGE.read_text("utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+`) \| (.+) \|$", section, re.MULTILINE)
    return {name: reason for names, reason in rows for name in re.findall(r"`([^`]+)`", names)}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Serve the tools of the suite; return where."""
    environment = os.environ | {"PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, str(SUPPORT / "mcp_conformance_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def reports(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Return a function that runs all scenarios of a release for a version of the protocol, once."""

    @cache
    def run(release: str, version: str) -> dict[str, dict[str, list[str]]]:
        folder = tmp_path_factory.mktemp("checks")
        options = ["--url", url, "--suite", "all", "--spec-version", version, "-o", str(folder)]
        process = run_suite(release, "server", *options)
        checks = read_checks(folder)
        assert checks, process.stdout + process.stderr
        return checks

    yield run


class TestServer:
    @pytest.mark.parametrize(
        ("release", "version", "scenario"),
        [(*suite, scenario) for suite, scenarios in SERVER_SCENARIOS.items() for scenario in scenarios],
    )
    def test_passes(self, reports: object, release: str, version: str, scenario: str) -> None:
        """The server passes every check that applies to a server of tools, for each version of the protocol."""
        assert callable(reports)
        checks = reports(release, version)[scenario]

        assert set() == set(checks.get("FAILURE", ())) - set(read_table("Checks that do not apply"))
        assert checks.get("SUCCESS")

    @pytest.mark.parametrize(("release", "version"), SERVER_SCENARIOS)
    def test_all_others_are_listed(self, reports: object, release: str, version: str) -> None:
        """Whatever else the suite has is on the page, with the reason why it does not apply."""
        assert callable(reports)
        others = set(reports(release, version)) - set(SERVER_SCENARIOS[release, version])

        assert set() == {name for name in others if not is_listed(name, read_table("Scenarios that do not apply"))}


def is_listed(scenario: str, table: dict[str, str]) -> bool:
    """Tell whether a table names the scenario, or the group that it belongs to: `resources-*`."""
    return any(scenario == name or (name[-1] == "*" and scenario.startswith(name[:-1])) for name in table)


class TestClient:
    @pytest.mark.parametrize(("release", "version", "scenario"), CLIENT_SCENARIOS)
    def test_passes(self, tmp_path: Path, release: str, version: str, scenario: str) -> None:
        """The client that brings a server's tools into a registry passes those that apply to a client of tools."""
        command = f"{sys.executable} {SUPPORT / 'mcp_conformance_client.py'}"
        options = ["--command", command, "--scenario", scenario, "--spec-version", version, "-o", str(tmp_path)]

        process = run_suite(release, "client", *options)

        assert 0 == process.returncode, process.stdout[-4000:] + process.stderr[-2000:]
