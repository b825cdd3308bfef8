"""The tools of real MCP servers, owned, lent, bounded and audited here."""

# Tests of: source, session, results, errors, registry/mcp_servers, registry/source_options, execution/protocols

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mcp_client_rig import (
    OPERATOR,
    SUPPORT,
    call,
    list_notes,
    official_command,
    plain_command,
    read_notes,
    register_plain,
    serve_http,
    wait_until,
)
from mcp_official_server import PICTURE

from praval_tools import Content, NotOwnerError, Outcome, ToolCall, ToolLog, ToolProgress, ToolRegistry, ToolUsageError
from praval_tools.integrations.mcp.client import McpServerError, McpSource
from praval_tools.registry.registry import get_runtime


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which the server says what it did."""
    return tmp_path_factory.mktemp("official") / "notes"


@pytest.fixture(scope="module", params=["stdio", "http"])
def registry(request: pytest.FixtureRequest, notes: Path) -> Iterator[ToolRegistry]:
    """Has the tools of a server that the official SDK made, over each transport."""
    with ToolRegistry() as registry:
        if request.param == "stdio":
            registry.register_mcp(official_command(notes), namespace="web", owned_by=OPERATOR)
            yield registry
        else:
            with serve_http(notes) as (url, _):
                registry.register_mcp(url, namespace="web", owned_by=OPERATOR)
                yield registry


class TestImportedTools:
    def test_are_external_and_named_after_their_server(self, registry: ToolRegistry) -> None:
        """A foreign tool is `namespace-name`, its source is the server, and it is known to run elsewhere."""
        tool = registry.get_tool("web-pay")

        assert tool is not None
        assert ("web-pay", "web", "Pay.", "Pay an invoice") == (
            tool.name, tool.namespace, tool.description, tool.metadata.title
        )  # fmt: skip
        source = tool.metadata.source
        assert source is not None
        assert ("external", "mcp", "web") == (tool.metadata.safety, source.kind, source.distribution)

    def test_are_granted_to_nobody(self, registry: ToolRegistry) -> None:
        """Only the owner may call them; others when they list them or are lent them, and no category reaches them."""
        registry.agent("reader").tools
        everybody = ToolRegistry.toolset(registry, "everybody")

        assert [] == list(everybody)
        refused = registry.execute(ToolCall(None, "web-say", {"text": "x"}, "everybody"))
        registry.assign_tool_to_agent("web-say", "everybody", max_calls=1, where={"text": {"enum": ["ok"]}})
        bounded = registry.execute(ToolCall(None, "web-say", {"text": "no"}, "everybody"))
        allowed = registry.execute(ToolCall(None, "web-say", {"text": "ok"}, "everybody"))

        assert [Outcome.FORBIDDEN, Outcome.FORBIDDEN, Outcome.OK] == [
            result.outcome for result in (refused, bounded, allowed)
        ]

    def test_keep_their_result_schema_and_their_warnings(self, registry: ToolRegistry) -> None:
        """`outputSchema` stays; of the hints those count that warn, and none that would make a tool harmless."""
        lookup, pay = registry.get_tool("web-lookup"), registry.get_tool("web-pay")

        assert lookup is not None and pay is not None
        assert "object" == (lookup.result_schema or {}).get("type")
        assert (None, None, None) == (
            lookup.metadata.read_only,
            lookup.metadata.idempotent,
            lookup.metadata.destructive,
        )
        assert (False, True) == (pay.metadata.read_only, pay.metadata.destructive)
        assert {"readOnlyHint": True, "idempotentHint": True, "destructiveHint": False} == (
            lookup.metadata.extra["mcp"]["hints"]
        )


class TestValues:
    def test_structured_content_is_the_value(self, registry: ToolRegistry) -> None:
        """What a server returns as structured content is what the call returns."""
        assert {"city": "Rome", "days": 1} == call(registry, "web-lookup", city="Rome").result

    def test_text_is_the_value_where_nothing_is_structured(self, registry: ToolRegistry) -> None:
        """A text comes as a text."""
        assert "ciao" == call(registry, "web-say", text="ciao").result

    def test_media_are_content(self, registry: ToolRegistry) -> None:
        """Images, sounds, resources and links come as `Content`, the texts between them as texts."""
        assert [
            "a picture:",
            Content.image(PICTURE, "image/png"),
            Content.audio(PICTURE, "audio/wav"),
            Content.resource("file:///a.txt", text="inside", mime_type="text/plain"),
            Content.link("file:///b.txt", "b"),
        ] == call(registry, "web-draw").result

    def test_a_failure_is_an_error_with_its_text(self, registry: ToolRegistry) -> None:
        """`isError` ends the call as an error of the tool, in the server's words."""
        result = call(registry, "web-fail", reason="no money left")

        assert (Outcome.TOOL_ERROR, "no money left", "McpToolError") == (
            result.outcome, result.error, result.error_type
        )  # fmt: skip

    def test_progress_is_passed_on(self, registry: ToolRegistry) -> None:
        """Subscribers hear what the server says of its progress."""
        heard: list[object] = []
        unsubscribe = registry.subscribe(heard.append)
        result = call(registry, "web-climb", steps=3)
        unsubscribe()

        reports = [event for event in heard if isinstance(event, ToolProgress)]
        assert ("up", [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]) == (
            result.result, sorted((report.done, report.total, report.message) for report in reports)
        )  # fmt: skip

    def test_log_messages_are_passed_on(self, registry: ToolRegistry) -> None:
        """Subscribers hear what the server writes for the caller, by the call, without control characters."""
        heard: list[object] = []
        unsubscribe = registry.subscribe(heard.append)
        result = call(registry, "web-tell", texts=["one\x1b[31m", "object"])
        unsubscribe()

        logs = [event for event in heard if isinstance(event, ToolLog) and event.level != "debug"]
        assert ("written", [("web-tell", OPERATOR, "warning")] * 2, ["one[31m", '{"said":"object"}']) == (
            result.result, [(log.tool, log.agent, log.level) for log in logs], [log.text for log in logs]
        )  # fmt: skip

    def test_log_messages_of_calls_side_by_side_are_not_mixed_up(self, registry: ToolRegistry) -> None:
        """Where the transport says of which call a message is, that call gets it; where it does not, none does."""
        heard: list[object] = []
        unsubscribe = registry.subscribe(heard.append)
        calls = [ToolCall(f"call {n}", "web-tell", {"texts": [f"{n}"] * 3}, OPERATOR) for n in range(2)]
        registry.execute_batch(calls)
        unsubscribe()

        logs = [event for event in heard if isinstance(event, ToolLog)]
        is_http = registry.get_tool("web-tell") is not None and "http" in repr(get_runtime(registry).sources["web"])
        assert all(log.tool_call_id == f"call {log.text}" for log in logs if log.level == "warning")
        assert not is_http or 6 == len(logs)


