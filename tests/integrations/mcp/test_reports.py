# Tests of: integrations/reports
"""What tools report while they run reaches the MCP client that called, and nobody else."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp_rig import ERAS, build_registry, run

from praval_tools import ToolContext, ToolRegistry
from praval_tools.integrations.mcp import server

LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"


class Listener:
    """Collects what a client is notified of during its calls."""

    def __init__(self) -> None:
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.logs: list[tuple[str, str | None, Any]] = []

    async def on_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Take progress."""
        self.progress.append((done, total, message))

    async def on_log(self, params: types.LoggingMessageNotificationParams) -> None:
        """Take a message."""
        self.logs.append((params.level, params.logger, params.data))


@pytest.mark.parametrize("era", ERAS)
class TestProgress:
    def test_comes_before_the_result(self, era: str) -> None:
        """All progress of a tool that runs in a thread is there, in order, once its result is."""

        async def main() -> None:
            heard = Listener()
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                result = await client.call_tool("copy", {"files": 3}, progress_callback=heard.on_progress)

            assert {"result": 3} == result.structured_content
            assert [(number, 3, f"file {number}") for number in (1, 2, 3)] == heard.progress

        run(main)

    def test_that_does_not_grow_is_left_out(self, era: str) -> None:
        """The protocol wants progress that grows: what a tool repeats or takes back is not sent."""

        async def main() -> None:
            registry, heard = ToolRegistry(), Listener()

            @registry.tool("wobble", owned_by="analyst")
            async def wobble(context: ToolContext) -> None:
                """Report back and forth."""
                for done in (1, 3, 2, 3, 4):
                    context.progress(done)

            async with Client(server(registry, agent="analyst"), mode=era) as client:
                await client.call_tool("wobble", {}, progress_callback=heard.on_progress)

            assert [1, 3, 4] == [done for done, _, _ in heard.progress]

        run(main)

    def test_goes_to_the_call_that_it_is_about(self, era: str) -> None:
        """Of two clients, and of two calls, each hears of its own."""

        async def main() -> None:
            served, first, second = server(build_registry(), agent="analyst"), Listener(), Listener()
            async with Client(served, mode=era) as one, Client(served, mode=era) as other:
                await one.call_tool("copy", {"files": 1}, progress_callback=first.on_progress)
                await other.call_tool("copy", {"files": 2}, progress_callback=second.on_progress)

            assert ([1], [1, 2]) == ([done for done, *_ in first.progress], [done for done, *_ in second.progress])

        run(main)


class TestLogs:
    def test_of_the_handshake_era_begin_at_the_level_that_was_set(self) -> None:
        """All messages arrive, until the client sets a level; from then on those of that level and above."""

        async def main() -> None:
            heard = Listener()
            served = server(build_registry(), agent="analyst")
            async with Client(served, mode="legacy", logging_callback=heard.on_log) as client:
                assert client.server_capabilities.logging is not None
                await client.call_tool("copy", {"files": 2})
                request = types.SetLevelRequest(params=types.SetLevelRequestParams(level="warning"))
                await client.session.send_request(request, types.EmptyResult)
                await client.call_tool("copy", {"files": 2})

            copied = [("debug", "copy", "copied 1"), ("warning", "copy", "copied 2")]
            assert [*copied, copied[1]] == heard.logs

        run(main)

    @pytest.mark.parametrize(("level", "expected"), [(None, []), ("debug", ["copied 1", "copied 2"]), ("error", [])])
    def test_of_the_modern_era_are_asked_for_by_the_call(self, level: str | None, expected: list[str]) -> None:
        """A call that names a level gets the messages from that level on, another gets none."""

        async def main() -> None:
            heard = Listener()
            async with Client(server(build_registry(), agent="analyst"), logging_callback=heard.on_log) as client:
                meta: Any = None if level is None else {LOG_LEVEL_KEY: level}
                await client.call_tool("copy", {"files": 2}, meta=meta)

            assert expected == [text for _, _, text in heard.logs]

        run(main)
