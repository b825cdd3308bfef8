"""A call is sent once: where it fails, its outcome says whether it may have had an effect."""

# Tests of: stdio_transport, http_transport, transport, connection

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from mcp_client_rig import OPERATOR, call, list_notes, read_notes, register_plain, serve_http, wait_until
from mcp_http_fault import FaultyServer, serve_faults

from praval_tools import Outcome, ToolCall, ToolRegistry


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry that tries again whatever it may."""
    with ToolRegistry(retries=3, retry_wait=0.01) as registry:
        yield registry


class TestDeaths:
    @pytest.mark.parametrize(
        ("behaviour", "effects"),
        [("die before the effect", 0), ("die after the effect", 3), ("die in the answer", 3)],
    )
    def test_no_call_has_two_effects(
        self, registry: ToolRegistry, behaviour: str, effects: int, tmp_path: Path
    ) -> None:
        """A server that dies at any point of a call leaves it in doubt, and never gets it twice."""
        notes = tmp_path / "notes"
        register_plain(registry, behaviour, notes)
        results = [call(registry, "plain-work", x=number) for number in range(3)]

        assert [Outcome.IN_DOUBT] * 3 == [result.outcome for result in results]
        assert effects == len(read_notes(notes))
        assert 3 <= len([line for line in list_notes(notes) if line.startswith("started")])

    def test_a_death_after_the_answer_costs_nothing(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """
        An answer that came counts, and nothing else has an effect.

        A call that meets the dying process is in doubt, or an error of the tool where nothing was sent.
        """
        notes = tmp_path / "notes"
        register_plain(registry, "die after the answer", notes)
        outcomes = [call(registry, "plain-work", x=number).outcome for number in range(4)]

        assert Outcome.OK is outcomes[0]
        assert set(outcomes) <= {Outcome.OK, Outcome.IN_DOUBT, Outcome.TOOL_ERROR}
        assert outcomes.count(Outcome.OK) == len(read_notes(notes))

    def test_what_is_in_doubt_is_said(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """The error names the server and how its process ended, and says that nothing is sent again."""
        register_plain(registry, "die after the effect", tmp_path / "notes")
        result = call(registry, "plain-work", x=1)

        assert (
            "The call was sent to MCP server 'plain' and has no answer (its process ended with exit code -9): it is "
            "unknown whether the tool did its work, and it is not sent again."
        ) == result.error

    def test_a_journaled_run_waits_for_a_person(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """A run holds such a call as in doubt, and runs it no second time until it is resolved."""
        notes = tmp_path / "notes"
        registry.journal = tmp_path / "runs.db"
        register_plain(registry, "die after the effect", notes)
        for _ in range(2):
            with registry.run("night") as run:
                assert Outcome.IN_DOUBT is call(registry, "plain-work", x=1).outcome
                (doubtful,) = run.in_doubt
        with registry.run("night") as run:
            run.resolve(doubtful.tool_call_id, result="seen in the books")
            assert "seen in the books" == call(registry, "plain-work", x=1).result

        assert ["effect"] == read_notes(notes)

    def test_calls_beside_it_are_in_doubt_too(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Every call that was on its way to the process that died is in doubt, once each."""
        register_plain(registry, "die after the effect", tmp_path / "notes")
        calls = [ToolCall(str(number), "plain-work", {"x": number}, OPERATOR) for number in range(5)]
        outcomes = {result.outcome for result in registry.execute_batch(calls)}

        assert outcomes <= {Outcome.IN_DOUBT, Outcome.TOOL_ERROR}
        assert Outcome.IN_DOUBT in outcomes

    def test_a_server_that_is_gone_gets_nothing(self, tmp_path: Path) -> None:
        """Where there is no connection nothing is sent: an error of the tool, which says why, and no doubt."""
        with ToolRegistry() as registry:
            source = register_plain(registry, "normal", tmp_path / "notes")
            tool = registry.get_tool("plain-work")
            source.close()
            assert tool is not None
            registry.register_tool(tool)
            result = call(registry, "plain-work", x=1)

        assert (Outcome.TOOL_ERROR, "McpNotSentError") == (result.outcome, result.error_type)
        assert "MCP server 'plain': the connection was closed." == result.error


