"""Records of calls: the fast path writes the same as the codec."""

# Tests of: call_records, call_plans

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools import ToolCall, ToolRegistry
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.events import AgentToolCall, AgentToolResult
from praval_tools.runs import call_records
from praval_tools.runs.call_plans import CallPlan

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def record_calls(value: Any, *, fast: bool) -> list[Any]:
    """Return the events of some calls, read back; with *fast* false, the codec writes every one."""

    def echo(value: Any) -> Any:
        """Give it back."""
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAVAL_TOOLS_KEY", "the same for both")
        if not fast:
            patch.setattr(call_records, "build_plain_start_record", lambda *_, **__: None)
            patch.setattr(call_records, "build_plain_end_record", lambda *_, **__: None)
            patch.setattr(CallPlan, "build_fast_run", lambda *_: None)
        registry = ToolRegistry(journal="memory")
        registry.tool("echo", owned_by="ann")(echo)
        with registry.run("r"):
            for name in "abc":
                assert registry.execute(ToolCall(name, "echo", {"value": value}, "ann")).success
    assert registry.journal is not None
    return list(registry.journal.events())


class TestFastRecords:
    @given(json)
    def test_as_the_codec_writes(self, value: Any) -> None:
        """Fast path and codec write calls and results that read back the same, except ids, times and latency."""
        fast, slow = record_calls(value, fast=True), record_calls(value, fast=False)

        for event, other in zip(fast, slow, strict=True):
            same = {"id": event.id, "time": event.time}
            if isinstance(event, AgentToolResult):
                same["latency_ms"] = event.latency_ms
            assert repr(event) == repr(attrs.evolve(other, **same))

    def test_reads_back_and_is_written_again(self) -> None:
        """What the fast path wrote is an event of the codec like any other."""
        for event in record_calls({"a": [1, 2.5, "é"]}, fast=True):
            assert isinstance(event, AgentToolCall | AgentToolResult)
            assert event == from_json(to_json(event))


class TestFieldsOfCalls:
    @pytest.mark.parametrize("value", [None, 0, False, "", b"", [], {}, 5, ["x"], ...], ids=repr)
    @pytest.mark.parametrize("field", ["on_behalf_of", "reason"])
    @pytest.mark.parametrize("name", ["echo", "ask", "none"])
    @pytest.mark.parametrize("agent", ["ann", None])
    def test_of_other_types_are_read_back(self, agent: str | None, name: str, field: str, value: object) -> None:
        """
        Broken promise: the audit trail has no gaps, and a run can be opened again.

        A refused call whose maker passed `reason=None`, or `on_behalf_of=None` without an agent, was written so that
        neither it nor the whole journal could be read back by `journal.read()`; the run could not be opened again.
        """
        registry = ToolRegistry(journal="memory")

        def give() -> int:
            """Give one."""
            return 1

        registry.tool("echo", shared=True)(give)
        registry.tool("ask", shared=True, requires_approval=True)(give)
        made: Any = ToolCall
        call = made(name=name, agent=agent, **{field: value})

        registry.execute(call)
        with registry.run("r"):
            result = registry.execute(call)
        with registry.run("r") as run:
            calls = [recorded.outcome for recorded in run.calls]

        assert registry.journal is not None
        events = list(registry.journal.events())
        assert [result.outcome] == calls
        assert {name} == {getattr(event, "tool_name", name) for event in events}
        assert all(type(event.toolcall_reason) is str for event in events if hasattr(event, "toolcall_reason"))
        assert all(set(map(type, event.chain)) <= {str} for event in events if hasattr(event, "chain"))
