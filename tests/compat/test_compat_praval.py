"""`praval_tools.compat.praval` does what the published package does: the same calls on both, side by side."""

from __future__ import annotations

import inspect
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import praval_tools
from praval_tools.compat import praval as compat

theirs_tools: Any = pytest.importorskip("praval.tools", reason="needs praval: pip install 'praval-tools[praval]'")
theirs_registry: Any = pytest.importorskip("praval.core.tool_registry")

PRAVAL = SimpleNamespace(**{**vars(theirs_registry), **vars(theirs_tools)})

NAMES = st.sampled_from(["add", "Add"]) | st.sampled_from(
    ["add", "Add", "a-d-d", "a_d_d", "my tool", "räder", "9lives", "", "x" * 200, "x" * 199 + "y"]
)
AGENTS = st.sampled_from(["calculator", "a:b"]) | st.sampled_from(
    ["calculator", "analyst", "a:b", " spaced ", "operator", "", "ü"]
)
CATEGORIES = st.sampled_from(["general", "math", "", " "])
FEW_NAMES = st.sampled_from(["add", "Add", "my tool"])
FEW_AGENTS = st.sampled_from(["calculator", "a:b"])
TAGS = st.lists(st.sampled_from(["a", "b", ""]), max_size=2)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Both tool systems begin empty."""
    theirs_registry.reset_tool_registry()
    compat.reset_tool_registry()
    yield
    theirs_registry.reset_tool_registry()
    compat.reset_tool_registry()


def outcome(act: Callable[[], Any]) -> Any:
    """Return what a call gives, in a form that both packages share: an error by the names of its classes."""
    try:
        return shared(act())
    except Exception as error:
        cause = None if error.__cause__ is None else (type(error.__cause__).__name__, str(error.__cause__))
        return type(error).__name__, str(error), cause


def shared(value: Any) -> Any:
    """Return a value without what tells the packages apart: classes, and the order in which sets are listed."""
    if hasattr(value, "to_dict"):
        return ("tool", tuple(sorted((key, repr(one)) for key, one in value.to_dict().items())))
    if isinstance(value, list):
        return sorted((shared(one) for one in value), key=repr)
    return value


def annotated(count: int) -> Any:
    """Return a function of its own."""

    def work(x: int, y: str = "y") -> str:
        """Work."""
        return f"{y}{x}{count}"

    return work


class TestNames:
    def test_every_public_name_is_there(self) -> None:
        """What the two modules of Praval define, `compat.praval` exports, and their error class."""
        public = {
            name
            for module in (theirs_tools, theirs_registry)
            for name, one in vars(module).items()
            if not name.startswith("_") and getattr(one, "__module__", "").startswith("praval.")
        }

        assert public == set(compat.__all__)

    def test_signatures_are_the_same(self) -> None:
        """Names, kinds, order and defaults of the parameters of every function and public method."""
        for name in compat.__all__:
            mine, other = getattr(compat, name), getattr(PRAVAL, name)
            pairs = [(name, mine, other)]
            if inspect.isclass(other) and name not in ("ToolError", "ToolMetadata"):
                pairs = [
                    (f"{name}.{one}", getattr(mine, one), getattr(other, one))
                    for one in dir(other)
                    if one == "__init__" or not one.startswith("_")
                ]
            elif inspect.isclass(other):
                continue
            for place, one, two in pairs:
                assert parameters(two) == parameters(one), place

    def test_metadata_has_the_same_fields(self) -> None:
        """The same thirteen fields in the same order with the same defaults: it is built, compared and shown alike."""
        mine, other = compat.ToolMetadata("t", "me"), PRAVAL.ToolMetadata("t", "me")

        assert vars(other) == vars(mine)
        assert list(vars(other)) == list(vars(mine))
        assert repr(other) == repr(mine)
        assert mine == compat.ToolMetadata("t", "me")


def parameters(function: Any) -> list[Any]:
    """Return the parameters of a function without their hints."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]


class Side:
    """One of the two packages, with a registry of its own and the tools that were made for it."""

    def __init__(self, module: Any) -> None:
        self.module, self.registry = module, module.ToolRegistry()
        self.made: dict[int, Any] = {}

    def tool(self, key: int, fields: dict[str, Any]) -> Any:
        """Make a tool, or return the one that was made under this key."""
        if key not in self.made:
            fields = {name: list(one) if isinstance(one, list) else one for name, one in fields.items()}
            self.made[key] = self.module.Tool(annotated(key), self.module.ToolMetadata(**fields))
        return self.made[key]


