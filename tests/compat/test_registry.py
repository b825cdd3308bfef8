"""Praval's `ToolRegistry` and ours give the same values and errors after any sequence of operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from compat_rig import (
    AGENTS,
    CATEGORIES,
    NAMES,
    PRAVAL,
    TAGS,
    Side,
    annotated,
    fresh,  # noqa: F401  # noqa: F401
    outcome,
    theirs_tools,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import praval_tools
from praval_tools.compat import praval as compat
from praval_tools.compat.praval.registry import build_view
from praval_tools.integrations.praval.installation import InstalledView

# Tests of: catalogue, conversion

FEW_NAMES = st.sampled_from(["add", "Add", "my tool"])


FEW_AGENTS = st.sampled_from(["calculator", "a:b"])


class RegistriesSideBySide(RuleBasedStateMachine):
    """Any sequence of operations gives the same values and errors on both registries."""

    @initialize()
    def begin(self) -> None:
        self.mine, self.other = Side(compat), Side(PRAVAL)
        self.count = 0

    def same(self, action: Callable[[Side], Any]) -> None:
        """Do one thing on both sides, and compare what comes of it."""
        expected, actual = outcome(lambda: action(self.other)), outcome(lambda: action(self.mine))
        assert expected == actual

    @rule(
        name=FEW_NAMES, owner=FEW_AGENTS | st.none(), category=CATEGORIES, shared=st.booleans(), tags=TAGS,
        approval=st.booleans(), risk=st.sampled_from(["low", "high", "odd"]),
    )  # fmt: skip
    def register(
        self, name: str, owner: str | None, category: str, shared: bool, tags: list[str], approval: bool, risk: str
    ) -> None:
        self.count += 1
        key = self.count % 12 + 1
        self.mine.made.pop(key, None), self.other.made.pop(key, None)
        fields = {
            "tool_name": name, "owned_by": owner, "category": category, "shared": shared, "tags": tags,
            "requires_approval": approval, "risk_level": risk,
        }  # fmt: skip
        self.same(lambda side: side.registry.register_tool(side.tool(key, fields)))

    @rule(pick=st.integers(1, 12))
    def register_again(self, pick: int) -> None:
        if pick in self.mine.made:
            self.same(lambda side: side.registry.register_tool(side.made[pick]))

    @rule(name=FEW_NAMES, agent=FEW_AGENTS)
    def assign(self, name: str, agent: str) -> None:
        self.same(lambda side: side.registry.assign_tool_to_agent(name, agent))

    @rule(name=FEW_NAMES, agent=FEW_AGENTS)
    def remove(self, name: str, agent: str) -> None:
        self.same(lambda side: side.registry.remove_tool_from_agent(name, agent))

    @rule(name=FEW_NAMES)
    def unregister(self, name: str) -> None:
        self.same(lambda side: side.registry.unregister_tool(name))

    @rule(pick=st.integers(1, 12), owner=FEW_AGENTS)
    def unregister_owned(self, pick: int, owner: str) -> None:
        if pick in self.mine.made:
            name = self.mine.made[pick].metadata.tool_name
            self.same(lambda side: side.registry.unregister_owned_tool(name, side.made[pick].func, owner))

    @rule()
    def clear(self) -> None:
        self.same(lambda side: side.registry.clear_registry())

    @rule(
        pattern=st.sampled_from([None, "A", "d-", "tool"]), category=CATEGORIES | st.none(),
        owner=FEW_AGENTS | st.none(), shared=st.booleans(), tags=TAGS | st.none(),
    )  # fmt: skip
    def search(
        self, pattern: str | None, category: str | None, owner: str | None, shared: bool, tags: list[str] | None
    ) -> None:
        self.same(lambda side: side.registry.search_tools(pattern, category, owner, shared, tags))

    @rule(category=CATEGORIES)
    def ask_category(self, category: str) -> None:
        self.same(lambda side: side.registry.get_tools_by_category(category))

    @rule(name=FEW_NAMES)
    def ask_tool(self, name: str) -> None:
        self.same(lambda side: side.registry.get_tool(name))

    @invariant()
    def everything_is_the_same(self) -> None:
        if not hasattr(self, "mine"):
            return
        self.same(lambda side: [one.metadata.tool_name for one in side.registry.list_all_tools()])
        self.same(lambda side: side.registry.get_shared_tools())
        self.same(lambda side: side.registry.get_registry_stats())
        for agent in ("calculator", "a:b", "stranger"):
            self.same(lambda side, agent=agent: side.registry.get_tools_for_agent(agent))

    @invariant()
    def order_is_kept(self) -> None:
        if hasattr(self, "mine"):
            assert [one.metadata.tool_name for one in self.other.registry.list_all_tools()] == [
                one.metadata.tool_name for one in self.mine.registry.list_all_tools()
            ]


HINTS = st.sampled_from([int, str, "int", list[int], dict, inspect.Parameter.empty, "Nope", Path])


DEFAULTS = st.sampled_from([inspect.Parameter.empty, None, 0, "text"])


KINDS = st.sampled_from(list(inspect._ParameterKind))


@st.composite
def functions(draw: st.DrawFn) -> Callable[[], Any]:
    """Draw a maker of functions with any signature: one for each side, since decorating leaves marks."""
    kinds = sorted(draw(st.lists(KINDS, max_size=4)))
    given_, seen, defaulted = [], set(), False
    for at, kind in enumerate(kinds):
        if kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            if kind in seen:
                continue
            seen.add(kind)
            default = inspect.Parameter.empty
        else:
            default = draw(DEFAULTS)
            if kind is not inspect.Parameter.KEYWORD_ONLY:
                default = default if not defaulted or default is not inspect.Parameter.empty else None
                defaulted = defaulted or default is not inspect.Parameter.empty
        given_.append(inspect.Parameter(f"p{at}", kind, default=default, annotation=draw(HINTS)))
    signature = inspect.Signature(given_, return_annotation=draw(HINTS))
    name, doc = draw(st.sampled_from(["work", "Work", "päck"])), draw(st.sampled_from([None, "", " Says. ", "A\n\nB"]))

    def make() -> Any:
        def work(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("p0") == "boom":
                raise ValueError("boom")
            return args, kwargs

        work.__signature__ = signature  # type: ignore[attr-defined]
        work.__name__, work.__doc__ = name, doc
        return work

    return make


DECORATED = st.fixed_dictionaries(
    {},
    optional={
        "tool_name": NAMES | st.none(), "owned_by": AGENTS | st.none(), "description": st.sampled_from([None, "", "d"]),
        "category": CATEGORIES, "shared": st.booleans(), "version": st.just("2"), "author": st.just("me"),
        "tags": TAGS | st.none(), "requires_approval": st.booleans(),
        "risk_level": st.sampled_from(["low", " HIGH ", "odd", "", None, 7]),
        "approval_reason": st.sampled_from(["", None, "r"]),
    },
)  # fmt: skip


class TestSideBySide:
    def test_any_sequence_of_operations(self) -> None:
        """Whatever is done in whatever order, hostile names among it: no difference but the order of Praval's sets."""
        run_state_machine_as_test(
            RegistriesSideBySide, settings=settings(max_examples=200, stateful_step_count=40, deadline=None)
        )

    @pytest.mark.parametrize("shared", [False, True])
    @pytest.mark.parametrize("name", ["add", "my tool"])
    @pytest.mark.parametrize(
        "steps",
        [
            ["register", "remove", "unregister", "register"],
            ["register", "remove", "remove", "assign", "remove", "assign"],
            ["register", "unregister_owned", "unregister_owned", "register", "remove", "unregister_owned"],
            ["register", "assign", "unregister_owned", "register"],
            ["register", "remove", "clear", "register", "remove"],
            ["assign", "register", "assign", "clear", "assign", "register"],
            ["register", "remove", "clear", "register for all", "remove", "assign", "remove"],
            ["register", "remove", "unregister", "register for all", "unregister", "register"],
            ["register", "remove", "unregister", "register", "remove", "unregister", "register", "remove"],
            ["register", "remove", "clear", "register for all", "clear", "register for all", "clear", "register"],
        ],
        ids="-".join,
    )
    def test_sequences_that_are_traps(self, steps: list[str], name: str, shared: bool) -> None:
        """What was taken, given back, taken out and put in again is where Praval has it."""
        sides, said = (Side(PRAVAL), Side(compat)), []
        for side in sides:
            fields = {"tool_name": name, "owned_by": "calculator", "shared": shared}
            tool, registry = side.tool(1, fields), side.registry
            for_all = side.tool(2, {"tool_name": name, "shared": True})
            actions = {
                "register": lambda: registry.register_tool(tool),
                "register for all": lambda: registry.register_tool(for_all),
                "remove": lambda: registry.remove_tool_from_agent(name, "calculator"),
                "assign": lambda: registry.assign_tool_to_agent(name, "calculator"),
                "unregister": lambda: registry.unregister_tool(name),
                "unregister_owned": lambda: registry.unregister_owned_tool(name, tool.func, "calculator"),
                "clear": lambda: registry.clear_registry(),
            }
            output = [
                (outcome(actions[step]), len(registry.get_tools_for_agent("calculator")),
                 len(registry.get_tools_for_agent("other")), registry.get_registry_stats())
                for step in steps
            ]  # fmt: skip
            said.append(output)

        assert said[0] == said[1]

    @settings(max_examples=200, deadline=None)
    @given(make=functions(), fields=DECORATED, twice=st.booleans())
    def test_any_decorated_function(self, make: Callable[[], Any], fields: dict[str, Any], twice: bool) -> None:
        """Whatever is decorated with whatever: the same function, marks, infos, results and errors."""
        seen = []
        for module in (PRAVAL, compat):
            module.reset_tool_registry()
            function = make()
            first = outcome(lambda: module.tool(**fields)(function) is function)
            second = outcome(lambda: module.tool(**fields)(make()) is None) if twice else None
            marks = {name for name in vars(function) if name not in ("__signature__", "__wrapped__")}
            seen.append((first, second, sorted(marks), self.output(module, function)))

        assert seen[0] == seen[1]

    def output(self, module: Any, function: Any) -> Any:
        """Return everything that a decorated function tells, and what comes of running it."""
        return [
            outcome(action)
            for action in (
                lambda: module.is_tool(function),
                lambda: sorted(module.get_tool_info(function).items(), key=str),
                lambda: function._praval_tool_name,
                lambda: sorted(vars(function._praval_tool_metadata).items(), key=str),
                lambda: sorted(vars(function.get_metadata()).items(), key=str),
                lambda: function.get_tool_info(),
                lambda: function.execute_as_tool(1, p0=2),
                lambda: function.execute_as_tool(p0="boom"),
                lambda: function._praval_tool is module.get_tool_registry().get_tool(function._praval_tool_name),
                lambda: module.list_tools(),
                lambda: module.list_tools(agent_name="calculator"),
                lambda: module.list_tools(category="math"),
                lambda: module.list_tools(shared_only=True),
            )
        ]


