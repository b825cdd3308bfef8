"""What the tests of foreign code share: a program, and every kind of code that the library calls for it."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

from praval_tools import (
    Agent,
    Allow,
    NotOwnerError,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
    agent,
    get_tool_registry,
    use_registry,
)

Enter = Callable[[], object]


class Pause:
    """Waits once."""

    def __await__(self) -> Iterator[None]:
        yield


class Host:
    """A program with a journaled registry, and what foreign code of it has entered."""

    def __init__(self) -> None:
        self.registry, self.other = ToolRegistry(journal="memory"), ToolRegistry(name="other")
        self.entered: list[Any] = []
        self.registry.tool("probe", shared=True)(probe)

    def enter(self, kind: str) -> None:
        """Enter something by hand and keep it."""
        make = {
            "run": lambda: self.registry.run(f"left{len(self.entered)}"),
            "registry": lambda: use_registry(self.other),
            "change": self.registry.change,
            "change of another registry": self.other.change,
        }[kind]
        self.entered.append(make())
        self.entered[-1].__enter__()
        if kind == "change":
            with suppress(NotOwnerError):
                self.registry.share_tool("private")

    def assert_unchanged(self) -> None:
        """Check that nothing of what was entered is in force here, or keeps others waiting."""
        assert get_tool_registry() is not self.other
        assert self.registry.execute(ToolCall("1", "probe", {}, "ann")).run_id is None
        assert "private" not in [tool.name for tool in self.registry.get_shared_tools()]
        for registry in (self.registry, self.other):
            thread = threading.Thread(target=registry.block, args=("probe", "eve"), daemon=True)
            thread.start()
            thread.join(10)
            assert not thread.is_alive()


def probe() -> int:
    """Count."""
    return 1


def call_agent(host: Host, enter: Enter) -> None:
    Agent("clerk", registry=host.registry, function=enter)()


def await_agent(host: Host, enter: Enter) -> None:
    async def work() -> None:
        enter()

    asyncio.run(Agent("clerk", registry=host.registry, function=work)())  # type: ignore[arg-type]


def await_agent_in_place(host: Host, enter: Enter) -> None:
    async def work() -> None:
        await Pause()
        enter()
        await Pause()

    async def main() -> None:
        try:
            await Agent("clerk", registry=host.registry, function=work)()  # type: ignore[misc]
        finally:
            host.assert_unchanged()

    asyncio.run(main())


def abandon_coroutine_of_agent(host: Host, enter: Enter) -> None:
    async def work() -> None:
        enter()
        await Pause()

    coroutine: Any = Agent("clerk", registry=host.registry, function=work)()
    host.entered.insert(0, Closing(coroutine))
    coroutine.send(None)


def abandon_own_coroutine(host: Host, enter: Enter) -> None:
    async def inner() -> None:
        enter()
        await Pause()

    def work() -> None:
        coroutine = inner()
        host.entered.insert(0, Closing(coroutine))
        coroutine.send(None)

    Agent("clerk", registry=host.registry, function=work)()


def abandon_generator(host: Host, enter: Enter) -> None:
    def work() -> Iterator[int]:
        enter()
        yield 1

    items: Any = Agent("clerk", registry=host.registry, function=work)()
    host.entered.insert(0, Closing(items))
    next(items)


def abandon_async_generator(host: Host, enter: Enter) -> None:
    async def work() -> AsyncIterator[int]:
        enter()
        yield 1

    async def main() -> None:
        items: Any = Agent("clerk", registry=host.registry, function=work)()
        try:
            await anext(items)
        finally:
            host.assert_unchanged()
            await items.aclose()

    asyncio.run(main())


def return_iterator(host: Host, enter: Enter) -> None:
    items: Any = agent("clerk", registry=host.registry)(lambda: (enter() for _ in [1, 2]))()
    next(items)


class Closing:
    """Closes work that goes no further."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def __exit__(self, *_: object) -> None:
        self.work.close()


def declare(host: Host, enter: Enter, **options: Any) -> None:
    @host.registry.tool("work", shared=True, **options)
    def work() -> None:
        """Work."""
        enter()


def declare_async(host: Host, enter: Enter, *, waits: bool, **options: Any) -> None:
    @host.registry.tool("work", shared=True, **options)
    async def work() -> None:
        """Work."""
        if waits:
            await Pause()
        enter()
        if waits:
            await Pause()


def call_tool(**options: Any) -> Callable[[Host, Enter], None]:
    def call(host: Host, enter: Enter) -> None:
        declare(host, enter, **options)
        host.registry.agent("ann").call("work")

    return call


def execute_tool(host: Host, enter: Enter) -> None:
    declare(host, enter)
    result = host.registry.execute(ToolCall("1", "work", {}, "ann"))
    if not result.success:
        assert result.error_type == "ToolUsageError"
        raise ToolUsageError(str(result.error))