class RegistriesSideBySide(RuleBasedStateMachine):
    """Any sequence of operations gives the same values and errors on both registries."""

    @initialize()
    def begin(self) -> None:
        self.mine, self.other = Side(compat), Side(PRAVAL)
        self.count = 0

    def same(self, act: Callable[[Side], Any]) -> None:
        """Do one thing on both sides, and compare what comes of it."""
        expected, actual = outcome(lambda: act(self.other)), outcome(lambda: act(self.mine))
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
            acts = {
                "register": lambda: registry.register_tool(tool),
                "register for all": lambda: registry.register_tool(for_all),
                "remove": lambda: registry.remove_tool_from_agent(name, "calculator"),
                "assign": lambda: registry.assign_tool_to_agent(name, "calculator"),
                "unregister": lambda: registry.unregister_tool(name),
                "unregister_owned": lambda: registry.unregister_owned_tool(name, tool.func, "calculator"),
                "clear": lambda: registry.clear_registry(),
            }
            told = [
                (outcome(acts[step]), len(registry.get_tools_for_agent("calculator")),
                 len(registry.get_tools_for_agent("other")), registry.get_registry_stats())
                for step in steps
            ]  # fmt: skip
            said.append(told)

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
            seen.append((first, second, sorted(marks), self.told(module, function)))

        assert seen[0] == seen[1]

    def told(self, module: Any, function: Any) -> Any:
        """Return everything that a decorated function tells, and what comes of running it."""
        return [
            outcome(act)
            for act in (
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


PROGRAM = '''
import sys
out = []

@tool("calculator_add", owned_by="calculator", category="arithmetic", tags=["sum"])
def add(x: float, y: float) -> float:
    """Add two numbers."""
    return x + y

@tool("logger", shared=True, category="utility", risk_level="HIGH", requires_approval=True)
def log_message(level: str, message: str = "-") -> str:
    return f"Logged: {message}"

registry = get_tool_registry()
out.append(sorted(t.metadata.tool_name for t in registry.get_tools_for_agent("calculator")))
out.append(sorted(t.metadata.tool_name for t in registry.get_tools_for_agent("stranger")))
out.append(register_tool_with_agent("calculator_add", "stranger"))
out.append(register_tool_with_agent("nope", "stranger"))
out.append(sorted(t["tool_name"] for t in list_tools(agent_name="stranger")))
out.append([unregister_tool_from_agent("calculator_add", "stranger") for _ in range(2)])
out.append(unregister_tool_from_agent("logger", "stranger"))
numbers = ToolCollection("numbers", "All of them")
numbers.add_tool("calculator_add"); numbers.add_tool("calculator_add")
out.append((numbers.name, numbers.description, numbers.tools, len(numbers.get_tools()), numbers.assign_to_agent("z")))
try:
    numbers.add_tool("nope")
except ToolError as error:
    out.append(str(error))
out.append((numbers.remove_tool("nope"), numbers.remove_tool("calculator_add"), numbers.get_tools()))
try:
    @tool("bad")
    def bad(x, y):
        return x
except ToolError as error:
    out.append(str(error))
try:
    registry.get_tool("logger").execute()
except ToolError as error:
    out.append((str(error), type(error.__cause__).__name__))
out.append(registry.get_tool("calculator_add").execute(1, y=2.5))
out.append(add(1, 2))
try:
    get_tool_info(print)
except ValueError as error:
    out.append(str(error))
out.append(sorted(t.metadata.tool_name for t in discover_tools(category="utility")))
out.append(sorted(t.metadata.tool_name for t in discover_tools("not_there_at_all")))
out.append(sorted(t.metadata.tool_name for t in discover_tools(pattern=PATTERN)))
out.append(sorted(t.metadata.tool_name for t in discover_tools(pattern=PATTERN)))
out.append(registry.get_registry_stats())
out.append([t.metadata.tool_name for t in registry.search_tools("LOG")])
out.append(registry.unregister_tool("logger"))
reset_tool_registry()
out.append((registry.list_all_tools(), get_tool_registry() is registry, get_tool_registry().list_all_tools()))
'''


class TestPrograms:
    def test_a_program_changes_its_imports_and_nothing_else(self, tmp_path: Path) -> None:
        """The same source, with each package's names in it, says the same from beginning to end."""
        said = []
        for module in (PRAVAL, compat):
            home = tmp_path / str(len(said))
            home.mkdir()
            (home / "good_tool.py").write_text(
                "from __future__ import annotations\n"
                f"from {'praval.tools' if module is PRAVAL else 'praval_tools.compat.praval'} import tool\n"
                '@tool("found")\ndef found(x: int) -> int:\n    return x\n'
            )
            (home / "bad_tool.py").write_text("1 / 0\n")
            names = {name: getattr(module, name) for name in compat.__all__ if name != "ToolError"}
            scope = {**names, "ToolError": theirs_tools.ToolError, "PATTERN": str(home / "**" / "*_tool.py")}
            exec(compile(PROGRAM, "program", "exec", dont_inherit=True), scope)
            said.append(scope["out"])

        assert said[0] == said[1]

    def test_code_that_catches_either_class(self) -> None:
        """An error is caught by Praval's class, by this one, and by the one base of `praval_tools`."""
        with pytest.raises(theirs_tools.ToolError) as caught:
            compat.ToolCollection("c").add_tool("nope")

        assert isinstance(caught.value, compat.ToolError)
        assert isinstance(caught.value, praval_tools.ToolError)
        again = pickle.loads(pickle.dumps(caught.value))
        assert str(caught.value) == str(again)
        assert isinstance(again, theirs_tools.ToolError)

    def test_two_threads_register_one_name(self) -> None:
        """Of threads that register one name at once, one succeeds, and the others are told as one alone would be."""
        for name in ("same", "not legal"):
            registry, said, gate = compat.ToolRegistry(), [], threading.Barrier(8)

            def work() -> None:
                one = compat.Tool(annotated(1), compat.ToolMetadata(name))
                gate.wait()
                said.append(outcome(lambda: registry.register_tool(one)))

            threads = [threading.Thread(target=work) for _ in range(8)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            assert 1 == said.count(None)
            assert {None, ("ToolError", f"Tool '{name}' is already registered")} == {one and one[:2] for one in said}
            assert 1 == len(registry.list_all_tools())


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
        """Whoever runs inside of an agent acts in its name, and is told with Praval's error class."""

        @praval_tools.tool("sneak", owned_by="intern")
        def sneak() -> str:
            """Try to give the boss a tool."""
            with pytest.raises(theirs_tools.ToolError, match="intern"):
                compat.tool("planted", owned_by="boss")(annotated(1))
            return "refused"

        assert "refused" == praval_tools.get_tool_registry().agent("intern").call("sneak")


def test_module_is_typed_as_what_it_is() -> None:
    """`compat.praval` is a module whose public names are its `__all__`, sorted."""
    assert isinstance(compat, ModuleType)
    assert sorted(compat.__all__) == compat.__all__


ODD = '''
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from nowhere import Account, Receipt

out = []

@tool("pay", owned_by="clerk")
def pay(account: Account, amount: int = 1) -> Receipt:
    """Pay."""
    return [account, amount]

@tool("parcel", owned_by="clerk", description=7)
class Parcel:
    def __init__(self, weight: int) -> None:
        self.weight = weight

@tool("later", owned_by="clerk")
def later(one: Later) -> str:
    return type(one).__name__

class Later:
    pass

registry = get_tool_registry()
out.append(assign("pay", "other"))
for agent in ("clerk", "other"):
    out.append(sorted(t.metadata.tool_name for t in registry.get_tools_for_agent(agent)))
out.append(sorted(repr(t) for t in list_tools()))
out.append([pay.execute_as_tool("mine"), Parcel.execute_as_tool(3).weight, later.execute_as_tool(Later())])
out.append([registry.get_tool("parcel").func is Parcel, registry.get_tool("pay").func is pay, Parcel(2).weight])
'''


class TestOddDeclarations:
    def test_what_praval_takes_is_taken(self) -> None:
        """Hints for type checkers alone, a class and a description that is no text: the same on both sides."""
        said = []
        for module in (PRAVAL, compat):
            module.reset_tool_registry()
            scope = {name: getattr(module, name) for name in ("tool", "list_tools", "get_tool_registry")}
            scope["assign"] = module.register_tool_with_agent
            exec(compile(ODD, "odd", "exec", dont_inherit=True), scope)
            said.append(scope["out"])

        assert said[0] == said[1]
        assert ["pay"] == said[1][2]

    def test_they_can_be_called_by_an_agent(self) -> None:
        """What cannot be read takes anything, and a hint that leads somewhere by the first call is checked."""
        compat.reset_tool_registry()
        scope: dict[str, Any] = {
            "__name__": __name__, "tool": compat.tool, "list_tools": compat.list_tools,
            "get_tool_registry": compat.get_tool_registry, "assign": compat.register_tool_with_agent,
        }  # fmt: skip
        exec(compile(ODD, "odd", "exec", dont_inherit=True), scope)
        clerk = praval_tools.get_tool_registry().agent("clerk")

        assert ["mine", "2"] == clerk.call("pay", account="mine", amount="2")
        assert 3 == clerk.call("parcel", weight=3).weight
        assert {"pay", "parcel", "later"} == set(clerk.tools)
        assert "definition" not in [one.kind for one in praval_tools.get_tool_registry().problems()]
