"""What an agent's function returns is wrapped, goes on and ends as the agent's, whatever code of its classes runs."""

# Tests of: registry/agent_work

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from praval_tools import NotOwnerError, ToolRegistry, Toolset, agent

Look = Callable[[], None]
Numbers = Generator[int, None, None]


@pytest.fixture(autouse=True)
def few_objects() -> Iterator[None]:
    """Have the garbage collector look at the objects of the test alone, which takes no time."""
    gc.freeze()
    yield
    gc.unfreeze()


class Running:
    """A registry with a tool of a bank, and what came of each try of an agent's code to share it."""

    def __init__(self) -> None:
        self.registry, self.outcomes = ToolRegistry(), list[type[Exception] | None]()
        self.registry.tool("pay", owned_by="bank", description="Pay.")(lambda: "paid")

    def look(self) -> None:
        """Try to share the tool, as only the operator may."""
        try:
            self.registry.share_tool("pay")
        except NotOwnerError as error:
            self.outcomes.append(type(error))
        else:
            self.outcomes.append(None)

    def check(self) -> None:
        """Check that something was tried, and never as the operator."""
        assert {NotOwnerError} == set(self.outcomes)


@pytest.fixture
def running() -> Running:
    """Return one in which nothing has run."""
    return Running()


def make_key(look: Look, base: type = object) -> Any:
    """Return something that looks who runs where it is hashed or compared."""

    class Key(base):  # type: ignore[misc]
        def __hash__(self) -> int:
            look()
            return 1

        def __eq__(self, other: object) -> bool:
            look()
            return self is other

    return Key()


def count() -> Numbers:
    """Count."""
    yield from range(3)


class Loop:
    """A loop of the agent's, as far as a future asks it for something."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def get_debug(self) -> bool:
        """Say no."""
        return False

    def create_task(self, work: Any) -> int:
        """Look who runs."""
        self._look()
        work.close()
        return 1

    def create_future(self) -> Any:
        """Look who runs."""
        self._look()
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def call_soon(self, *_: object, **__: object) -> None:
        """Look who runs."""
        self._look()

    def call_exception_handler(self, context: object) -> None:
        """Look who runs."""
        self._look()


def make_done_future(look: Look) -> Any:
    """Return a future whose loop is asked for the next step."""
    future = asyncio.Future[Numbers](loop=Loop(look))  # type: ignore[arg-type]
    future.set_result(count())
    return future


def make_failed_future(look: Look) -> Any:
    """Return a future whose error nobody asks for, which it tells its loop."""
    future = asyncio.Future[int](loop=Loop(look))  # type: ignore[arg-type]
    future.set_exception(ValueError())
    return future


def make_manager(look: Look) -> Any:
    """Return a manager of a class of the agent's."""

    class Manager(contextlib._GeneratorContextManager):  # type: ignore[type-arg]
        @property
        def __dict__(self) -> dict[str, object]:  # type: ignore[override]
            look()
            return {"gen": count(), "func": count}

        def __enter__(self) -> int:
            look()
            return 1

        def __exit__(self, *error: object) -> None:
            look()

        def __getattribute__(self, name: str) -> Any:
            look()
            return super().__getattribute__(name)

    return Manager(count, (), {})  # type: ignore[arg-type]


def make_filled_manager(look: Look) -> Any:
    """Return a manager of the library's class, with fields of the agent's."""

    class Fields(dict[str, Any]):
        def __getitem__(self, key: str) -> Any:
            look()
            return super().__getitem__(key)

        def update(self, *args: object, **keywords: object) -> None:
            look()

    def visit() -> Iterator[int]:
        look()
        yield 1
        look()

    manager = contextmanager(visit)()
    manager.__dict__ = Fields(manager.__dict__)
    return manager


def make_iterator(look: Look) -> Any:
    """Return an iterator with methods that look who runs, and a text of a class of the agent's."""

    class Text(str):
        def __str__(self) -> str:
            look()
            return "text"

    class Items:
        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            look()
            return 1

        def __anext__(self) -> Any:
            look()
            raise StopAsyncIteration

        def __aiter__(self) -> Any:
            return self

        def __repr__(self) -> str:
            look()
            return Text("x")

        def __enter__(self) -> int:
            return 1

        def __exit__(self, *error: object) -> None:
            pass

        def __getattribute__(self, name: str) -> Any:
            look()
            return super().__getattribute__(name)

    return Items()


