"""Context managers of generators run no code of what leaves their block, and else do what those of `contextlib` do."""

# Tests of: tools/plain_managers

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

import praval_tools
from praval_tools.tools.plain_managers import plain_async_manager, plain_manager

PACKAGE = Path(praval_tools.__file__).parent
FOLDERS_WITHOUT_CODE_OF_AGENTS = (
    "cli", "integrations/mcp/client", "integrations/mcp/serving/stdio", "journal/index", "journal/storage", "schema",
    "testing", "web/server",
)  # fmt: skip
"""Where the blocks of managers of `contextlib` hold the library's own code, or start a program."""


def passes_on() -> Iterator[str]:
    """Do nothing with what is raised."""
    yield "value"


def cleans_up() -> Iterator[str]:
    """Clean up, and pass it on."""
    try:
        yield "value"
    finally:
        len("cleaned")


def swallows() -> Iterator[str]:
    """End well."""
    try:
        yield "value"
    except BaseException:
        return


def replaces() -> Iterator[str]:
    """Raise something else from it."""
    try:
        yield "value"
    except BaseException as error:
        raise KeyError("other") from error


def raises_at_the_end() -> Iterator[str]:
    """Raise where nothing else is raised."""
    yield "value"
    raise KeyError("end")


GENERATORS = [passes_on, cleans_up, swallows, replaces, raises_at_the_end]
ERRORS = [None, ValueError, StopIteration, StopAsyncIteration, RuntimeError, GeneratorExit, KeyboardInterrupt]


def make_async(generator: Callable[[], Iterator[str]]) -> Callable[[], AsyncIterator[str]]:
    """Return an async generator that does what *generator* does."""

    async def make() -> AsyncIterator[str]:
        steps: Any = generator()
        value = next(steps)
        try:
            yield value
        except BaseException as error:
            try:
                steps.throw(error)
            except StopIteration:
                return
        else:
            next(steps, None)

    return make


def describe(error: BaseException | None) -> object:
    """Return the class of an error, its texts, its cause and the functions that its traceback shows."""
    if error is None:
        return None
    frames = [frame.name for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
    return type(error), error.args, type(error.__cause__), frames


def use(make: Callable[[], Any], raised: type[BaseException] | None) -> object:
    """Return what comes out of a block that raises."""
    try:
        with make() as value:
            assert "value" == value
            if raised is not None:
                raise raised("inside")
    except BaseException as error:
        return describe(error)
    return None


async def use_async(make: Callable[[], Any], raised: type[BaseException] | None) -> object:
    """Return what comes out of an async block that raises."""
    try:
        async with make() as value:
            assert "value" == value
            if raised is not None:
                raise raised("inside")
    except BaseException as error:
        return describe(error)
    return None


class Watched(Exception):
    """An error with code of its own."""

    seen: list[str]

    def __setattr__(self, name: str, value: object) -> None:
        self.seen.append(name)

    def __bool__(self) -> bool:
        self.seen.append("bool")
        return False


class WatchedStop(Watched, StopIteration, StopAsyncIteration):
    """One that Python makes a RuntimeError of, where it leaves a generator."""


class TestManagers:
    @pytest.mark.parametrize("raised", ERRORS)
    @pytest.mark.parametrize("generator", GENERATORS)
    def test_do_what_those_of_contextlib_do(
        self, generator: Callable[[], Iterator[str]], raised: type[BaseException] | None
    ) -> None:
        """The same comes out of the block, with the same traceback."""
        expected = use(contextmanager(generator), raised)

        assert expected == use(plain_manager(generator), raised)

    @pytest.mark.parametrize("raised", ERRORS)
    @pytest.mark.parametrize("generator", GENERATORS)
    def test_do_so_in_async_code(
        self, generator: Callable[[], Iterator[str]], raised: type[BaseException] | None
    ) -> None:
        """Nor is there a difference of async ones."""
        steps = make_async(generator)
        expected = asyncio.run(use_async(asynccontextmanager(steps), raised))

        assert expected == asyncio.run(use_async(plain_async_manager(steps), raised))

    @pytest.mark.parametrize("raised", [None, ValueError])
    def test_refuse_a_generator_that_yields_twice(self, raised: type[BaseException] | None) -> None:
        """The block does not end in silence."""

        def yields_twice() -> Iterator[str]:
            try:
                yield "value"
            except ValueError:
                pass
            yield "again"

        assert RuntimeError is use(plain_manager(yields_twice), raised)[0]  # type: ignore[index]

    @pytest.mark.parametrize("kind", [Watched, WatchedStop])
    @pytest.mark.parametrize("generator", GENERATORS)
    def test_run_no_code_of_an_error(self, generator: Callable[[], Iterator[str]], kind: type[Watched]) -> None:
        """Nothing of it is set or asked."""
        kind.seen = []

        use(plain_manager(generator), kind)
        asyncio.run(use_async(plain_async_manager(make_async(generator)), kind))

        assert [] == kind.seen

    def test_are_those_of_the_package(self) -> None:
        """Modules whose blocks may hold code of agents and tools take no managers from `contextlib`."""
        found = [
            path.relative_to(PACKAGE).as_posix()
            for path in sorted(PACKAGE.rglob("*.py"))
            if "@contextmanager" in (text := path.read_text(encoding="utf-8")) or "@asynccontextmanager" in text
        ]

        assert [] == [name for name in found if not name.startswith(FOLDERS_WITHOUT_CODE_OF_AGENTS)]
