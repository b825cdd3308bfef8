"""Models of pydantic that no JSON Schema describes are refused where the tool is declared, not where it is called."""

# Tests of: schema/data_classes

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field

from praval_tools import Outcome, ToolCall, ToolDefinitionError, ToolRegistry


class Connection:
    """What no schema describes."""


class Holds(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    connection: Connection | None = None


class Calls(BaseModel):
    function: Callable[[int], int] = abs


class Raises(BaseModel):
    x: int = Field(1, json_schema_extra=lambda schema: schema.update(y=1 // 0))


class Exits(BaseModel):
    @classmethod
    def model_json_schema(cls, *args: Any, **kwargs: Any) -> Any:
        """Leave the program."""
        raise SystemExit(3)


class NoJson(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        return {"type": {"a": object()}}


HINTS: list[Any] = [
    BaseModel, list[BaseModel], BaseModel | None, dict[str, BaseModel], Holds, Calls, Raises, Exits, NoJson,
    list[Holds],
]  # fmt: skip


@pytest.mark.parametrize("place", ["result", "parameter"])
@pytest.mark.parametrize("number", range(len(HINTS)))
def test_are_refused_at_the_declaration(number: int, place: str) -> None:
    """Broken promise: the tool was declared, and calls, batches and exports of all tools raised."""

    def give(x: int = 0) -> int:
        """Give."""
        return 1

    give.__annotations__["return" if place == "result" else "x"] = HINTS[number]
    registry = ToolRegistry()
    with pytest.raises(ToolDefinitionError, match="has no JSON Schema") as caught:
        registry.tool("give", owned_by="ann")(give)

    assert "the result" in str(caught.value) if place == "result" else "parameter 'x'" in str(caught.value)
    assert [] == registry.list_all_tools()


def test_a_model_that_refers_to_a_later_one() -> None:
    """It is unresolved, as any hint, until that is there; other tools can be called and exported meanwhile."""
    later = pydantic.create_model("Holder", later=("Later | None", None), __module__=__name__)
    registry = ToolRegistry()

    @registry.tool("pay", owned_by="ann")
    def pay() -> int:
        """Pay."""
        return 7

    def find(x: int = 0) -> int:
        """Find."""
        return 1

    find.__annotations__["return"] = list[later]  # type: ignore[valid-type]
    registry.tool("find", owned_by="ann")(find)
    calls = [ToolCall("1", "pay", {}, "ann"), ToolCall("2", "find", {}, "ann")]
    assert [Outcome.OK, Outcome.TOOL_ERROR] == [result.outcome for result in registry.execute_batch(calls)]
    assert "pay" in str(registry.schemas("ann", "openai-chat"))

    globals()["Later"] = pydantic.create_model("Later", y=(int, 1), __module__=__name__)
    try:
        assert "find" in str(registry.schemas("ann", "openai-chat"))
    finally:
        del globals()["Later"]


def test_an_object_whose_attributes_raise() -> None:
    """Broken promise: a call with it raised, and did not end in a result."""

    class Odd:
        @property
        def tolist(self) -> Any:
            """Raise."""
            raise ValueError("not now")

    with ToolRegistry(journal="memory") as registry:

        @registry.tool("take", owned_by="ann")
        def take(x: Any) -> int:
            """Take."""
            return 1

        for agent in ("ann", "bob"):
            result = registry.execute(ToolCall(None, "take", {"x": Odd()}, agent))
            assert result.outcome in (Outcome.OK, Outcome.INVALID_ARGUMENTS, Outcome.FORBIDDEN)
