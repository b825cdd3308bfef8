"""Each call is one span, named and described as OpenTelemetry's conventions say, with the outcome of its result."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode
from telemetry_rig import Collector, collector, get_attributes, list_events, registry

from praval_tools import (
    Agent,
    Allow,
    Ask,
    Deny,
    JournalError,
    Outcome,
    RetryableToolError,
    ToolCall,
    ToolInDoubtError,
    ToolRegistry,
    ToolUsageError,
)
from praval_tools.journal.storage.memory import MemoryStore

# Tests of: integrations/tracing, integrations/call_span, integrations/attributes

__all__ = ["collector", "registry"]


def call(name: str, agent: str | None = "ann", **arguments: Any) -> ToolCall:
    """Return a call."""
    return ToolCall("call-1", name, arguments, agent)


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest, registry: ToolRegistry) -> Any:
    """Run a call from sync or from async code."""
    if request.param == "sync":
        return registry.execute
    return lambda call: asyncio.run(registry.aexecute(call))


def declare(registry: ToolRegistry, **options: Any) -> None:
    """Declare a tool of ann's that pays."""

    @registry.tool("pay", owned_by="ann", **options)
    def pay(amount: int = 0) -> int:
        """Pay an amount."""
        if amount < 0:
            raise ValueError("no such amount")
        return amount


class TestSpan:
    def test_says_what_the_conventions_ask_for(self, registry: ToolRegistry, collector: Collector, run: Any) -> None:
        """Name, kind, operation, tool, type, description, id, agent, and what is our own."""
        declare(registry)

        run(call("pay", amount=3))

        span = collector.take_span()
        assert "execute_tool pay" == span.name
        assert SpanKind.INTERNAL is span.kind
        assert StatusCode.UNSET is span.status.status_code
        assert {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "pay",
            "gen_ai.tool.call.id": "call-1",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.description": "Pay an amount.",
            "gen_ai.agent.name": "ann",
            "praval.tool.owner": "ann",
            "praval.decision.rule": "owner",
            "praval.call.outcome": "ok",
            "praval.call.attempts": 1,
            "praval.call.repairs": 0,
            "praval.call.replayed": False,
        } == get_attributes(span)
        assert [] == list_events(span)

    def test_every_way_to_call_makes_one(self, registry: ToolRegistry, collector: Collector) -> None:
        """Toolsets, agents, functions, batches, the registry itself, and providers' calls are traced."""
        declare(registry)
        toolset, ann = registry.toolset("ann"), registry.agent("ann")
        ways: list[Any] = [
            lambda: toolset.call("pay"),
            lambda: toolset.call("pay"),  # by what the first one built
            lambda: asyncio.run(toolset.acall("pay")),
            lambda: toolset.execute(call("pay")),
            lambda: ann.call("pay"),
            lambda: ann.tools.pay(),
            lambda: toolset.functions()[0](),
            lambda: registry.execute("1", "pay", {}),
            lambda: registry.execute_tool("pay"),
            lambda: registry.execute_batch([call("pay")]),
            lambda: registry.execute_tool_calls([{"type": "tool_use", "id": "1", "name": "pay", "input": {}}], "ann"),
        ]

        for way in ways:
            way()

            assert "ok" == get_attributes(collector.take_span())["praval.call.outcome"]

    def test_a_call_of_the_operator_names_no_agent(self, registry: ToolRegistry, collector: Collector) -> None:
        """The host program calls by the rule `operator`, and without an id where it gives none."""
        declare(registry)

        registry.execute_tool("pay")

        attributes = get_attributes(collector.take_span())
        assert "operator" == attributes["praval.decision.rule"]
        assert not {"gen_ai.agent.name", "gen_ai.tool.call.id"} & attributes.keys()

    def test_a_delegate_names_those_for_whom_it_calls(self, registry: ToolRegistry, collector: Collector) -> None:
        """The agents on whose behalf a call is made are an attribute, the nearest first."""
        declare(registry)
        registry.assign_tool_to_agent("pay", "bob")

        registry.execute(ToolCall("1", "pay", {}, "bob", on_behalf_of=("ann",)))

        attributes = get_attributes(collector.take_span())
        assert ("bob", ("ann",)) == (attributes["gen_ai.agent.name"], attributes["praval.call.on_behalf_of"])

    def test_a_repaired_call_says_so(self, registry: ToolRegistry, collector: Collector, run: Any) -> None:
        """How much of the arguments was repaired is counted."""
        declare(registry)

        run(call("pay", amount="3"))

        assert 1 == get_attributes(collector.take_span())["praval.call.repairs"]

    def test_a_call_of_a_run_has_its_id_as_conversation(self, collector: Collector) -> None:
        """With a journal the span has the id of the run, and a replayed call says that it is one."""
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)
            declare(registry)
            with registry.run("nightly"):
                registry.execute(ToolCall(None, "pay", {}, "ann"))
            first = get_attributes(collector.take_span())
            with registry.run("nightly"):
                registry.execute(ToolCall(None, "pay", {}, "ann"))
            again = get_attributes(collector.take_span())

        assert ("nightly", False, 1) == tuple(
            first[name] for name in ("gen_ai.conversation.id", "praval.call.replayed", "praval.call.attempts")
        )
        assert first["gen_ai.tool.call.id"]
        assert ("nightly", True) == (again["gen_ai.conversation.id"], again["praval.call.replayed"])


