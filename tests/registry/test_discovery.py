"""Discovery, `problems()`, and the arguments and checks of declarations."""

# Tests of: discovery, decorator_arguments, default, collection, catalogue, registry, access/problems

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from praval_tools import (
    Agent,
    DiscoveryError,
    DuplicateToolError,
    Tool,
    ToolCall,
    ToolMetadata,
    ToolRegistry,
    ToolUsageError,
    UnknownGrantError,
    agent,
    discover_tools,
    tool,
)
from praval_tools.testing import assert_can_call, assert_cannot_call

BODY = '''
from praval_tools import get_tool_registry, tool

@tool("{name}", owned_by="finder")
def {name}(x: int) -> int:
    """Find."""
    return x
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, on the path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


class TestDiscovery:
    def test_a_file_that_fails_leaves_nothing(self, folder: Path) -> None:
        """Its tools, grants, blocks and agents are gone, what was there before it is untouched, the rest is found."""
        registry = ToolRegistry()

        @registry.tool("old", owned_by="ann")
        def old() -> None:
            """Be old."""

        more = """
from praval_tools import Agent
Agent("broken agent")
home = get_tool_registry()
home.assign_tool_to_agent("old", "eve")
home.block("old", "ann")
raise RuntimeError("half-way")
"""
        (folder / "a_broken.py").write_text(BODY.format(name="half") + more)
        (folder / "b_sound.py").write_text(BODY.format(name="sound"))
        before = registry.state
        with pytest.raises(DiscoveryError) as caught:
            discover_tools(pattern="*.py", registry=registry)
        assert ["sound"] == [one.name for one in caught.value.found]
        assert ["old", "sound"] == [one.name for one in registry]
        assert (before.access_by_agent, before.profiles) == (registry.state.access_by_agent, registry.state.profiles)
        assert registry.agent("broken agent") != "declared"
        assert [] == registry.agents

    def test_by_pattern_and_by_module(self, folder: Path) -> None:
        """A file that a pattern found and its module are the same, in either order."""
        (folder / "pack").mkdir()
        (folder / "pack" / "__init__.py").write_text("")
        (folder / "pack" / "one.py").write_text(BODY.format(name="one"))
        (folder / "alone.py").write_text(BODY.format(name="alone"))
        registry = ToolRegistry()
        assert ["alone", "one"] == sorted(one.name for one in discover_tools(pattern="**/*.py", registry=registry))
        assert ["one"] == [one.name for one in discover_tools("pack", registry=registry)]
        assert ["alone"] == [one.name for one in discover_tools("alone", registry=registry)]
        again = ToolRegistry()
        assert ["one"] == [one.name for one in discover_tools("pack.one", registry=again)]
        assert ["alone", "one"] == sorted(one.name for one in discover_tools(pattern="**/*.py", registry=again))

    def test_a_file_off_the_path(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        """A file that no import finds is loaded by its path, once."""
        other = tmp_path_factory.mktemp("other") / "away.py"
        other.write_text(BODY.format(name="away"))
        registry = ToolRegistry()
        for _ in range(2):
            assert ["away"] == [one.name for one in discover_tools(pattern=str(other), registry=registry)]


class TestProblems:
    def test_every_typo_is_reported_with_the_name_that_was_meant(self) -> None:
        """A listed tool, a category, an owner and a blocked tool that do not exist come with the near name."""
        registry = ToolRegistry()

        @registry.tool("math_add", owned_by="calculatr", category="arithmetic")
        def add() -> None:
            """Add."""

        Agent("calculator", tools=["mth_add"], tool_categories=["arithmetc"], registry=registry)
        registry.block("mathadd", "clerk")

        assert [
            ("unknown-tool", "calculator", "Did you mean 'math_add'?"),
            ("unknown-category", "calculator", "Did you mean 'arithmetic'?"),
            ("unknown-tool", "clerk", "Did you mean 'math_add'?"),
            ("no-owner", "math_add", "Did you mean 'calculator'?"),
        ] == [(one.kind, one.subject, one.remedy) for one in registry.problems() if one.kind != "unreachable"]

    def test_an_owner_that_was_retired(self) -> None:
        """Its tools stay, are reported as without an owner, and are its own again once it is declared again."""
        registry = ToolRegistry()

        @registry.tool(owned_by="ann", shared=True)
        def add() -> int:
            """Add."""
            return 1

        Agent("ann", registry=registry)
        registry.retire_agent("ann")

        assert [("no-owner", "add")] == [(one.kind, one.subject) for one in registry.problems()]
        assert_cannot_call("ann", "add", registry=registry, rule="retired")
        Agent("ann", registry=registry)
        assert [] == registry.problems()
        assert_can_call("ann", "add", registry=registry)

    def test_a_definition_that_broke_its_callers(self) -> None:
        """A tool that was replaced by an incompatible one is reported, one that fits is not."""
        registry = ToolRegistry()

        def fits(x: str, z: int = 0) -> None:
            """Do."""

        def breaks(x: str, y: int) -> None:
            """Do."""

        found = []
        for function in (fits, fits, breaks):
            registry.register_tool(Tool.from_function(function, "say", shared=True), replace=True)
            found.append([(one.kind, "y" in one.message) for one in registry.problems()])

        assert [[], [], [("breaking-change", True)]] == found

    def test_tools_that_nobody_can_reach(self) -> None:
        """Private tools without a grant, and those of an owner that has no way to them, are reported."""
        registry = ToolRegistry()
        Agent("ann", registry=registry, auto_discover_tools=False)
        Agent("bob", registry=registry, tool_categories=["money"], tools=["listed"])

        def function() -> None:
            """Do nothing."""

        declared: dict[str, dict[str, Any]] = {
            "hidden": {"private": True},
            "granted": {"private": True},
            "shut": {"owned_by": "ann"},
            "listed": {"owned_by": "ann"},
            "asked": {"category": "money"},
            "shared": {"shared": True},
            "private_shared": {"private": True},
            "off": {},
        }
        for name, metadata in declared.items():
            registry.register_tool(Tool.from_function(function, name, **metadata))
        registry.grant("granted", "bob")
        registry.share_tool("private_shared")
        registry.disable(tool="off")
        found = [one.subject for one in registry.problems() if one.kind == "unreachable"]
        assert ["hidden", "shut", "private_shared"] == found

    def test_a_spent_grant_reaches_nobody(self) -> None:
        """A tool whose last grant is spent is out of reach."""
        registry = ToolRegistry()

        @registry.tool("once")
        def once() -> None:
            """Run once."""

        Agent("bob", registry=registry)
        registry.grant("once", "bob", max_calls=1)
        assert [] == registry.problems()
        registry.agent("bob").call("once")
        assert ["unreachable"] == [one.kind for one in registry.problems()]


class TestStatistics:
    def test_agents_with_tools_own_list_or_were_granted_one(self) -> None:
        """A block, a removal and a list of what does not exist give nobody a tool."""
        registry = ToolRegistry()

        @registry.tool(owned_by="owner")
        def add() -> None:
            """Add."""

        Agent("lister", tools=["add"], registry=registry)
        Agent("hoping", tools=["later"], registry=registry)
        registry.assign_tool_to_agent("add", "lent")
        registry.block("add", "blocked")
        registry.remove_tool_from_agent("add", "removed")
        registry.revoke(registry.grant("add", "revoked"))

        assert 3 == registry.get_registry_stats()["agents_with_tools"]


class TestDeclaring:
    def test_two_names(self) -> None:
        """A tool that is given two names is an error in every spelling."""
        function = type(self).test_two_names
        for spelling in (
            lambda: tool("one", name="two", register=False)(function),
            lambda: tool(function, name="one", tool_name="two", register=False),
        ):
            with pytest.raises(ToolUsageError, match="2 names: 'one', 'two'"):
                spelling()

    def test_an_owner_given_as_object(self) -> None:
        """An agent stands for its name as owner, in `register_object` and as delegate."""
        registry = ToolRegistry()
        ann = Agent("ann", registry=registry)
        bob = Agent("bob", registry=registry)

        class Till:
            """A till."""

            def total(self) -> int:
                """Give the total."""
                return 7

        @registry.tool("add", owned_by=ann)
        def add(x: int) -> int:
            """Add."""
            return x

        registry.register_object(Till(), owned_by=ann)
        assert ["ann", "ann"] == [one.metadata.owned_by for one in registry]
        assert 1 == ann.delegate(bob, mode="inherit").call("add", x=1)
        assert ["add"] == [one.name for one in registry.search_tools("add", owned_by=ann)]

    def test_extra_is_a_copy(self) -> None:
        """What is given as `extra` is not shared with the caller, nested or not."""
        given = {"a": [1]}
        metadata = ToolMetadata("t", extra=given)
        given["a"].append(2)
        assert {"a": [1]} == metadata.to_dict()["extra"]
        metadata.to_dict()["extra"]["a"].append(3)
        assert {"a": (1,)} == dict(metadata.extra)

    def test_extra_is_read_only(self) -> None:
        """Whoever has a handle on a tool changes nothing in it, however deep, nor where it was configured."""
        registry = ToolRegistry()

        @registry.tool("add", shared=True, extra={"a": {"b": [{"c": 1}]}, "d": {1}})
        def add(x: int) -> int:
            """Add."""
            return x

        for _ in range(2):
            extra: Any = registry.get_tool("add").metadata.extra
            for change in (
                lambda extra=extra: extra.update(x=1),
                lambda extra=extra: extra["a"].update(x=1),
                lambda extra=extra: extra["a"]["b"].append(1),
                lambda extra=extra: extra["a"]["b"][0].update(x=1),
                lambda extra=extra: extra["d"].add(2),
            ):
                with pytest.raises(AttributeError):
                    change()
            registry.configure("add", extra={"a": {"b": [{"c": 2}]}, "d": {1}})
        assert 2 == registry.get_tool("add").metadata.extra["a"]["b"][0]["c"]
        assert registry.get_tool("add").metadata == registry.get_tool("add").metadata.replace(author="")

    def test_given_parameters_are_copies(self) -> None:
        """What is read of `parameters` may be changed, and is nobody else's."""
        given = {"x": {"type": "int"}}
        metadata = ToolMetadata("t", parameters=given)
        given["x"]["type"] = "str"
        metadata.parameters["x"]["type"] = "bool"
        assert {"x": {"type": "int"}} == metadata.parameters

    def test_generators_run_raw(self) -> None:
        """`run_raw` and `arun_raw` read generators and async generators to their end."""

        @tool(register=False)
        def three() -> Iterator[int]:
            """Count."""
            yield from (1, 2, 3)

        @tool(register=False)
        async def four() -> AsyncIterator[int]:
            """Count."""
            for one in (1, 2, 3, 4):
                yield one

        assert [1, 2, 3] == three.run_raw({})
        assert [1, 2, 3, 4] == four.run_raw({})

    def test_agents_of_callable_objects(self) -> None:
        """A callable instance makes an agent named after its class; a method without its object is refused."""
        registry = ToolRegistry()

        class Planner:
            """Plans."""

            def __call__(self, what: str) -> str:
                return f"plan {what}"

            def plan(self) -> str:
                """Plan."""
                return "plan"

        made = agent(registry=registry)(Planner())
        assert ("Planner", "plan a trip") == (made.name, made("a trip"))
        assert "plan" == agent("other", registry=registry)(Planner().plan)()
        with pytest.raises(ToolUsageError, match="bound"):
            agent("bad", registry=registry)(Planner.plan)
        assert ["Planner", "other"] == registry.agents


class TestAssertions:
    def test_a_tool_that_does_not_exist(self, tool_registry: ToolRegistry) -> None:
        """A misspelt tool fails `assert_cannot_call`, unless that is what is meant."""
        with pytest.raises(AssertionError, match="no tool"):
            assert_cannot_call("ann", "nope")
        assert_cannot_call("ann", "nope", rule="unknown")

    def test_arguments_that_do_not_fit(self, tool_registry: ToolRegistry) -> None:
        """Bad arguments are a failed assertion, not another exception."""

        @tool_registry.tool("add", owned_by="ann")
        def add(x: int) -> int:
            """Add."""
            return x

        with pytest.raises(AssertionError, match="integer"):
            assert_can_call("ann", "add", {"x": "many"})
        assert_cannot_call("ann", "add", rule="invalid-arguments", arguments={"x": "many"})

    def test_policies_count(self, tool_registry: ToolRegistry) -> None:
        """A policy's refusal shows in explain and the assertions once arguments are given."""

        @tool_registry.tool("add", owned_by="ann")
        def add(x: int) -> int:
            """Add."""
            return x

        tool_registry.add_policy(lambda agent, tool, arguments: "too much" if arguments["x"] > 5 else None)
        assert_can_call("ann", "add", {"x": 5})
        decision = assert_cannot_call("ann", "add", rule="policy", arguments={"x": 6})
        assert "too much" in decision.reason


class TestReplaced:
    def test_a_supplied_schema_that_requires_more_is_breaking(self) -> None:
        """A replacement whose given schema requires another argument is reported, with the argument's name."""
        registry = ToolRegistry()
        for parameters in ({"x": "string"}, {"x": "string", "y": "string"}):
            made = Tool(name="say", description="Say.", parameters=parameters, callable=lambda **_: 1)
            registry.register_tool(made.with_metadata(shared=True), replace=True)

        (found,) = registry.problems()

        assert ("breaking-change", "say") == (found.kind, found.subject)
        assert "now requires y" in found.message

    def test_a_wider_parameter_is_compatible(self) -> None:
        """A replacement that takes all that the old one took is none."""

        def old(x: int) -> str:
            """Say."""
            return ""

        def new(x: int | str) -> str:
            """Say."""
            return ""

        registry = ToolRegistry()
        for function in (old, new):
            registry.register_tool(Tool.from_function(function, "say", shared=True), replace=True)

        assert [] == registry.problems()

    def test_another_result_is_breaking(self) -> None:
        """A replacement that gives results that the old one did not is reported."""

        def old() -> int:
            """Count."""
            return 1

        def new() -> str:
            """Count."""
            return "1"

        registry = ToolRegistry()
        for function in (old, new):
            registry.register_tool(Tool.from_function(function, "count", shared=True), replace=True)

        assert ["breaking-change"] == [one.kind for one in registry.problems()]


class TestWireNames:
    @pytest.mark.parametrize("name", ["b.c", "a" * 70, "x.y-" + "z" * 100])
    def test_every_exported_tool_can_be_called(self, name: str) -> None:
        """A tool whose exported name differs from its own is called, and explained, by either."""
        registry = ToolRegistry()

        @registry.tool(name, shared=True)
        def one() -> int:
            """Give one."""
            return 1

        sent = registry.agent("ann").schemas()[0]["function"]["name"]

        assert sent != name
        assert 1 == registry.agent("ann").execute(ToolCall("1", sent, {})).result
        assert 1 == registry.agent("ann").call(sent)
        assert registry.explain("ann", sent).allowed

    def test_a_cut_name_clashes_with_its_equal(self) -> None:
        """Two tools that would travel under one name cannot both be registered."""
        registry = ToolRegistry()

        @registry.tool("a" * 70, shared=True)
        def one() -> int:
            """Give one."""
            return 1

        sent = registry.agent("ann").schemas()[0]["function"]["name"]

        with pytest.raises(DuplicateToolError):
            registry.register_tool(Tool.from_function(one.implementation.function, sent))

    def test_a_name_is_free_again(self) -> None:
        """When a tool with a long name leaves, both of its names are free."""

        def one() -> int:
            """Give one."""
            return 1

        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(one, "a" * 70, shared=True))
        sent = registry.agent("ann").schemas()[0]["function"]["name"]
        registry.unregister_tool("a" * 70)

        registry.register_tool(Tool.from_function(one, sent))

        assert [sent] == [one.name for one in registry]

    def test_a_tool_object_stands_for_its_name(self) -> None:
        """`execute_tool` takes the tool itself; the uses of a grant that does not exist are an error."""
        registry = ToolRegistry()

        @registry.tool("one")
        def one() -> int:
            """Give one."""
            return 1

        assert 1 == registry.execute_tool(one)
        with pytest.raises(UnknownGrantError):
            registry.uses_left("nonsense")
