# Tests of: integrations/list_notifier
"""Clients are notified when their agent's list of tools changes, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from clocks import HandClock
from mcp import Client
from mcp.shared.subscriptions import ToolsListChanged
from mcp_rig import ERAS, build_registry, in_thread, list_names, run, wait_until
from mcp_types import ToolListChangedNotification

from praval_tools import ToolRegistry, tool
from praval_tools.integrations.mcp import server


class News:
    """Counts how often a client was notified that its list has changed."""

    def __init__(self) -> None:
        self.count = 0

    async def on_message(self, message: Any) -> None:
        """Take what the server sends."""
        self.count += isinstance(message, ToolListChangedNotification)


@asynccontextmanager
async def connect(served: Any, era: str) -> AsyncIterator[tuple[Client, News]]:
    """Connect a client that listens."""
    news = News()
    if era == "legacy":
        async with Client(served, mode=era, message_handler=news.on_message) as client:
            await client.list_tools()
            yield client, news
        return
    async with Client(served, mode=era) as client:
        async with client.listen(tools_list_changed=True) as events:

            async def count() -> None:
                async for event in events:
                    news.count += isinstance(event, ToolsListChanged)

            listening = asyncio.create_task(count())
            yield client, news
            listening.cancel()


CHANGES: dict[str, Callable[[ToolRegistry], object]] = {
    "grant": lambda registry: registry.grant("secret_report", "analyst"),
    "share": lambda registry: registry.share_tool("secret_report"),
    "revocation": lambda registry: registry.remove_tool_from_agent("add", "analyst"),
    "block": lambda registry: registry.block("add", "analyst"),
    "disable": lambda registry: registry.disable("add"),
    "description": lambda registry: registry.configure("add", title="Sum"),
    "new tool": lambda registry: registry.register_tool(
        tool("late", owned_by="analyst", registry=ToolRegistry())(build_late())
    ),
}


def build_late() -> Callable[[], str]:
    """Return the function of a tool that comes later."""

    def late() -> str:
        """Come late."""
        return "late"

    return late


@pytest.mark.parametrize("era", ERAS)
class TestChanges:
    @pytest.mark.parametrize("change", CHANGES)
    def test_are_announced(self, era: str, change: str) -> None:
        """Whatever changes an agent's list, in whichever thread, its client hears of it and sees the new list."""

        async def main() -> None:
            registry = build_registry()
            async with connect(server(registry, agent="analyst"), era) as (client, news):
                before = (await client.list_tools()).tools
                in_thread(lambda: CHANGES[change](registry))
                await wait_until(lambda: news.count > 0)
                assert before != (await client.list_tools(cache_mode="bypass")).tools

        run(main)

    def test_are_announced_to_the_agents_concerned_alone(self, era: str) -> None:
        """Of what changes for the clerk, the analyst hears nothing."""

        async def main() -> None:
            registry = build_registry()
            analyst, clerk = server(registry, agent="analyst"), server(registry, agent="clerk")
            async with connect(analyst, era) as (_, news), connect(clerk, era) as (other, clerk_news):
                registry.grant("add", "clerk")
                await wait_until(lambda: clerk_news.count == 1)
                assert ["add", "secret_report"] == await list_names(other)
                registry.grant("secret_report", "analyst")
                await wait_until(lambda: news.count == 1)
            assert (1, 1) == (news.count, clerk_news.count)

        run(main)

    def test_that_come_together_are_announced_once(self, era: str) -> None:
        """Several tools that change in one step are one piece of news."""

        async def main() -> None:
            registry = build_registry()
            async with connect(server(registry, agent="analyst"), era) as (client, news):
                with registry.change():
                    registry.disable("add")
                    registry.disable("copy")
                await wait_until(lambda: news.count > 0)
                assert ["bank.rate", "chart", "fail", "lies"] == await list_names(client)
            assert 1 == news.count

        run(main)

    def test_of_the_clock_are_announced(self, era: str) -> None:
        """A grant that expires changes the list without anybody doing anything."""

        async def main() -> None:
            clock = HandClock()
            registry = build_registry(clock=clock)
            registry.grant("secret_report", "analyst", expires=timedelta(minutes=5))
            async with connect(server(registry, agent="analyst"), era) as (client, news):
                assert "secret_report" in await list_names(client)
                clock.moment += timedelta(minutes=6)
                await wait_until(lambda: news.count > 0)
                assert "secret_report" not in await list_names(client)

        run(main)

    def test_are_followed_while_there_are_clients(self, era: str) -> None:
        """Nothing is left of a session that has ended, nor of a server."""

        async def main() -> None:
            registry = build_registry()
            served, notifiers = server(registry, agent="analyst"), list[Any]()
            lifespan = served.lifespan

            @asynccontextmanager
            async def follow(which: Any) -> AsyncIterator[Any]:
                async with lifespan(which) as notifier:
                    notifiers.append(notifier)
                    yield notifier

            served.lifespan = follow  # type: ignore[method-assign]
            subscribers = len(registry._access_store.subscriptions.subscribers)
            for _ in range(3):
                async with connect(served, era):
                    await wait_until(lambda: notifiers[-1].client_count == 1)
            assert [0, 0, 0] == [notifier.client_count for notifier in notifiers]
            assert subscribers == len(registry._access_store.subscriptions.subscribers)

        run(main)


class TestCapabilities:
    @pytest.mark.parametrize("era", ERAS)
    def test_say_that_the_list_changes(self, era: str) -> None:
        """A client knows from the start that it will be notified."""

        async def main() -> None:
            async with Client(server(build_registry(), agent="analyst"), mode=era) as client:
                assert client.server_capabilities.tools is not None
                assert client.server_capabilities.tools.list_changed is True

        run(main)
