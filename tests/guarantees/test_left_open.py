"""Runs, registries and changes that foreign code enters and never leaves end with it."""

# Tests of: tools/context_settings, tools/frames, access/change_block

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
from foreign_code import KINDS, Host, Pause
from plugin_rig import Site, site  # noqa: F401

from praval_tools import (
    AccessWarning,
    Agent,
    ToolCall,
    ToolUsageError,
    current_call,
    get_tool_registry,
    load_plugins,
    use_registry,
)


@pytest.fixture
def host() -> Iterator[Host]:
    """A program, and a tool of the clerk's that nobody else may call."""
    made = Host()

    @made.registry.tool("private", owned_by="clerk")
    def private() -> int:
        """Count."""
        return 1

    yield made
    for entered in made.entered:
        with suppress(RuntimeError, ToolUsageError):
            entered.__exit__(None, None, None)
    made.assert_unchanged()


@pytest.mark.parametrize("kind", KINDS)
class TestForeignCode:
    @pytest.mark.parametrize("entered", ["run", "registry"])
    def test_context_is_that_of_before(self, host: Host, kind: str, entered: str) -> None:
        """The host's calls do not land in the run, nor its declarations in the registry, that others entered."""
        KINDS[kind](host, lambda: host.enter(entered))
        host.assert_unchanged()

    @pytest.mark.parametrize("entered", ["change", "change of another registry"])
    def test_changes_are_undone(self, host: Host, kind: str, entered: str) -> None:
        """A change that was left open is undone, its lock is free, and the error names whose it was."""

        with pytest.raises((ToolUsageError, RuntimeError), match=r"change\(\)|refuses") as caught:
            KINDS[kind](host, lambda: host.enter(entered))
        host.assert_unchanged()
        if isinstance(caught.value, ToolUsageError) and caught.value.code == "change-left-open":
            assert any(name in str(caught.value) for name in ("clerk", "ann", "operator"))


class TestOwnSettings:
    def test_a_generator_keeps_what_it_entered(self, host: Host) -> None:
        """Between its steps the host has its own registry and no run; in them the generator has what it entered."""
        seen = list[object]()

        def work() -> Iterator[int]:
            with use_registry(host.other), host.registry.run("steps"):
                yield 1
                seen.extend([get_tool_registry(), host.registry.agent("clerk").execute(ToolCall("1", "probe")).run_id])
                yield 2
            seen.append(get_tool_registry())

        for _ in Agent("clerk", registry=host.registry, function=work)():  # type: ignore[attr-defined]
            host.assert_unchanged()
        assert [host.other, "steps"] == seen[:2]
        assert host.other is not seen[2]

    def test_an_async_generator_keeps_what_it_entered(self, host: Host) -> None:
        """So does an async generator."""
        seen = list[object]()

        async def work() -> AsyncIterator[int]:
            with use_registry(host.other):
                async with host.registry.run("steps"):
                    await Pause()
                    yield 1
                    await Pause()
                    result = await host.registry.agent("clerk").aexecute(ToolCall("1", "probe"))
                    seen.extend([get_tool_registry(), result.run_id])
                    yield 2
            seen.append(get_tool_registry())

        async def main() -> None:
            async for _ in Agent("clerk", registry=host.registry, function=work)():  # type: ignore[attr-defined]
                host.assert_unchanged()

        asyncio.run(main())
        assert [host.other, "steps"] == seen[:2]
        assert host.other is not seen[2]

    def test_tasks_that_are_left_behind(self, host: Host) -> None:
        """A task of a tool's goes on with the registry that the tool had entered around it."""

        async def main() -> None:
            tasks = list[asyncio.Task[object]]()

            async def look() -> object:
                await asyncio.sleep(0.01)
                return get_tool_registry()

            @host.registry.tool("begin", shared=True)
            async def begin() -> None:
                """Begin."""
                with use_registry(host.other):
                    tasks.append(asyncio.create_task(look()))

            await host.registry.agent("ann").acall("begin")
            assert host.other is not get_tool_registry()
            assert host.other is await tasks[0]

        asyncio.run(main())

    def test_left_in_another_order(self, host: Host) -> None:
        """What is left in another order than it was entered is left all the same."""
        named, run = use_registry(host.other), host.registry.run("outer")
        named.__enter__()
        run.__enter__()
        named.__exit__()
        assert "outer" == host.registry.execute(ToolCall("1", "probe", {}, "ann")).run_id
        run.__exit__(None)
        host.assert_unchanged()

    def test_a_call_inside_is_the_same(self, host: Host) -> None:
        """A tool that enters something is still the same call."""

        @host.registry.tool("look", shared=True)
        def look() -> bool:
            """Look."""
            with use_registry(host.other):
                inside = current_call()
            return inside == current_call() and inside is not None and inside.name == "look"

        assert host.registry.agent("ann").call("look")

    def test_what_the_host_entered(self, host: Host) -> None:
        """Foreign code has the run and the registry of its host, and cannot leave them for it."""
        with use_registry(host.other) as other, host.registry.run("hosts"):
            Agent("clerk", registry=host.registry, function=lambda: use_registry(host.registry).__enter__())()
            assert other is get_tool_registry()
            assert "hosts" == host.registry.execute(ToolCall("1", "probe", {}, "ann")).run_id


