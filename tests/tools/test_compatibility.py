"""Whether a new definition can take the place of an old one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from type_strategies import FORMS, ask, echo, json_for

from praval_tools import Outcome, Tool, compare


def old(x: int, y: int = 0) -> int | None:
    """Do."""


def one_more_default(x: int, y: int = 0, z: int = 0) -> int | None:
    """Do it otherwise."""


def wider(x: int | str, y: int = 0) -> int:
    """Do."""
    return 1


def one_more_required(x: int, y: int = 0, *, z: int) -> int | None:
    """Do."""


def one_less(x: int) -> int | None:
    """Do."""


def narrower(x: bool, y: int = 0) -> int | None:
    """Do."""


def wider_result(x: int, y: int = 0) -> int | str | None:
    """Do."""


def other_default(x: int, y: int = 1) -> int | None:
    """Do."""


VERDICTS: dict[Callable[..., Any], str] = {
    old: "compatible",
    one_more_default: "compatible",
    wider: "compatible",
    one_more_required: "breaking",
    one_less: "breaking",
    narrower: "breaking",
    wider_result: "breaking",
    other_default: "unknown",
}


class TestCompare:
    @pytest.mark.parametrize("new", VERDICTS, ids=lambda one: one.__name__)
    def test_verdict(self, new: Callable[..., Any]) -> None:
        """A new tool must take what the old one took and give no more; what cannot be decided is unknown."""
        made = Tool.from_function(new, "tool")

        assert VERDICTS[new] == compare(Tool.from_function(old, "tool"), made)

    @settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
    @given(st.data())
    def test_compatible_is_never_said_wrongly(self, data: st.DataObject) -> None:
        """What the old tool takes, one that is called compatible takes as well."""
        before, after = (echo(FORMS[data.draw(st.sampled_from(sorted(FORMS)))]) for _ in "12")
        assume("compatible" == compare({"parameters": before.parameters}, {"parameters": after.parameters}))
        value = {"value": data.draw(json_for(before.function.__annotations__["value"]))}

        if Outcome.OK is ask(before, value, strict_arguments=True).outcome:
            assert Outcome.OK is ask(after, value, strict_arguments=True).outcome

    def test_the_fingerprint_says_whether_anything_changed(self) -> None:
        """Name, description and schemas count; owner, flags and the function's body do not."""
        tool = Tool.from_function(old)

        assert tool.fingerprint == tool.with_metadata(owned_by="ann", shared=True, category="x").fingerprint
        assert 5 == len({
            tool.fingerprint,
            tool.with_namespace("space").fingerprint,
            Tool.from_function(old, "other").fingerprint,
            tool.with_metadata(description="Do more.").fingerprint,
            Tool.from_function(one_more_default, "old").fingerprint,
        })  # fmt: skip
