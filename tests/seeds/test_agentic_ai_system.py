"""The Agentic-AI seed as a whole: its configuration verbatim, its 13 steps with live servers, killed and resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the SDK of MCP")
pytest.importorskip("yaml", reason="needs PyYAML")

import seed_driver
import seed_servers
from cli_rig import run  # noqa: F401
from model_server import ModelServer

from praval_tools import Outcome, ToolCall, ToolRegistry

HERE = Path(__file__).parent
PORTS = {"code_execution_server": 8001, "web_search_server": 8002}
"""Those that the seed's `config.yml` names."""

CALCULATOR = '''
from pathlib import Path


def calculate(expression: str) -> float:
    """Perform mathematical calculations."""
    with Path("notes").open("a") as notes:
        notes.write(f"calculate {expression}\\n")
    return float(sum(map(float, expression.split("+"))))
'''
SYSTEM = """
agents:
  assistant: {tools: [calculator, execute_python_code, perform_web_search]}
categories:
  core_utils: {enabled: true}
execution: {timeout: 30, max_retries: 3}
stats: {track_usage: true, storage_path: "data/tool_stats.json"}
journal: {path: runs.db}
"""
CALLS = [
    ("calculator", {"expression": "40+2"}, "a"),
    ("execute_python_code", {"code": "print(1)"}, "b"),
    ("perform_web_search", {"query": "tools"}, "c"),
]
SCRIPT = [{"text": "Three at once.", "calls": CALLS}, {"text": "It is 42."}]
EFFECTS = ["calculate 40+2", "execute print(1)", "search tools"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The seed's project: its two files as printed, the module that they name, and a third file for the rest."""
    shutil.copy(HERE / "agentic_ai_tools.yml", tmp_path / "tools.yml")
    shutil.copy(HERE / "agentic_ai_config.yml", tmp_path / "config.yml")
    (tmp_path / "src" / "tools" / "core").mkdir(parents=True)
    (tmp_path / "src" / "tools" / "core" / "calculator_tool.py").write_text(CALCULATOR)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("CODE_EXEC_AUTH_TOKEN", seed_servers.TOKEN)
    monkeypatch.delenv("PRAVAL_TOOLS_CONFIG", raising=False)
    return tmp_path


@pytest.fixture
def servers(folder: Path) -> Iterator[None]:
    """Both servers, at the addresses of the seed; where one is taken, the copy of `config.yml` names a free one."""
    processes, ports = [], name_free_ports(folder)
    try:
        for name, port in ports.items():
            command = [sys.executable, seed_servers.__file__, name, str(port), str(folder / "notes")]
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for port in ports.values():
            wait_for(port)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def name_free_ports(folder: Path) -> dict[str, int]:
    """Return the ports of the servers: those of the seed, or free ones, which its copy then names."""
    ports, config = {name: find_port(port) for name, port in PORTS.items()}, folder / "config.yml"
    for name, port in ports.items():
        config.write_text(config.read_text().replace(f"localhost:{PORTS[name]}", f"localhost:{port}"))
    return ports


def find_port(wanted: int) -> int:
    """Return the wanted port of the loopback, or a free one where something listens there."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", wanted)) != 0:
            return wanted
    with socket.create_server(("127.0.0.1", 0)) as place:
        free: int = place.getsockname()[1]
        return free


def wait_for(port: int) -> None:
    """Wait until something listens."""
    deadline = time.monotonic() + 30
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < deadline, "the server never came"
        time.sleep(0.05)


def live(url: str, folder: Path, *, stop: bool) -> subprocess.CompletedProcess[str]:
    """Let the program live, to its end or until it is killed."""
    command = [sys.executable, seed_driver.__file__, url, str(int(stop))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env={**os.environ})


def reply_to(body: Any) -> Any:
    """Return the reply to a request: the second once results are among the messages."""
    return SCRIPT[any(message["role"] == "tool" for message in body["messages"])]


class TestConfiguration:
    def test_the_files_are_those_of_the_seed(self, folder: Path) -> None:
        """Both kinds of tools are one list, each with what its entry says, and the seed's defaults."""
        registry = ToolRegistry.from_config("tools.yml", "config.yml")
        tools = {
            tool.name: (tool.metadata.category, tool.metadata.speed, tool.metadata.safety, tool.metadata.source.kind)
            for tool in registry
        }

        assert {
            "calculator": ("core_utils", "fast", "sandboxed", "config"),
            "execute_python_code": ("general", "medium", "sandboxed", "mcp"),
            "perform_web_search": ("general", "medium", "external", "mcp"),
        } == tools
        assert 10 == registry.get_tool("execute_python_code").parameters["properties"]["timeout_seconds"]["default"]

    def test_the_command_line_works_with_them(self, folder: Path, run: Any) -> None:
        """`check`, `list`, `show` and `call`, with the files of the folder or with those that are named."""
        (folder / "system.yml").write_text(SYSTEM)
        named = ("--config", "tools.yml", "--config", "config.yml", "--config", "system.yml")

        assert (0, "no problems in 3 tools and 0 agents.\n", "") == run("check")
        assert (0, "no problems in 3 tools and 1 agent.\n", "") == run(*named, "check")
        assert "execute_python_code" in run("list")[1]
        assert "Perform mathematical calculations..." in run(*named, "show", "calculator")[1]
        assert (0, "42.0\n", "") == run(*named, "call", "assistant", "calculator", "expression=40+2")
        assert (1, "") == run(*named, "call", "assistant", "perform_web_search", "query=x")[:2]

    def test_the_command_line_calls_a_server(self, folder: Path, servers: None, run: Any) -> None:
        """`call` runs a tool of a server that `config.yml` names."""
        (folder / "system.yml").write_text(SYSTEM)
        named = ("--config", "tools.yml", "--config", "config.yml", "--config", "system.yml")

        assert (0, "pages about x\n") == run(*named, "call", "assistant", "perform_web_search", "query=x")[:2]
        assert ["search x"] == (folder / "notes").read_text().splitlines()

    def test_a_tool_whose_server_is_down_fails_alone(self, folder: Path) -> None:
        """In one batch, the tool of the module has its result, and that of the server an error."""
        (folder / "system.yml").write_text(SYSTEM)
        name_free_ports(folder)
        with ToolRegistry.from_config("tools.yml", "config.yml", "system.yml") as registry:
            calls = [ToolCall(name, tool, arguments, "assistant") for tool, arguments, name in CALLS[::2]]
            results = registry.execute_batch(calls)

        assert [Outcome.OK, Outcome.TOOL_ERROR] == [result.outcome for result in results]


class TestThirteenSteps:
    def test_killed_and_resumed_nothing_happens_twice(self, folder: Path, servers: None, run: Any) -> None:
        """
        The steps, one by one: the definitions of both files (1), formatted for the model (2, 3), its calls (4, 5),
        dispatched by their source (6-8), counted (9); here it is killed. Resumed, the results that are recorded
        (10) go to the model as messages (11, 12), and its answer is the end (13).
        """
        (folder / "system.yml").write_text(SYSTEM)
        with ModelServer([reply_to] * 9) as model:
            killed = live(model.url, folder, stop=True)
            effects = sorted((folder / "notes").read_text().splitlines())
            done = live(model.url, folder, stop=False)
            requests = model.requests

        assert -signal.SIGKILL == killed.returncode, killed.stderr
        assert 0 == done.returncode, done.stderr
        assert EFFECTS == effects == sorted((folder / "notes").read_text().splitlines())
        printed = json.loads(done.stdout)
        assert (["calculator", "execute_python_code", "perform_web_search"], "It is 42.") == (
            printed["tools"],
            printed["text"],
        )
        assert [42.0, "ran 8 characters", "pages about tools"] == list(printed["results"].values())
        uses = json.loads(run("--config", "system.yml", "stats", "--json")[1])
        assert dict.fromkeys(printed["tools"], 1) == {tool: stats["uses"] for tool, stats in uses.items()}
        assert [0, 3] == [sum(message["role"] == "tool" for message in body["messages"]) for body in requests]
        assert (folder / "data" / "tool_stats.json").exists()
