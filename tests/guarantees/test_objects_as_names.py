"""Objects that an agent gives in the place of names, numbers and lists: none is a key, and none runs as another."""

# Tests of: execution/plain_calls, execution/fast_function_cache, runs/call_plans

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Annotated, Any, NamedTuple, cast

import pytest
from agent_code import run_as
from watchers import WatchedClass, actors

from praval_tools import (
    Agent,
    Allow,
    Ask,
    Deny,
    Outcome,
    Secret,
    ToolAccessError,
    ToolCall,
    ToolCollection,
    ToolError,
    ToolInDoubtError,
    ToolRegistry,
)
from praval_tools.compat import praval
from praval_tools.execution import pipeline
from praval_tools.execution.fast_function_cache import FastFunctionCache
from praval_tools.journal.journal import Journal
from praval_tools.runs.call_plans import CallPlans


class Name:
    """An object that says it is a text, and hashes as another one where a cache asks."""

    __class__ = property(lambda self: str)
    functions: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash("pay" if sys._getframe(1).f_code.co_name in self.functions else "note")

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    def __len__(self) -> int:
        return 4

    def __str__(self) -> str:
        return "note"

    __repr__ = __str__

    @property
    def name(self) -> object:
        """Itself."""
        return self


class Caching(Name):
    """It is another text to each cache of decisions, functions and plans."""

    functions = tuple(
        function.__name__
        for function in (
            pipeline._resolve_cached_access, CallPlans.find_plan, FastFunctionCache.find_function,
            FastFunctionCache.build_function,
        )
    )  # fmt: skip


def pay(pin: str = "") -> str:
    """Pay."""
    return "paid"


def note(pin: str = "") -> str:
    """Note."""
    return "noted"


@pytest.fixture(params=[None, "memory"])
def registry(request: pytest.FixtureRequest) -> ToolRegistry:
    """`bank` owns `pay`, which a person approves; `mal` owns `note`, which is shared."""
    made = ToolRegistry(journal=request.param)

    @made.tool("pay", owned_by="bank", requires_approval=True)
    def pay_with_pin(pin: Annotated[str, Secret] = "") -> str:
        """Pay."""
        return "paid"

    made.tool("note", owned_by="mal", shared=True)(note)
    return made


CALLS: dict[str, Callable[[ToolRegistry, Any], object]] = {
    "execute": lambda registry, name: registry.execute(ToolCall("1", name, {}, "bank")),
    "aexecute": lambda registry, name: asyncio.run(_run(registry.aexecute(ToolCall("1", name, {}, "bank")))),
    "batch": lambda registry, name: registry.execute_batch([ToolCall("1", name, {}, "bank")]),
    "toolset": lambda registry, name: registry.agent("bank").execute(ToolCall("1", name, {})),
    "call": lambda registry, name: registry.agent("bank").call(name),
    "acall": lambda registry, name: asyncio.run(_run(registry.agent("bank").acall(name))),
    "item": lambda registry, name: registry.toolset("bank")[name](),
    "by whom": lambda registry, name: registry.execute(ToolCall("1", "note", {}, name)),
    "for whom": lambda registry, name: registry.execute(ToolCall("1", "note", {}, "bank", None, (name,))),
}  # fmt: skip


async def _run(work: Any) -> object:
    return await work


@pytest.mark.parametrize("make", [Name, Caching])
@pytest.mark.parametrize("way", CALLS)
@pytest.mark.parametrize("by_mal", [True, False])
def test_lead_no_call_elsewhere(registry: ToolRegistry, way: str, make: type[Name], by_mal: bool) -> None:
    """Broken promise: one was a key of a cache, and the calls of another agent ran a tool of whoever gave it."""

    def call() -> None:
        with suppress(Exception):
            CALLS[way](registry, make())

    run_as(registry, "mal", call) if by_mal else call()
    result = registry.execute(ToolCall("2", "pay", {"pin": "a-secret-of-bank"}, "bank"))
    assert (result.name, result.outcome) == ("pay", Outcome.APPROVAL_REQUIRED)
    assert "a-secret-of-bank" not in str([] if registry.journal is None else list(registry.journal.events()))


