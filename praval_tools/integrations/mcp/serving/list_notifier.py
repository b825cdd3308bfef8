"""Notifies the MCP clients of an agent that its list of tools has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
from anyio.abc import TaskGroup

from praval_tools.access.events import AnyStateEvent
from praval_tools.access.records import Principal
from praval_tools.errors import RegistryClosedError
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.toolset import Toolset
from praval_tools.tools.reports import ToolReport

_POLL_SECONDS: Final = 0.5
"""How often the lists are compared without a reported change: grants expire, and other processes change the store."""

_SETTLE_SECONDS: Final = 0.05
"""How long a comparison waits for more changes: a plugin's tools come one by one, and are one change for a client."""

_SEND_SECONDS: Final = 10.0
"""How long a client that does not read holds a notification."""

_logger = logging.getLogger(__name__)

Notify = Callable[[], Awaitable[None]]


class _NotifiedAgent:
    """An agent whose list is followed: the list as its clients know it, and how they are notified."""

    def __init__(self, toolset: Toolset) -> None:
        self.toolset = toolset
        self.text = toolset.schemas_json("mcp")
        self.notifiers: dict[object, Notify] = {}


class ToolListNotifier:
    """
    Notifies the clients of one server, each of changes of its own agent's list of tools.

    Args:
        registry: Whose agents they are.
    """

    def __init__(self, registry: ToolRegistry) -> None:
        self._registry = registry
        self._agents: dict[Principal, _NotifiedAgent] = {}

    @property
    def client_count(self) -> int:
        """How many clients are notified."""
        return sum(len(agent.notifiers) for agent in self._agents.values())

    def add_client(self, toolset: Toolset, notify: Notify) -> Callable[[], None]:
        """Call *notify* whenever the list of an agent has changed from now on; return the function that ends that."""
        principal, key = toolset.principal, object()
        if principal not in self._agents:
            self._agents[principal] = _NotifiedAgent(toolset)
        self._agents[principal].notifiers[key] = notify

        def remove() -> None:
            agent = self._agents.get(principal)
            if agent is not None and agent.notifiers.pop(key, None) is not None and not agent.notifiers:
                del self._agents[principal]

        return remove

    async def run(self) -> None:
        """Notify clients until this is cancelled, or the registry is closed."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake(event: AnyStateEvent | ToolReport) -> None:  # in whichever thread the change was made
            if not isinstance(event, ToolReport):
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(changed.set)

        unsubscribe = self._registry.subscribe(wake)
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    with anyio.move_on_after(_POLL_SECONDS):
                        await changed.wait()
                        await anyio.sleep(_SETTLE_SECONDS)
                    changed.clear()
                    self._notify_of_changes(tasks)
        except* RegistryClosedError:
            _logger.debug("the registry is closed: its lists change no more")
        finally:
            unsubscribe()

    def _notify_of_changes(self, tasks: TaskGroup) -> None:
        for agent in list(self._agents.values()):
            try:
                text = agent.toolset.schemas_json("mcp")
            except RegistryClosedError:
                raise
            except Exception:  # isolation: what one agent has, such as a journal that fails now, is not all agents'
                _logger.warning("cannot look up the tools of %r", agent.toolset.agent, exc_info=True)
                continue
            if text is not agent.text:
                agent.text = text
                for notify in list(agent.notifiers.values()):
                    tasks.start_soon(_send_notification, notify)


async def _send_notification(notify: Notify) -> None:
    try:
        with anyio.move_on_after(_SEND_SECONDS):
            await notify()
    except Exception:  # isolation: one client's broken connection is not another's
        _logger.debug("a client could not be notified that its list has changed", exc_info=True)