def execute_journaled(host: Host, enter: Enter) -> None:
    with host.registry.run("outer"):
        execute_tool(host, enter)


def await_tool(*, waits: bool, **options: Any) -> Callable[[Host, Enter], None]:
    def call(host: Host, enter: Enter) -> None:
        declare_async(host, enter, waits=waits, **options)

        async def main() -> None:
            try:
                await host.registry.agent("ann").acall("work")
            finally:
                host.assert_unchanged()

        asyncio.run(main())

    return call


def call_async_tool(host: Host, enter: Enter) -> None:
    declare_async(host, enter, waits=True)
    host.registry.agent("ann").call("work")


def await_sync_tool(host: Host, enter: Enter) -> None:
    declare(host, enter)
    asyncio.run(host.registry.agent("ann").acall("work"))


def abandon_call(host: Host, enter: Enter) -> None:
    declare_async(host, enter, waits=True)
    coroutine = host.registry.agent("ann").acall("work", deps=1)
    host.entered.insert(0, Closing(coroutine))

    async def main() -> None:
        coroutine.send(None)
        coroutine.send(None)

    asyncio.run(main())


def ask_policy(host: Host, enter: Enter) -> None:
    def check(agent: object, tool: object, arguments: object) -> None:
        enter()

    remove = host.registry.add_policy(check)
    try:
        assert host.registry.execute(ToolCall("1", "probe", {}, "ann")).success
    except AssertionError:
        raise ToolUsageError("the policy refuses") from None
    finally:
        remove()


def notify_subscriber(host: Host, enter: Enter) -> None:
    called = list[object]()

    def subscriber(event: object) -> None:
        if not called:
            called.append(event)
            enter()

    unsubscribe = host.registry.subscribe(subscriber)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        host.registry.block("probe", "mallory")
    unsubscribe()
    if caught:
        raise ToolUsageError(str(caught[0].message))


def ask_approval(*, is_async: bool, is_awaited: bool = False) -> Callable[[Host, Enter], None]:
    def call(host: Host, enter: Enter) -> None:
        declare(host, lambda: None, requires_approval=True)

        def approve(request: object) -> Allow:
            enter()
            return Allow()

        async def approve_async(request: object) -> Allow:
            return approve(request)

        host.registry.approvals.handler = approve_async if is_async else approve
        request = ToolCall("1", "work", {}, "ann")
        result = asyncio.run(host.registry.aexecute(request)) if is_awaited else host.registry.execute(request)
        if not result.success:
            raise ToolUsageError(str(result.error))

    return call


def write_schema(host: Host, enter: Enter) -> None:
    class Strange:
        @property
        def value(self) -> int:
            return 1

        def __repr__(self) -> str:
            enter()
            return "strange"

    @host.registry.tool("work", shared=True)
    def work() -> Any:
        """Work."""
        return Strange()

    result = host.registry.execute(ToolCall("1", "work", {}, "ann"))
    with suppress(Exception):
        result.for_model()
    enter_by_agent = Agent("clerk", registry=host.registry, function=lambda: repr(Strange()))
    enter_by_agent()


KINDS: dict[str, Callable[[Host, Enter], object]] = {
    "agent": call_agent,
    "async agent": await_agent,
    "async agent in place": await_agent_in_place,
    "abandoned coroutine of an agent": abandon_coroutine_of_agent,
    "abandoned coroutine inside of an agent": abandon_own_coroutine,
    "abandoned generator": abandon_generator,
    "abandoned async generator": abandon_async_generator,
    "iterator": return_iterator,
    "tool": call_tool(),
    "tool of the pipeline": call_tool(retries=1),
    "tool in a thread": call_tool(engine="thread"),
    "tool with a timeout": call_tool(timeout=10),
    "tool that runs alone": call_tool(concurrency_safe=False),
    "executed tool": execute_tool,
    "journaled tool": execute_journaled,
    "async tool": await_tool(waits=False),
    "async tool that waits": await_tool(waits=True),
    "async tool without a deadline": await_tool(waits=True, timeout=None),
    "async tool of the pipeline": await_tool(waits=True, retries=1),
    "async tool from sync code": call_async_tool,
    "sync tool from async code": await_sync_tool,
    "abandoned call": abandon_call,
    "policy": ask_policy,
    "subscriber": notify_subscriber,
    "handler": ask_approval(is_async=False),
    "async handler": ask_approval(is_async=True),
    "handler from async code": ask_approval(is_async=False, is_awaited=True),
    "async handler from async code": ask_approval(is_async=True, is_awaited=True),
    "text of a value": write_schema,
}
"""Each kind of foreign code: calls what is given to it, and raises what the code raised."""
