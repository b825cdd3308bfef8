"""What classes mark as secret is hidden, too, in and beside instances of a class of which a hint means nothing."""

# Tests of: schema/marked_values, schema/written_secrets, schema/value_reader, schema/secret_marks

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import attrs
import pydantic
import pytest
from record_texts import read_journal

from praval_tools import Outcome, Secret, ToolCall, ToolRegistry
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.value_reader import ValueReader
from praval_tools.schema.written_secrets import read_written_secrets

PIN = "zq7x-marked-value"


@dataclass
class Account:
    """A class that marks one of its fields."""

    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN


@dataclass
class Invalid:
    """Has a hint that fails when it is evaluated."""

    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN
    count: int[1 // 0] = 1  # type: ignore[valid-type,misc,type-arg]


@dataclass
class Unknown:
    """Has a hint that names what only type checkers import."""

    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN
    client: list[Client] | None = None  # type: ignore[name-defined]  # noqa: F821


@attrs.define
class InvalidAttrs:
    """Is an attrs class with such a hint."""

    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN
    count: int[1 // 0] = 1  # type: ignore[valid-type,misc,type-arg]


class InvalidRow(NamedTuple):
    """Is a NamedTuple with such a hint."""

    owner: str = "ann"
    pin: Annotated[str, Secret] = PIN
    count: int[1 // 0] = 1  # type: ignore[valid-type,misc,type-arg]


class MarkedAsText(NamedTuple):
    """Marks a field by a hint that means nothing: nobody can say what it marks."""

    owner: str = "ann"
    pin: Annotated[Client, Secret] = PIN  # type: ignore[name-defined]  # noqa: F821


KINDS = [Invalid, Unknown, InvalidAttrs, InvalidRow, MarkedAsText]
HOLDERS: dict[str, Callable[[type], object]] = {
    "itself": lambda kind: kind(),
    "in a list": lambda kind: [kind()],
    "before": lambda kind: [Account(), kind(pin="other")],
    "after": lambda kind: [kind(pin="other"), Account()],
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_value = pytest.mark.parametrize("make", HOLDERS.values(), ids=HOLDERS)


@each_kind
@each_value
def test_of_errors(kind: type, make: Callable[[type], object]) -> None:
    """Broken promise: what an exception held in a marked field was recorded, if a class beside it had a bad hint."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("fail", shared=True)
        def fail() -> None:
            """Fail."""
            raise ValueError(make(kind))

        result = registry.execute(ToolCall("1", "fail", {}, "ann"))
        records = read_journal(registry)

    assert PIN in str(result.error)
    assert PIN not in records
    assert "owner='ann'" in records


@each_kind
@each_value
def test_of_results(kind: type, make: Callable[[type], object]) -> None:
    """A result that holds such an instance has no JSON form; what its error says is hidden."""
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("give", shared=True)
        def give() -> Any:
            """Give."""
            return make(kind)

        assert Outcome.TOOL_ERROR is registry.execute(ToolCall("1", "give", {}, "ann")).outcome
        assert PIN not in read_journal(registry)


@each_kind
def test_of_defaults(kind: type) -> None:
    """Broken promise: a default of such a class raised out of the metadata of its tool, and out of its calls."""
    default = kind(pin="other")
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("take", shared=True)
        def take(value: Any = default) -> None:
            """Take."""

        assert None is registry.get_tool("take").metadata.parameters["value"]["default"]
        assert Outcome.OK is registry.execute(ToolCall("1", "take", {}, "ann")).outcome


@each_kind
def test_where_serializers_write_it(kind: type) -> None:
    """What stands under the name of a marked field is found in JSON that a serializer wrote of such an instance."""

    class Holder(pydantic.BaseModel):
        """Writes what it holds."""

        held: Any

        @pydantic.field_serializer("held")
        def write(self, held: Any) -> Any:
            """Write it."""
            return {"owner": held.owner, "pin": "written"}

    holder = Holder(held=kind())

    assert ["written"] == read_written_secrets(holder, holder.model_dump())


@each_kind
def test_of_judged_values(kind: type) -> None:
    """The error of a judge says why it cannot read such an instance."""
    with pytest.raises(Unencodable, match=f"{kind.__name__} has an unresolved type hint: "):
        ValueReader().read(kind())