def test_the_record_names_what_ran() -> None:
    """Broken promise: a call was recorded as one of another tool, and its result given to the call of that."""
    registry = ToolRegistry(journal="memory")
    registry.tool("pay", owned_by="bank")(pay)
    registry.tool("note", owned_by="mal", shared=True)(note)
    with registry.run("R"):
        registry.execute(ToolCall("c1", Name(), {"pin": "1"}, "bank"))  # type: ignore[arg-type]
        result = registry.execute(ToolCall("c2", "pay", {"pin": "1"}, "bank"))
    assert ("paid", False) == (result.result, result.replayed)
    assert "note" not in {call.tool_name for call in get_journal(registry).calls("R") if call.outcome is Outcome.OK}


@pytest.mark.parametrize("shown", ["note", "k-note", "k.note"])
def test_what_an_object_shows_is_no_name(registry: ToolRegistry, shown: str) -> None:
    """Broken promise: the tool ran whose name was the `repr` of an object."""
    registry.tool("note", namespace="k", owned_by="mal", shared=True)(note)
    value: Any = type("Shown", (), {"__repr__": lambda self: shown})()
    assert registry.execute(ToolCall("1", value, {}, "bank")).outcome is Outcome.UNKNOWN_TOOL
    with pytest.raises(ToolAccessError):
        registry.agent("bank").call(value)
    assert value not in registry.toolset("bank") and value not in registry


class Text(str):
    """A text that hashes as another one once it is armed."""

    armed = False

    def __hash__(self) -> int:
        return 7 if Text.armed else str.__hash__(self)


