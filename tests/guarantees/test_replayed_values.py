"""A replayed result is the recorded one: equal in value and type, and the same text for a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple, TypedDict
from uuid import UUID

import attrs
import pytest
from annotated_types import Ge
from pydantic import BaseModel

from praval_tools import Content, Outcome, ToolCall, ToolRegistry, ToolResult
from praval_tools.formats import result_message


class Point(NamedTuple):
    x: float


class Row(TypedDict):
    x: float


@dataclass
class Amount:
    x: float
    many: list[float]


@attrs.define
class Pair:
    x: float | str
    y: float | None


class Model(BaseModel):
    x: int | float
    y: Any


NUMBERS: list[tuple[Any, Any]] = [
    (float, 1), (float, 1.0), (float, 2**53 + 1), (int, 7.0), (float | None, 3), (float | str, 3),
    (list[float], [1, 1.0]),
    (dict[str, float], {"a": 1}), (tuple[float, float], (1, 1.0)), (Annotated[float, Ge(0)], 2), (Point, Point(1)),
    (Row, {"x": 1}), (Amount, Amount(1, [1, 2.0])), (Pair, Pair(1, 2)), (Model, Model(x=3.0, y=3.0)),
    (Model, Model(x=3, y=[1.0])), (list[Point | Amount], [Point(1)]),
]  # fmt: skip
LOOSE: list[Any] = [
    datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.50"), b"x", UUID(int=1), PurePosixPath("a/b"), timedelta(1), "text",
    (1, 2), {3, 1}, 1.0, Content.of_text("words"), Content.image(b"\x89PNG", "image/png"),
    ["see", Content.image(b"\x89PNG", "image/png")], [Content.link("https://x.test", "x")],
    Content.resource("a://b", data=b"x"),
    {"type": "text", "text": 5, "data": None, "mime_type": "", "uri": "", "name": ""},
    {"type": "video", "text": "", "data": None, "mime_type": "", "uri": "", "name": ""},
]  # fmt: skip
FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "mcp")


def iter_results(hint: Any, value: Any, path: Path) -> Iterator[ToolResult]:
    """Yield the live result of a tool that returns *value* under *hint*, and the replayed one."""

    def give() -> Any:
        """Give."""
        return value

    give.__annotations__["return"] = hint
    for _ in range(2):
        with ToolRegistry(journal=path) as registry:
            registry.tool(owned_by="ann")(give)
            with registry.run("r"):
                yield registry.execute(ToolCall("c", "give", {}, "ann"))


class TestNumbers:
    @pytest.mark.parametrize(("hint", "value"), NUMBERS, ids=str)
    def test_come_back_in_their_own_type(self, hint: Any, value: Any, tmp_path: Path) -> None:
        """Broken promise: an int under `float` was 1 live and 1.0 replayed, and lost digits beyond 2**53."""
        live, replayed = iter_results(hint, value, tmp_path / "j.db")

        assert (Outcome.OK, False, True) == (live.outcome, live.replayed, replayed.replayed)
        assert repr(value) == repr(live.result) == repr(replayed.result)
        assert live.for_model() == replayed.for_model()


class TestWhatAModelReads:
    @pytest.mark.parametrize("value", LOOSE, ids=lambda one: ascii(one)[:40])
    def test_is_the_same_text_under_any_type(self, value: Any, tmp_path: Path) -> None:
        """Broken promise: under `Any` a live time was quoted and a replayed one not, an image became its JSON."""
        live, replayed = iter_results(Any, value, tmp_path / "j.db")

        assert (Outcome.OK, True) == (live.outcome, replayed.replayed)
        assert live.for_model() == replayed.for_model()
        assert live.for_model(20) == replayed.for_model(20)
        for api_format in FORMATS:
            assert result_message(api_format, live) == result_message(api_format, replayed)