class TestReconnection:
    def test_the_pause_grows(self, tmp_path: Path) -> None:
        """A server that dies at each start is started now and then, however often its tools are called."""
        notes, definition = tmp_path / "notes", {"name": "work", "inputSchema": {"type": "object"}}
        with ToolRegistry() as registry:
            register_plain(registry, "dies at once", notes, tools=[definition])
            deadline, was_said = time.monotonic() + 4, False
            while time.monotonic() < deadline:
                error = str(call(registry, "plain-work").error)
                was_said = was_said or ("no weather today" in error and "It is tried again in " in error)
                time.sleep(0.01)
            starts, deadline = list_notes(notes), time.monotonic() + 60
            while not was_said and time.monotonic() < deadline:  # the first start is slow on a busy machine
                error = str(call(registry, "plain-work").error)
                was_said = "no weather today" in error and "It is tried again in " in error

        assert len(starts) <= 4, starts
        assert 2 <= len(list_notes(notes))
        assert was_said


@pytest.fixture
def faulty(registry: ToolRegistry) -> Iterator[FaultyServer]:
    """A server over HTTP whose calls fail as its `fault` says, registered as `faulty`."""
    with serve_faults() as server:
        registry.register_mcp(
            server.url, namespace="faulty", owned_by=OPERATOR, connect_timeout=10, max_message_bytes=1_000_000
        )
        yield server
        registry.close()


class TestHttp:
    @pytest.mark.parametrize(
        ("fault", "outcome", "text"),
        [
            ("reset", Outcome.IN_DOUBT, "disconnected"),
            ("cut", Outcome.IN_DOUBT, "the answer was cut"),
            ("500", Outcome.IN_DOUBT, "HTTP status 500"),
            ("long", Outcome.IN_DOUBT, "the answer is too long"),
            ("gzip", Outcome.IN_DOUBT, "compressed content"),
            ("nan", Outcome.IN_DOUBT, "is not a finite number"),
            ("401", Outcome.TOOL_ERROR, "'faulty' refused the call: it answered with HTTP status 401"),
            ("413", Outcome.TOOL_ERROR, "HTTP status 413"),
            ("text", Outcome.IN_DOUBT, "it answered with content of the type text/plain"),
            ("no content", Outcome.IN_DOUBT, "it answered with content of the type none"),
            ("see other", Outcome.IN_DOUBT, "HTTP status 303"),
            ("redirect", Outcome.TOOL_ERROR, "not followed"),
        ],
    )
    def test_a_failure_costs_its_own_call(
        self, registry: ToolRegistry, faulty: FaultyServer, fault: str, outcome: Outcome, text: str
    ) -> None:
        """A failure of one request is the outcome of its call, never sent again; the next call is answered."""
        faulty.fault = fault
        failed = call(registry, "faulty-work", x=1)
        effects, faulty.fault = faulty.effects, ""

        assert (outcome, True) == (failed.outcome, text in (failed.error or "")), failed.error
        assert effects <= 1
        assert ("done", 1) == (call(registry, "faulty-work", x=2).result, faulty.sessions)

    def test_a_forgotten_session_is_opened_anew(self, registry: ToolRegistry, faulty: FaultyServer) -> None:
        """A server that forgot the session refused the call unread, so it may be made again, in a new session."""
        faulty.fault, faulty.sessions = "session", 7
        result = call(registry, "faulty-work", x=1)

        assert (Outcome.OK, "done", 1, 8) == (result.outcome, result.result, faulty.effects, faulty.sessions)

    def test_a_server_that_is_down_gets_nothing(self, tmp_path: Path) -> None:
        """Without a connection the call was not sent; once the server is up again, calls are answered."""
        notes = tmp_path / "notes"
        with ToolRegistry() as registry:
            with serve_http(notes) as (url, kill):
                registry.register_mcp(url, namespace="web", owned_by=OPERATOR)
                kill()
                port = int(url.split(":")[2].partition("/")[0])
            result = call(registry, "web-pay", invoice=1)

            assert (Outcome.TOOL_ERROR, "McpNotSentError") == (result.outcome, result.error_type), result
            with serve_http(notes, port):
                wait_until(lambda: call(registry, "web-pay", invoice=2).outcome is Outcome.OK)

        assert ["pay 2"] == read_notes(notes)

    def test_a_server_that_is_killed_leaves_its_call_in_doubt(self, tmp_path: Path) -> None:
        """A call that was under way is in doubt, and is not sent to the server that follows."""
        notes = tmp_path / "notes"
        with ToolRegistry() as registry, serve_http(notes) as (url, kill):
            registry.register_mcp(url, namespace="web", owned_by=OPERATOR)
            killer = Thread(target=lambda: (wait_until(lambda: "began x" in read_notes(notes)), kill()))
            killer.start()
            result = call(registry, "web-wait", name="x")
            killer.join()

        assert (Outcome.IN_DOUBT, ["began x"]) == (result.outcome, read_notes(notes))
