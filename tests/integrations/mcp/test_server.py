# Tests of: integrations/listing, integrations/server
"""The MCP server of one agent: its tools and no other's, called as it, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import base64
import re
from datetime import datetime, timedelta
from typing import Any

import mcp_types as types
import pydantic
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_rig import ERAS, PIXEL, build_registry, get_text, list_names, run, wait_until

from praval_tools import ToolContext, ToolRegistry, Toolset
from praval_tools.integrations.mcp import server
from praval_tools.integrations.mcp.client.results import read_result


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    """An era of the protocol."""
    return str(request.param)


class TestListing:
    def test_has_the_tools_of_the_agent_alone(self, era: str) -> None:
        """A client is offered what its agent may call, sorted by name, and nothing else."""

        async def main() -> None:
            registry = build_registry()
            registry.grant("secret_report", "analyst", max_calls=1)
            registry.block("lies", "analyst")
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                assert ["add", "bank.rate", "chart", "copy", "fail", "secret_report"] == await list_names(client)

        run(main)

    def test_says_what_is_known_of_a_tool(self, era: str) -> None:
        """Title, hints, schemas and ownership travel with the tool."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            rate, add = tools["bank.rate"], tools["add"]

            assert ("Exchange rate", "add") == (rate.title, add.title)
            assert rate.annotations is not None and rate.annotations.read_only_hint is True
            assert {"praval/owner": "analyst", "praval/category": "prices", "praval/risk": "low"} == rate.meta
            assert ["x"] == add.input_schema["required"]
            assert rate.output_schema is not None and {"pair", "rate"} == set(rate.output_schema["properties"])
            assert {
                "type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]
            } == add.output_schema  # fmt: skip
            assert tools["chart"].output_schema is None

        run(main)

    def test_has_names_that_the_protocol_allows(self, era: str) -> None:
        """The longest and oddest names that a registry takes are legal there, and reach their tools."""

        async def main() -> None:
            registry, names = ToolRegistry(), ["_.-", "a" * 128, "b.c-d_E9"]
            for name in names:
                registry.tool(name, owned_by="analyst")(return_name)
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                assert names == await list_names(client)
                assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) for name in names)
                assert [False] * 3 == [(await client.call_tool(name, {})).is_error for name in names]

        run(main)

    def test_is_kept_by_no_client(self, era: str) -> None:
        """The list says of no time for which a client may keep it, since a grant or a revocation may come at once."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                assert 0 == ((await client.session.list_tools()).ttl_ms or 0)

        run(main)

    @pytest.mark.parametrize("options", [{}, {"max_result_size": 100}])
    def test_shortened_results_promise_no_schema(self, options: dict[str, Any]) -> None:
        """Where results may be cut, no schema of them is promised."""

        async def main() -> None:
            registry = build_registry(**options)
            if not options:
                registry.configure("add", max_result_size=100)
            async with Client(server(registry, agent="analyst")) as client:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                assert tools["add"].output_schema is None
                assert bool(options) is (tools["bank.rate"].output_schema is None)
                assert "3" == get_text(await client.call_tool("add", {"x": 2}))

        run(main)

    def test_is_right_again_and_again(self, era: str) -> None:
        """The list that is kept is the same for all clients of a kind, and each change counts at once."""

        async def main() -> None:
            registry = build_registry()
            served = server(registry, agent="analyst")
            async with Client(served, mode=era) as client, Client(served, mode=era) as other:
                first = (await client.list_tools()).tools
                first[0].name = "changed by the client"
                before = (await other.list_tools()).tools
                assert "add" == before[0].name
                assert before == (await client.list_tools(cache_mode="bypass")).tools
                registry.configure("add", max_result_size=100)
                registry.block("chart", "analyst")
                after = {tool.name: tool for tool in (await client.list_tools(cache_mode="bypass")).tools}
                assert {tool.name for tool in before} - {"chart"} == after.keys()
                assert after["add"].output_schema is None

        run(main)


class TestCalls:
    def test_do_not_build_the_list(self, era: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A call costs the same however many tools its agent has, also where a grant may be used up."""

        async def main() -> None:
            registry = build_registry()
            registry.grant("secret_report", "analyst", max_calls=40)
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                await client.list_tools()
                exports: list[str] = []
                export = Toolset.schemas_json
                monkeypatch.setattr(Toolset, "schemas_json", lambda *given: exports.append("") or export(*given))
                for _ in range(40):
                    result = await client.call_tool("secret_report", {})
                    assert {"result": "secret"} == result.structured_content
                assert len(exports) < 20  # twice a second the list is looked at for what has changed

        run(main)

    def test_give_text_and_structured_content(self, era: str) -> None:
        """An object is structured content as it is, another value under `result`; both are text, too."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                rate = await client.call_tool("bank.rate", {"pair": "EURUSD"})
                total = await client.call_tool("add", {"x": 2, "y": 3})

            assert {"pair": "EURUSD", "rate": 1.25} == rate.structured_content
            assert '{"pair":"EURUSD","rate":1.25}' == get_text(rate)
            assert ({"result": 5}, "5", False) == (total.structured_content, get_text(total), total.is_error)

        run(main)

    def test_that_use_up_a_grant_keep_their_structure(self, era: str) -> None:
        """The last call that a grant allows has structured content, though its tool is no longer listed then."""

        async def main() -> None:
            registry = build_registry()
            registry.grant("secret_report", "analyst", max_calls=1)
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                listed = {tool.name: tool for tool in (await client.list_tools()).tools}
                result = await client.call_tool("secret_report", {})
            assert listed["secret_report"].output_schema is not None
            assert result.structured_content

        run(main)

    def test_carry_media(self, era: str) -> None:
        """Images arrive as images, beside the text that stands before them."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                text, image = (await client.call_tool("chart", {})).content

            assert isinstance(text, types.TextContent) and "a chart" == text.text
            assert isinstance(image, types.ImageContent) and "image/png" == image.mime_type
            assert PIXEL == base64.b64decode(image.data)

        run(main)

    def test_are_the_agents_own(self, era: str) -> None:
        """Each call is decided, checked and recorded as a call of the agent."""

        async def main() -> None:
            registry = build_registry(journal="memory")
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                await client.call_tool("add", {"x": "2"})
                await client.call_tool("secret_report", {})

            assert [("add", "ok"), ("secret_report", "forbidden")] == list_ends(registry)

        run(main)

    @pytest.mark.parametrize(
        ("name", "arguments", "text"),
        [
            ("fail", {}, "ValueError: the books are closed"),
            ("add", {"x": "two"}, "x"),
            ("add", {"x": 1, "z": 2}, "z"),
            ("secret_report", {}, "forbidden"),
        ],
    )
    def test_that_fail_are_errors_of_the_tool(self, era: str, name: str, arguments: dict[str, Any], text: str) -> None:
        """A tool's error, wrong arguments and a refusal are results with `isError`, in the text that models get."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                result = await client.call_tool(name, arguments)

            assert result.is_error
            assert text in get_text(result)
            assert "clerk" not in get_text(result)  # who owns it is for the operator

        run(main)

    @pytest.mark.parametrize(("refusals", "name"), [("tell", "nope"), ("hide", "nope"), ("hide", "secret_report")])
    def test_of_an_unknown_tool_are_errors_of_the_protocol(self, era: str, refusals: str, name: str) -> None:
        """There is no result of a tool that does not exist, or that the registry hides."""

        async def main() -> None:
            registry = build_registry(refusals=refusals)
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                with pytest.raises(MCPError, match=f"Tool '{name}' not found") as caught:
                    await client.call_tool(name, {})

            assert types.INVALID_PARAMS == caught.value.error.code

        run(main)

    def test_whose_result_breaks_its_promise_are_errors(self, era: str) -> None:
        """A result that does not fit the declared schema is an error that shows it, not a broken answer."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                await client.list_tools()
                result = await client.call_tool("lies", {})

            assert result.is_error
            assert 'does not fit its declared type: {"a":"b"}' in get_text(result)

        run(main)

    def test_may_have_times_without_an_offset(self, era: str) -> None:
        """So do the times of pydantic models, and durations have fractions; a registry that is a client agrees."""
        event_class = pydantic.create_model("Event", begin=(datetime, ...), length=(timedelta, ...))

        async def main() -> None:
            registry = ToolRegistry()

            @registry.tool("plan", owned_by="analyst")
            def plan() -> event_class:  # type: ignore[valid-type]
                """Plan it."""
                return event_class(begin=datetime(2026, 3, 2, 10), length=timedelta(seconds=-1.5))

            async with Client(server(registry, agent="analyst"), mode=era) as client:
                result = await client.call_tool("plan", {})
            assert {"begin": "2026-03-02T10:00:00", "length": "-PT1.5S"} == result.structured_content
            assert result.structured_content == read_result(result, plan.result_schema)

        run(main)

    def test_are_decided_when_they_are_made(self, era: str) -> None:
        """A revocation counts for the next call of a client that still has the old list."""

        async def main() -> None:
            registry = build_registry()
            grant = registry.grant("secret_report", "analyst")
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                assert "secret" == get_text(await client.call_tool("secret_report", {}))
                registry.revoke(grant)
                assert (await client.call_tool("secret_report", {})).is_error

        run(main)

    def test_reach_a_tool_by_the_name_that_models_send(self, era: str) -> None:
        """A client that cannot send a dot reaches the tool by the name that providers get for it."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                result = await client.call_tool("bank_rate", {"pair": "EURUSD"})
            assert {"pair": "EURUSD", "rate": 1.25} == result.structured_content

        run(main)

    def test_side_by_side_keep_apart(self, era: str) -> None:
        """Many calls at once each get their own result."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                results = await asyncio.gather(*(client.call_tool("add", {"x": x}) for x in range(100)))
            assert [{"result": x + 1} for x in range(100)] == [result.structured_content for result in results]

        run(main)


