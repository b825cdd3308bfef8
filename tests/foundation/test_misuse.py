"""Wrong calls of public methods: one readable line, with similar names, and nothing of the inside."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest

import praval_tools
from praval_tools import Agent, Allow, Outcome, ToolCall, ToolCollection, ToolMetadata, ToolRegistry, tool
from praval_tools import agent as declare_agent
from praval_tools.loop import ToolLoop
from praval_tools.misuse import explain_misuse_and_take_plain_arguments


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry with a tool of `ann`."""
    registry = ToolRegistry(name="first")

    @registry.tool("add", owned_by="ann")
    def add(x: int, y: int = 1) -> int:
        """Add."""
        return x + y

    return registry


def misuse(registry: ToolRegistry) -> dict[str, tuple[Callable[[], Any], str]]:
    """Return what is called wrongly, and what is said of it."""
    ann = registry.agent("ann")
    by_name = "takes the tool's arguments by name"
    return {
        "call": (lambda: ann.call("add", 5), f"call() {by_name}: call('add', x=…)."),
        "call two": (lambda: ann.tools.call("add", 5, 6), f"call() {by_name}: call('add', x=…, y=…)."),
        "call unknown": (lambda: ann.call("nope", 5), f"call() {by_name}: call('nope', x=…)."),
        "acall": (lambda: asyncio.run(ann.acall("add", 5)), f"acall() {by_name}: acall('add', x=…)."),
        "execute": (
            lambda: ann.execute("add", {"x": 5}),
            "execute() takes one call: execute(ToolCall(name='add', arguments={…})).",
        ),
        "grant": (
            lambda: registry.grant("add", "bob", max_call=3),
            "grant() takes no 'max_call'. Did you mean 'max_calls'?",
        ),
        "grant to": (lambda: registry.grant("add", agent="bob"), "grant() needs 'to'."),
        "agent": (
            lambda: Agent("bob", categories=["a"], registry=registry),
            "Agent() takes no 'categories'. Did you mean 'tool_categories'?",
        ),
        "decorated agent": (
            lambda: declare_agent("bob", responds_to=["a"], registry=registry)(lambda: 1),
            "Agent() takes no 'responds_to'. It takes by name: name, tools, tool_categories, auto_discover_tools, "
            "registry, function.",
        ),
        "execute_tool": (
            lambda: registry.execute_tool(name="add", x=1),
            "execute_tool() takes 'name' by position: execute_tool('add', …).",
        ),
        "execute_tool by position": (
            lambda: registry.execute_tool("add", 1),
            "execute_tool() takes by position: name; pass 1 and what follows by name.",
        ),
        "registry": (
            lambda: ToolRegistry(durablity="x"),
            "ToolRegistry() takes no 'durablity'. Did you mean 'durability'?",
        ),
        "register": (
            lambda: registry.register_tool(registry.get_tool("add"), replce=True),
            "register_tool() takes no 'replce'. Did you mean 'replace'?",
        ),
        "merge": (
            lambda: registry.merge(registry, collision="keep"),
            "merge() takes no 'collision'. Did you mean 'collisions'?",
        ),
        "merge another type": (lambda: registry.merge("shop"), "merge() takes another ToolRegistry, got str."),
        "spinoff": (lambda: registry.spinoff(), "spinoff() needs 'namespace'."),
        "limit": (
            lambda: registry.limits.set(tool="add", concurent=3),
            "set() takes no 'concurent'. Did you mean 'concurrent'?",
        ),
        "loop": (lambda: ToolLoop(ann), "ToolLoop() needs 'model'."),
        "call without a tool": (lambda: ann.call(x=5), "call() needs 'name'."),
        "acall without a tool": (lambda: asyncio.run(ann.tools.acall()), "acall() needs 'name'."),
        "execute nothing": (lambda: ann.execute(), "execute() needs 'call'."),
        "aexecute unknown": (
            lambda: asyncio.run(ann.aexecute(ToolCall("1", "add"), dep=1)),
            "aexecute() takes no 'dep'. Did you mean 'deps'?",
        ),
        "call_json without arguments": (lambda: ann.tools.call_json("add"), "call_json() needs 'arguments'."),
        "acall_json": (
            lambda: asyncio.run(ann.tools.acall_json("add", "{}", argument="{}")),
            "acall_json() takes no 'argument'. Did you mean 'arguments'?",
        ),
        "execute of the registry": (
            lambda: registry.execute(name="add", arguments={"x": 1}),
            "execute() takes no 'name'. Did you mean 'tool_name'?",
        ),
        "aexecute of the registry": (lambda: asyncio.run(registry.aexecute()), "aexecute() needs 'tool_call_id'."),
        "twice": (
            lambda: registry.grant("add", "bob", to="eve"),
            "grant() got 'to' twice: by its position and by its name.",
        ),
        "nothing by name": (
            lambda: registry.problems(all=True),
            "problems() takes no 'all'. It takes no arguments by name.",
        ),
        "metadata": (
            lambda: ToolMetadata(tool_name="add", catgory="sums"),
            "ToolMetadata() takes no 'catgory'. Did you mean 'category' or 'author'?",
        ),
        "allow": (lambda: Allow(resaon="fine"), "Allow() takes no 'resaon'. Did you mean 'reason'?"),
    }


