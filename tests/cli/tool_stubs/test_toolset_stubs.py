"""The command `docs stubs`: mypy and pyright take right calls of an agent's tools and refuse wrong ones."""

# Tests of: toolset_stubs, schema_types, type_text, prepare

from __future__ import annotations

import ast
import collections.abc
import datetime
import enum
import json
import pathlib
import re
import shutil
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import pytest
from cli_rig import ENV, ROOT, App, Run, app, run  # noqa: F401
from hypothesis import given, settings
from hypothesis import strategies as st

from praval_tools import Agent, Tool, ToolRegistry
from praval_tools.cli.tool_stubs.schema_types import SchemaWriter
from praval_tools.cli.tool_stubs.toolset_stubs import list_agent_stubs, write_module, write_stub
from praval_tools.cli.tool_stubs.type_text import TypeWriter, UnwritableHintError, to_class_name

PROGRAM = (ROOT / "tests" / "support" / "stub_program.py").read_text("utf-8")

RIGHT_CALLS = """
import asyncio
import datetime
import program
from agent_tools import Analyst, AnalystTools, get_agent
from praval_tools import Agent

analyst = get_agent(program.registry, "analyst")
rows: list[dict[str, str]] = analyst.tools.csv_parse("x", 3, sep=";")
rows = analyst.tools.csv_parse(path="x")
number: int = analyst.tools.sql_query(text="a", args=[1])
point: program.Point = analyst.tools.class_(program.Point(1), when=datetime.date(2020, 1, 1), options={"depth": 1})
analyst.tools.mcp_tool(
    query="q", limit=None, mode="a", self=True, meta={"a": 1}, tags=["a"],
    filter={"field": "f", "x-y": 1.0, "kids": [{"name": "n", "next": {"name": "m"}}]},
)
analyst.tools.use_local(value={"a": 1, "b": [2]})
numbers: list[int] = analyst.tools.keys_(list=["a"], str={}, more=1)
for name in analyst.tools:
    analyst.tools[name].description
described: str = analyst.tools.csv_parse.description


def parse(tools: AnalystTools, agent: Analyst) -> list[dict[str, str]]:
    return tools.csv_parse(path=agent.name)


async def ask() -> int:
    return await analyst.tools.sql_query.acall(text="a")


def count(tools: AnalystTools) -> int:
    return len(tools.csv_parse(path="x"))


print(Agent("counter", tools=["csv_parse"], registry=program.registry, function=count)())
print(len(parse(analyst.tools, analyst)), asyncio.run(ask()), number, len(numbers))
"""

WRONG_CALLS = """
import program
from agent_tools import get_agent
analyst = get_agent(program.registry, "analyst")
analyst.tools.csv_prase(path="x")  # no such tool
analyst.tools.csv_parse()  # an argument is missing
analyst.tools.csv_parse(path=1)  # of another type
analyst.tools.csv_parse(path="x", nope=1)  # one too many
analyst.tools.csv_parse(path="x", sep="|")  # none of the values
number: int = analyst.tools.csv_parse(path="x")  # another result
analyst.tools.mcp_tool(query=1)  # of another type, by a JSON Schema
analyst.tools.mcp_tool(query="q", mode="z")  # none of the values
analyst.tools.mcp_tool(query="q", filter={"x-y": 1.0})  # a key is missing
analyst.tools.mcp_tool(query="q", more=1)  # one too many
get_agent(program.registry, "analist")  # no such agent
get_agent(program.registry, "intern").tools.csv_parse(path="x")  # not that agent's tool
"""


