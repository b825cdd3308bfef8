"""`migrate`: the tools of Praval's old system are brought in; nothing is lost, nothing doubled, and it is reported."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from praval_rig import clean, fresh, praval  # noqa: F401

from praval_tools import DuplicateToolError, Tool, ToolRegistry, ToolUsageError
from praval_tools.integrations.praval import Moved, attach, install, migrate


def work(name: str) -> Any:
    """Return a function of this name that says it."""

    def made(x: int) -> str:
        """Work."""
        return f"{name} {x}"

    made.__name__ = name
    return made


def declared(name: str, **fields: Any) -> Any:
    """Declare a tool in Praval's registry."""
    return praval.tool(name, **fields)(work(name))


def agent(name: str, **options: Any) -> Any:
    """Return a decorated Praval agent."""

    @praval.agent(name, provider="script", **options)
    def function(spore: Any) -> None:
        """Work."""

    return function


class TestMigrate:
    def test_from_the_registry_and_from_every_agent(self) -> None:
        """Owners, sharing, categories, assignments, approvals, schemas, private tools of agents: all are here."""
        declared("owned", owned_by="ann", category="math", requires_approval=True, risk_level="high")
        declared("shared", shared=True)
        declared("given")
        praval.register_tool_with_agent("given", "bob")
        listed = declared("listed")
        ann, bob = agent("ann"), agent("bob", tools=["listed"])
        ann.tool(work("own"))
        schema = {"type": "object", "properties": {"q": {"type": "integer"}}, "required": ["q"]}
        spec = praval.ToolSpec(name="spec", description="From afar.", parameters=schema, requires_approval=True)
        bob._praval_agent.add_tool_spec(spec, lambda q: q + 1)
        registry = ToolRegistry()

        report = migrate(registry)

        assert ["owned", "shared", "given", "listed", "own", "spec"] == [one.name for one in registry]
        assert ["owned", "shared", "own"] == registry.agent("ann").list_tools()
        assert ["shared", "given", "listed", "spec"] == registry.agent("bob").list_tools()
        owned = registry.get_tool("owned")
        assert owned is not None
        assert ("math", True, "high") == (
            owned.metadata.category, owned.metadata.requires_approval, owned.metadata.risk_level
        )  # fmt: skip
        assert {"q"} == set(registry.get_tool("spec").parameters["properties"])  # type: ignore[union-attr]
        assert "listed 1" == registry.agent("bob").call("listed", x="1") == listed(1)
        assert {("given", "bob"), ("listed", "bob")} == set(report.assigned)
        assert Moved("spec", "spec", "bob", "completed") in report.moved
        assert Moved("own", "own", "ann", "same") in report.moved
        assert "registered  owned from registry" in str(report)
        assert "assigned    listed to bob" in str(report)
        assert ["given", "listed", "own", "owned", "shared", "spec"] == sorted(
            one["tool_name"] for one in praval.list_tools()
        ), "Praval's own registry is as it was"

    def test_twice_is_once(self) -> None:
        """A second migration finds everything there, and does nothing."""
        declared("owned", owned_by="ann")
        agent("ann").tool(work("own"))
        registry = ToolRegistry()
        migrate(registry)
        before = registry.state

        report = migrate(registry)

        assert {"same"} == {one.done for one in report.moved}
        assert () == report.assigned
        assert before is registry.state

    def test_what_was_taken_away_stays_so(self) -> None:
        """What an agent lost here is not given back by a second migration, though Praval's copy has it still."""
        declared("shared", shared=True)
        for name in ("listed", "lent"):
            declared(name)
        agent("ann", tools=["listed", "lent"])
        registry = ToolRegistry()
        migrate(registry)
        registry.remove_tool_from_agent("listed", "ann")
        registry.revoke(registry.grants(tool="lent", agent="ann")[0])
        registry.block("shared", "ann")

        migrate(registry)

        assert [] == registry.agent("ann").list_tools()

    def test_what_praval_took_from_its_owner_stays_taken(self) -> None:
        """The registry's word counts: an owner that lost its tool there does not get it by its stale copy."""
        declared("owned", owned_by="ann")
        ann = agent("ann")
        praval.unregister_tool_from_agent("owned", "ann")
        assert ["owned"] == ann.list_tools()
        registry = ToolRegistry()

        migrate(registry)

        assert [] == registry.agent("ann").list_tools()

    @pytest.mark.parametrize(
        ("collisions", "names", "mine"),
        [
            ("rename", ["run", "praval-run", "ann-run"], ["ann-run"]),
            ("keep", ["run"], []),
            ("replace", ["run"], ["run"]),
        ],
    )
    def test_collisions(self, collisions: Any, names: list[str], mine: list[str]) -> None:
        """Another tool has the name: renamed after where it comes from, left out, or put in its place, and output."""
        declared("run")
        theirs = praval.Agent("ann", provider="script")
        theirs.tool(work("run"))
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(work("host"), name="run", owned_by="host"))

        with pytest.raises(DuplicateToolError, match="run"):
            migrate(registry, agents=[theirs])
        assert ["run"] == [one.name for one in registry]

        report = migrate(registry, agents=[theirs], collisions=collisions)

        assert names == [one.name for one in registry]
        assert mine == registry.agent("ann").list_tools()
        done = {"rename": "renamed", "keep": "left out", "replace": "replaced"}[collisions]
        assert [done, done] == [one.done for one in report.moved]
        assert all(one.name in str(report) for one in report.moved)

    def test_an_unknown_policy(self) -> None:
        """A policy that does not exist is refused with the list."""
        with pytest.raises(ToolUsageError, match="'error', 'rename', 'keep', 'replace'"):
            migrate(ToolRegistry(), collisions="guess")  # type: ignore[arg-type]

    def test_agents_that_praval_knows(self) -> None:
        """Agents on the Reef and in Praval's agent registry are found, each once; others are named."""
        alone, known = (praval.Agent(name, provider="script") for name in ("alone", "known"))
        for one in (alone, known):
            one.tool(work(f"of_{one.name}"))
        praval.reset_tool_registry()
        praval.register_agent(known)
        on_reef = agent("on_reef")
        on_reef.tool(work("of_on_reef"))
        praval.register_agent(on_reef._praval_agent)
        praval.reset_tool_registry()
        registry = ToolRegistry()

        assert ["of_on_reef", "of_known"] == [one.name for one in migrate(registry).moved]
        assert ["of_alone"] == [one.name for one in migrate(registry, agents=[alone]).moved]
        with pytest.raises(TypeError, match="agent of Praval"):
            migrate(registry, agents=["alone"])

    def test_functions_that_are_not_readable(self) -> None:
        """What Praval takes and `praval_tools` could not read comes along, with open arguments."""

        class Strange:
            pass

        def odd(*args: Any, thing: Strange, **kwargs: Any) -> Any:
            return sorted(kwargs)

        praval.tool("odd", owned_by="ann")(odd)
        registry = ToolRegistry()
        migrate(registry)

        assert ["b"] == registry.agent("ann").call("odd", thing=1, b=2)

    def test_with_an_installed_registry(self) -> None:
        """The installed registry is Praval's own: nothing to bring but what agents hold; attached ones are left."""
        registry = ToolRegistry()
        with install(registry):
            declared("owned", owned_by="ann")
            ann, bob = agent("ann"), agent("bob")
            ann.tool(work("run"))
            bob.tool(work("run"))
            attach(ann)
            report = migrate(registry, collisions="rename")
        assert ["owned", "run", "bob-run"] == [one.name for one in registry]
        assert ["bob"] == [one.source for one in report.moved]

    @settings(max_examples=60, deadline=None)
    @given(
        tools=st.lists(
            st.tuples(
                st.sampled_from(["a", "A", "b c", "d.e", "f"]), st.sampled_from([None, "ann", "b:ob", "eve"]),
                st.booleans(),
            ),
            max_size=6,
        ),
        own=st.lists(
            st.tuples(st.sampled_from(["ann", "b:ob", "eve"]), st.sampled_from(["a", "f", "g"])), max_size=6,
            unique=True,
        ),
        host=st.lists(st.sampled_from(["a", "f", "d.e"]), max_size=2, unique=True),
        collisions=st.sampled_from(["rename", "keep", "replace"]),
    )  # fmt: skip
    def test_nothing_is_lost_and_nothing_doubled(self, tools: Any, own: Any, host: Any, collisions: Any) -> None:
        """Whatever is declared where: each function is here once, or reported as left out; each row names a tool."""
        with clean():
            functions: dict[int, Any] = {}
            for name, owner, shared in tools:
                made = work(name)
                try:
                    praval.tool(name, owned_by=owner, shared=shared)(made)
                except Exception:
                    continue
                functions[id(made)] = made
            agents = {name: praval.Agent(name, provider="script") for name in ("ann", "b:ob", "eve")}
            for name, tool in own:
                made = agents[name].tool(work(tool))
                functions[id(made)] = made
            registry = ToolRegistry()
            for name in host:
                registry.register_tool(Tool.from_function(work("host"), name=name, owned_by="host"))

            report = migrate(registry, agents=agents.values(), collisions=collisions)

            here = [
                id(one.function) for one in registry if one.metadata.owned_by != "host" or "host" not in one.__name__
            ]
            assert len(here) == len(set(here))
            gone = [one for one in report.moved if one.done in ("left out", "replaced")]
            assert len(functions) - len(here) <= len(gone)
            if collisions == "rename":
                assert set(functions) == set(here)
            assert all(one.tool in registry for one in report.moved)
            once = registry.state
            if collisions != "replace":
                assert {"registered", "renamed"}.isdisjoint(
                    one.done for one in migrate(registry, agents=agents.values(), collisions=collisions).moved
                )
                assert once is registry.state