def test_a_disabled_namespace_counts_for_all_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken promise: the namespace of a tool that an agent declared was its own object, which no rule found."""
    registry = ToolRegistry()
    run_as(registry, "mal", lambda: registry.tool("first", namespace=Text("k"), shared=True)(note))
    registry.tool("other", namespace="k", owned_by="bank", shared=True)(pay)
    monkeypatch.setattr(Text, "armed", True)
    registry.disable(namespace="k")
    for name in ("k-first", "k-other"):
        assert registry.execute(ToolCall("2", name, {}, "bob")).outcome is Outcome.DISABLED
    assert type(registry.get_tool("k-first").namespace) is str  # type: ignore[union-attr]


def make_thief(registry: ToolRegistry, base: type, *args: object) -> Any:
    """Return a value of a subclass of *base* each of whose methods grants `pay` to `mal`, as whoever runs it."""

    def steal(name: str) -> Callable[..., Any]:
        def method(self: object, *args: Any) -> Any:
            with suppress(Exception):
                registry.grant("pay", "mal")
            return getattr(base, name)(self, *args)

        return method

    def find_class(self: object) -> type:
        with suppress(Exception):
            registry.grant("pay", "mal")
        return base

    names = ("__hash__", "__eq__", "__len__", "__iter__", "__getitem__", "__repr__", "__str__", "keys", "items", "get")
    methods = {name: steal(name) for name in names if getattr(base, name, None) is not None}
    return type("Thief", (base,), {**methods, "__class__": property(find_class)})(*args)


WAYS: dict[str, tuple[tuple[Any, ...], Callable[[ToolRegistry, Any], object]]] = {
    "bounds": ((dict, {"pin": {"maxLength": 5}}), lambda registry, value: registry.grant("pay", "bob", where=value)),
    "count": ((int, 3), lambda registry, value: registry.grant("pay", "bob", max_calls=value)),
    "limit": ((int, 3), lambda registry, value: registry.limits.set(tool="pay", per_minute=value)),
    "batch": (
        (int, 3),
        lambda registry, value: registry.execute_batch([ToolCall("1", "pay", {}, "bank")], max_parallel=value),
    ),
    "search": ((int, 3), lambda registry, value: registry.search("pay", limit=value)),
    "item": ((str, "pay"), lambda registry, value: registry.toolset("bank").get(value)),
    "in toolset": ((str, "pay"), lambda registry, value: value in registry.toolset("bank")),
    "in registry": ((str, "pay"), lambda registry, value: value in registry),
    "in collection": ((str, "pay"), lambda registry, value: value in ToolCollection("c", registry=registry)),
    "id": ((str, "1"), lambda registry, value: registry.execute(value, "pay", {})),
    "run": ((str, "R"), lambda registry, value: get_journal(registry).has_run(value)),
    "calls": ((str, "R"), lambda registry, value: get_journal(registry).calls(value)),
    "delegate": ((list, ["pay"]), lambda registry, value: registry.agent("bank").delegate("s", tools=value)),
    "tags": ((list, ["a"]), lambda registry, value: registry.schemas("bank", tags=value)),
    "by tags": ((list, ["a"]), lambda registry, value: registry.disable_by_tags(any=value)),
    "categories": (
        (list, ["a"]),
        lambda registry, value: (Agent("z", tool_categories=value, registry=registry), registry.problems()),
    ),
    "chain": ((list, ["mal"]), lambda registry, value: registry.execute(ToolCall("1", "note", {}, "bob", None, value))),
    "names": ((tuple, ("a",)), lambda registry, value: registry.execute(ToolCall("1", value, {}, "bob"))),
    "agents": ((tuple, ("a",)), lambda registry, value: registry.execute(ToolCall("1", "note", {}, value))),
    "reason": ((int, 7), lambda registry, value: registry.grant("pay", "bob", reason=value)),
    "reasons": ((list, ["a"]), lambda registry, value: registry.grant("pay", "bob", reason=value)),
    "key": ((int, 7), lambda registry, value: registry.grant("pay", "bob", key=value)),
    "end": ((str, "soon"), lambda registry, value: registry.grant("pay", "bob", expires=value)),
    "file": ((str, "none.toml"), lambda registry, value: registry.configure_from(value)),
    "resolve": ((str, "1"), lambda registry, value: resolve(registry, value, 1)),
    "resolved": ((dict, {"a": 1}), lambda registry, value: resolve(registry, "1", value)),
    "namespace": ((str, "k"), lambda registry, value: registry.tool("other", namespace=value)(note)),
    "extra": ((str, "k"), lambda registry, value: registry.tool("other", extra={"k": value})(note)),
    "parameters": ((str, "k"), lambda registry, value: registry.tool("other", parameters={"pin": value})(note)),
    "risk": ((str, "hig"), lambda registry, value: registry.tool("other", risk_level=value)(note)),
    "dict": ((dict, {"a": 1}), lambda registry, value: registry.block("pay", "bob", reason=value)),
    "by": ((dict, {"a": 1}), lambda registry, value: registry.share_tool("pay", by=value)),
    "nested tags": ((str, "a"), lambda registry, value: registry.schemas("bank", tags=cast(Any, [[value]]))),
    "generator": ((str, "a"), lambda registry, value: registry.search_tools(tags=(text for text in [value]))),
    "answers": ((str, "x"), lambda registry, value: answer(registry, {"pin": value})),
    "denials": ((int, 1), lambda registry, value: Deny(value)),
    "answer": ((dict, {"pin": "x"}), lambda registry, value: answer(registry, value)),
}


def get_journal(registry: ToolRegistry) -> Journal:
    """Return the journal of *registry*."""
    assert registry.journal is not None
    return registry.journal


def resolve(registry: ToolRegistry, call_id: str, result: object) -> None:
    """Say what came of a call in doubt."""

    @registry.tool("doubt", owned_by="bank")
    def doubt() -> None:
        """Doubt."""
        raise ToolInDoubtError("nobody knows")

    with registry.run("R") as run:
        registry.execute(ToolCall("1", "doubt", {}, "bank"))
        run.resolve(call_id, result=result)


def answer(registry: ToolRegistry, arguments: Any) -> None:
    """Approve a call with *arguments*."""
    registry.set_approval_handler(lambda request: Allow(arguments))
    registry.execute(ToolCall("1", "pay", {}, "bank"))


def make_registry() -> ToolRegistry:
    """Return a registry with the two tools."""
    registry = ToolRegistry(journal="memory")
    registry.tool("pay", owned_by="bank", requires_approval=True)(pay)
    registry.tool("note", owned_by="mal", shared=True)(note)
    return registry


@pytest.mark.parametrize("way", WAYS)
def test_what_the_host_passes_on_has_no_rights(way: str) -> None:
    """Broken promise: the methods of a subclass of a text, number, list or dict ran as the operator."""
    registry = make_registry()
    (base, value), use = WAYS[way]
    errors = list[type[Exception] | None]()
    for given in (make_thief(registry, base, value), value):
        try:
            use(make_registry(), given)
            errors.append(None)
        except Exception as error:
            errors.append(type(error))
    assert errors[0] is errors[1]
    assert "no-way" == registry.explain("mal", "pay").rule


def test_collections_of_praval_hold_plain_names(request: pytest.FixtureRequest) -> None:
    """Broken promise: the text of an agent was kept, and compared as the host."""
    registry = praval.get_tool_registry().registry
    request.addfinalizer(praval.reset_tool_registry)
    praval.tool("pay", owned_by="bank")(pay)
    praval.tool("note", owned_by="mal")(note)
    shared = praval.ToolCollection("shared", "Everybody's.")
    run_as(registry, "mal", lambda: shared.add_tool(make_thief(registry, str, "note")))
    shared.add_tool("pay")
    praval.list_tools(category=make_thief(registry, str, "general"))
    assert "no-way" == registry.explain("mal", "pay").rule
    assert ["note", "pay"] == shared.tools


@pytest.mark.parametrize("kind", [Allow, Deny, Ask])
@pytest.mark.parametrize("fields", [{"arguments": None, "by": "", "reason": ""}, {}], ids=["fields", "no fields"])
def test_texts_are_no_answers(registry: ToolRegistry, kind: type, fields: dict[str, object]) -> None:
    """Broken promise: a text that said it was an `Allow` approved a call, and one that said `Ask` refused nothing."""
    text = type("Text", (str,), {"__class__": property(lambda self: kind), **fields})("no")
    assert isinstance(text, kind)
    registry.set_approval_handler(lambda request: text)
    assert registry.execute(ToolCall("1", "pay", {}, "bank")).outcome is Outcome.APPROVAL_DENIED
    registry.set_approval_handler(lambda request: Allow())
    registry.add_policy(lambda agent, tool, arguments: text)
    assert registry.execute(ToolCall("2", "note", {}, "bank")).outcome is Outcome.FORBIDDEN
    assert not registry.explain("bank", "note", {}).allowed


class Worker(NamedTuple):
    """A record with a name."""

    name: str
    prompt: str = ""


class Role(IntEnum):
    """A number with a name."""

    ann = 1


@pytest.mark.parametrize("agent", [Worker("ann"), Role.ann])
def test_whatever_has_a_name_stands_for_an_agent(registry: ToolRegistry, agent: Any) -> None:
    """A record and a member of an enumeration, too."""
    assert registry.assign_tool_to_agent("note", agent)
    assert "noted" == registry.agent(agent).call("note")
    assert "ann" == registry.block("note", agent).agent


@pytest.mark.parametrize("error", [SystemExit, GeneratorExit, asyncio.CancelledError, ValueError])
@pytest.mark.parametrize("field", ["name", "agent", "on_behalf_of"])
def test_objects_that_raise_end_no_program(registry: ToolRegistry, field: str, error: type[BaseException]) -> None:
    """Broken promise: what the `repr` of an object in the place of a name raised ended the program of the host."""

    def fail(self: object) -> str:
        raise error

    value = type("Failing", (), {"__repr__": fail, "__str__": fail, "name": property(fail)})()
    call = ToolCall(**{"name": "note", "arguments": {}, "agent": "bank", field: value})
    results = registry.execute_batch([ToolCall("1", "note", {}, "ann"), call])
    assert [True, False] == [result.success for result in results]


CALL_FIELDS = ("tool_call_id", "name", "arguments", "agent", "run_id", "parent_id", "reason", "engine", "on_behalf_of")


@pytest.mark.parametrize("journal", [None, "memory"])
@pytest.mark.parametrize("field", CALL_FIELDS)
def test_classes_of_what_is_in_calls(field: str, journal: str | None) -> None:
    """Broken promise: the class of an object in a call hashed and compared itself as the operator."""
    value = WatchedClass("Value", (), {"__hash__": lambda self: 1})()
    fields = {"tool_call_id": "1", "name": "pay", "arguments": {}, "agent": "ann"}
    call = ToolCall(**{**fields, field: (value,) if field == "on_behalf_of" else value})
    with ToolRegistry(journal=journal) as registry:
        registry.tool("pay", shared=True, description="Pay.")(lambda x=1: x)
        actors.clear()
        for work in (
            lambda: registry.execute(call),
            lambda: registry.execute_batch([call]),
            lambda: registry.execute_tool_calls([call], "ann"),
            lambda: registry.agent("ann").execute(call),
            lambda: registry.explain(value, value, value),
            lambda: registry.grant("pay", value, where={"x": value}),
        ):
            with suppress(ToolError):
                work()
    assert "operator" not in actors