class TestErrors:
    def test_an_error_of_the_tool_is_one_of_the_span(
        self, registry: ToolRegistry, collector: Collector, run: Any
    ) -> None:
        """Its type is an attribute; its message, which may hold anything, is not there."""
        declare(registry)

        run(call("pay", amount=-1))

        span = collector.take_span()
        assert (StatusCode.ERROR, None) == (span.status.status_code, span.status.description)
        assert ("tool_error", "ValueError") == tuple(
            get_attributes(span)[name] for name in ("praval.call.outcome", "error.type")
        )
        assert "no such amount" not in span.to_json()

    def test_a_time_out_is_an_error_of_the_span(self, registry: ToolRegistry, collector: Collector) -> None:
        """So it is where an async tool is cancelled, and where a thread is given up; a late result changes nothing."""
        may_end = threading.Event()

        @registry.tool("wait", owned_by="ann", timeout=0.01)
        async def wait() -> None:
            """Wait."""
            await asyncio.Event().wait()

        @registry.tool("block", owned_by="ann", timeout=0.01)
        def block() -> None:
            """Block a thread."""
            may_end.wait()

        for name in ("wait", "block"):
            registry.execute(call(name))

            span = collector.take_span()
            assert StatusCode.ERROR is span.status.status_code
            assert "tool-timeout" == get_attributes(span)["error.type"]
        may_end.set()
        registry.drain()  # a thread that was late may not have begun
        registry.drain()
        assert [] == collector.spans

    def test_doubt_is_an_error_of_the_span(self, registry: ToolRegistry, collector: Collector, run: Any) -> None:
        """Somebody has to look at it."""

        @registry.tool("send", owned_by="ann")
        def send() -> None:
            """Send."""
            raise ToolInDoubtError("the line broke")

        run(call("send"))

        span = collector.take_span()
        assert ("in_doubt", StatusCode.ERROR) == (
            get_attributes(span)["praval.call.outcome"], span.status.status_code,
        )  # fmt: skip

    def test_retries_are_events(self, collector: Collector) -> None:
        """Each attempt but the first follows an event with the error and the wait; the span counts them."""
        with ToolRegistry(retries=2, retry_wait=0, telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)

            @registry.tool("fetch", owned_by="ann")
            def fetch() -> None:
                """Fetch."""
                raise RetryableToolError("later")

            registry.execute(call("fetch"))

        span = collector.take_span()
        retried = {"praval.call.wait": 0.0, "error.type": "RetryableToolError"}
        assert [
            ("praval.call.retried", {"praval.call.attempts": 1} | retried),
            ("praval.call.retried", {"praval.call.attempts": 2} | retried),
        ] == list_events(span)
        assert 3 == get_attributes(span)["praval.call.attempts"]

    def test_a_mistake_of_the_host_program_is_an_error_without_an_outcome(
        self, registry: ToolRegistry, collector: Collector
    ) -> None:
        """What a call raises in place of a result has its class as `error.type`."""

        @registry.tool("wait", owned_by="ann")
        async def wait() -> None:
            """Wait."""

        async def call_without_await() -> None:
            registry.toolset("ann").call("wait")

        with pytest.raises(ToolUsageError):
            asyncio.run(call_without_await())

        span = collector.take_span()
        assert StatusCode.ERROR is span.status.status_code
        assert "ToolUsageError" == get_attributes(span)["error.type"]
        assert "praval.call.outcome" not in get_attributes(span)

    def test_a_failed_journal_is_an_error_of_the_span(
        self, collector: Collector, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The call that it stops ends its span."""
        with ToolRegistry(journal="memory", telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)
            declare(registry)

            def refuse(*_: object) -> None:
                raise JournalError("memory", "the disk is full", "Make room.")

            with monkeypatch.context() as patch:
                patch.setattr(MemoryStore, "append", refuse)
                with pytest.raises(JournalError):
                    registry.execute(call("pay"))

        assert "JournalError" == get_attributes(collector.take_span())["error.type"]


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "agent", "outcome", "rule"),
        [
            ("pay", "eve", Outcome.FORBIDDEN, "no-way"),
            ("pay", "bob", Outcome.FORBIDDEN, "blocked"),
            ("pay", None, Outcome.FORBIDDEN, "no-agent"),
            ("off", "ann", Outcome.DISABLED, "disabled"),
            ("pya", "ann", Outcome.UNKNOWN_TOOL, "unknown"),
        ],
    )
    def test_is_an_event_and_no_error(
        self, name: str, agent: str | None, outcome: Outcome, rule: str, registry: ToolRegistry, collector: Collector,
        run: Any,
    ) -> None:  # fmt: skip
        """A refused call did what it was to do; the rule that refused it is in the event and on the span."""
        declare(registry)
        registry.tool("off", owned_by="ann", description="Off.")(lambda: None)
        registry.disable("off")
        registry.block("pay", "bob")

        assert outcome is run(call(name, agent)).outcome

        span = collector.take_span()
        assert StatusCode.UNSET is span.status.status_code
        assert "error.type" not in get_attributes(span)
        shown = {"praval.call.outcome": outcome.value, "praval.decision.rule": rule}
        assert [("praval.call.refused", shown)] == list_events(span)
        assert shown.items() <= get_attributes(span).items()

    def test_an_unknown_tool_is_not_in_the_name_of_the_span(self, registry: ToolRegistry, collector: Collector) -> None:
        """Models invent names without end, and names of spans are to be few; what was asked for is an attribute."""
        registry.execute(call("x" * 1_000 + "\ud800"))

        span = collector.take_span()
        assert "execute_tool" == span.name
        assert "x" * 256 == get_attributes(span)["gen_ai.tool.name"]

    def test_wrong_arguments_and_limits_are_refusals(
        self, registry: ToolRegistry, collector: Collector, run: Any
    ) -> None:
        """What a model got wrong, or asked for too often, shows no error of the system."""
        declare(registry)
        registry.limits.set(tool="pay", per_minute=1)

        for arguments, outcome in (({"amount": []}, "invalid_arguments"), ({}, "ok"), ({}, "limited")):
            run(call("pay", **arguments))

            span = collector.take_span()
            assert outcome == get_attributes(span)["praval.call.outcome"]
            assert (["praval.call.refused"] if outcome != "ok" else []) == [name for name, _ in list_events(span)]
            assert StatusCode.UNSET is span.status.status_code


class TestApprovals:
    def test_a_call_that_waits_is_an_event_and_no_error(
        self, registry: ToolRegistry, collector: Collector, run: Any
    ) -> None:
        """The span ends with the id of the request that waits."""
        declare(registry, requires_approval=True)

        result = run(call("pay"))

        span = collector.take_span()
        assert StatusCode.UNSET is span.status.status_code
        (requested, requested_with), (required, required_with) = list_events(span)
        assert ("praval.approval.requested", "praval.approval.required") == (requested, required)
        assert result.approval_id == requested_with["praval.approval.id"] == required_with["praval.approval.id"]
        assert "approval_required" == get_attributes(span)["praval.call.outcome"]

    @pytest.mark.parametrize("answer", [Allow(), Deny()])
    def test_an_answer_is_an_event(
        self, answer: Allow | Deny, registry: ToolRegistry, collector: Collector, run: Any
    ) -> None:
        """How long a person took can be read between the two events."""
        declare(registry)
        registry.add_policy(lambda agent, tool, arguments: Ask("much money"))
        registry.set_approval_handler(lambda request: answer)

        run(call("pay"))

        span = collector.take_span()
        events = list_events(span)
        assert ["praval.approval.requested", "praval.approval.answered"] == [name for name, _ in events][:2]
        assert (answer == Allow()) is events[1][1]["praval.approval.allowed"]
        assert StatusCode.UNSET is span.status.status_code


class TestInterrupted:
    def test_a_cancelled_call_ends_its_span(self, registry: ToolRegistry, collector: Collector) -> None:
        """A cancellation is neither an error nor lost."""

        @registry.tool("wait", owned_by="ann")
        async def wait() -> None:
            """Wait."""
            began.set()
            await asyncio.Event().wait()

        began = asyncio.Event()

        async def cancel() -> None:
            task = asyncio.ensure_future(registry.aexecute(call("wait")))
            await began.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())

        span = collector.take_span()
        assert ("cancelled", StatusCode.UNSET) == (
            get_attributes(span)["praval.call.outcome"], span.status.status_code,
        )  # fmt: skip

    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_an_interrupt_of_the_tool_ends_its_span(self, journal: str | None, collector: Collector) -> None:
        """Ctrl-C passes, and the span says that the call was cancelled."""
        with ToolRegistry(journal=journal, telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)

            @registry.tool("stop", owned_by="ann")
            def stop() -> None:
                """Stop."""
                raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                registry.execute(call("stop"))

        assert "cancelled" == get_attributes(collector.take_span())["praval.call.outcome"]

    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_a_coroutine_that_is_closed_ends_its_span(
        self, journal: str | None, collector: Collector, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Also in another context than the one in which it began, as where it is collected; nobody complains."""
        with ToolRegistry(journal=journal, telemetry=collector.make_telemetry()) as registry:
            Agent("ann", registry=registry)

            @registry.tool("wait", owned_by="ann")
            async def wait() -> None:
                """Wait."""
                await asyncio.Event().wait()

            async def begin() -> Any:
                work = registry.aexecute(call("wait"))
                while not isinstance(work.send(None), asyncio.Future):
                    pass
                return work

            work = asyncio.run(begin())
            thread = threading.Thread(target=work.close)
            thread.start()
            thread.join()

        assert "cancelled" == get_attributes(collector.take_span())["praval.call.outcome"]
        assert [] == caplog.records
