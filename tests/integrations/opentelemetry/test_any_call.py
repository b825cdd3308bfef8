"""Whatever the call: one span with the outcome of its result, the same result as without telemetry, no secret."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fast_path_rig import FUNCTIONS, arguments, later, names, seen
from hypothesis import assume, given
from hypothesis import strategies as st
from opentelemetry.trace import StatusCode
from redaction_rig import hidden, secret_texts, shown
from telemetry_rig import Collector, get_attributes

from praval_tools import Agent, Allow, ToolCall, ToolRegistry, ToolResult, tool
from praval_tools.journal.codec import to_json
from praval_tools.schema.json_values import replace_surrogates_in_json
from praval_tools.tools.truncation import truncate_json

# Tests of: integrations/content, integrations/telemetry

COLLECTOR = Collector()
SIZE = 1_000_000


def make_registry(**options: Any) -> ToolRegistry:
    """Return a registry with the tools of the tests of the fast path, some with limits, and one that repeats."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRAVAL_TOOLS_KEY", "the same for all")
        registry = ToolRegistry(**options)
        Agent("ann", registry=registry)
        for function in FUNCTIONS:
            tool(function.__name__, owned_by="ann", registry=registry)(function)
            tool(f"{function.__name__}_later", owned_by="ann", registry=registry)(later(function))

        @registry.tool("repeat", owned_by="ann")
        def repeat(**given: Any) -> Any:
            """Return what it is given, or fail with it."""
            if "fail" in given:
                raise ValueError(f"not {given}")
            return given

        registry.execute(ToolCall("1", "none", {}, "ann"))  # the key is read when it is needed first
        return registry


def make_telemetry() -> Any:
    """Return a telemetry that records all it may."""
    return COLLECTOR.make_telemetry(record_arguments=True, record_results=True, max_content_size=SIZE)


PLAIN = make_registry()
TRACED = make_registry(telemetry=make_telemetry())
JOURNALED = make_registry(telemetry=make_telemetry(), journal="memory")

tool_names = st.one_of(
    names, names.map("{}_later".format), st.sampled_from(["repeat", "nothing", "tow"]), st.text(max_size=3)
)
calls = st.builds(
    ToolCall, st.none() | st.text(max_size=5), tool_names,
    arguments | arguments.map(lambda given: json.dumps(given, default=str)),
    st.sampled_from(["ann"] * 6 + ["eve", None]),
)  # fmt: skip


def run(registry: ToolRegistry, call: ToolCall, is_async: bool) -> ToolResult:
    """Run a call."""
    return asyncio.run(registry.aexecute(call)) if is_async else registry.execute(call)


def take_span(result: ToolResult) -> Any:
    """Return the only new span of a call, after a look at what it says of the result."""
    span = COLLECTOR.take_span()
    attributes = get_attributes(span)
    assert result.outcome.value == attributes["praval.call.outcome"]
    assert result.attempts == attributes["praval.call.attempts"]
    is_error = result.outcome.value in ("tool_error", "timeout", "in_doubt", "engine_lost")
    assert is_error is (span.status.status_code is StatusCode.ERROR) is ("error.type" in attributes)
    assert (None if result.decision is None else result.decision.rule) == attributes.get("praval.decision.rule")
    return span


def texts_of_span(name: str, given_: dict[str, Any]) -> str:
    """Run a call, and return all that its span says."""
    COLLECTOR.exporter.clear()
    run(TRACED, ToolCall("1", name, given_, "ann"), False)
    span = COLLECTOR.take_span()
    texts = [str(value) for key, value in get_attributes(span).items() if not key.startswith("gen_ai.tool.desc")]
    return "\n".join([*texts, str(span.status.description)])


class TestAnyCall:
    @given(calls, st.booleans())
    def test_has_one_span_and_the_same_result(self, call: ToolCall, is_async: bool) -> None:
        """Telemetry changes no result, and each call is exactly one span with the outcome of its result."""
        COLLECTOR.exporter.clear()

        results = [run(registry, call, is_async) for registry in (PLAIN, TRACED)]

        take_span(results[1])
        assert seen(results[0]) == seen(results[1])

    @given(st.lists(calls, max_size=6), st.booleans())
    def test_of_a_batch_has_one_span(self, batch: list[ToolCall], is_async: bool) -> None:
        """A batch makes as many spans as it has calls, with the outcomes of the results."""
        COLLECTOR.exporter.clear()

        results = asyncio.run(TRACED.aexecute_batch(batch)) if is_async else TRACED.execute_batch(batch)

        outcomes = [get_attributes(span)["praval.call.outcome"] for span in COLLECTOR.call_spans]
        assert sorted(result.outcome.value for result in results) == sorted(outcomes)

    @given(calls, st.booleans())
    def test_shows_what_the_journal_holds(self, call: ToolCall, is_async: bool) -> None:
        """The arguments and the value are written as the journal writes them, with or without one."""
        assert JOURNALED.journal is not None
        COLLECTOR.exporter.clear()
        last = max((entry.seq for entry in JOURNALED.journal.read()), default=0)

        attributes = [get_attributes(take_span(run(one, call, is_async))) for one in (TRACED, JOURNALED)]

        events = [entry.event for entry in JOURNALED.journal.read() if entry.seq > last]
        recorded = [json.loads(to_json(event)) for event in events]
        given_ = next(event["arguments"] for event in recorded if "arguments" in event)
        text = given_ if isinstance(given_, str) else truncate_json(replace_surrogates_in_json(given_), SIZE)
        assert [text or None] * 2 == [one.get("gen_ai.tool.call.arguments") for one in attributes]
        values = [event["result"] for event in recorded if event.get("outcome") == "ok"]
        texts = [one if isinstance(one, str) else truncate_json(one, SIZE) for one in values]
        assert [(texts or [None])[0] or None] * 2 == [one.get("gen_ai.tool.call.result") for one in attributes]

    @given(st.data(), st.booleans(), st.sampled_from(["repeat", "hint", "two", "tow"]))
    def test_shows_no_secret(self, data: st.DataObject, fails: bool, name: str) -> None:
        """Neither in arguments nor in values, errors, or whatever else a span holds, also of calls that are refused."""
        secret = data.draw(secret_texts)
        given_ = data.draw(hidden(secret))
        failure = {"fail": 1} if fails else {}
        assume(not shown(texts_of_span(name, {"x": "nothing hidden"} | failure), secret))  # a word of every span

        assert [] == shown(texts_of_span(name, {"x": given_} | failure), secret)

    @pytest.mark.parametrize("misplaced", [{"note": ["see hunter2!"]}, {"note": "", "more": {"hunter2": 1}}])
    def test_shows_no_secret_that_an_approver_wrote(self, misplaced: dict[str, Any]) -> None:
        """Broken promise: where such arguments did not fit, the error quoted what they hide elsewhere."""
        registry, collector = ToolRegistry(journal="memory"), Collector()
        registry.telemetry = collector.make_telemetry(record_arguments=True, record_results=True)

        @registry.tool("sign", owned_by="ann", requires_approval=True)
        def sign(login: dict[str, str], note: str) -> None:
            """Sign."""

        registry.set_approval_handler(lambda _: Allow({"login": {"password": "hunter2"}, **misplaced}))
        result = registry.execute(ToolCall("1", "sign", {"login": {"password": "correct horse"}, "note": ""}, "ann"))

        assert ("invalid_arguments", False) == (result.outcome, "hunter2" in collector.read_spans())
        assert "invalid" in get_attributes(collector.take_span())["praval.call.error"]
