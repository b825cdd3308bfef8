"""The command `llm` with a model that replies by a script, in a folder with a program that has a registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import json
import os

import llm

steps = iter(json.loads(os.environ["SCRIPT"]))


class Scripted(llm.Model):
    model_id = "scripted"
    supports_tools = True
    can_stream = False

    def execute(self, prompt, stream, response, conversation):
        if prompt.tool_results:
            shown = [[result.output, len(result.attachments)] for result in prompt.tool_results]
            yield json.dumps(shown) + "\\n"
        step = next(steps)
        if isinstance(step, str):
            yield step
        else:
            for number, (name, arguments) in enumerate(step):
                response.add_tool_call(llm.ToolCall(name=name, arguments=arguments, tool_call_id=f"call_{number}"))


class AsyncScripted(llm.AsyncModel):
    model_id = "scripted"
    supports_tools = True
    can_stream = False

    async def execute(self, prompt, stream, response, conversation):
        for part in Scripted.execute(self, prompt, stream, response, conversation):
            yield part


@llm.hookimpl
def register_models(register):
    register(Scripted(), AsyncScripted())
"""
APP = '''
from pathlib import Path

from praval_tools import Ask, Content, ToolRegistry

registry = ToolRegistry()


@registry.tool("shop.price", owned_by="clerk")
def price(item: str) -> float:
    """Return the price of an item."""
    return 7.5


@registry.tool("draw", owned_by="clerk")
async def draw() -> list[Content]:
    """Draw something."""
    return [Content.of_text("a dot"), Content.image(b"png", "image/png")]


@registry.tool("refund", owned_by="boss")
def refund(order: int) -> str:
    """Refund an order."""
    return "refunded"


@registry.tool("pay", owned_by="clerk", requires_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    Path("paid").write_text(str(amount))
    return f"paid {amount}"


@registry.tool("Once", owned_by="boss")
def once() -> str:
    """Do something."""
    return "done"


@registry.tool("mail", owned_by="clerk")
def mail(to: str) -> str:
    """Write a mail."""
    return "sent"


registry.grant("Once", "clerk", max_calls=1)
registry.add_policy(lambda agent, tool, arguments: Ask(f"it goes to {arguments['to']}") if "to" in arguments else None)
'''
RunLlm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_llm(tmp_path: Path) -> RunLlm:
    """Runs `llm` with arguments, with a script for its model, and with variables of the environment."""
    plugin = tmp_path / "plugin"
    about = plugin / "scripted_llm-1.0.dist-info"
    about.mkdir(parents=True)
    (plugin / "scripted_llm.py").write_text(MODEL)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: scripted-llm\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[llm]\nscripted = scripted_llm\n")
    (tmp_path / "shop.py").write_text(APP)

    def run(*arguments: str, script: Any = (), **options: Any) -> subprocess.CompletedProcess[str]:
        variables = {"PRAVAL_TOOLS_APP": "shop:registry", "PRAVAL_TOOLS_AGENT": "clerk", **options.pop("env", {})}
        env = {name: value for name, value in os.environ.items() if not name.startswith(("LLM_", "PRAVAL_TOOLS_"))}
        env |= {"PYTHONPATH": str(plugin), "LLM_USER_PATH": str(tmp_path / "llm"), "SCRIPT": json.dumps(script)}
        env |= {name: value for name, value in variables.items() if value}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        command = [str(Path(sys.executable).with_name("llm")), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=env, text=True, timeout=60, check=False, **streams)

    return run
