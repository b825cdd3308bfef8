# Tests of: journal/quotations, journal/redactor
"""What was repaired of a secret argument, or is wrong with it, is not in the journal, however short it is."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from praval_tools import Secret, ToolCall, ToolRegistry


class TestRepairs:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"cvc": "739"}, "739"),
            ({"codes": '{"RECOVERY-9F3A-77": 1}'}, "RECOVERY"),
            ({"codes": {"RECOVERY-9F3A-77": "1"}}, "RECOVERY"),
            ({"password": '["abc"]'}, "abc"),
            ({"order": {"pin": "739"}}, "739"),
        ],
        ids=str,
    )
    def test_show_no_secret(self, arguments: dict[str, Any], text: str) -> None:
        """Broken promise: values that are too short to be looked for, and keys of a marked dict, were in repairs."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("pay", owned_by="clerk")
        def pay(
            cvc: Annotated[int, Secret] = 1,
            codes: Annotated[dict[str, int], Secret] = {},
            password: list[str] = [],
            order: dict[str, Annotated[int, Secret]] = {},
        ) -> None:
            """Pay."""

        assert "ok" == registry.execute(ToolCall("1", "pay", arguments, "clerk")).outcome
        (event,) = registry.journal.events(type="agent_tool_call")
        assert event.repairs and text not in str(event)

    def test_of_other_arguments_are_shown(self) -> None:
        """What is not secret is there as it was."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("pay", owned_by="clerk")
        def pay(cvc: Annotated[int, Secret], cvc2: int) -> None:
            """Pay."""

        registry.execute(ToolCall("1", "pay", {"cvc": "739", "cvc2": "12"}, "clerk"))
        (event,) = registry.journal.events(type="agent_tool_call")
        assert [("$.cvc", "a secret", "a secret"), ("$.cvc2", '"12"', "12")] == [
            (repair.path, repair.given, repair.became) for repair in event.repairs
        ]


class TestProblems:
    def test_show_no_secret(self) -> None:
        """The value that does not fit is not among them."""
        registry = ToolRegistry(journal="memory")

        @registry.tool("pay", owned_by="clerk")
        def pay(cvc: Annotated[int, Secret]) -> None:
            """Pay."""

        registry.execute(ToolCall("1", "pay", {"cvc": "7b9"}, "clerk"))
        problems = [problem for event in registry.journal.events() for problem in getattr(event, "problems", ())]
        assert [("$.cvc", "a secret")] == [(problem.path, problem.given) for problem in problems]