class TestArguments:
    def test_are_checked_before_anything_is_sent(self, registry: ToolRegistry, notes: Path) -> None:
        """Wrong arguments end the call here; what a model spelled almost right is repaired."""
        before = read_notes(notes).count("pay 7")
        wrong = [call(registry, "web-pay", **arguments) for arguments in ({}, {"invoice": "x"}, {"invoice": 7.5})]
        repaired = call(registry, "web-pay", invoice="7")

        assert [Outcome.INVALID_ARGUMENTS] * 3 == [result.outcome for result in wrong]
        assert (Outcome.OK, before + 1) == (repaired.outcome, read_notes(notes).count("pay 7"))


class TestCancellation:
    def test_reaches_the_server(self, registry: ToolRegistry, notes: Path) -> None:
        """Cancelling the task that awaits a call cancels the tool over there."""
        name = f"task {len(list_notes(notes))}"

        async def cancel() -> None:
            task = asyncio.create_task(registry.toolset(OPERATOR).acall("web-wait", name=name))
            await asyncio.to_thread(wait_until, lambda: f"began {name}" in list_notes(notes))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())
        wait_until(lambda: f"cancelled {name}" in list_notes(notes))

    def test_a_call_that_takes_too_long_is_cancelled_there(self, registry: ToolRegistry, notes: Path) -> None:
        """The time-out of a call is kept here, and the server hears that nobody waits any more."""
        name = f"late {len(list_notes(notes))}"
        registry.configure("web-wait", timeout=1.0)
        result = call(registry, "web-wait", name=name)
        registry.configure("web-wait", timeout=None)

        assert Outcome.TIMEOUT is result.outcome
        wait_until(lambda: f"cancelled {name}" in list_notes(notes))


class TestCallers:
    def test_threads_and_event_loops_share_one_session(self, registry: ToolRegistry, notes: Path) -> None:
        """Calls from threads and from several event loops at once all get their own answers."""

        async def call_many(start: int) -> list[object]:
            tools = registry.toolset(OPERATOR)
            return await asyncio.gather(*(tools.acall("web-say", text=f"{start + n}") for n in range(10)))

        with ThreadPoolExecutor(8) as threads:
            loops = [threads.submit(asyncio.run, call_many(start)) for start in (0, 100)]
            calls = [threads.submit(call, registry, "web-say", text=f"t{n}") for n in range(20)]
            values = [one.result().result for one in calls]

            assert [[f"{start + n}" for n in range(10)] for start in (0, 100)] == [loop.result() for loop in loops]
            assert [f"t{n}" for n in range(20)] == values

    def test_a_batch_keeps_its_order(self, registry: ToolRegistry) -> None:
        """Results of a batch come in the order of its calls, and a failure touches no other."""
        calls = [ToolCall(str(n), "web-say", {"text": str(n)} if n != 2 else {}, OPERATOR) for n in range(5)]
        results = registry.execute_batch(calls)

        assert ["0", "1", None, "3", "4"] == [result.result for result in results]


