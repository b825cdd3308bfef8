"""Configurations that are right: what they declare is there, as if code had declared it."""

from __future__ import annotations

import sys
import traceback
from datetime import timedelta
from pathlib import Path

import pytest

from praval_tools import (
    Agent,
    ConfigError,
    MissingExtraError,
    Outcome,
    ToolCall,
    ToolExecutionError,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.config_loading.source import ConfigurationSource, read_configuration

# Tests of: functions, settings, servers, tools/deferred, registry/from_files, config/times

TOOLS = """
tools:
  - name: add
    description: Add two numbers.
    module: sums
    function: add
    parameters_schema:
      type: object
      properties: {x: {type: number}, y: {type: number}}
      required: [x]
    category: arithmetic
  - {name: plus, module: sums, function: add, owned_by: ann, speed: fast}
  - {name: later, module: sums, function: later, shared: true}
agents:
  ann: {tools: [add]}
  bob: {tool_categories: [arithmetic], auto_discover_tools: false}
  eve:
"""


def write(folder: Path, text: str, name: str = "tools.yml") -> str:
    """Write a configuration, and return its path."""
    (folder / name).write_text(text, encoding="utf-8")
    return name


def call(registry: ToolRegistry, agent: str, tool: str, **arguments: object) -> Outcome:
    """Return how a call ends."""
    return registry.execute(ToolCall(None, tool, arguments, agent)).outcome


class TestTools:
    def test_entries_are_tools(self, folder: Path) -> None:
        """
        What an entry says is the tool's metadata; what it leaves out has the defaults, or comes from the function.
        """
        registry = ToolRegistry.from_config(write(folder, TOOLS))
        add, plus, later = registry.list_all_tools()

        assert ("Add two numbers.", "medium", "native", "arithmetic") == (
            add.description, add.metadata.speed, add.metadata.safety, add.metadata.category
        )  # fmt: skip
        assert ("Add.", "fast", "ann", ["x"]) == (
            plus.description, plus.metadata.speed, plus.metadata.owned_by, plus.parameters["required"]
        )  # fmt: skip
        assert ("config", "tools.yml", 3) == (
            add.metadata.source.kind, add.metadata.source.file, add.metadata.source.line
        )  # fmt: skip
        assert later.is_async

    def test_a_module_is_imported_at_the_first_call(self, folder: Path) -> None:
        """
        Listing, exporting, explaining and granting a tool that says description and schema do not import its module.
        """
        text = TOOLS.partition("  - {name: plus")[0] + "agents: {ann: {tools: [add]}, bob: {}}\n"
        text += "grants:\n  - {tool: add, agent: bob, where: {x: {const: 1}}}\n"
        registry = ToolRegistry.from_config(write(folder, text))
        ann = registry.agent("ann")
        assert (["add"], 1) == (ann.list_tools(), len(ann.schemas()))
        assert ann.explain("add", {"x": 1}).allowed
        assert [] == registry.problems()
        registry.get_tool_info("add")

        assert "sums" not in sys.modules
        assert 3 == ann.call("add", x=1, y=2)
        assert "sums" in sys.modules

    def test_sync_and_async_functions_are_distinguished_at_the_first_call(self, folder: Path) -> None:
        """A tool is as async as its function, also where that is not known yet."""
        schema = "parameters_schema: {type: object, properties: {x: {type: number}}, required: [x]}"
        text = f"tools:\n  - {{name: t, description: D., module: sums, function: later, {schema}, shared: true}}\n"
        registry = ToolRegistry.from_config(write(folder, text))

        assert 5 == registry.execute_tool("t", x=5)
        assert registry.get_tool("t").is_async

    def test_a_schema_that_offers_the_context_of_its_function_is_refused_at_the_first_call(self, folder: Path) -> None:
        """What a model gave for it was judged and recorded, and never arrived."""
        code = "def add(x: float, context: ToolContext) -> None: CALLS.append(x)"
        (folder / "sums.py").write_text(f"from praval_tools import ToolContext\nCALLS = []\n{code}\n", "utf-8")
        schema = "parameters_schema: {type: object, properties: {x: {type: number}, context: {type: object}}}"
        text = f"tools:\n  - {{name: t, description: D., module: sums, function: add, {schema}, shared: true}}\n"
        registry = ToolRegistry.from_config(write(folder, text))

        for arguments in ({"x": 1, "context": {"agent": "boss"}}, {"x": 1}):
            with pytest.raises(ToolExecutionError, match="'context' is injected as the ToolContext"):
                registry.agent("ann").call("t", **arguments)
        assert [] == sys.modules["sums"].CALLS

    @pytest.mark.parametrize("schema", ["", ", parameters_schema: {type: object, properties: {x: {type: number}}}"])
    @pytest.mark.parametrize(
        ("function", "text"),
        [
            ("module: nowhere, function: add", "module 'nowhere' cannot be imported: ModuleNotFoundError"),
            ("module: sums, function: ad", "module 'sums' has no function 'ad'. Did you mean 'add'?"),
            ("module: sums, function: CALLS", "'CALLS' in module 'sums' is not a function"),
            ("module: broken, function: add", "module 'broken' cannot be imported: ValueError: at the import"),
        ],
    )
    def test_a_function_that_is_missing_fails_its_calls_only(
        self, folder: Path, function: str, text: str, schema: str
    ) -> None:
        """The registry loads, and each call is an error that names the module."""
        (folder / "broken.py").write_text("raise ValueError('at the import')")
        entry = f"tools:\n  - {{name: t, description: D., {function}, shared: true{schema}}}\n"
        registry = ToolRegistry.from_config(write(folder, entry))

        result = registry.execute(ToolCall(None, "t", {}, "ann"))
        assert Outcome.TOOL_ERROR is result.outcome
        assert result.error.startswith(text)

    def test_a_function_without_hints_is_a_problem(self, folder: Path) -> None:
        """The problems of a function are those of its entry."""
        with pytest.raises(ConfigError, match=r"line 2: tools\[0\]\.function: parameter 'x' has no type hint"):
            ToolRegistry.from_config(write(folder, "tools:\n  - {name: t, module: sums, function: unhinted}\n"))


class TestAccess:
    def test_agents_reach_what_they_list_own_and_request(self, folder: Path) -> None:
        """Lists, owners, sharing and categories count as they do for agents that code declares."""
        registry = ToolRegistry.from_config(write(folder, TOOLS))

        assert {"ann": ["add", "plus", "later"], "bob": ["add"], "eve": ["later"]} == {
            name: registry.agent(name).list_tools() for name in registry.agents
        }

    def test_grants_have_terms(self, folder: Path) -> None:
        """Bounds, counts, expiry and the right to lend on."""
        text = (
            TOOLS
            + """
grants:
  - {tool: add, agent: eve, where: {x: {maximum: 10}}, max_calls: 2, reason: a trial}
  - {tool: plus, agent: bob, expires: 2h, delegable: true}
  - {tool: plus, agent: eve, expires: "2030-01-31T18:00:00Z"}
"""
        )
        registry = ToolRegistry.from_config(write(folder, text))
        trial, lendable, until = registry.grants()

        assert [Outcome.FORBIDDEN, Outcome.OK, Outcome.OK, Outcome.FORBIDDEN] == [
            call(registry, "eve", "add", x=x) for x in (11, 1, 2, 3)
        ]
        assert ("a trial", 2, True) == (trial.reason, trial.max_calls, lendable.delegable)
        assert timedelta(hours=2) == lendable.expires - lendable.made
        assert "2030-01-31T18:00:00+00:00" == until.expires.isoformat()

    def test_blocks_and_disabled_categories_refuse(self, folder: Path) -> None:
        """A block beats a permission, and a category that is not enabled is disabled; each names its file."""
        text = (
            TOOLS
            + "blocks:\n  - {tool: later, agent: eve, reason: too slow}\ncategories: {arithmetic: {enabled: false}}\n"
        )
        registry = ToolRegistry.from_config(write(folder, text))

        assert "'config:tools.yml' blocked 'eve' from 'later': too slow." == registry.explain("eve", "later").reason
        assert "disabled" == registry.explain("ann", "add").rule

    def test_an_agent_that_code_declares_is_not_declared_again(self, folder: Path) -> None:
        """Two declarations of one agent are a mistake, whichever comes first."""
        registry = ToolRegistry()
        Agent("ann", registry=registry)

        with pytest.raises(ConfigError, match=r"line 15: agents\.ann: Agent 'ann' is already declared"):
            registry.configure_from(write(folder, TOOLS))
        assert [] == registry.list_all_tools()

    def test_only_the_operator_loads(self, folder: Path) -> None:
        """A tool that an agent calls cannot load a configuration, nor end a frozen registry's declarations."""
        name, registry = write(folder, TOOLS), ToolRegistry()

        @registry.tool("widen", shared=True)
        def widen() -> None:
            """Load it."""
            registry.configure_from(name)

        with pytest.raises(ToolExecutionError, match="'mallory' may not load a configuration"):
            Agent("mallory", registry=registry).call("widen")
        registry.freeze()
        with pytest.raises(ToolUsageError, match="frozen"):
            registry.configure_from(name)

    def test_a_source_that_an_agent_has_loads_nothing(self, folder: Path) -> None:
        """Nor by the source itself, the operator's or one that it makes."""
        name, registry = write(folder, TOOLS), ToolRegistry()
        source = ConfigurationSource(registry, [name])

        @registry.tool("widen", shared=True)
        def widen() -> None:
            """Load it."""
            source.load(read_configuration([name]))

        with pytest.raises(ToolExecutionError, match="'mallory' may not load a configuration"):
            Agent("mallory", registry=registry).call("widen")
        assert [widen] == registry.list_all_tools()

    @pytest.mark.parametrize("method", ["load", "refresh", "watch", "close"])
    def test_methods_that_change_anything_are_the_operators(self, folder: Path, method: str) -> None:
        """Broken promise: a function that an agent gave a source to call at its end ran as the operator."""
        registry = ToolRegistry()
        source = registry.configure_from(write(folder, TOOLS))
        names = {name for name in dir(source) if not name.startswith("_") and callable(getattr(source, name))}
        arguments = [read_configuration(source.files)] if method == "load" else []

        @registry.tool("widen", shared=True)
        def widen() -> None:
            """Change it."""
            getattr(source, method)(*arguments)

        assert {"load", "refresh", "watch", "close"} == names - {
            "accept", "list_problems", "find_unknown_names", "list_unread_sources"
        }  # fmt: skip
        with pytest.raises(ToolExecutionError, match="'mallory' may not"):
            Agent("mallory", registry=registry).call("widen")

    def test_what_a_source_has_brought_is_read_only(self, folder: Path) -> None:
        """Whoever holds a source cannot make it forget, or take for its own, what files declare."""
        source = ToolRegistry().configure_from(write(folder, TOOLS))
        source.in_force.files.clear()

        assert {"config:tools.yml"} == source.in_force.files.keys()
        with pytest.raises(AttributeError):
            source.in_force = source.in_force


class TestSettings:
    def test_execution_and_limits(self, folder: Path) -> None:
        """Options count for all tools; the seed's `max_retries` is `retries`."""
        text = (
            TOOLS + "execution: {timeout: 3, max_retries: 2, retry_wait: 0}\nlimits:\n  - {agent: ann, per_minute: 1}\n"
        )
        registry = ToolRegistry.from_config(write(folder, text))

        assert [Outcome.OK, Outcome.LIMITED] == [call(registry, "ann", "add", x=1) for _ in range(2)]
        runtime = ToolRegistry.toolset(registry, "ann")._executor.runtime
        assert (3, 2, 0) == (runtime.options.timeout, runtime.options.retries, runtime.options.retry_wait)

    def test_approvals_ask_the_handler(self, folder: Path) -> None:
        """The handler is a function of a module; without it the call waits."""
        text = "tools:\n  - {name: t, module: sums, function: add, shared: true, requires_approval: true}\n"
        asked = ToolRegistry.from_config(write(folder, text + "approvals: {handler: 'sums:allow'}\n"))
        waiting = ToolRegistry.from_config(write(folder, text))

        assert [Outcome.OK, Outcome.APPROVAL_REQUIRED] == [call(one, "ann", "t", x=1) for one in (asked, waiting)]

    def test_statistics_are_kept(self, folder: Path) -> None:
        """What is counted is in the file when the registry closes, and there again at the next start."""
        text = TOOLS + "stats: {track_usage: true, storage_path: 'data/${STATS_NAME}.json'}\n"
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("STATS_NAME", "tool_stats")
            with ToolRegistry.from_config(write(folder, text)) as registry:
                call(registry, "ann", "add", x=1)
            again = ToolRegistry.from_config("tools.yml")

        assert (folder / "data" / "tool_stats.json").exists()
        assert 1 == again.stats.get_stats("add")["uses"]

    def test_the_journal_is_that_of_the_registry(self, folder: Path) -> None:
        """`from_config` opens it; a registry that is there keeps the one that it has."""
        text = TOOLS + "journal: {path: runs.db, durability: intent}\n"
        with ToolRegistry.from_config(write(folder, text)) as registry:
            with registry.run("r"):
                call(registry, "ann", "add", x=1)
            registry.configure_from("tools.yml")
        assert (folder / "runs.db").exists()

        with pytest.raises(ConfigError, match="a registry has its journal from its beginning"):
            ToolRegistry().configure_from("tools.yml")

    def test_no_error_of_the_journal_repeats_the_environment(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A path that a variable filled in is named by its place only."""
        monkeypatch.setenv("PLACE", "/nowhere/sk-SECRET")
        with pytest.raises(ConfigError, match=r"journal\.path: the journal cannot be opened") as caught:
            ToolRegistry.from_config(write(folder, "journal: {path: '${PLACE}/x.db'}\n"))

        assert "SECRET" not in "".join(traceback.format_exception(caught.value))

    def test_a_module_may_fail_to_give_its_function(self, folder: Path) -> None:
        """What its own `__getattr__` raises is as an import that fails."""
        write(folder, "def __getattr__(name): raise RuntimeError('out of order')\n", "odd.py")
        text = "tools: [{name: add, module: odd, function: add, shared: true}]\nagents: {ann: {}}\n"
        registry = ToolRegistry.from_config(write(folder, text))

        result = registry.execute(ToolCall("1", "add", {}, "ann"))
        assert "module 'odd' cannot give its 'add': RuntimeError: out of order" in str(result.error)


class TestFiles:
    def test_toml_says_the_same(self, folder: Path) -> None:
        """A configuration in TOML, or a table of `pyproject.toml`, declares what one in YAML does."""
        text = """
[[tools]]
name = "add"
module = "sums"
function = "add"
[agents.ann]
tools = ["add"]
[[grants]]
tool = "add"
agent = "bob"
expires = 2030-01-31T18:00:00Z
"""
        own = ToolRegistry.from_config(write(folder, text, "system.toml"))
        text = text.replace("[agents", "[tool.praval_tools.agents").replace("[[", "[[tool.praval_tools.")
        shared = ToolRegistry.from_config(write(folder, f"[project]\nname = 'x'\n{text}", "pyproject.toml"))

        for registry in (own, shared):
            assert (["add"], 2030) == (registry.agent("ann").list_tools(), registry.grants()[0].expires.year)

    def test_several_files_are_one_configuration(self, folder: Path) -> None:
        """Lists and names of all files count together; what stands twice is a problem that names both files."""
        write(folder, TOOLS)
        write(folder, "grants:\n  - {tool: add, agent: eve}\nexecution: {timeout: 1}\n", "more.yml")
        registry = ToolRegistry.from_config("tools.yml", "more.yml")
        assert registry.agent("eve").tool_exists("add")

        write(
            folder, "agents: {ann: {}}\nexecution: {}\ntools:\n  - {name: add, module: m, function: f}\n", "other.yml"
        )
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config("tools.yml", "more.yml", "other.yml")
        assert [
            ("other.yml", 1, "agents.ann", "stands in tools.yml too; keep one of the two"),
            ("other.yml", 2, "execution", "stands in more.yml too; keep one of the two"),
            ("other.yml", 4, "tools[0].name", "the names of tools are unique; tools.yml, line 3 has it too"),
        ] == [(one.file, one.line, one.key, one.expected) for one in caught.value.problems]

    def test_files_are_found(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """
        Without a path: the files of the variable, else those of the working directory.

        A `config.yml` with neither what only praval_tools has, nor its other keys alone, is another program's.
        """
        with pytest.raises(ConfigError, match="there is no configuration here"):
            ToolRegistry.from_config()
        write(folder, TOOLS)
        write(folder, "name: x\nplugins: &all [a]\nmore: *all\n", "config.yml")
        assert 3 == len(ToolRegistry.from_config())
        write(folder, "name: x\nlimits: 3\ncolour: red\n", "config.yml")
        assert 3 == len(ToolRegistry.from_config())
        write(folder, "blocks: [{tool: add, agent: ann}]\n", "config.yml")
        assert not ToolRegistry.from_config().explain("ann", "add").allowed
        write(folder, "limits: 3\n", "config.yml")
        with pytest.raises(ConfigError, match=r"config\.yml, line 1: limits: expected a list"):
            ToolRegistry.from_config()
        write(folder, "mcp_servers: {}\ndatabase: {}\n", "config.yml")
        with pytest.raises(ConfigError, match=r"config\.yml, line 2: database: unknown key"):
            ToolRegistry.from_config()

        monkeypatch.setenv("PRAVAL_TOOLS_CONFIG", write(folder, "agents: {zoe: {}}\n", "other.yaml"))
        assert ["zoe"] == ToolRegistry.from_config().agents

    def test_a_file_that_cannot_be_read_is_a_problem(self, folder: Path) -> None:
        """One that is missing, a folder, bytes that are no text: each is said, with those of the other files."""
        (folder / "bytes.yml").write_bytes(b"\xff\xfe\xff")
        with pytest.raises(ConfigError) as caught:
            ToolRegistry.from_config("missing.yml", ".", "bytes.yml")
        assert {
            ("missing.yml", "cannot be read (FileNotFoundError)"),
            (".", "is not a regular file"),
            ("bytes.yml", "cannot be read (UnicodeDecodeError)"),
        } == {(one.file, one.expected) for one in caught.value.problems}

    @pytest.mark.parametrize("kind", ["utf-16", "utf-16-le", "large", "dangling"])
    def test_a_file_that_is_found_and_cannot_be_read_is_a_problem(self, folder: Path, kind: str) -> None:
        """What it refuses is not lost without a word, though nothing shows that it is for praval_tools."""
        write(folder, "[agents.ann]\n", "praval_tools.toml")
        if kind == "dangling":
            (folder / "tools.yml").symlink_to("nowhere.yml")
        elif kind == "large":
            (folder / "tools.yml").write_bytes(b"#" * (16 * 1024 * 1024 + 1))
        else:
            (folder / "tools.yml").write_text("blocks: []\nagents: {}\n", encoding=kind)

        with pytest.raises(ConfigError, match=r"tools\.yml"):
            ToolRegistry.from_config()

    def test_a_number_of_too_many_digits_is_a_problem(self, folder: Path) -> None:
        """Python reads none of more than 4,300 digits."""
        with pytest.raises(ConfigError, match="holds a number or a date that cannot be read"):
            ToolRegistry.from_config(write(folder, f"name = {'9' * 5_000}\n", "long.toml"))

    def test_extras_are_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without PyYAML, or watchfiles, the error says what to install; TOML and other programs' YAML need neither."""
        write(folder, TOOLS)
        write(folder, "[agents.ann]\n", "praval_tools.toml")
        monkeypatch.setitem(sys.modules, "yaml", None)
        monkeypatch.setitem(sys.modules, "watchfiles", None)
        with pytest.raises(MissingExtraError, match=r"praval-tools\[yaml\]"):
            ToolRegistry.from_config()
        with pytest.raises(MissingExtraError, match=r"praval-tools\[watch\]"):
            ToolRegistry.from_config("praval_tools.toml", watch=True)

        write(folder, "name: x\n")
        assert ["ann"] == ToolRegistry.from_config().agents