class TestChanges:
    def test_going_on_in_one_that_was_undone(self, host: Host) -> None:
        """What a generator changed where it yields inside of a change does not count; the error names its agent."""

        def work() -> Iterator[int]:
            with host.registry.change():
                host.registry.share_tool("private")
                yield 1

        items: Any = Agent("clerk", registry=host.registry, function=work)()
        with pytest.raises(ToolUsageError, match="clerk left a change") as caught:
            next(items)
        assert "change-left-open" == caught.value.code

    def test_waiting_inside_of_one(self, host: Host) -> None:
        """An agent that waits inside of a change gets an error where it waits, and may go on after the change."""
        seen = list[object]()

        async def work() -> None:
            try:
                with host.registry.change():
                    host.registry.share_tool("private")
                    await Pause()
            except ToolUsageError as error:
                seen.append(error.code)
            host.registry.assign_tool_to_agent("private", "bob")

        asyncio.run(Agent("clerk", registry=host.registry, function=work)())  # type: ignore[arg-type]
        assert ["change-left-open"] == seen
        assert host.registry.explain("bob", "private").allowed

    def test_using_one_that_was_undone(self, host: Host) -> None:
        """A block that was undone takes no more changes, and ends in an error."""
        block = host.registry.change()

        def work() -> None:
            block.__enter__()
            raise ValueError("its own")

        with pytest.warns(AccessWarning, match="clerk left a change"), pytest.raises(ValueError, match="its own"):
            Agent("clerk", registry=host.registry, function=work)()
        with pytest.raises(ToolUsageError, match="was undone"):
            block.__exit__(None, None, None)

    def test_those_of_the_host_stay_open(self, host: Host) -> None:
        """A change of the host's goes on, without what an agent left open inside of it."""
        with host.registry.change():
            host.registry.block("probe", "bob")

            def work() -> None:
                host.entered.append(host.registry.change())
                host.entered[-1].__enter__()
                host.registry.share_tool("private")

            with pytest.raises(ToolUsageError, match="clerk"):
                Agent("clerk", registry=host.registry, function=work)()
            host.registry.block("probe", "mallory")
        host.entered.pop().__exit__(ValueError, ValueError(), None)
        assert not host.registry.explain("bob", "probe").allowed
        assert not host.registry.explain("mallory", "probe").allowed


PLUGIN = """
from praval_tools import *
from praval_tools import hookimpl
import sys

@hookimpl
def praval_tools_before_call(call, tool, arguments):
    sys.enter_something()

@hookimpl
def praval_tools_after_call(call, tool, result):
    sys.enter_something()
"""


class TestPlugins:
    @pytest.mark.parametrize("entered", ["run", "registry", "change"])
    def test_hooks(self, host: Host, site: Site, monkeypatch: pytest.MonkeyPatch, entered: str) -> None:
        """A hook that leaves something open is reported, where that is a change, and no host goes on inside."""

        def enter() -> None:
            if len(host.entered) < 4:
                host.enter(entered)

        monkeypatch.setattr(sys, "enter_something", enter, raising=False)
        site.install("acme", PLUGIN)
        load_plugins(host.registry)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert host.registry.execute(ToolCall("1", "probe", {}, "ann")).success
        host.assert_unchanged()
        assert (entered == "change") == any("acme" in str(warning.message) for warning in caught)
