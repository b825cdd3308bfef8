"""An agent's function: who is running inside of it, generators, and the toolset that it asks for."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import wraps
from itertools import chain, starmap
from typing import Any

import pytest
from agent_tool_programs import REGISTRY, add, later, me, stock  # noqa: F401

import praval_tools
from praval_tools import Agent, ToolRegistry, Toolset, agent, current_agent, errors, tool

ToolsOfMine = Toolset


class TestWhoIsRunning:
    def test_in_a_function(self, tool_registry: ToolRegistry) -> None:
        """
        Sync and async functions run as their agent, the latter behind a plain wrapper too, and nobody does afterwards.
        """

        async def later() -> str | None:
            await asyncio.sleep(0)
            return me()

        async def main() -> list[str | None]:
            return [await agent("two")(later)(), await agent("three")(wraps(later)(lambda: later()))(), me()]

        assert ["one", None] == [agent("one")(me)(), me()]
        assert ["two", "three", None] == asyncio.run(main())
        with pytest.raises(KeyError):
            agent("four")(lambda: {}[0])()
        with pytest.raises(errors.ToolUsageError, match="No agent is running"):
            current_agent()

    def test_in_a_tools_body(self, tool_registry: ToolRegistry) -> None:
        """
        A tool's body runs as the agent that called, also in the pipeline, async, and in another agent's function.
        """

        async def who_later() -> str | None:
            await asyncio.sleep(0)
            return me()

        for name, function, engine in (("who", me, None), ("long", me, "thread"), ("later", who_later, None)):
            tool(name, shared=True, description="Who.", engine=engine)(function)
        ann = Agent("ann")
        inside = agent("bob")(lambda: [ann.call("who"), me(), current_agent().call("who")])

        assert ["ann"] * 4 == [asyncio.run(ann.acall("later")), *(ann.call(name) for name in ("who", "long", "later"))]
        assert ["ann", "bob", "bob"] == inside()


@agent("steps", registry=REGISTRY)
def steps(log: list[Any]) -> Generator[Any, Any, str]:
    """Tell of each step who runs, and take what is sent and thrown."""
    try:
        while True:
            try:
                log.append((me(), (yield me())))
            except LookupError as error:
                log.append((me(), str(error)))
                if str(error) == "end":
                    return f"ended by {me()}"
    finally:
        log.append((me(), "closed"))


@agent("asteps", registry=REGISTRY)
async def asteps(log: list[Any]) -> AsyncGenerator[Any, Any]:
    """Do the same with awaits between."""
    try:
        while True:
            await asyncio.sleep(0)
            try:
                log.append((me(), (yield me())))
            except LookupError as error:
                log.append((me(), str(error)))
    finally:
        log.append((me(), "closed"))


class TestGenerators:
    def test_send_throw_and_return(self) -> None:
        """
        `send`, `throw` and the return value pass through; each step is the agent's, what is between is not.
        """
        log: list[Any] = []
        run = steps(log)

        seen = [next(run), me(), run.send(1), me(), run.throw(LookupError("oh")), me()]
        with pytest.raises(StopIteration) as end:
            run.throw(LookupError("end"))

        assert (["steps", None] * 3, "ended by steps") == (seen, end.value.value)
        assert [("steps", 1), ("steps", "oh"), ("steps", "end"), ("steps", "closed")] == log

    def test_an_uncaught_exception_thrown_in(self) -> None:
        """
        What the function does not catch comes back out, after its `finally` ran as the agent.
        """
        log: list[Any] = []
        run = steps(log)
        next(run)
        with pytest.raises(KeyboardInterrupt):
            run.throw(KeyboardInterrupt())

        assert [("steps", "closed")] == log

    def test_close(self) -> None:
        """
        `close` ends the function as its agent, and one that was never begun runs nothing.
        """
        log: list[Any] = []
        run = steps(log)
        next(run)
        _ = [one.close() for one in (run, steps(log), run)]

        assert ([("steps", "closed")], []) == (log, list(run))

    def test_async_send_throw_and_close(self) -> None:
        """
        `asend`, `athrow` and `aclose` pass through; each step is the agent's, what is between is not.
        """
        log: list[Any] = []

        async def main() -> list[Any]:
            run = asteps(log)
            seen = [await anext(run), me(), await run.asend(1), me(), await run.athrow(LookupError("oh")), me()]
            await run.aclose()
            return [*seen, *[one async for one in run]]

        assert ["asteps", None] * 3 == asyncio.run(main())
        assert [("asteps", 1), ("asteps", "oh"), ("asteps", "closed")] == log


class TestFunction:
    def test_none(self, tool_registry: ToolRegistry) -> None:
        """
        An agent without a function cannot be called, and says what to use.
        """
        with pytest.raises(errors.ToolUsageError, match="'ann' has no function to run; use its call, exec"):
            Agent("ann")()

    def test_a_toolset_parameter_is_injected(self, tool_registry: ToolRegistry) -> None:
        """
        A parameter typed `Toolset` gets the agent's own tools, unless the caller gives another.
        """
        stock(tool_registry)

        @agent("ann")
        def ann(question: str, tools: Toolset) -> tuple[str, Toolset]:
            return question, tools

        other = tool_registry.toolset("bob")

        assert [("?", ann.tools), ("?", other)] == [ann("?"), ann("?", tools=other)]
        assert ["add", "later"] == list(ann("?")[1])

    def test_a_toolset_parameter_in_another_spelling(self, tool_registry: ToolRegistry) -> None:
        """
        The type counts, not how the module imports it.
        """

        @agent("ann")
        def ann(one: praval_tools.registry.toolset.Toolset, two: ToolsOfMine) -> list[Toolset]:
            return [one, two]

        assert [ann.tools, ann.tools] == ann()

    def test_a_toolset_parameter_given_by_position(self, tool_registry: ToolRegistry) -> None:
        """
        A toolset that the caller passes by position is used, as one by keyword.
        """

        @agent("ann")
        def ann(question: str, tools: Toolset) -> Toolset:
            return tools

        other = tool_registry.toolset("bob")

        assert other is ann("?", other)


class _Lazy:
    """Attacks when it is awaited or read."""

    def __init__(self, attack: Any) -> None:
        self.attack = attack

    def __await__(self) -> Any:
        self.attack()
        return iter(())

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> int:
        self.attack()
        raise StopAsyncIteration


def _make_works(look: Callable[[], object]) -> dict[str, Callable[[], Any]]:
    """Return functions that make work of each kind, each step of which looks who runs."""

    async def wait() -> None:
        look()

    def iterate() -> Iterator[None]:
        look()
        yield
        look()

    async def stream() -> AsyncIterator[None]:
        look()
        yield
        look()

    return {
        "coroutine": wait, "generator": iterate, "async generator": stream, "map": lambda: starmap(look, [()]),
        "manager": contextmanager(iterate), "async manager": asynccontextmanager(stream),
    }  # fmt: skip


def _make_givers(make: Callable[[], Any]) -> dict[str, Callable[[], Any]]:
    """Return functions of agents that give away what *make* makes, in each way in which that comes late."""

    async def give_async() -> Any:
        return make()

    async def give_twice() -> Any:
        return give_async()

    def give_one() -> Iterator[Any]:
        yield make()

    async def stream_one() -> AsyncIterator[Any]:
        yield make()

    def give_at_end() -> Generator[None, None, Any]:
        yield
        return make()

    def give_task() -> Any:
        return asyncio.get_running_loop().create_task(give_async())

    def give_future() -> Any:
        future = asyncio.get_running_loop().create_future()
        future.set_result(make())
        return future

    class Job:
        """Something to wait for, which has its work as an attribute."""

        @property
        def work(self) -> Any:
            return make()

        def __await__(self) -> Any:
            return give_async().__await__()

    return {
        "async": give_async, "async twice": give_twice, "generator": give_one, "async generator": stream_one,
        "returned": give_at_end, "task": give_task, "future": give_future, "attribute": Job, "job": Job,
    }  # fmt: skip


async def _take_work(given: Any, way: str) -> Any:
    """Return the work that the function of an agent gives away."""
    if way == "generator":
        return next(given)
    if way == "async generator":
        return await anext(given)
    if way == "returned":
        next(given)
        with pytest.raises(StopIteration) as end:
            next(given)
        return end.value.value
    if way == "attribute":
        return given.work
    work = await given
    return await work if way == "async twice" else work


async def _use_work(work: Any, kind: str) -> None:
    """Do the work to its end."""
    if kind == "coroutine":
        await work
    elif kind == "async generator":
        [None async for _ in work]
    elif kind == "manager":
        with work:
            pass
    elif kind == "async manager":
        async with work:
            pass
    else:
        list(work)


class TestWhatRunsLater:
    @pytest.mark.parametrize("kind", ["map", "chain", "await", "async for", "method"])
    def test_runs_as_the_agent(self, tool_registry: ToolRegistry, kind: str) -> None:
        """Iterators, awaitables and async iterators that a function returns run as the agent, never as the operator."""
        mal = Agent("mal", registry=tool_registry, function=lambda: returned)
        running: list[Any] = []

        def look(*_: object) -> list[object]:
            running.append(current_agent())
            return []

        async def use(value: Any) -> None:
            if kind == "await":
                await value
            elif kind == "async for":
                assert [] == [item async for item in value]
            elif kind == "method":
                value.attack()
            else:
                assert [[], []] == list(value) if kind == "map" else not list(value)

        sources: dict[str, Any] = {
            "map": lambda: map(look, [1, 2]), "chain": lambda: chain.from_iterable(map(look, [1, 2])),
        }  # fmt: skip
        returned = sources.get(kind, lambda: _Lazy(look))()
        asyncio.run(use(mal()))

        assert running and {"mal"} == {getattr(agent, "name", agent) for agent in running}

    @pytest.mark.parametrize(
        "given",
        ["async", "generator", "async generator", "returned", "async twice", "task", "future", "attribute", "job"],
    )
    @pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator", "map", "manager", "async manager"])
    def test_that_comes_late_runs_as_the_agent(self, tool_registry: ToolRegistry, given: str, kind: str) -> None:
        """
        Broken promise: work of an agent that waits goes on as the agent's, in whatever context that is.

        What its function returned at once did; what came out of an `await`, or of a generator, was the operator's.
        """
        running: list[object] = []
        make = _make_works(lambda: running.append(getattr(current_agent(), "name", None)))[kind]
        mal = Agent("mal", registry=tool_registry, function=_make_givers(make)[given])

        async def use() -> None:
            await _use_work(await _take_work(mal(), given), kind)

        asyncio.run(use())

        assert running and {"mal"} == set(running)

    @pytest.mark.parametrize(
        "pack",
        [
            lambda work: [work], lambda work: (1, work), lambda work: {"work": work}, lambda work: {work: 1},
            lambda work: {work}, lambda work: {"all": [({"work": work},)]},
        ],
        ids=["list", "tuple", "dict", "key", "set", "nested"],
    )  # fmt: skip
    @pytest.mark.parametrize("given", ["at once", "async", "generator"])
    @pytest.mark.parametrize("kind", ["coroutine", "generator", "async generator", "map", "manager", "async manager"])
    def test_that_comes_in_containers_runs_as_the_agent(
        self, tool_registry: ToolRegistry, given: str, kind: str, pack: Callable[[Any], Any]
    ) -> None:
        """
        Broken promise: work of an agent that waits goes on as the agent's, in whatever context that is.

        Coroutines in a list, as for `asyncio.gather(*jobs)`, and work in tuples, dicts and sets were the operator's.
        """
        running: list[object] = []
        make = _make_works(lambda: running.append(getattr(current_agent(), "name", None)))[kind]

        def make_packed() -> Any:
            return pack(make())

        function = make_packed if given == "at once" else _make_givers(make_packed)[given]
        mal = Agent("mal", registry=tool_registry, function=function)

        async def use() -> None:
            packed = mal() if given == "at once" else await _take_work(mal(), given)
            while isinstance(packed, list | tuple | dict | set):
                items = [item for pair in packed.items() for item in pair] if isinstance(packed, dict) else packed
                packed = next(item for item in items if not isinstance(item, str | int))
            await _use_work(packed, kind)

        asyncio.run(use())

        assert running and {"mal"} == set(running)

    def test_containers_keep_their_shape(self, tool_registry: ToolRegistry) -> None:
        """Values without work are themselves, however deep; with work, what is in there twice still is, also a loop."""
        deep: list[Any] = []
        for _ in range(5_000):
            deep = [deep]
        for value in (deep, [object()], {"a": (1, {2})}):
            assert Agent(f"a{id(value)}", registry=tool_registry, function=lambda value=value: value)() is value
        work, looped = iter([1]), list[Any]()
        looped += [looped, work, work]

        kept = Agent("b", registry=tool_registry, function=lambda: looped)()

        assert kept[0] is kept and kept[1] is kept[2] is not work and [1] == list(kept[1])

    def test_what_it_is_stays(self, tool_registry: ToolRegistry) -> None:
        """An iterator does not become awaitable by that, keeps its attributes, and a complete value is itself."""
        items, value = [1], iter([1, 2])
        assert Agent("a", registry=tool_registry, function=lambda: items)() is items
        kept = Agent("b", registry=tool_registry, function=lambda: value)()
        assert not isinstance(kept, Awaitable) and 2 == kept.__length_hint__() and [1, 2] == list(kept)


class TestContextManagers:
    @pytest.mark.parametrize("error", [None, KeyError("handled"), ValueError("not handled")], ids=repr)
    @pytest.mark.parametrize("use", ["with", "decorator"])
    def test_run_as_the_agent(self, tool_registry: ToolRegistry, use: str, error: Exception | None) -> None:
        """What a `contextmanager` function does around the block is done by its agent, the block by the host."""
        running: list[str | None] = []

        @contextmanager
        def visit() -> Iterator[str]:
            running.append(me())
            with suppress(KeyError):
                yield "in"
            running.append(me())

        def do() -> None:
            running.append(me())
            if error is not None:
                raise error

        make: Any = Agent("mal", registry=tool_registry, function=visit)
        decorated: Any = make()(do) if use == "decorator" else None
        for _ in range(2):
            running.clear()
            with pytest.raises(ValueError, match="not") if isinstance(error, ValueError) else suppress():
                if use == "decorator":
                    decorated()
                else:
                    with make() as value:
                        assert "in" == value
                        do()
            assert ["mal", None, "mal"][: 2 if isinstance(error, ValueError) else 3] == running

    def test_run_as_the_agent_in_async_code(self, tool_registry: ToolRegistry) -> None:
        """So do those of async functions, with the error that left the block."""
        running: list[object] = []

        @asynccontextmanager
        async def visit() -> AsyncIterator[None]:
            await asyncio.sleep(0)
            running.append(me())
            try:
                yield
            except KeyError as error:
                running.extend([me(), repr(error)])

        make: Any = Agent("mal", registry=tool_registry, function=visit)

        async def main() -> None:
            async with make():
                running.append(me())
                raise KeyError("x")

        asyncio.run(main())
        assert ["mal", None, "mal", "KeyError('x')"] == running


def test_a_plain_function_that_returns_work_leaves_nothing_that_warns(recwarn: pytest.WarningsRecorder) -> None:
    """Whatever kind of work it returns, or where it raises, no coroutine is left that was never awaited."""

    async def wait() -> int:
        return 1

    async def produce() -> AsyncIterator[int]:
        yield 1

    def fail() -> None:
        raise ValueError

    registry = ToolRegistry()
    functions: tuple[Any, ...] = (lambda: (item for item in (1, 2)), produce, lambda: produce(), lambda: 3)
    made = [Agent(f"a{place}", registry=registry, function=function) for place, function in enumerate(functions)]
    for place in (1, 2):
        made[place]()
    assert [1, 2] == list(made[0]())  # type: ignore[call-overload]
    assert 1 == asyncio.run(Agent("waiter", registry=registry, function=lambda: wait())())  # type: ignore[arg-type]
    assert 3 == made[3]()
    del made
    with pytest.raises(ValueError):
        Agent("failing", registry=registry, function=fail)()
    gc.collect()
    assert [] == [str(warning.message) for warning in recwarn.list]
