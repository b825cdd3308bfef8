"""Registries for the contract of the engines: each engine with each store, kept open for the tests of a file."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import engine_tools
import odd_tools
import pytest
from attrs import frozen
from store_rig import make_location
from worker_rig import start_worker

from praval_tools import ToolCall, ToolRegistry, ToolResult

ENGINES = ("inline", "thread", "process")
"""The engines of one machine, which need nothing."""
STORES = ("none", "memory", "sqlite", "postgres")
HOMES = (*((engine, store) for engine in ENGINES for store in STORES), ("redis", "sqlite"), ("rabbitmq", "postgres"))
"""What the contract is tested on; an engine that is the name of a broker is Celery with that broker."""

OPTIONS: dict[str, dict[str, Any]] = {
    "note_and_fail": {"retries": 2, "retry_on": [engine_tools.Own, ExceptionGroup]},
    "give_point": {"speed": "instant"},
    "needs_deps": {"engine": None},
    "fail_by_half": {"engine": None},
    "fail_by_own_class": {"engine": None},
    "catch_odd": {"timeout": 20},
}
"""Options of tools beside those that all of them have."""


@frozen
class Home:
    """A registry whose tools run on one engine, and its agent ann."""

    engine: str
    store: str
    registry: ToolRegistry
    owner: str | None = None

    @property
    def is_remote(self) -> bool:
        """Whether functions run in other processes, which are killed at a time-out."""
        return self.engine in ("process", "celery")

    @property
    def ann(self) -> Any:
        """The agent."""
        return self.registry.agent("ann")

    def declare(self, name: str, function: Callable[..., Any], **options: Any) -> None:
        """Declare a tool anew; a worker has those of `worker_app`."""
        options = {"shared": True, "owned_by": self.owner, "engine": self.engine, "replace": True, **options}
        self.registry.tool(name, **options)(function)

    def execute(self, name: str, **arguments: Any) -> ToolResult:
        """Run a call of ann's from sync code."""
        return self.registry.execute(ToolCall(None, name, arguments, "ann"))

    def execute_twice(self, name: str, **arguments: Any) -> list[ToolResult]:
        """Return the result of a call, and of its replay where it is recorded."""
        if self.store == "none":
            return [self.execute(name, **arguments)]
        results = []
        for _ in range(2):
            with self.registry.run(f"of {name}"):
                results.append(self.registry.execute(ToolCall("1", name, arguments, "ann")))
        assert [False, True] == [result.replayed for result in results]
        return results

    def aexecute(self, name: str, **arguments: Any) -> ToolResult:
        """Run a call of ann's from async code."""
        return asyncio.run(self.registry.aexecute(ToolCall(None, name, arguments, "ann")))


def list_functions() -> list[Callable[..., Any]]:
    """Return the functions of the modules of tools."""
    return [
        value
        for module in (engine_tools, odd_tools)
        for value in vars(module).values()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def make_registry(engine: str, journal: object = None, owner: str | None = None, **options: Any) -> ToolRegistry:
    """Return a registry in which ann may call each function of the module of tools, on *engine*."""
    registry = ToolRegistry(journal=journal, retry_wait=0, processes=2, **options)
    for function in list_functions():
        given = {"engine": engine, "owned_by": owner, **OPTIONS.get(function.__name__, {})}
        if given["engine"] is None:
            given["engine"] = "thread" if engine in ("process", "celery") else engine
        registry.tool(function.__name__, shared=True, **given)(function)
    return registry


@contextmanager
def make_journal(store: str, folder: Path) -> Iterator[object]:
    """Yield what is passed as `journal=` for a store of this name."""
    if store == "none":
        yield None
        return
    with pytest.MonkeyPatch.context() as patch, make_location(store, folder) as where:
        if store == "postgres":
            patch.setenv("PRAVAL_TOOLS_KEY", "a key that all processes share")
        yield where


@contextmanager
def open_home(engine: str, store: str, folder: Path) -> Iterator[Home]:
    """Yield a registry of this engine with this store; of Celery, with a worker that runs its tools."""
    with make_journal(store, folder) as journal:
        if engine in ENGINES:
            with make_registry(engine, journal) as registry:
                yield Home(engine, store, registry)
            return
        with start_worker(engine, str(journal), folder) as worker:
            with make_registry("celery", journal, worker.owner, broker=worker.broker) as registry:
                yield Home("celery", store, registry, worker.owner)


@pytest.fixture(scope="module", params=HOMES, ids="-".join)
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """A registry of each engine with each store."""
    engine, store = request.param
    with open_home(engine, store, tmp_path_factory.mktemp(f"{engine}-{store}")) as home:
        yield home


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in which tools leave marks."""
    path = tmp_path / "marks"
    path.touch()
    return path