class TestOnOurRegistry:
    def test_what_is_declared_there_counts_here_and_the_other_way_round(self) -> None:
        """One registry: each interface sees the other's tools, grants, blocks and removals at once."""
        registry, view = praval_tools.get_tool_registry(), compat.get_tool_registry()

        @praval_tools.tool("new", owned_by="ann", category="c")
        def new(x: int = 1) -> int:
            """New."""
            return x + 1

        @compat.tool("old", owned_by="ann")
        def old(x: int) -> int:
            return x

        assert ["new", "old"] == [one.metadata.tool_name for one in view.get_tools_for_agent("ann")]
        assert ["new", "old"] == registry.agent("ann").list_tools()
        shown = view.get_tool("new")
        assert shown is view.get_tool("new")
        assert (3, "ann", "New.", {"x": {"type": "int", "required": False, "default": 1}}) == (
            shown.execute(2), shown.metadata.owned_by, shown.metadata.description, shown.metadata.parameters
        )  # fmt: skip
        assert 5 == registry.agent("ann").call("old", x="5")

        view.assign_tool_to_agent("old", "bob")
        assert registry.explain("bob", "old").allowed
        registry.block("old", "bob")
        assert [] == view.get_tools_for_agent("bob")
        registry.remove_tool_from_agent("old", "ann")
        assert ["new"] == [one.metadata.tool_name for one in view.get_tools_for_agent("ann")]

    def test_what_the_operator_changed_is_said(self) -> None:
        """A tool's Praval metadata tells its present owner, sharing and approval."""
        registry, view = praval_tools.get_tool_registry(), compat.get_tool_registry()

        @compat.tool("pay", owned_by="ann")
        def pay(amount: int) -> int:
            return amount

        registry.transfer_ownership("pay", "bob")
        registry.share_tool("pay")
        registry.configure("pay", requires_approval=True, risk_level="high")

        said = view.get_tool("pay").to_dict()
        assert ("bob", True, True, "high") == tuple(
            said[name] for name in ("owned_by", "shared", "requires_approval", "risk_level")
        )
        assert pay._praval_tool is view.get_tool("pay")

    def test_names_stay_and_clashes_are_problems(self) -> None:
        """Names that are not legal here, or clash on the wire, work as in Praval; `problems()` gives the other name."""
        registry, view = praval_tools.get_tool_registry(), compat.get_tool_registry()
        for name in ("add", "Add", "my tool"):
            compat.tool(name, owned_by="ann")(annotated(len(name)))

        assert ["add", "Add", "my tool"] == [one.metadata.tool_name for one in view.get_tools_for_agent("ann")]
        renamed = [one for one in registry.problems() if one.kind == "renamed"]
        assert ["Add", "my tool"] == [registry.get_tool(one.subject).metadata.extra["declared_as"] for one in renamed]
        assert all(one.subject in one.message and one.remedy for one in renamed)
        assert "y17" == registry.agent("ann").call(renamed[1].subject, x=1)

    def test_clearing_leaves_what_came_otherwise(self) -> None:
        """Praval's `clear_registry` takes out what came in through it; the host's tools and blocks stay."""
        registry, view = praval_tools.get_tool_registry(), compat.get_tool_registry()
        registry.register_tool(praval_tools.Tool.from_function(annotated(1), name="host", owned_by="ann"))
        compat.tool("guest", owned_by="ann")(annotated(2))
        view.assign_tool_to_agent("host", "bob")
        registry.block("guest", "eve")

        view.clear_registry()

        assert ["host"] == [one.name for one in registry]
        assert not registry.explain("bob", "host").allowed
        compat.tool("guest", shared=True)(annotated(3))
        assert "blocked" == registry.explain("eve", "guest").rule

    def test_what_the_host_takes_stays_taken(self) -> None:
        """Praval gives an owner its tool back when it is registered again; not where the host took it meanwhile."""
        registry, view = praval_tools.get_tool_registry(), compat.get_tool_registry()
        one = compat.Tool(annotated(1), compat.ToolMetadata("one", owned_by="ann"))
        view.register_tool(one)
        view.remove_tool_from_agent("one", "ann")
        for held in (["one"], []):
            view.unregister_tool("one")
            view.register_tool(one)
            assert held == registry.agent("ann").list_tools()
            registry.remove_tool_from_agent("one", "ann")

    def test_a_fork_and_a_used_registry(self) -> None:
        """The view follows `use_registry`, and a fork is shown with the names that were declared."""
        other = praval_tools.ToolRegistry()
        with praval_tools.use_registry(other):
            compat.tool("my tool", owned_by="ann")(annotated(1))
            assert 1 == len(compat.list_tools())
        assert [] == compat.list_tools()
        with praval_tools.use_registry(other.fork()):
            assert ["my tool"] == [one["tool_name"] for one in compat.list_tools(agent_name="ann")]

    def test_a_tool_may_not_register_for_another(self) -> None:
        """What runs inside of an agent runs in its name, and is reported with Praval's error class."""

        @praval_tools.tool("sneak", owned_by="intern")
        def sneak() -> str:
            """Try to give the boss a tool."""
            with pytest.raises(theirs_tools.ToolError, match="intern"):
                compat.tool("planted", owned_by="boss")(annotated(1))
            return "refused"

        assert "refused" == praval_tools.get_tool_registry().agent("intern").call("sneak")


