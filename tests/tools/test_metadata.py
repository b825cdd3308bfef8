"""Text that UTF-8 cannot carry is refused where a tool is declared, or replaced, and stops nothing later."""

# Tests of: metadata, metadata_values

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal

import pytest
from watchers import Odd, actors, make_watcher

from praval_tools import Outcome, Tool, ToolCall, ToolDefinitionError, ToolMetadata, ToolRegistry
from praval_tools.tools.frames import get_current_actor
from praval_tools.tools.source import Source

HALF = "half \ud800"

REFUSED: dict[str, dict[str, Any]] = {
    "description": {"description": HALF}, "title": {"title": HALF}, "author": {"author": HALF},
    "version": {"version": HALF}, "category": {"category": HALF}, "tags": {"tags": [HALF]},
    "approval_reason": {"approval_reason": HALF}, "extra": {"extra": {"a": [{"b": HALF}]}},
    "extra key": {"extra": {HALF: 1}}, "return_type": {"return_type": HALF},
    "parameters": {"parameters": {"x": {"default": HALF}}}, "owned_by": {"owned_by": HALF},
}  # fmt: skip


def get() -> int:
    """Get."""
    return 1


def describe_badly() -> int:
    return 1


describe_badly.__doc__ = HALF


class Word(Enum):
    HALF = HALF


class TestRefused:
    @pytest.mark.parametrize("name", REFUSED)
    def test_half_a_character_in_metadata(self, name: str) -> None:
        """
        Broken promise: a call never raises for a tool's sake; such a text raised out of it, with a journal.
        """
        with pytest.raises(ToolDefinitionError, match=name.split()[0]):
            Tool.from_function(get, **REFUSED[name])
        with pytest.raises(ToolDefinitionError, match=name.split()[0]):
            ToolMetadata("get", **REFUSED[name])

    def test_half_a_character_in_a_docstring_a_name_or_a_choice(self) -> None:
        """The same for the docstring, the name, and the values of a Literal or an Enum."""

        def choose(word: Any) -> int:
            """Choose."""
            return 1

        for hint in (Literal[HALF], Word):  # type: ignore[valid-type]
            choose.__annotations__["word"] = hint
            with pytest.raises(ToolDefinitionError, match="word"):
                Tool.from_function(choose)
        with pytest.raises(ToolDefinitionError, match="doc"):
            Tool.from_function(describe_badly)
        with pytest.raises(ToolDefinitionError):
            Tool.from_function(get, HALF)

    def test_configuring(self) -> None:
        """The operator cannot configure a tool to such a text either."""
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(get))

        with pytest.raises(ToolDefinitionError):
            registry.get_tool("get").with_metadata(approval_reason=HALF)


@dataclass
class Order:
    item: Annotated[str, HALF] = HALF


Order.__doc__ = HALF


class TestReplaced:
    def test_what_hints_say_is_written_without_it(self) -> None:
        """Descriptions and defaults of classes and hints are replaced or left out in the schema; calls go on."""

        def take(order: Order, note: Annotated[str, HALF] = HALF) -> Order:
            """Take."""
            return order

        with ToolRegistry(journal="memory") as registry:
            tool = Tool.from_function(take, shared=True)
            registry.register_tool(tool)
            call = ToolCall("1", "take", {"order": {"item": "x"}}, "intern")

            str(registry.schemas("intern", "mcp")).encode()
            assert 64 == len(tool.fingerprint)
            assert Outcome.OK is registry.execute(call).outcome
            assert [Outcome.OK] * 2 == [result.outcome for result in registry.execute_batch([call, call])]

    def test_a_file_name_that_is_not_utf8(self) -> None:
        """The name of a file may be any bytes; the source says it as well as it can."""
        str(Source(file="/tmp/\udcff.py", line=1, distribution=HALF)).encode()


@pytest.mark.parametrize("field", ["risk_level", "speed", "safety", "engine", "errors"])
def test_a_choice_of_a_class_of_its_own(field: str) -> None:
    """It is refused, since it could compare itself as another one; the error says what to pass."""
    values = {"risk_level": "high", "speed": "slow", "safety": "sandboxed", "engine": "thread", "errors": "masked"}
    choice = StrEnum("Choice", {"IT": values[field]})(values[field])

    with pytest.raises(ToolDefinitionError, match=f"'{values[field]}' is of class Choice; pass it as a plain text"):
        ToolMetadata(**{field: choice})  # type: ignore[arg-type]
    assert getattr(ToolMetadata(**{field: values[field]}), field) == values[field]  # type: ignore[arg-type]


class Copied(Odd):
    """An object that notes who runs when it is copied, too."""

    def __deepcopy__(self, memo: object) -> Copied:
        actors.append(get_current_actor())
        return self


@pytest.mark.parametrize(
    "make", [lambda odd: odd, lambda odd: [odd], lambda odd: {odd}, lambda odd: {odd: 1}, lambda odd: {"a": {"b": odd}}]
)
def test_objects_in_extra(make: Callable[[object], object]) -> None:
    """Whoever copies metadata, or lists them, runs the code of objects that an agent put there, and without rights."""
    registry = ToolRegistry()
    tool = Tool.from_function(get, shared=True, extra={"a": make(Copied())})
    registry.register_tool(tool)
    actors.clear()

    registry.configure("get", extra=tool.metadata.extra)
    tool.with_metadata(title="Get").metadata.to_dict()

    assert {"tool:(metadata)"} == set(actors)


USES: dict[str, Callable[[ToolRegistry], object]] = {
    "share": lambda registry: registry.share_tool("get"),
    "configure": lambda registry: registry.configure("get", category="x"),
    "transfer": lambda registry: registry.transfer_ownership("get", "bank"),
    "info": lambda registry: registry.get_tool_info("get"),
    "replace": lambda registry: registry.list_all_tools()[0].metadata.replace(title="Get").to_dict(),
}


@pytest.mark.parametrize("field", ["parameters", "extra"])
class TestKeys:
    def test_an_object_is_refused(self, field: str) -> None:
        """Broken promise: an object was a name there, which code of others hashed and compared as they looked it up."""
        for key in (Odd("x"), 1, ("x",), None):
            with pytest.raises(ToolDefinitionError, match=f"{field}: .* is not a text"):
                Tool.from_function(get, **{field: {key: {"type": "int"}}})

    def test_a_text_of_a_class_of_its_own_becomes_plain(self, field: str) -> None:
        """It is looked up without code of its class."""
        metadata = ToolMetadata(**{field: {make_watcher(str)("x"): {"type": "int"}}})  # type: ignore[arg-type]
        actors.clear()
        assert {"type": "int"} == getattr(metadata, field)["x"]
        assert [] == actors

    @pytest.mark.parametrize("use", USES)
    def test_an_object_further_inside_has_no_rights(self, field: str, use: str) -> None:
        """Whoever changes or reads the tool, its code runs without theirs."""
        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(get, **{field: {"x": {Copied(): 1}}}))
        actors.clear()
        USES[use](registry)
        assert {"tool:(metadata)"} >= set(actors)
