"""What a tool does is inside the span of its call: in threads, tasks, nested calls, batches, and on other servers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_rig import ERAS, run
from opentelemetry import trace
from opentelemetry.context import get_current
from telemetry_rig import Collector, collector, registry

from praval_tools import Agent, Allow, RetryableToolError, ToolCall, ToolRegistry
from praval_tools.execution.trace_context import activate_trace_context, inject_trace_context
from praval_tools.integrations.mcp import server

# Tests of: integrations/tracing, execution/trace_context

__all__ = ["collector", "registry"]


def call(name: str, agent: str | None = "ann", **arguments: Any) -> ToolCall:
    """Return a call."""
    return ToolCall(None, name, arguments, agent)


def find_parent(collector: Collector, name: str) -> str:
    """Return the name of the span in which the only one of this name is; empty where it is in none."""
    (span,) = (span for span in collector.spans if span.name == name)
    names = {one.context.span_id: one.name for one in collector.spans if one.context}
    return "" if span.parent is None else names[span.parent.span_id]


@pytest.fixture
def own(registry: ToolRegistry, collector: Collector) -> ToolRegistry:
    """A registry with tools of all kinds, each of which makes a span of its own, named after it."""

    def register(name: str, function: Any, **options: Any) -> None:
        registry.tool(name, owned_by="ann", description="For a test.", **options)(function)

    def work() -> int:
        with collector.tracer.start_as_current_span("own"):
            return threading.get_ident()

    async def work_later() -> int:
        with collector.tracer.start_as_current_span("own"):
            await asyncio.sleep(0)
            return threading.get_ident()

    def count() -> Iterator[int]:
        yield work()

    async def count_later() -> AsyncIterator[int]:
        yield await work_later()

    def fail() -> None:
        work()
        raise ValueError

    register("sync", work)
    register("thread", work, engine="thread")
    register("alone", work, concurrency_safe=False)
    register("async", work_later)
    register("generator", count)
    register("async_generator", count_later)
    register("failing", fail)
    return registry


KINDS = ("sync", "thread", "alone", "async", "generator", "async_generator", "failing")


class TestSpansOfTools:
    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    @pytest.mark.parametrize("journal", [None, "memory"])
    @pytest.mark.parametrize("name", KINDS)
    def test_are_children_of_the_call(
        self, name: str, journal: str | None, is_async: bool, own: ToolRegistry, collector: Collector
    ) -> None:
        """Wherever a tool runs: here, in a thread, on the loop of the registry; the span around it stays its own."""
        own.journal = journal

        with collector.tracer.start_as_current_span("outer"):
            before = get_current()
            if is_async:
                asyncio.run(own.aexecute(call(name)))
            else:
                own.execute(call(name))
            after = get_current()

        assert before is after
        assert (f"execute_tool {name}", "outer") == (
            find_parent(collector, "own"), find_parent(collector, f"execute_tool {name}"),
        )  # fmt: skip

    def test_of_nested_calls_are_nested(self, own: ToolRegistry, collector: Collector) -> None:
        """A call that a tool makes is inside the span of that tool's call, through a thread, too."""

        @own.tool("outer", owned_by="ann", engine="thread")
        def outer() -> int:
            """Call another tool."""
            return int(own.execute_tool("async"))

        own.execute(call("outer"))

        assert ("execute_tool async", "execute_tool outer", "") == (
            find_parent(collector, "own"), find_parent(collector, "execute_tool async"),
            find_parent(collector, "execute_tool outer"),
        )  # fmt: skip

    def test_of_sub_agents_are_nested(self, own: ToolRegistry, collector: Collector) -> None:
        """A sub-agent calls inside the call of the agent for which it works."""
        own.assign_tool_to_agent("sync", "bob")

        @own.tool("ask_bob", owned_by="ann")
        def ask_bob() -> int:
            """Ask bob."""
            return int(own.agent("ann").delegate("bob").call("sync"))

        own.execute(call("ask_bob"))

        assert "execute_tool ask_bob" == find_parent(collector, "execute_tool sync")

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_of_a_batch_are_side_by_side(self, is_async: bool, own: ToolRegistry, collector: Collector) -> None:
        """Each call of a batch has a span of its own, all of them inside the span around the batch."""
        calls = [call("thread"), call("async"), call("alone"), call("nothing"), call("sync")]
        with collector.tracer.start_as_current_span("outer"):
            results = asyncio.run(own.aexecute_batch(calls)) if is_async else own.execute_batch(calls)

        outer = next(span for span in collector.spans if span.name == "outer")
        parents = [span.parent for span in collector.call_spans]
        assert len(results) == len(parents) == 5
        assert {outer.context.span_id if outer.context else 0} == {parent.span_id for parent in parents if parent}
        own_parents = {span.parent.span_id for span in collector.spans if span.name == "own" and span.parent}
        assert 4 == len(own_parents & {span.context.span_id for span in collector.call_spans if span.context})

    def test_of_each_attempt_are_in_one_span(self, collector: Collector) -> None:
        """A retried call has one span, with what every attempt did."""
        with ToolRegistry(retries=1, retry_wait=0, telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)

            @registry.tool("fetch", owned_by="ann")
            def fetch() -> None:
                """Fetch."""
                with collector.tracer.start_as_current_span("own"):
                    raise RetryableToolError("later")

            registry.execute(call("fetch"))

        (span,) = collector.call_spans
        assert 2 == sum(one.parent == span.context for one in collector.spans)

    @pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
    def test_of_policies_and_handlers_are_in_it_too(
        self, is_async: bool, own: ToolRegistry, collector: Collector
    ) -> None:
        """What is asked about a call belongs to it: also in the thread in which an async call asks a handler."""

        def ask(name: str, answer: object) -> Any:
            def record(*_: object) -> object:
                with collector.tracer.start_as_current_span(name):
                    return answer

            return record

        own.add_policy(ask("policy", None))
        own.set_approval_handler(ask("handler", Allow()))
        own.tool("asked", owned_by="ann", requires_approval=True, description="For a test.")(lambda: 1)

        if is_async:
            asyncio.run(own.aexecute(call("asked")))
        else:
            own.execute(call("asked"))

        parents = [span.parent for span in collector.spans if span.name in ("policy", "handler")]
        assert parents and all(parent == collector.call_spans[0].context for parent in parents)

    def test_may_be_left_open_by_a_tool(self, own: ToolRegistry, collector: Collector) -> None:
        """A tool that forgets to leave its span does not put what follows into it."""

        @own.tool("forget", owned_by="ann")
        def forget() -> None:
            """Forget to leave a span."""
            trace.use_span(collector.tracer.start_span("left")).__enter__()

        own.execute(call("forget"))
        own.execute(call("sync"))

        assert "" == find_parent(collector, "execute_tool sync")