class TestLifetime:
    def test_closing_ends_the_process(self, tmp_path: Path) -> None:
        """After `close` the server's process is gone, and leaves no zombie; closing twice is harmless."""
        registry = ToolRegistry()
        register_plain(registry, "normal", tmp_path / "notes")
        process = int(list_notes(tmp_path / "notes")[0].removeprefix("started "))
        registry.close()
        registry.close()

        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)

    def test_a_process_that_stays_is_killed(self, tmp_path: Path) -> None:
        """A server that goes on after its input was closed is ended all the same."""
        with ToolRegistry() as registry:
            register_plain(registry, "stays", tmp_path / "notes")
            process = int(list_notes(tmp_path / "notes")[0].removeprefix("started "))

        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)

    def test_what_a_server_started_ends_with_it(self, tmp_path: Path) -> None:
        """A process that the server leaves behind, as it ends in good order, is killed."""
        registry = ToolRegistry()
        register_plain(registry, "starts a child", tmp_path / "notes")
        child = Path("/proc", list_notes(tmp_path / "notes")[1].removeprefix("child "), "stat")
        registry.close()

        wait_until(lambda: not child.exists() or child.read_text().split()[2] == "Z")

    def test_closing_a_source_leaves_no_task(self, tmp_path: Path) -> None:
        """Nothing of a source runs on after `close`: no task on the loop of its registry."""
        with ToolRegistry() as registry:
            source = register_plain(registry, "normal", tmp_path / "notes")
            call(registry, "plain-work", x=1)
            source.close()

            async def list_others() -> list[str]:
                return [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]

            assert [] == get_runtime(registry).background_loop.run(list_others())

    def test_one_source_may_be_closed(self, tmp_path: Path) -> None:
        """Closing a source takes its tools out, and the name is free again."""
        with ToolRegistry() as registry:
            source = register_plain(registry, "normal", tmp_path / "notes")
            with pytest.raises(ToolUsageError, match="registered already"):
                register_plain(registry, "normal", tmp_path / "notes")
            source.close()

            assert [] == registry.list_all_tools()
            assert ["plain-work"] == register_plain(registry, "normal", tmp_path / "notes").tools

    def test_two_registries_have_sessions_of_their_own(self, tmp_path: Path) -> None:
        """Each registry starts a process of its own, and closing one leaves the other alone."""
        with ToolRegistry() as first:
            register_plain(first, "normal", tmp_path / "notes")
            with ToolRegistry() as second:
                register_plain(second, "normal", tmp_path / "notes")
                assert "done 1" == call(second, "plain-work", x=1).result

            assert "done 2" == call(first, "plain-work", x=2).result

        assert 2 == len({line for line in list_notes(tmp_path / "notes") if line.startswith("started")})

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
    def test_a_forked_process_connects_anew(self, tmp_path: Path) -> None:
        """Parent and child each call through a server of their own; none of the calls is repeated or lost."""
        script = f"""
import os, sys
sys.path.insert(0, {str(SUPPORT)!r})
from mcp_client_rig import *
registry, notes = ToolRegistry(), Path({str(tmp_path / "notes")!r})
register_plain(registry, "normal", notes)
assert call(registry, "plain-work", x=1).result == "done 1"
child = os.fork()
result = call(registry, "plain-work", x=2 if child else 3)
assert result.result == ("done 2" if child else "done 3"), result
registry.close()
if not child:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert read_notes(notes) == ["effect"] * 3, list_notes(notes)
"""
        done = subprocess.run([sys.executable, "-c", script], timeout=100, capture_output=True, text=True)

        assert (0, "") == (done.returncode, done.stderr)

    def test_only_the_operator_starts_servers(self, tmp_path: Path) -> None:
        """Broken promise: an agent's function took tools of a server out, and replaced their schemas, by `declare`."""
        registry = ToolRegistry()
        source = register_plain(registry, "normal", tmp_path / "notes")

        @registry.tool(owned_by="crook")
        def intrude(what: str) -> str:
            """Try."""
            doors = {
                "register": lambda: registry.register_mcp(plain_command("normal", tmp_path / "notes")),
                "refresh": registry.refresh, "accept": lambda: source.accept("plain-work"), "close": source.close,
                "declare": lambda: source.declare([]),
            }  # fmt: skip
            with pytest.raises(NotOwnerError):
                doors[what]()
            return "refused"

        for what in ("register", "refresh", "accept", "close", "declare"):
            assert "refused" == registry.toolset("crook").call("intrude", what=what)
        registry.close()

    def test_a_server_that_cannot_be_started_registers_nothing(self) -> None:
        """The error names the program and the reason, and the registry is as it was."""
        with ToolRegistry() as registry:
            with pytest.raises(McpServerError, match="'no-such-server': it cannot be started: No such file"):
                registry.register_mcp(["/nowhere/no-such-server"], namespace="no-such-server")

            assert ([], []) == (registry.list_all_tools(), registry.problems())

    def test_its_repr_says_what_it_is(self, tmp_path: Path) -> None:
        """The source of a registration is a `McpSource`, with the name, the address and the number of tools."""
        with ToolRegistry() as registry:
            source = registry.register_mcp(plain_command("normal", tmp_path / "notes"))

            assert isinstance(source, McpSource)
            assert "mcp_plain_server" == source.name
            assert f"<McpSource 'mcp_plain_server' ({Path(sys.executable).name}): 1 tool>" == repr(source)
