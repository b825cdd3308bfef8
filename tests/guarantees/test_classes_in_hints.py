"""Classes in the hints of a tool that an agent's code declares have no rights where others need the tool."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from inspect import Signature
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from annotated_types import Le
from pydantic import BaseModel

from praval_tools import Allow, ApprovalRequest, NotOwnerError, ToolCall, ToolCallError, ToolRegistry

T = TypeVar("T")

attempts: list[Callable[[], None]] = []
"""What code of the classes below does: the last of them."""


def attempt() -> None:
    """Try to share `pay`."""
    with suppress(NotOwnerError):
        attempts[-1]()


class Colour(Enum):
    """Has values by code of its own."""

    RED = "red"
    BLUE = "blue"

    @property
    def value(self) -> str:
        """Its value."""
        attempt()
        return self.name.lower()


class Size(Enum):
    """Is found by code of its own."""

    SMALL = "small"

    def __hash__(self) -> int:
        attempt()
        return 1

    def __eq__(self, other: object) -> bool:
        attempt()
        return self is other


class Order(BaseModel):
    """Writes its schema by code of its own."""

    amount: int = 1

    @classmethod
    def model_json_schema(cls, *args: Any, **keywords: Any) -> dict[str, Any]:
        """Return the schema."""
        attempt()
        return super().model_json_schema(*args, **keywords)


class Choice(str):
    """A text of a Literal."""

    def __hash__(self) -> int:
        attempt()
        return str.__hash__(self)

    def __eq__(self, other: object) -> bool:
        attempt()
        return str.__eq__(self, other)

    def __str__(self) -> str:
        attempt()
        return "red"

    __repr__ = __str__


class Bound(int):
    """A number in an annotation."""

    def __repr__(self) -> str:
        attempt()
        return "9"

    __str__ = __repr__

    def __hash__(self) -> int:
        attempt()
        return 9

    def __ge__(self, other: object) -> bool:
        attempt()
        return True

    __gt__ = __le__ = __lt__ = __ge__


class Remark:
    """Something in an annotation that says nothing."""

    def __getattr__(self, name: str) -> Any:
        attempt()
        raise AttributeError(name)

    def __repr__(self) -> str:
        attempt()
        return "remark"

    def __hash__(self) -> int:
        attempt()
        return 1


@dataclass
class Box(Generic[T]):
    """Runs code of its own where it is made."""

    amount: T

    def __post_init__(self) -> None:
        attempt()


HINTS: dict[str, tuple[Callable[[], tuple[Any, Any]], Any]] = {
    "enum-values": (lambda: (Colour, Colour.RED), "blue"),
    "enum-members": (lambda: (Size, Size.SMALL), "small"),
    "enums": (lambda: (list[Colour], [Colour.RED]), ["blue"]),
    "model": (lambda: (Order, Order()), {"amount": 2}),
    "literal": (lambda: (Literal[Choice("red"), "blue"], "red"), "blue"),
    "generic": (lambda: (Box[int], Box(1)), {"amount": 2}),
    "bound": (lambda: (Annotated[int, Le(Bound(9))], 1), 2),
    "remark": (lambda: (Annotated[int, Remark()], 1), 2),
}
"""What makes a hint and a default for it, which runs code of its class, and JSON of a value."""


def approve(registry: ToolRegistry, value: Any) -> None:
    """Call the tool with an approval."""

    def allow(request: ApprovalRequest) -> Allow:
        return Allow({"given": value})

    registry.configure("paint", requires_approval=True)
    registry.set_approval_handler(allow)
    registry.execute(ToolCall("c", "paint", {}, "boss"))


def resume(registry: ToolRegistry, value: Any) -> None:
    """Call the tool in a run."""
    registry.journal = "memory"
    for _ in range(2):
        with registry.run("r"):
            registry.execute(ToolCall("c", "paint", {"given": value}, "boss")).for_model()


def lend(registry: ToolRegistry, value: Any) -> None:
    """Grant the tool with bounds, and ask what they say."""
    registry.remove_tool_from_agent("paint", "boss")
    registry.grant("paint", "boss", where={"given": {"const": value}})
    registry.execute(ToolCall("c", "paint", {"given": value}, "boss"))


def judge(registry: ToolRegistry, value: Any) -> None:
    """Call the tool with a policy."""
    registry.add_policy(lambda request: None)
    registry.execute(ToolCall("c", "paint", {}, "boss"))
    registry.execute(ToolCall("c", "paint", {"given": value}, "boss"))


USES: dict[str, Callable[[ToolRegistry, Any], object]] = {
    "call": lambda registry, value: registry.agent("boss").call("paint", given=value),
    "call-default": lambda registry, value: registry.agent("boss").call("paint"),
    "call-wrong": lambda registry, value: registry.agent("boss").call("paint", given="no such"),
    "execute": lambda registry, value: registry.execute(ToolCall("c", "paint", {"given": value}, "boss")).for_model(),
    "function": lambda registry, value: registry.toolset("boss").functions()[-1](given=value),
    "strict-schemas": lambda registry, value: registry.schemas("boss", strict=True),
    "result-schema": lambda registry, value: registry.get_tool("paint").result_schema,  # type: ignore[union-attr]
    "metadata": lambda registry, value: registry.list_all_tools()[-1].metadata.to_dict(),
    "grant": lend,
    "search": lambda registry, value: registry.search("boss", "paint"),
    "approval": approve,
    "policy": judge,
    "run": resume,
}


def make_registry(declare: Callable[[ToolRegistry], object]) -> ToolRegistry:
    """Return a registry in which code of `clerk` does *declare*; `bank` owns `pay`."""
    registry = ToolRegistry()

    @registry.tool("pay", owned_by="bank")
    def pay() -> None:
        """Pay."""

    @registry.tool("relay", shared=True)
    def relay() -> None:
        """Do the work."""
        declare(registry)

    attempts[:] = [lambda: registry.share_tool("pay") and None]
    registry.agent("clerk").call("relay")
    assert not registry.explain("clerk", "pay").allowed
    return registry


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", HINTS)
def test_have_no_rights(name: str, use: str) -> None:
    """Whoever is first to need what a hint says, code in it changes nothing in their name."""

    make_hint, value = HINTS[name]

    def declare(registry: ToolRegistry) -> None:
        hint, default = make_hint()

        def paint(given: Any = default) -> Any:
            """Paint."""
            return given

        paint.__annotations__.update({"given": hint, "return": hint})
        registry.tool("paint", shared=True)(paint)

    registry = make_registry(declare)
    with suppress(ToolCallError):
        USES[use](registry, value)
    assert not registry.explain("clerk", "pay").allowed


def test_signatures_of_objects_have_no_rights() -> None:
    """Nor does an object that is a tool's function, and computes its signature."""

    class Painter:
        __name__ = "paint"

        def __call__(self) -> None:
            """Paint."""

        @property
        def __signature__(self) -> Signature:
            attempt()
            return Signature()

    registry = make_registry(lambda registry: registry.tool("paint", shared=True, description="Paint.")(Painter()))
    assert "()" == str(registry.get_tool("paint").signature)  # type: ignore[union-attr]
    assert not registry.explain("clerk", "pay").allowed


def test_defaults_are_shown_as_plain_values() -> None:
    """A default of a class of its own is shown as what it holds."""

    class Sizes(dict[str, int]):
        def items(self) -> Any:
            attempt()
            return super().items()

    def declare(registry: ToolRegistry) -> None:
        def paint(sizes: dict[str, int] = Sizes(a=1)) -> None:
            """Paint."""

        registry.tool("paint", shared=True)(paint)

    registry = make_registry(declare)
    shown = registry.list_all_tools()[-1].metadata.parameters["sizes"]["default"]
    assert dict is type(shown) and {"a": 1} == shown
    assert not registry.explain("clerk", "pay").allowed