class TestCancellation:
    @pytest.mark.parametrize("is_async", [True, False])
    def test_ends_the_call(self, era: str, is_async: bool) -> None:
        """A call that its client gives up is cancelled in the tool, and recorded as cancelled."""

        async def main() -> None:
            registry = ToolRegistry(journal="memory")
            started, ended = asyncio.Event(), asyncio.Event()
            loop = asyncio.get_running_loop()

            async def wait() -> None:
                """Wait."""
                started.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            def wait_sync(context: ToolContext) -> None:
                """Look now and then whether anybody waits."""
                loop.call_soon_threadsafe(started.set)
                while not context.cancelled:
                    pass
                loop.call_soon_threadsafe(ended.set)

            registry.tool("wait", owned_by="analyst")(wait if is_async else wait_sync)
            async with Client(server(registry, agent="analyst"), mode=era) as client:
                call = asyncio.create_task(client.call_tool("wait", {}))
                await started.wait()
                call.cancel()
                await ended.wait()
                await wait_until(lambda: ("wait", "cancelled") in list_ends(registry))

        run(main)


def return_name() -> str:
    """Return a name."""
    return "name"


def list_ends(registry: ToolRegistry) -> list[tuple[str, str]]:
    """Return which calls of the analyst ended, and how."""
    assert registry.journal is not None
    events = [entry.event for entry in registry.journal.read(agent="analyst")]
    return [(event.tool_name, str(event.outcome)) for event in events if hasattr(event, "outcome")]
