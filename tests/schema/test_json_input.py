# Tests of: json_input
"""The limits of arguments can be set."""

from __future__ import annotations

from typing import Any

import pytest

from praval_tools import Outcome, ToolCall, ToolRegistry, tool


def registry_with(**options: Any) -> ToolRegistry:
    """Return a registry with a tool that takes anything."""
    registry = ToolRegistry(**options)

    @tool(registry=registry, shared=True)
    def echo(value: Any = None) -> int:
        """Take anything."""
        return 1

    return registry


class TestLimits:
    @pytest.mark.parametrize(
        ("arguments", "outcome"),
        [
            ('{"value": "12345"}', Outcome.OK),
            ('{"value": "1234567890"}', Outcome.INVALID_ARGUMENTS),
            (b'{"value": "1234567890"}', Outcome.INVALID_ARGUMENTS),
            ({"value": [[1]]}, Outcome.OK),
            ({"value": [[[[1]]]]}, Outcome.INVALID_ARGUMENTS),
            ('{"value": [[[1]]]}', Outcome.INVALID_ARGUMENTS),
        ],
        ids=str,
    )
    def test_that_are_set_hold_on_every_call_path(self, arguments: Any, outcome: Outcome) -> None:
        """
        Text longer, or values deeper, than the registry allows are refused, twice.
        """
        registry = registry_with(max_argument_bytes=18, max_argument_depth=2)

        for _ in range(2):
            assert outcome is registry.execute(ToolCall("1", "echo", arguments, "ann")).outcome

    def test_a_longer_text_can_be_allowed(self) -> None:
        """
        A mebibyte is the default, not the end.
        """
        text = '{"value": "' + "x" * (1 << 20) + '"}'
        call = ToolCall("1", "echo", text, "ann")

        assert Outcome.INVALID_ARGUMENTS is registry_with().execute(call).outcome
        assert Outcome.OK is registry_with(max_argument_bytes=1 << 22).execute(call).outcome

    def test_hold_for_text_that_is_read_as_a_list(self) -> None:
        """
        Broken promise: a list written as text inside the arguments could be nested deeper than the registry allows.
        """
        registry = ToolRegistry(max_argument_depth=2)

        @tool(registry=registry, shared=True)
        def count(values: list[Any]) -> int:
            """Count."""
            return len(values)

        calls = [ToolCall("1", "count", {"values": text}, "ann") for text in ("[[1]]", "[[[[1]]]]")]

        assert [Outcome.OK, Outcome.INVALID_ARGUMENTS] == [registry.execute(call).outcome for call in calls]

    @pytest.mark.parametrize("depth", [50, 500, 1_500, 50_000])
    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_hold_for_text_that_is_too_deep_to_read(self, depth: int, journal: str | None) -> None:
        """
        Broken promise: whatever a model writes, a call ends in a result. Objects in objects were a RecursionError.
        """
        registry = registry_with(journal=journal)
        text = '{"value":' * depth + "1" + "}" * depth
        calls = [ToolCall("1", "echo", raw, "ann") for raw in (text, text.encode())]
        results = [registry.execute(call) for call in calls] + registry.execute_batch(calls)

        assert {Outcome.INVALID_ARGUMENTS if depth > 64 else Outcome.OK} == {result.outcome for result in results}