def use_with(value: Any) -> None:
    """Enter and leave it."""
    with value:
        pass


def use_async(value: Any) -> None:
    """Take all items."""

    async def run() -> None:
        assert [] == [item async for item in value]

    asyncio.run(run())


Use = Callable[[Any], object]

VALUES: dict[str, tuple[Callable[[Look], Any], Use]] = {
    "key": (lambda look: {make_key(look): 1}, id),
    "equal keys": (lambda look: {make_key(look): 1, make_key(look): count()}, id),
    "number as a key": (lambda look: {make_key(look, int): count()}, id),
    "text as a key": (lambda look: {make_key(look, str): count()}, id),
    "item of a set": (lambda look: {make_key(look)}, id),
    "item of a frozen set": (lambda look: [frozenset([make_key(look)])], id),
    "waiting future": (
        lambda look: asyncio.Future(loop=Loop(look)),
        lambda value: value.add_done_callback(print) or value.cancel(),
    ),
    "done future": (make_done_future, lambda value: value.add_done_callback(print)),
    "failed future": (make_failed_future, id),
    "manager": (make_manager, use_with),
    "fields of a manager": (make_filled_manager, use_with),
    "text of an iterator": (make_iterator, repr),
    "block of an iterator": (make_iterator, use_with),
    "async iterator": (make_iterator, use_async),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("given", ["at once", "in a list", "generator"])
def test_code_of_what_is_returned_has_no_rights_of_others(running: Running, kind: str, given: str) -> None:
    """
    Broken promise: what an agent's function gives runs as the agent.

    Keys and items were hashed, and managers and futures asked, by whoever called the agent.
    """
    make, use = VALUES[kind]

    def give_one() -> Iterator[Any]:
        yield make(running.look)

    functions = {
        "at once": lambda: make(running.look), "in a list": lambda: [make(running.look)], "generator": give_one,
    }  # fmt: skip
    value: Any = agent("clerk", registry=running.registry)(functions[given])()
    if given != "at once":
        value = value[0] if given == "in a list" else next(value)
    use(value)
    del value
    gc.collect()
    running.check()


class Pause:
    """Waits once."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Works:
    """Makes work of each kind that an agent can give."""

    def __init__(self, look: Look) -> None:
        self._look = look

    def generator(self) -> Numbers:
        """Count, and look who runs at the end."""
        try:
            yield from range(5)
        finally:
            self._look()

    def begun(self) -> Numbers:
        """Return a generator that has begun."""
        next(work := self.generator())
        return work

    async def coroutine(self) -> None:
        """Wait twice, and look who runs at the end."""
        try:
            await Pause()
            await Pause()
        finally:
            self._look()

    def begun_coroutine(self) -> Any:
        """Return a coroutine that has begun."""
        (work := self.coroutine()).send(None)
        return work

    def manager(self) -> Any:
        """Return a context manager whose end looks who runs."""
        return contextmanager(self.generator)()

    def mapped(self) -> Any:
        """Return an iterator over a generator."""
        return map(str, self.generator())


def leave(value: Any) -> None:
    """Do nothing with it."""


KINDS: dict[str, Use] = {
    "generator": next,
    "begun": leave,
    "coroutine": lambda work: work.send(None),
    "begun_coroutine": leave,
    "manager": lambda work: work.__enter__(),
    "mapped": next,
}


def await_at_once(work: Any) -> Any:
    """Return the value of a coroutine that does not wait."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value


GIVEN: dict[str, tuple[Callable[[Callable[[], Any]], Callable[[], Any]], Use]] = {
    "itself": (lambda make: make, lambda value: value),
    "list": (lambda make: lambda: [make()], lambda value: value[0]),
    "tuple": (lambda make: lambda: (make(),), lambda value: value[0]),
    "dict": (lambda make: lambda: {0: make()}, lambda value: value[0]),
    "yielded": (lambda make: yield_of(make), next),
    "yielded list": (lambda make: yield_of(lambda: [make()]), lambda value: next(value)[0]),
    "awaited": (lambda make: await_of(make), await_at_once),
    "awaited list": (lambda make: await_of(lambda: [make()]), lambda value: await_at_once(value)[0]),
}


def yield_of(make: Callable[[], Any]) -> Callable[[], Iterator[Any]]:
    """Return a generator function that yields one."""

    def give() -> Iterator[Any]:
        yield make()

    return give


def await_of(make: Callable[[], Any]) -> Callable[[], Any]:
    """Return a coroutine function that returns one."""

    async def give() -> Any:
        return make()

    return give


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # since the host left it
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", GIVEN)
class TestWorkThatIsLeft:
    def test_ends_as_the_agents_where_it_is_dropped(self, running: Running, kind: str, given: str) -> None:
        """Broken promise: work that a host leaves, begun or not, ends as the agent's, also where it was in a list."""
        begin, (function, take) = KINDS[kind], GIVEN[given]
        made: Any = agent("clerk", registry=running.registry)(function(getattr(Works(running.look), kind)))()
        begin(take(made))
        del made
        running.check()

    @pytest.mark.parametrize("survived", [0, 1])
    def test_ends_as_the_agents_where_it_is_collected(
        self, running: Running, kind: str, given: str, survived: int
    ) -> None:
        """So it does where the garbage collector finds it together with what drives it, however old they are."""
        begin, (function, take) = KINDS[kind], GIVEN[given]
        made: Any = agent("clerk", registry=running.registry)(function(getattr(Works(running.look), kind)))()
        loop: list[Any] = [made, taken := take(made)]
        loop.append(loop)
        begin(taken)
        del made, taken
        for _ in range(survived):
            gc.collect()
        assert [] == running.outcomes
        del loop
        gc.collect()
        running.check()


def test_work_that_the_agent_keeps_goes_on_where_the_host_leaves_it(running: Running) -> None:
    """What a host never began is not ended by that."""
    work = Works(running.look).begun()

    agent("clerk", registry=running.registry)(lambda: work)()

    assert (1, []) == (next(work), running.outcomes)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_fails_as_it_ends_does_not_keep_others_open(running: Running) -> None:
    """Each piece of work that is collected ends as the agent's, whatever another raises."""

    def fail() -> Numbers:
        try:
            yield 1
        finally:
            raise ValueError

    works = Works(running.look)
    loop: list[Any] = agent("clerk", registry=running.registry)(
        lambda: [works.generator(), fail(), works.generator()]
    )()  # type: ignore[assignment]
    loop.append(loop)
    for work in loop[:3]:
        next(work)
    del work, loop
    gc.collect()
    assert [NotOwnerError] * 2 == running.outcomes


def test_what_was_in_a_list_is_an_async_generator_of_the_agents(running: Running) -> None:
    """An async generator that the host leaves is ended by its loop, as the agent's."""

    async def produce() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            running.look()

    async def main() -> None:
        given: Any = agent("clerk", registry=running.registry)(lambda: [produce()])()
        await anext(given[0])
        del given
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    asyncio.run(main())
    running.check()


def test_a_context_manager_keeps_its_docstring() -> None:
    """It is that of its function, as `contextmanager` makes it."""

    @agent("mal", registry=ToolRegistry())
    @contextmanager
    def visit() -> Iterator[None]:
        """Visit."""
        yield

    made: Any = visit()
    assert made.__doc__ == "Visit."


def test_a_value_that_the_host_passes_to_a_function() -> None:
    """Broken promise: what was passed where a toolset may be was asked for its class, as the operator."""
    running = Running()

    class Odd:
        @property
        def __class__(self) -> type:
            running.look()
            return Odd

        @__class__.setter
        def __class__(self, kind: type) -> None: ...

    @agent("ann", registry=running.registry)
    def ask(tools: Toolset, question: object) -> str:
        """Ask."""
        running.look()
        return tools.agent

    made: Any = ask
    assert made(Odd()) == "ann"
    running.check()
