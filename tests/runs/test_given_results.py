"""The result that a person gives a call in doubt is what its tool would have returned, however its JSON is written."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from praval_tools import Content, Tool, ToolInDoubtError, ToolRegistry, ToolUsageError


@dataclass
class Receipt:
    number: int
    note: str = "none"


class Bill(BaseModel):
    price: Decimal = Decimal(0)
    tags: set[str] = set()


def open_registry(path: Path, hint: Any) -> ToolRegistry:
    """Return a registry with a tool that returns *hint*, and loses the line before it can."""
    registry = ToolRegistry(journal=path)

    def pay() -> Any:
        raise ToolInDoubtError("the line broke")

    pay.__annotations__["return"] = hint
    registry.tool("pay", owned_by="ann", description="Pay.")(pay)
    return registry


def resolve(registry: ToolRegistry, way: str, result: object) -> None:
    """Resolve the call that is in doubt, inside of its run or from outside."""
    if way == "run":
        with registry.run("r") as run:
            run.resolve(run.in_doubt[0], result=result)
    else:
        assert registry.journal is not None
        (call,) = registry.journal.calls("r")
        registry.journal.resolve("r", call.tool_call_id, result=result)


@pytest.mark.parametrize("way", ["run", "journal"])
@pytest.mark.parametrize(
    ("hint", "given", "result"),
    [
        (set[str], ["b", "a"], {"a", "b"}),
        (Receipt, {"number": 1}, Receipt(1)),
        (list[Receipt], [Receipt(1, "paid")], [Receipt(1, "paid")]),
        (Bill, {"price": 1.5, "tags": ["b", "a"]}, Bill(price=Decimal("1.5"), tags={"a", "b"})),
        (int | str, "5", "5"),
        (dict[str, int], {"a": 1}, {"a": 1}),
    ],
)
def test_has_the_declared_type(hint: Any, given: object, result: object, way: str, tmp_path: Path) -> None:
    """Broken promise: a set in another order, or a default that was left out, made a list or a dict of it for ever."""
    with open_registry(tmp_path / "r.db", hint) as registry:
        with registry.run("r"), pytest.raises(ToolInDoubtError):
            registry.toolset("ann").call("pay")
        resolve(registry, way, given)
        with registry.run("r"):
            again = registry.toolset("ann").call("pay")

    assert (type(result), result) == (type(again), again)


@pytest.mark.parametrize("way", ["run", "journal"])
@pytest.mark.parametrize(("hint", "given"), [(Receipt, {"number": "one"}), (int, "5"), (set[int], ["a"])])
def test_is_refused_where_the_tool_could_not_return_it(hint: Any, given: object, way: str, tmp_path: Path) -> None:
    """Broken promise: only `run.resolve` did; a call can be resolved once."""
    with open_registry(tmp_path / "r.db", hint) as registry:
        with registry.run("r"), pytest.raises(ToolInDoubtError):
            registry.toolset("ann").call("pay")
        with pytest.raises(ToolUsageError, match="could not have returned") as error:
            resolve(registry, way, given)
        with registry.run("r") as run:
            assert 1 == len(run.in_doubt)

    assert "no-such-result" == error.value.code


def test_of_a_service_it_stays_json(tmp_path: Path) -> None:
    """Where it is given as `Content`, it is that again."""

    def pay(**_: object) -> None:
        raise ToolInDoubtError("the line broke")

    for given in ({"a": [1]}, Content.of_text("paid")):
        with ToolRegistry(journal="memory") as registry:
            registry.register_tool(Tool("pay", "Pay.", {"type": "object"}, pay, owned_by="ann"))
            with registry.run("r"), pytest.raises(ToolInDoubtError):
                registry.toolset("ann").call("pay")
            resolve(registry, "journal", given)
            with registry.run("r"):
                assert given == registry.toolset("ann").call("pay")