class TestContexts:
    def test_of_coroutines_that_take_turns_are_kept_apart(self, collector: Collector) -> None:
        """Driven by hand in one context, each call has its own span, and leaves the context as it was."""
        registry = ToolRegistry(timeout=None, telemetry=collector.make_telemetry())

        class Turn:
            def __await__(self) -> Iterator[None]:
                yield

        async def take_turns(label: str) -> str:
            """Wait twice."""
            with collector.tracer.start_as_current_span(f"{label} own"):
                await Turn()
                with collector.tracer.start_as_current_span(f"{label} inner"):
                    await Turn()
            return label

        registry.tool("take_turns", owned_by="ann")(take_turns)
        before = get_current()
        works: list[Any] = [registry.aexecute(call("take_turns", label=label)) for label in "ab"]
        for work in works * 2:
            work.send(None)
            assert before is get_current()
        for work in works:
            with pytest.raises(StopIteration):
                work.send(None)

        spans = {span.name: span for span in collector.spans if not span.name.startswith("execute_tool")}
        calls = collector.call_spans
        assert [None, None] == [span.parent for span in calls]
        assert [span.context for span in calls] == [spans["a own"].parent, spans["b own"].parent]
        assert [spans["a own"].context, spans["b own"].context] == [spans["a inner"].parent, spans["b inner"].parent]

    def test_travel_as_text(self, collector: Collector) -> None:
        """An engine in another process takes a dict of texts along, and the function there is in the same trace."""
        carrier: dict[str, str] = {}
        with collector.tracer.start_as_current_span("here"):
            inject_trace_context(carrier)

        with activate_trace_context(carrier), collector.tracer.start_as_current_span("there"):
            pass

        assert "here" == find_parent(collector, "there")
        assert {"traceparent"} == carrier.keys()

    @pytest.mark.parametrize("carrier", [{}, {"traceparent": "junk"}, {"tracestate": "a=1"}])
    def test_of_none_change_nothing(self, carrier: dict[str, str], collector: Collector) -> None:
        """Without a trace, or with one that cannot be read, what follows is in whatever span it is."""
        with collector.tracer.start_as_current_span("here"):
            before = get_current()
            with activate_trace_context(carrier), collector.tracer.start_as_current_span("there"):
                pass
            after = get_current()

        assert (before, "here") == (after, find_parent(collector, "there"))

    def test_need_no_installed_telemetry(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A worker without OpenTelemetry runs what one with it sends."""
        monkeypatch.setitem(sys.modules, "opentelemetry", None)

        with activate_trace_context({"traceparent": f"00-{1:032x}-{1:016x}-01"}):
            pass

    @pytest.mark.parametrize("era", ERAS)
    def test_come_from_mcp_clients(self, era: str, own: ToolRegistry, collector: Collector) -> None:
        """A call over the protocol is in the trace of the client's request, which says it in its `_meta`."""

        async def main() -> None:
            async with Client(server(own, agent="ann"), mode=era) as client:
                with collector.tracer.start_as_current_span("client"):
                    await client.call_tool("async", {})

        run(main)

        assert ("client", "execute_tool async") == (
            find_parent(collector, "execute_tool async"), find_parent(collector, "own"),
        )  # fmt: skip

    def test_reach_mcp_servers(self, registry: ToolRegistry, collector: Collector) -> None:
        """A call to a server says in its `_meta` in which span it is made, as the protocol's conventions ask."""
        script = Path(__file__).parents[2] / "support" / "mcp_trace_server.py"
        registry.register_mcp([sys.executable, str(script)], namespace="trace", owned_by="ann")

        shown = registry.execute(call("trace-show_trace")).result

        (span,) = collector.call_spans
        assert span.context is not None
        assert f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}" == shown
        assert span.attributes is not None
        assert "extension" == span.attributes["gen_ai.tool.type"]
