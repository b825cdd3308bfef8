"""A tool with `concurrency_safe=False` is alone in its registry while it runs, however it was called."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from praval_tools import Outcome, Principal, ToolCall, ToolRegistry, ToolUsageError, current_agent
from praval_tools.execution import executor
from praval_tools.execution.fast_path import FastPath, make_fast_path
from praval_tools.execution.runtime import Runtime


class Meter:
    """Counts the calls inside, and remembers which ran beside a lone call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside: list[str] = []
        self.met: list[tuple[str, ...]] = []

    def enter(self, name: str) -> None:
        """Note that *name* begins."""
        with self.lock:
            self.inside.append(name)
            if any(one.startswith("lone") for one in self.inside):
                self.met.append(tuple(self.inside))

    def leave(self, name: str) -> None:
        """Note that *name* ends."""
        with self.lock:
            self.inside.remove(name)

    def together(self, *allowed: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the groups in which a lone call ran beside others, those that are *allowed* left out."""
        return [one for one in self.met if len(one) > 1 and one not in allowed]


@pytest.fixture
def meter() -> Meter:
    """A fresh meter."""
    return Meter()


@pytest.fixture
def registry(meter: Meter) -> ToolRegistry:
    """A registry with a lone and an ordinary tool, async, and two that call others at once."""
    registry = ToolRegistry()

    async def stay(name: str) -> str:
        meter.enter(name)
        try:
            for _ in range(3):
                await asyncio.sleep(0)
        finally:
            meter.leave(name)
        return name

    @registry.tool("lone", owned_by="ann", concurrency_safe=False)
    async def lone(name: str = "lone") -> str:
        """Stay alone."""
        return await stay(name)

    @registry.tool("plain", owned_by="ann")
    async def plain(name: str = "plain") -> str:
        """Stay."""
        return await stay(name)

    @registry.tool("outer", owned_by="ann")
    async def outer(calls: list[str]) -> list[Any]:
        """Make calls at once."""
        mine = current_agent()
        return await asyncio.gather(*(mine.acall(one.partition("-")[0], name=one) for one in calls))

    @registry.tool("lone_outer", owned_by="ann", concurrency_safe=False)
    async def lone_outer(calls: list[str]) -> list[Any]:
        """Make calls at once, alone."""
        mine = current_agent()
        return await asyncio.gather(*(mine.acall(one.partition("-")[0], name=one) for one in calls))

    return registry


class TestExclusiveTools:
    def test_beside_others(self, registry: ToolRegistry, meter: Meter) -> None:
        """Fifty calls at once: nobody is inside while a lone one is."""

        async def main() -> None:
            ann = registry.agent("ann")
            await asyncio.gather(*(ann.acall("lone" if at % 5 == 0 else "plain") for at in range(50)))

        asyncio.run(main())
        assert [] == meter.together()
        assert len(meter.met) == 10

    def test_two_of_one_lone_tools_making(self, registry: ToolRegistry, meter: Meter) -> None:
        """What a lone tool calls at once: the lone ones of them take turns, and meet no ordinary one."""
        asyncio.run(registry.agent("ann").acall("lone_outer", calls=["lone-1", "plain-1", "lone-2", "plain-2"]))
        assert [] == meter.together()

    def test_beside_its_siblings(self, registry: ToolRegistry, meter: Meter) -> None:
        """An ordinary tool that calls a lone and an ordinary one at once does not make them meet."""
        asyncio.run(registry.agent("ann").acall("outer", calls=["lone-1", "plain-1", "plain-2", "lone-2"]))
        assert [] == meter.together()

    def test_fan_out_beside_a_stranger(self, registry: ToolRegistry, meter: Meter) -> None:
        """Two lone calls from one tool count that tool once: a stranger inside still holds them up."""

        async def main() -> None:
            ann = registry.agent("ann")
            first = asyncio.create_task(ann.acall("plain", name="stranger"))
            await asyncio.sleep(0)
            await asyncio.gather(first, ann.acall("outer", calls=["lone-1", "lone-2"]))

        asyncio.run(main())
        assert [] == meter.together()

    def test_a_task_that_a_lone_tool_left_behind(self, registry: ToolRegistry, meter: Meter) -> None:
        """What a lone tool started and did not wait for has no privilege once it is over."""
        left: list[asyncio.Task[Any]] = []

        @registry.tool("leaving", owned_by="ann", concurrency_safe=False)
        async def leaving() -> None:
            """Leave a task behind."""
            mine = current_agent()

            async def later() -> None:
                await asyncio.sleep(0)
                await mine.acall("plain", name="left")

            left.append(asyncio.create_task(later()))

        async def main() -> None:
            ann = registry.agent("ann")
            await ann.acall("leaving")
            await asyncio.gather(*left, ann.acall("lone"), ann.acall("plain"))

        asyncio.run(main())
        assert [] == meter.together()

    def test_threads(self) -> None:
        """Sync lone tools in eight threads, some from inside of ordinary tools: one at a time."""
        registry, meter = ToolRegistry(), Meter()

        @registry.tool("lone", shared=True, concurrency_safe=False)
        def lone() -> None:
            """Be alone."""
            meter.enter("lone")
            meter.leave("lone")

        @registry.tool("calls", shared=True)
        def calls() -> None:
            """Call the lone one."""
            meter.enter("calls")
            meter.leave("calls")
            current_agent().call("lone")

        def work(name: str) -> None:
            for at in range(40):
                registry.agent(name).call("lone" if at % 3 == 0 else "calls")

        threads = [threading.Thread(target=work, args=(f"agent {at}",)) for at in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(60)
        assert [] == [one for one in threads if one.is_alive()]
        assert [] == meter.together()

    def test_from_inside_an_open_change(self, registry: ToolRegistry) -> None:
        """A lone call from inside of `change()` is refused, and the registry is open afterwards."""
        with registry.change(), pytest.raises(ToolUsageError, match="change"):
            registry.agent("ann").call("lone")
        assert "plain" == registry.agent("ann").call("plain")

    def test_a_lone_call_that_cannot_begin(self, registry: ToolRegistry) -> None:
        """A lone call in a task while another task of the thread holds `change()` open leaves nothing closed."""

        async def main() -> Any:
            ann = registry.agent("ann")
            begin = asyncio.create_task(registry.aexecute(ToolCall("1", "lone", {}, "ann")))
            with registry.change():
                await asyncio.sleep(0.01)
            await asyncio.wait([begin])
            return await ann.acall("plain")

        assert "plain" == asyncio.run(main())

    def test_of_another_registry(self, registry: ToolRegistry) -> None:
        """A lone tool of one registry that calls a lone tool of another, which calls back, ends."""
        other = ToolRegistry(name="other")

        @other.tool("far", owned_by="ann", concurrency_safe=False)
        async def far() -> str:
            """Call back."""
            return str(await registry.agent("ann").acall("plain"))

        @registry.tool("there", owned_by="ann", concurrency_safe=False)
        async def there() -> str:
            """Call the other."""
            return str(await other.agent("ann").acall("far"))

        outcome = registry.execute(ToolCall("1", "there", {}, "ann"))
        assert (Outcome.OK, "plain") == (outcome.outcome, outcome.result)

    def test_a_first_call_that_begins_beside_it(self, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
        """The first call of a tool waits for the lone call, also where that begins while the way is looked up."""
        inside, go, order = threading.Event(), threading.Event(), list[str]()

        @registry.tool("alone", owned_by="ann", concurrency_safe=False)
        def alone() -> None:
            """Stay alone until the other call has had its chance."""
            inside.set()
            go.wait()
            order.append("alone")

        @registry.tool("first", owned_by="ann")
        async def first() -> None:
            """Run."""
            order.append("first")

        tools = registry.toolset("ann")
        lone = threading.Thread(target=tools.call, args=("alone",))

        def begin_lone_and_find(runtime: Runtime, principal: Principal, name: str) -> FastPath:
            if name == "first" and not inside.is_set():
                lone.start()
                inside.wait()
            return make_fast_path(runtime, principal, name)

        monkeypatch.setattr(executor, "make_fast_path", begin_lone_and_find)

        async def work() -> None:
            other = asyncio.ensure_future(tools.acall("first"))
            for _ in range(20):
                await asyncio.sleep(0)
            go.set()
            await other

        asyncio.run(work())
        lone.join()

        assert ["alone", "first"] == order


class TestJournaled:
    def test_the_first_call_of_a_tool(self, registry: ToolRegistry) -> None:
        """A journaled call waits for the lone one that runs, also where it is the first of its tool."""
        registry.journal = "memory"
        tools, inside, go, order = registry.toolset("ann"), asyncio.Event(), asyncio.Event(), list[str]()

        @registry.tool("alone", owned_by="ann", concurrency_safe=False)
        async def alone() -> None:
            """Stay alone until the other call has had its chance."""
            inside.set()
            await go.wait()
            order.append("alone")

        @registry.tool("first", owned_by="ann")
        async def first() -> None:
            """Run."""
            order.append("first")

        async def work() -> None:
            lone = asyncio.ensure_future(tools.acall("alone"))
            await inside.wait()
            other = asyncio.ensure_future(tools.acall("first"))
            for _ in range(20):
                await asyncio.sleep(0)
            go.set()
            await asyncio.gather(lone, other)

        asyncio.run(work())

        assert ["alone", "first"] == order


@pytest.mark.parametrize("is_async", [False, True])
def test_for_which_another_call_waits(*, is_async: bool) -> None:
    """Broken promise: called in a run with one id from two tools at once, it waited until its time was over."""
    both_inside, ran = threading.Barrier(2), list[int]()
    with ToolRegistry(journal="memory", timeout=20) as registry:

        @registry.tool("lone", shared=True, concurrency_safe=False)
        def lone() -> int:
            """Run alone."""
            ran.append(1)
            return len(ran)

        @registry.tool("node", shared=True)
        def node(number: int) -> str:
            """Call it."""
            both_inside.wait(20)
            return str(current_agent().execute(ToolCall("call_0", "lone")).outcome)

        @registry.tool("anode", shared=True)
        async def anode(number: int) -> str:
            """Call it."""
            await asyncio.sleep(0)
            return str((await current_agent().aexecute(ToolCall("call_0", "lone"))).outcome)

        calls = [ToolCall(None, "anode" if is_async else "node", {"number": number}, "ann") for number in range(2)]
        with registry.run("r"):
            results = asyncio.run(registry.aexecute_batch(calls)) if is_async else registry.execute_batch(calls)
    assert ["ok", "ok"] == [result.result for result in results]
    assert [1] == ran
