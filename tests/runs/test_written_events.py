"""What is written of a call: the quick way writes what the codec writes."""

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
from praval_tools.runs.fast_recording import JournaledFastPaths

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def written(value: Any, *, quick: bool) -> list[Any]:
    """Return the events of some calls, as they are read back; *quick*: False has every one go through the codec."""

    def echo(value: Any) -> Any:
        """Give it back."""
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAVAL_TOOLS_KEY", "the same for both")
        if not quick:
            patch.setattr(call_records, "build_plain_start_record", lambda *_, **__: None)
            patch.setattr(call_records, "build_plain_end_record", lambda *_, **__: None)
            patch.setattr(JournaledFastPaths, "find_fast_call", lambda *_, **__: None)
        registry = ToolRegistry(journal="memory")
        registry.tool("echo", owned_by="ann")(echo)
        with registry.run("r"):
            for name in "abc":  # the short road is made for the second call
                assert registry.execute(ToolCall(name, "echo", {"value": value}, "ann")).success
    assert registry.journal is not None
    return list(registry.journal.events())


class TestQuickly:
    @given(json)
    def test_as_the_codec_writes(self, value: Any) -> None:
        """Call and result read back the same, whichever way they were written, but for ids, times and latency."""
        quick, slow = written(value, quick=True), written(value, quick=False)

        for one, other in zip(quick, slow, strict=True):
            same = {"id": one.id, "time": one.time}
            if isinstance(one, AgentToolResult):
                same["latency_ms"] = one.latency_ms
            assert repr(one) == repr(attrs.evolve(other, **same))

    def test_reads_back_and_is_written_again(self) -> None:
        """What was written quickly is an event of the codec like any other."""
        for event in written({"a": [1, 2.5, "é"]}, quick=True):
            assert isinstance(event, AgentToolCall | AgentToolResult)
            assert event == from_json(to_json(event))
