"""Numbers beyond the range of a float do not fit `float`: not as arguments, in a union, in a class, nor as a result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge

from praval_tools import Outcome, Tool, ToolArgumentsError, ToolCall, ToolRegistry


@dataclass
class Amount:
    value: float


def take(hint: Any) -> Tool[..., Any]:
    """Return a tool that takes a value of this type and returns its Python text."""

    def take(value: Any) -> str:
        """Take."""
        return repr(value)

    take.__annotations__["value"] = hint
    return Tool.from_function(take, shared=True)


HUGE = 10**400
WRONG: list[tuple[Any, Any]] = [
    (float, HUGE), (float, -HUGE), (float | None, HUGE), (float | str, HUGE), (list[float], [1, HUGE]),
    (dict[str, float], {"a": HUGE}), (Annotated[float, Ge(0)], HUGE), (Amount, {"value": HUGE}),
    (float, "1" + "0" * 399), (tuple[float, ...], [HUGE]),
]  # fmt: skip
IDS = ["plain", "negative", "optional", "union", "list", "dict", "constrained", "class", "text", "tuple"]


class TestIntegersForFloats:
    @pytest.mark.parametrize(("hint", "value"), WRONG, ids=IDS)
    @pytest.mark.parametrize("as_text", [False, True], ids=["values", "JSON text"])
    def test_beyond_the_range_are_refused_on_every_path(self, hint: Any, value: Any, as_text: bool) -> None:
        """Broken promise: a `float` parameter is a float; `10**400` arrived as an int."""
        tool = take(hint)
        text = repr({"value": value}).replace("'", '"')
        given = text if as_text else {"value": value}

        with ToolRegistry(journal="memory") as registry:
            registry.register_tool(tool)
            call = ToolCall("1", "take", given, "ann")
            results = [registry.execute(call), asyncio.run(registry.aexecute(call)), *registry.execute_batch([call])]
        with pytest.raises(ToolArgumentsError, match="larger or smaller than every float") as caught:
            tool.run_raw(given)

        assert {Outcome.INVALID_ARGUMENTS} == {result.outcome for result in results}
        assert caught.value.problems[0].path.startswith("$.value")

    @pytest.mark.parametrize("strict", [False, True])
    def test_beyond_the_range_are_refused_by_agents_calls(self, strict: bool) -> None:
        """The generated checks of an agent's call refuse them, too, and take what fits as a float."""
        with ToolRegistry(strict_arguments=strict) as registry:
            registry.register_tool(take(float))
            tools = registry.toolset("ann")

            assert ["3.0", "1e+300", "1e+300"] == [tools.call("take", value=value) for value in (3, 10**300, 10**300)]
            with pytest.raises(ToolArgumentsError, match="larger or smaller than every float"):
                tools.call("take", value=HUGE)

    def test_an_integer_beside_the_float_takes_them(self) -> None:
        """Where the type allows integers, the number stays what it is."""
        assert repr(HUGE) == take(float | int).run_raw({"value": HUGE})

    def test_a_result_beyond_the_range_is_refused_like_an_argument(self) -> None:
        """What cannot be read back as the declared type is not recorded as if it could."""

        def give() -> float:
            """Give."""
            return HUGE

        with ToolRegistry(journal="memory") as registry:
            registry.register_tool(Tool.from_function(give, shared=True))
            result = registry.execute(ToolCall("1", "give", {}, "ann"))

        assert Outcome.TOOL_ERROR is result.outcome
        assert "declare int" in str(result.error)


class SlyText(str):
    """Says that it is another text."""

    def __str__(self) -> str:
        return "other"


class SlyNumber(int):
    """Says that it is another number."""

    def __int__(self) -> int:
        return 7

    __index__ = __int__


class Sly(Enum):
    """Has values of such classes."""

    TEXT = SlyText("a")
    NUMBER = SlyNumber(1)


@pytest.mark.parametrize("hint", [Sly, Literal[Sly.TEXT, Sly.NUMBER]])
def test_choices_are_what_they_hold(hint: Any) -> None:
    """A value of a class of its own is written as what it holds, whatever it says that it is."""
    schema = take(hint).parameters["properties"]["value"]

    assert ["a", 1] == schema["enum"]
