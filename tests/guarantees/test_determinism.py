"""Lists and exports are the same in every process; importing costs little and touches nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json
from enum import Enum
from typing import Literal
from praval_tools import Agent, Tool, ToolRegistry, tool, GrantError

class Colour(Enum):
    RED = "red"
    BLUE = "blue"

registry = ToolRegistry()
names = ["zeta", "alpha", "mid", "beta", "omega", "add", "wire"]
for at, name in enumerate(names):
    @tool(name, registry=registry, owned_by="ann" if at % 2 else None, category="abc"[at % 3], shared=at % 3 == 0,
          tags={"x", "y", "z", name})
    def function(c: Colour, s: set[Literal["p", "q", "r"]], d: dict[str, float] = {"b": 1.0, "a": 2.0}) -> set[str]:
        '''Do something.'''
        return set()

Agent("ann", tools=["later", "soon", "wire"], tool_categories=["a", "b"], registry=registry)
for agent in ("bob", "cid"):
    for name in names:
        registry.assign_tool_to_agent(name, agent, where={"s": {"maxItems": 2}})
registry.block("wire", "bob")
registry.disable(tag="mid")
out = []
for agent in ("ann", "bob", "cid"):
    out += [registry.agent(agent).list_tools(), registry.toolset(agent).schemas_json().decode()]
    out += [repr(registry.explain(agent, name)) for name in ("add", "wire", "mid", "nothing")]
out += [[one.name for one in registry.search_tools(tags=["x", "q"])], registry.get_registry_stats()]
out += [repr(registry.problems()), [one.fingerprint for one in registry], registry.agents]
for form in ("openai-chat", "openai-responses", "anthropic", "gemini", "mcp"):
    out.append(registry.get_tool("add").get_schema(form))
for bad in ({"ss": {"maxItems": 1}, "cc": {"const": 1}}, {"c": {"maxLenght": 2, "minLenght": 3}}):
    try:
        registry.grant("add", "dan", where=bad)
    except GrantError as error:
        out.append(str(error))
try:
    Tool.from_function(lambda x: 1, "f", risk_level="bad", speed="bad", colour=1, size=2)
except Exception as error:
    out.append(str(error))
result = registry.agent("cid").tools.execute
from praval_tools import ToolCall
out.append(registry.execute(ToolCall("1", "add", {"c": "green", "s": ["p", "x"], "u": 1, "v": 2}, "cid")).error)
import re
print(re.sub(r"id='[0-9a-f]{32}'|datetime.datetime\\([^)]*\\)", "", json.dumps(out)))
"""
MODELS = """
import json, sys
from dataclasses import dataclass, field
from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, RootModel, computed_field, field_serializer
from praval_tools import Agent, ToolCall, ToolRegistry

COLOURS = {"red", "green", "blue", "cyan", "black"}

class Words(RootModel[frozenset[str]]): pass

class Name(BaseModel, frozen=True):
    name: str

@dataclass(slots=True)
class Labels:
    labels: set[str] = field(default_factory=lambda: set(COLOURS))

class Options(BaseModel):
    colours: set[str] = Field(default_factory=lambda: set(COLOURS), examples=[COLOURS])
    by_name: dict[str, list[set[str]]] = {"a": [COLOURS]}

class Page(BaseModel):
    options: Options = Options(colours=COLOURS)
    words: Words = Words(COLOURS)
    names: set[Name] = {Name(name=one) for one in COLOURS}
    labels: Labels = Labels()
    groups: dict[str, set[frozenset[str]]] = Field({"a": {frozenset(COLOURS), frozenset("ab")}}, exclude=False)
    ranked: set[str] = COLOURS

    model_config = ConfigDict(alias_generator=AliasGenerator(serialization_alias=str.title, validation_alias=str.title))

    @field_serializer("ranked", when_used="json")
    def rank(self, values: set[str]) -> list[str]:
        return sorted(values, key=len) if len(values) < 3 else sorted(values, reverse=True)

    @computed_field
    def letters(self) -> set[str]:
        return {one[:1] for one in COLOURS}

registry = ToolRegistry(journal=sys.argv[1])
Agent("ann", registry=registry)

@registry.tool(owned_by="ann")
def fetch(options: Options = Options(colours=COLOURS), page: Page | None = None) -> Page:
    'Fetch.'
    return Page()

registry.grant("fetch", "bob", where={"options": {"maxProperties": 2}})
with registry.run("r"):
    results = [registry.agent("ann").execute(ToolCall(name="fetch")) for _ in range(2)]
print(json.dumps([registry.toolset("ann").schemas_json().decode(), registry.get_tool("fetch").fingerprint]))
print(*(f"{type(one.result).__name__} {one.for_model()}" for one in results))
"""
SILENCE = """
import logging, os, sys, threading, warnings
before = (dict(os.environ), list(warnings.filters), logging.root.handlers[:], list(logging.root.manager.loggerDict))
import praval_tools
after = (dict(os.environ), list(warnings.filters), logging.root.handlers[:], list(logging.root.manager.loggerDict))
assert before == after, "something was touched"
assert threading.active_count() == 1
heavy = ("asyncio", "click", "rich", "sqlalchemy", "alembic", "mcp", "pydantic", "pytest", "hypothesis",
         "jsonschema_rs",
         "docstring_parser", "numpy", "praval_tools.cli", "praval_tools.demo", "praval_tools.testing", "concurrent")
print([name for name in heavy if name in sys.modules])
"""
LEAN = """
import logging, sys
import attrs, msgspec, pluggy
foundations = set(sys.modules)
import praval_tools
loaded = set(sys.modules) - foundations
late = ("hashlib", "hmac", "json", "heapq", "dataclasses", "random", "difflib", "sqlite3", "subprocess", "tempfile")
print([name for name in late if name in loaded])
"""


def _run(program: str, seed: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return done.stdout


class TestEveryProcess:
    def test_says_the_same_under_any_hash_seed(self) -> None:
        """
        Lists, exports, explanations, problems and messages do not depend on PYTHONHASHSEED.
        """
        outputs = {_run(PROGRAM, seed) for seed in ("0", "1", "2", "12345")}

        assert 1 == len(outputs)
        assert len(outputs.pop()) > 5_000

    def test_reads_a_model_with_sets_again(self, tmp_path: Path) -> None:
        """Broken promise: pydantic writes sets in the order of their hashes: results came back as dicts."""
        lives = {_run(MODELS, seed, str(tmp_path / "j.db")) for seed in ("1", "2", "3")}

        assert 1 == len(lives)
        written = lives.pop().splitlines()[1]
        assert 2 == written.count('Page {"Options"')
        assert 2 == written.count('"Ranked":["red","green","cyan","blue","black"]')


class TestImport:
    def test_loads_nothing_heavy_and_touches_nothing(self) -> None:
        """
        `import praval_tools` starts no thread, reads no environment, sets no filter, and loads no optional part.
        """
        assert "[]\n" == _run(SILENCE, "0")

    def test_loads_no_module_that_only_some_calls_need(self) -> None:
        """
        `import praval_tools` loads no part of the standard library that is used by single features, such as hashes.
        """
        assert "[]\n" == _run(LEAN, "0")
