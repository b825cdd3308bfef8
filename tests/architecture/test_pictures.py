"""The pictures of docs/explanation/architecture.md show the code as it is."""

from __future__ import annotations

import sys
from functools import reduce
from importlib import import_module
from types import FrameType

import pytest
from architecture_pictures import ASSETS, JOBS, PICTURES, STEPS, read_layers
from source_tree import ROOT

from praval_tools import Allow, ToolCall, ToolRegistry

NOT_IN_THIS_CALL = {"Fast path", "Hooks"}
"""The way that this call does not take, and a step for plugins only."""


def follow_call() -> list[str]:
    """Return the functions of the package that one call enters which takes every step, in order of first entry."""
    registry = ToolRegistry(journal="memory")
    registry.set_approval_handler(lambda request: Allow())
    registry.limits.set(tool="transfer", concurrent=1)

    @registry.tool("transfer", owned_by="ann", requires_approval=True)
    def transfer(amount: int) -> int:
        """Send money."""
        return amount

    registry.assign_tool_to_agent("transfer", "bob", where={"amount": {"maximum": 100}}, max_calls=1)
    entered: dict[str, None] = {}

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_globals.get("__name__", "").startswith("praval_tools."):
            entered.setdefault(f"{frame.f_globals['__name__'].partition('.')[2]}:{frame.f_code.co_qualname}")

    sys.setprofile(profile)
    try:
        result = registry.execute(ToolCall("1", "transfer", {"amount": 5}, "bob"))
    finally:
        sys.setprofile(None)
    assert result.success, result
    return list(entered)


class TestPictures:
    @pytest.mark.parametrize("name", PICTURES)
    def test_a_picture_is_up_to_date(self, name: str) -> None:
        """`python tests/support/architecture_pictures.py` writes them again."""
        assert PICTURES[name]() == (ASSETS / name).read_text(encoding="utf-8")

    def test_each_package_is_shown(self) -> None:
        """The picture of the layers has every package and root module, with its job, and nothing else."""
        assert sorted(JOBS) == sorted(name for layer in read_layers() for name in layer)

    def test_each_step_names_what_exists(self) -> None:
        """Every function that the picture of a call names is there."""
        for step in STEPS:
            for function in step.functions:
                module, _, name = function.partition(":")
                assert callable(reduce(getattr, name.split("."), import_module(f"praval_tools.{module}"))), function

    def test_a_call_takes_the_steps_in_this_order(self) -> None:
        """
        A call with a journal, an approval, a limit, bounds and a count enters the functions as the picture orders them.
        """
        entered = follow_call()
        expected = [function for step in STEPS if step.title not in NOT_IN_THIS_CALL for function in step.functions]

        assert expected == [function for function in entered if function in expected]

    def test_the_page_shows_them(self) -> None:
        """The page has both pictures."""
        page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")

        assert all(f"assets/{name}" in page for name in PICTURES)