def run_tool(*command: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a Python tool in a folder."""
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env={**ENV, **more}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program, the stubs of its agents, right calls and wrong ones."""
    folder = tmp_path_factory.mktemp("stubs")
    for name, text in (("program", PROGRAM), ("right", RIGHT_CALLS), ("wrong", WRONG_CALLS)):
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    done = run_tool("praval_tools", "docs", "stubs", "--app", "program:registry", folder=folder)
    assert (0, "Wrote agent_tools.pyi: 5 agents, 2 files changed.\n") == (done.returncode, done.stdout), done.stderr
    return folder


WRONG_LINES = {number for number, line in enumerate(WRONG_CALLS.split("\n"), 1) if "  # " in line}


class TestCheckers:
    def test_mypy(self, folder: Path) -> None:
        """mypy in its strict mode accepts the stub and every right call, and refuses exactly the wrong ones."""
        files = ("agent_tools.pyi", "right.py", "wrong.py", "program.py")
        done = run_tool("mypy", "--strict", "--cache-dir=cache", *files, folder=folder, MYPYPATH=str(ROOT))

        errors = re.findall(r"^([\w.]+):(\d+): error", done.stdout, re.MULTILINE)
        assert {("wrong.py", str(line)) for line in WRONG_LINES} == set(errors), done.stdout + done.stderr

    def test_pyright(self, folder: Path) -> None:
        """So does pyright in its strict mode."""
        if shutil.which("node") is None or run_tool("pyright", "--version", folder=folder).returncode != 0:
            pytest.skip("pyright cannot run here: it needs its package, node, and the network at its first start")
        files = ["agent_tools.pyi", "right.py", "wrong.py"]
        settings = {"include": files, "extraPaths": [str(ROOT)], "typeCheckingMode": "strict"}
        (folder / "pyrightconfig.json").write_text(json.dumps({**settings, "reportUnusedExpression": False}))

        done = run_tool("pyright", "--outputjson", "--pythonpath", sys.executable, folder=folder)

        found = {
            (Path(one["file"]).name, one["range"]["start"]["line"] + 1)
            for one in json.loads(done.stdout)["generalDiagnostics"]
            if one["severity"] == "error"
        }
        assert {("wrong.py", line) for line in WRONG_LINES} == found, done.stdout

    def test_ruff(self, folder: Path) -> None:
        """ruff finds nothing in the two files."""
        rules = "E,F,I,UP,B,C4,SIM,RET,PIE,W"
        done = run_tool("ruff", "check", "--isolated", "--select", rules, "agent_tools.py", "agent_tools.pyi",
                        folder=folder)  # fmt: skip

        assert "All checks passed!\n" == done.stdout

    def test_the_program_runs_with_and_without_the_stub(self, folder: Path, tmp_path: Path) -> None:
        """The module is enough to run the calls; at run time its classes are the plain ones."""
        for name in ("program", "right", "agent_tools"):
            shutil.copy(folder / f"{name}.py", tmp_path)

        for place in (folder, tmp_path):
            done = subprocess.run([sys.executable, "right.py"], cwd=place, env=ENV, capture_output=True, text=True)
            assert ("1\n1 0 1 1\n", "") == (done.stdout, done.stderr)


class TestCommand:
    def test_hash_seeds_and_order_do_not_count(self, folder: Path, tmp_path: Path) -> None:
        """Processes with other hash seeds write the same bytes."""
        shutil.copy(folder / "program.py", tmp_path)
        for seed in ("1", "2"):
            target = ("praval_tools", "docs", "stubs", "--app", "program:registry", "--out", seed)
            run_tool(*target, folder=tmp_path, PYTHONHASHSEED=seed)
        for name in ("agent_tools.py", "agent_tools.pyi"):
            expected = (folder / name).read_bytes()
            assert expected == (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()

    def test_check(self, run: Run, app: App) -> None:
        """`--check` exits with 1 where the files are not up to date, and writes nothing."""
        at = ("--app", f"{app()}:registry")
        target = ("docs", "stubs", *at, "--module", "tools_of_agents")

        missing = "tools_of_agents.py is missing\ntools_of_agents.pyi is missing\n"
        again = f"praval-tools {' '.join(at)} docs stubs --module tools_of_agents"
        hint = f"tools_of_agents.pyi is not up to date: run {again}.\n"
        assert (1, missing, hint) == run(*target, "--check")
        assert (0, "Wrote tools_of_agents.pyi: 2 agents, 2 files changed.\n", "") == run(*target)
        assert (0, "tools_of_agents.pyi is up to date.\n", "") == run(*target, "--check") == run(*target)
        assert 1 == run(*target, "--check", "--agent", "intern")[0]
        assert 0 == run(*target, "--agent", "intern")[0]
        assert "Treasurer" not in Path("tools_of_agents.pyi").read_text()

    def test_a_module_of_the_program_is_not_overwritten(self, run: Run, app: App) -> None:
        """A file that this command did not write stays; a name that is not that of a module is wrong usage."""
        name = app()
        before = Path(f"{name}.py").read_text()

        code, _, err = run("docs", "stubs", "--app", f"{name}:registry", "--module", name)

        assert 1 == code and f"{name}.py was not written by this command" in err
        assert before == Path(f"{name}.py").read_text()
        assert 2 == run("docs", "stubs", "--app", f"{name}:registry", "--module", "../x")[0]


class Color(enum.Enum):
    """A class that a stub can import."""

    RED = "red"


Number = NewType("Number", int)


class TestTypes:
    @pytest.mark.parametrize(
        ("hint", "text"),
        [
            (int, "int"),
            (None, "None"),
            (int | None, "int | None"),
            (list[int | str], "list[int | str]"),
            (list, "list[typing.Any]"),
            (dict, "dict[typing.Any, typing.Any]"),
            (tuple, "tuple[typing.Any, ...]"),
            (tuple[int, ...], "tuple[int, ...]"),
            (tuple[()], "tuple[()]"),
            (Literal["a'\n\u202e", 1, None, True], 'typing.Literal["a\'\\n\\u202e", 1, None, True]'),
            (Annotated[int, "x"], "int"),
            (Number, "int"),
            (datetime.datetime, "datetime.datetime"),
            (pathlib.Path, "pathlib.Path"),
            (collections.abc.Mapping[str, int], "collections.abc.Mapping[str, int]"),
            (typing.Sequence[int], "collections.abc.Sequence[int]"),
            (Any, "typing.Any"),
        ],
    )
    def test_hints(self, hint: Any, text: str) -> None:
        """A hint is written as it is, with the modules that it needs."""
        writer = TypeWriter()

        assert text == writer.write(hint)
        assert {"typing", "collections.abc", "datetime", "pathlib"} >= writer.modules

    def test_classes_of_the_program(self) -> None:
        """A class is named with its module; one that is local, and a hint without end, cannot be written."""
        local = type("Local", (), {"__qualname__": "f.<locals>.Local"})

        assert f"{__name__}.Color" == TypeWriter().write(Color)
        assert f"typing.Literal[{__name__}.Color.RED]" == TypeWriter().write(Literal[Color.RED])
        odd = enum.Enum("Odd", ["a-b"], module=__name__)
        for hint in (local, list[local], Literal[odd["a-b"]], Callable[[int], int], re.Pattern):
            with pytest.raises(UnwritableHintError):
                TypeWriter().write(hint)

    @pytest.mark.parametrize(
        ("name", "class_name"),
        [("csv_parse", "CsvParse"), ("data bot", "DataBot"), ("a/../b", "AB"), ("2", "Agent2"), ("日本", "日本"),
         ("!", "Agent"), ("plugin-x.y", "PluginXY"), ("ﬁle", "File")],
    )  # fmt: skip
    def test_class_names(self, name: str, class_name: str) -> None:
        """The name of a class is made of the words of an agent's or a tool's name."""
        assert class_name == to_class_name(name)

    @pytest.mark.parametrize(
        ("schema", "text"),
        [
            ({"type": "string"}, "str"),
            ({"type": ["integer", "null"]}, "int | None"),
            ({"enum": ["a", 1, True]}, "typing.Literal['a', 1, True]"),
            ({"enum": [1.5]}, "typing.Any"),
            ({"const": "x"}, "typing.Literal['x']"),
            ({"type": "array", "items": {"type": "number"}}, "list[float]"),
            ({"type": "object"}, "dict[str, typing.Any]"),
            ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
            ({"anyOf": [{"type": "string"}, {}]}, "typing.Any"),
            ({"allOf": [{"type": "string"}]}, "str"),
            ({"$ref": "#/nowhere"}, "typing.Any"),
            ({"$ref": "http://example.com"}, "typing.Any"),
            (True, "typing.Any"),
        ],
    )
    def test_schemas(self, schema: object, text: str) -> None:
        """A JSON Schema is written as the type of what fits it."""
        assert text == SchemaWriter({}, "_T", {}).write(schema, "x")

    def test_a_schema_that_contains_itself(self) -> None:
        """Objects may contain themselves; of anything else that does, the type is not known."""
        root = {
            "$defs": {
                "Node": {"properties": {"next": {"$ref": "#/$defs/Node"}, "str": {"type": "string"}}},
                "List": {"type": "array", "items": {"$ref": "#/$defs/List"}},
            }
        }
        definitions: dict[str, str] = {}
        writer = SchemaWriter(root, "_T", definitions)

        assert "_TNode" == writer.write({"$ref": "#/$defs/Node"}, "x")
        assert "typing.NotRequired[_TNode]" in definitions["_TNode"]
        assert "typing.TypedDict(" in definitions["_TNode"], "a key that hides a type is written as a text"
        assert "list[typing.Any]" == writer.write({"$ref": "#/$defs/List"}, "x")


def iter_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines, functions left out."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


TEXTS = st.text(max_size=30) | st.sampled_from(['"""', "\\", '"', "'''", "x\\", '\n"""\n', "{x}", "\u202e", "\x00"])
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([{}, True, {"type": "string"}, {"type": "null"}, {"enum": ["a", None]}]),
    lambda inner: (
        st.builds(
            lambda properties, required: {"type": "object", "properties": properties, "required": required},
            st.dictionaries(
                TEXTS | st.sampled_from(["self", "class", "str", "__x", "_self", "more", "ﬁ", "fi"]), inner, max_size=4
            ),
            st.lists(TEXTS, max_size=2),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
    ),
    max_leaves=8,
)
AGENT_NAMES = st.text(min_size=1, max_size=12).filter(
    lambda name: name.isprintable() and ":" not in name and name.strip() == name and name != "operator"
)


class TestAnyNames:
    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(AGENT_NAMES | st.sampled_from(["any", "Any", "agent", "int", "analyst", "ANALYST"]), max_size=4),
        st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,5}", fullmatch=True), SCHEMAS, max_size=4),
        TEXTS,
    )
    def test_the_files_are_python(self, agents: list[str], tools: dict[str, Any], text: str) -> None:
        """Whatever agents, tools, parameters and descriptions are named, both files are Python with unique names."""
        registry = ToolRegistry()
        for name, schema in tools.items():
            schema = schema if isinstance(schema, dict) and "properties" in schema else {"properties": {"x": schema}}
            schema = {**schema, "required": [one for one in schema.get("required", ()) if one in schema["properties"]]}
            try:
                tool = Tool(name, text or "x", schema, lambda **more: more, shared=True)
            except Exception:  # a name or a schema that no tool may have
                continue
            registry.register_tool(tool)
        for agent in set(agents):
            Agent(agent, registry=registry)
        stubs = list_agent_stubs(registry, registry.agents)

        stub, module = ast.parse(write_stub(registry, stubs)), ast.parse(write_module(stubs))

        names = list(iter_names(stub))
        assert len(names) == len(set(names)) and set(iter_names(module)) <= set(names)
        compile(write_stub(registry, stubs), "stub", "exec")

    @given(TEXTS)
    def test_a_description_stays_a_docstring(self, text: str) -> None:
        """A description ends no docstring, whatever is in it."""
        registry = ToolRegistry()
        try:
            registry.register_tool(Tool("t", f"a {text}", {"properties": {}}, lambda: 1, shared=True))
        except Exception:  # half of a surrogate pair
            return
        Agent("analyst", registry=registry)

        tree = ast.parse(write_stub(registry, list_agent_stubs(registry, ["analyst"])))

        (tool, *_) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        assert 2 == len(tool.body) and all(len(part.body) == 1 for part in tool.body)  # type: ignore[attr-defined]