@pytest.mark.parametrize("is_later", [False, True])
def test_names_of_an_agents_tool_have_no_rights(*, is_later: bool) -> None:
    """Broken promise: they ran as the operator where a host looked a tool up, also those that were put in later."""
    view = compat.ToolRegistry()
    registry = view.registry
    registry.tool("pay", owned_by="bank", description="Pay.")(lambda: "paid")

    class Name(str):
        def _share(self) -> None:
            with suppress(praval_tools.ToolError):
                registry.share_tool("pay")

        def __eq__(self, other: object) -> bool:
            self._share()
            return str.__eq__(self, other)

        def __ne__(self, other: object) -> bool:
            self._share()
            return str.__ne__(self, other)

        def __hash__(self) -> int:
            self._share()
            return str.__hash__(self)

        def lower(self) -> str:
            self._share()
            return str.lower(self)

    functions = list[Callable[..., object]]()

    @registry.tool("attempt", owned_by="clerk")
    def attempt() -> None:
        """Register a tool."""

        def mine(text: str) -> str:
            return text

        name = "mine" if is_later else Name("mine")
        functions.append(mine)
        metadata = compat.ToolMetadata(tool_name=name, owned_by="clerk", description="Mine.")
        view.register_tool(compat.Tool(mine, metadata))
        view.assign_tool_to_agent("mine", Name("bob"))
        build_view(InstalledView, registry).get_tools_for_agent(Name("clerk"))
        if is_later:
            metadata.tool_name = metadata.category = Name("mine")
            metadata.owned_by = Name("clerk")

    assert registry.execute(praval_tools.ToolCall(None, "attempt", {}, "clerk")).success
    installed = build_view(InstalledView, registry)
    assert view.get_tool("mine") is not None
    (name,) = (tool.name for tool in registry.list_all_tools() if tool.name.startswith("mine"))
    registry.configure(name, risk_level="high")
    view.search_tools("mi", category="mine")
    view.list_all_tools()
    view.get_registry_stats()
    installed.get_tools_for_agent("clerk")
    view.assign_tool_to_agent("mine", "bob")
    assert not view.unregister_owned_tool("mine", lambda: None, "clerk")
    assert not view.unregister_owned_tool("mine", functions[0], "bank")
    assert not registry.explain("clerk", "pay").allowed