NOT_OURS = {
    "hookimpl": "it is pluggy's",
    "hookspec": "it is pluggy's",
    "Outcome": "enumerations are Python's",
    "Secret": "a mark for type hints, never called",
    "normalize_name": "takes one text, and nothing else",
    "BoundTool": "made by toolsets, and called with the arguments of its tool",
    "tool": "its keywords are fields of metadata, whose errors are those of definitions",
    **dict.fromkeys(
        (
            "AgentProfile", "ApprovalRequest", "ConfigProblem", "Decision", "Principal", "Problem", "RegistryProblem",
            "Repair", "Tried", "ToolCall", "ToolResult",
        ),
        "values that are read, or made for every call; msgspec's own line says what does not fit",
    ),
}  # fmt: skip
"""Public names whose wrong calls speak another way, and why."""

INSIDE = re.compile(r"__init__|positional argument|unexpected keyword|required (keyword|positional)")


def list_callables() -> dict[str, Callable[..., object]]:
    """Return every public callable of the package, and the public methods of one object of each class, by a label."""
    registry = ToolRegistry(journal="memory")

    @tool(registry=registry, owned_by="ann")
    def add(x: int) -> int:
        """Add."""
        return x

    ann = Agent("ann", registry=registry)
    objects = [registry, ann, ann.tools, add, ToolCollection("sums", registry=registry), registry.run("r")]
    objects += [
        registry.limits,
        registry.approvals,
        registry.journal,
        registry.stats,
        ann.execute(ToolCall("1", "add")),
    ]
    callables: dict[str, Callable[..., object]] = {}
    for name in praval_tools.__all__:
        value = getattr(praval_tools, name)
        if (
            callable(value)
            and name not in NOT_OURS
            and not (isinstance(value, type) and issubclass(value, BaseException))
        ):
            callables[name] = value
    for holder in objects:
        for name in dir(type(holder)):
            method = inspect.getattr_static(type(holder), name)
            is_inherited = hasattr(Mapping, name)  # what every mapping has
            if not name.startswith("_") and not isinstance(method, property) and not is_inherited:
                callables[f"{type(holder).__name__}.{name}"] = getattr(holder, name)
    return {label: value for label, value in callables.items() if callable(value)}


CALLABLES = list_callables()


def find_text(value: Callable[..., object], *args: object, **keywords: object) -> str:
    """Return what a wrong call says; an empty text where it is not wrong."""
    try:
        result = value(*args, **keywords)
        if inspect.iscoroutine(result):
            asyncio.run(result)
    except Exception as error:
        return str(error)
    return ""


class TestEveryPublicCallable:
    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("label", sorted(set(CALLABLES) - {"reset_tool_registry", "ToolRegistry.close"}))
    def test_shows_nothing_of_the_inside(self, label: str) -> None:
        """Whatever is called with an unknown keyword, or with too much: no text is Python's own about our methods."""
        value = CALLABLES[label]
        texts = [find_text(value, unknown_thing=1), find_text(value, *range(12))]

        assert [] == [text for text in texts if INSIDE.search(text) or "\n" in text and "problems" not in text]

    def test_what_is_required_is_named(self) -> None:
        """A call without anything names what is missing, for everything that requires something."""
        for label, value in CALLABLES.items():
            required = [
                one.name
                for one in inspect.signature(value).parameters.values()
                if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
            ]
            if required:
                assert re.search(rf"needs '{required[0]}'", find_text(value)), label


class TestMisuse:
    @pytest.mark.parametrize("case", sorted(misuse(ToolRegistry())))
    def test_says_what_does_not_fit(self, registry: ToolRegistry, case: str) -> None:
        """The error is a `TypeError`, as everywhere in Python, and names what the caller wrote."""
        call, text = misuse(registry)[case]

        with pytest.raises(TypeError) as raised:
            call()

        assert text == str(raised.value).replace(
            "Did you mean 'journal' or 'journal_errors'?", "Did you mean 'journal'?"
        )

    def test_errors_from_inside_are_left_alone(self, registry: ToolRegistry) -> None:
        """A `TypeError` that a method itself raises is not taken for a wrong call."""
        with pytest.raises(TypeError, match="Expected Tool object"):
            registry.register_tool(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="are lists"):
            Agent("bob", "add", registry=registry)

    def test_a_call_whose_name_is_misplaced(self, registry: ToolRegistry) -> None:
        """`ToolCall("add", {…})` gives the id first: the result says how to write it, with an agent and without."""
        call = ToolCall("add", {"x": 1})  # type: ignore[arg-type]
        results = [registry.agent("ann").execute(call), registry.execute(call), registry.execute_batch([call])[0]]

        assert {Outcome.UNKNOWN_TOOL, Outcome.FORBIDDEN} == {result.outcome for result in results}
        assert {"A ToolCall begins with its id, and its name is a text: ToolCall(name='add', arguments={'x': 1})."} == {
            result.error for result in results
        }

    @pytest.mark.parametrize("is_async", [False, True])
    def test_errors_of_arguments_are_left_alone(self, *, is_async: bool) -> None:
        """Broken promise: a `TypeError` of an object that an async method was given was taken for a wrong call."""
        error = TypeError("It has no members today.")

        class Members(ChainMap[str, int]):
            def __iter__(self) -> Iterator[str]:
                raise error

        @explain_misuse_and_take_plain_arguments
        class Shop:
            def order(self, tags: object) -> None:
                """Do nothing."""

            async def aorder(self, tags: object) -> None:
                """Do nothing."""

        with pytest.raises(TypeError) as raised:
            tags = MappingProxyType(Members())
            asyncio.run(Shop().aorder(tags)) if is_async else Shop().order(tags)
        assert raised.value is error
