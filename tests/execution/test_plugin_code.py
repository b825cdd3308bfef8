"""Whatever a plugin contributes runs in the plugin's name: it changes what that name owns, and nothing else."""

from __future__ import annotations

import asyncio
import sys
import warnings
from typing import Any

import attrs
import click
import pytest
from click.testing import CliRunner
from plugin_code_rig import HEAD, load
from plugin_rig import Site, host, site  # noqa: F401

from praval_tools import PluginWarning, ToolCall, ToolRegistry
from praval_tools.config.plugins import read_plugins_config
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.plugin_code import PluginObject, bind_function
from praval_tools.plugins import cli_commands
from praval_tools.registry.registry import get_runtime


class TestContributions:
    """
    Broken promise: every hook acts in the name `plugin:<distribution>`.

    The hook did; what it returned, such as a format's `export` or an engine's `submit`, ran as the operator.
    """

    def test_functions_of_a_format(self, site: Site, host: ToolRegistry) -> None:
        """Writing tools, calls and results, and reading replies; methods of the dicts that they write are not run."""
        log = load(site, host, '''
base = FORMATS["openai-chat"]
class Late(dict):
    def items(self):
        attempt("written value")
        return super().items()
def bound(name):
    def run(*args):
        attempt(name)
        return getattr(base, name)(*args)
    return run
names = ("export", "calls", "result", "results", "assistant", "user", "prepare")
@hookimpl
def praval_tools_formats():
    functions = {name: bound(name) for name in names}
    functions["export"] = lambda offer: (attempt("export"), Late(base.export(offer)))[1]
    return {"acme": attrs.evolve(base, name="acme", **functions)}
''')  # fmt: skip
        schemas = host.schemas("analyst", "acme")
        form = get_runtime(host).hooks.formats["acme"]
        result = host.execute(ToolCall("c1", "hosts_sum", {"items": [1]}, "analyst"))
        form.result(result)
        form.results([result])
        form.calls({"role": "assistant", "content": "hello"})
        form.assistant([], "hello")
        form.user("hello")

        assert schemas
        assert {"refused"} == set(log.values())
        assert {"export", "calls", "result", "results", "assistant", "user", "prepare"} == set(log)

    def test_an_engine(self, site: Site, host: ToolRegistry) -> None:
        """Taking a call, failing to, and being shut down; the call itself runs in the name of its agent."""

        @host.tool("elsewhere", owned_by="analyst", engine="acme.here")
        def elsewhere() -> int:
            """Run on an engine of a plugin."""
            return 1

        log = load(site, host, '''
class Engine:
    fails = False
    def submit(self, work):
        attempt("submit")
        if self.fails:
            raise Failure()
        work()
    @property
    def shutdown(self):
        attempt("attribute")
        return lambda: attempt("shutdown")
engine = Engine()
@hookimpl
def praval_tools_engines():
    return {"acme.here": engine}
''')  # fmt: skip
        ran = host.execute(ToolCall("c1", "elsewhere", {}, "analyst"))
        sys.modules["acme"].engine.fails = True
        failed = host.execute(ToolCall("c2", "elsewhere", {}, "analyst"))
        get_runtime(host).hooks.shut_down_engines()

        assert ("ok", "engine_lost") == (ran.outcome, failed.outcome)
        assert dict.fromkeys(("submit", "error", "attribute", "shutdown"), "refused") == log

    def test_a_journal(self, site: Site, host: ToolRegistry) -> None:
        """Opening a store, writing into it, and reading it, as far as its iterators go."""
        log = load(site, host, '''
class Store(MemoryStore):
    def append(self, items):
        attempt("append")
        return super().append(items)
    def state(self, since=0):
        attempt("state")
        return super().state(since)
    def read(self, **filters):
        attempt("read")
        for record in super().read(**filters):
            attempt("record")
            yield record
def opened(url):
    attempt("open")
    return Store()
@hookimpl
def praval_tools_journals():
    return {"acme": opened}
''')  # fmt: skip
        host.journal = "acme://somewhere"
        host.execute(ToolCall("c1", "hosts_sum", {"items": [1]}, "analyst"))
        assert host.journal is not None
        kinds = [entry.type.value for entry in host.journal.read()]

        assert ["agent_tool_call", "agent_tool_result"] == kinds
        assert dict.fromkeys(("open", "append", "state", "read", "record"), "refused") == log

    def test_a_command(self, site: Site, host: ToolRegistry) -> None:
        """Its callbacks, and those of its subcommands and options."""
        site.install("acme", HEAD + '''
@click.group("acme")
@click.option("--level", callback=lambda ctx, option, value: attempt("option"))
def group(level):
    attempt("group")
@group.command("sub")
def sub():
    attempt("sub")
@hookimpl
def praval_tools_commands(cli):
    cli.add_command(group)
''')  # fmt: skip
        commands, failures = cli_commands.load_plugin_commands((), read_plugins_config())
        cli = click.Group("cli", commands=dict(commands))
        done = CliRunner().invoke(cli, ["acme", "--level", "1", "sub"], catch_exceptions=False)

        assert ([], 0) == (failures, done.exit_code)
        assert dict.fromkeys(("option", "group", "sub"), "refused") == sys.modules["acme"].log


class TestAnswers:
    """What hooks return and raise is read in the plugin's name, too."""

    @pytest.mark.parametrize("answer", ["Text('no')", "Deny(Text('no'))", "Deny('no', Text('by'))", "Strange()"])
    def test_of_an_authorizing_hook(self, site: Site, host: ToolRegistry, answer: str) -> None:
        """A text or an object with code of its own refuses, and its code runs for nobody else."""
        log = load(site, host, f"@hookimpl\ndef praval_tools_authorize():\n    return {answer}\n")
        result = host.execute(ToolCall("c1", "hosts_sum", {"items": [1]}, "analyst"))

        assert "forbidden" == result.outcome
        assert {"refused"} >= set(log.values())

    @pytest.mark.parametrize("hook", ["authorize", "before_call", "after_call", "register_tools"])
    @pytest.mark.parametrize("body", ["raise Failure()", "return Strange()"])
    def test_failures(self, site: Site, host: ToolRegistry, hook: str, body: str) -> None:
        """The text of an exception, and that of an answer that is none, are code of the plugin."""
        log = load(site, host, f"@hookimpl\ndef praval_tools_{hook}():\n    {body}\n")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PluginWarning)
            host.execute(ToolCall("c1", "hosts_sum", {"items": [1]}, "analyst"))

        assert log or "Strange" in body
        assert {"refused"} >= set(log.values())


class TestParameters:
    """The classes of a tool's parameters are the tool's code: they are read in the name of whoever calls it."""

    def test_explaining_a_call(self) -> None:
        """Broken promise: `explain` changes nothing. Converters of a plugin's tool ran as the operator in it."""
        registry, actors = ToolRegistry(), list[str]()

        @attrs.define
        class Amount:
            value: int = attrs.field(converter=lambda value: (actors.append(resolve_actor(None, "attempt")), value)[1])

        def pay(amount: Any) -> int:
            """Pay."""
            return int(amount.value)

        pay.__annotations__["amount"] = Amount
        registry.tool("pay", owned_by="ann")(pay)

        assert registry.explain("ann", "pay", {"amount": {"value": 1}}).allowed
        assert {"ann"} == set(actors)


class TestSeam:
    def test_what_runs_later(self) -> None:
        """Iterators and coroutines that a function returns run in its name; whoever uses them does not."""

        def count() -> object:
            yield resolve_actor(None, "attempt")

        async def wait() -> str:
            return resolve_actor(None, "attempt")

        actors: list[object] = []
        for actor in bind_function(count, "plugin:acme")():  # type: ignore[attr-defined]
            actors += [actor, resolve_actor(None, "attempt")]

        assert ["plugin:acme", "operator"] == actors
        assert "plugin:acme" == asyncio.run(bind_function(wait, "plugin:acme")())

    def test_context_managers(self) -> None:
        """An object is entered and left in its plugin's name."""
        log: list[str] = []

        class Lease:
            def __enter__(self) -> None:
                log.append(resolve_actor(None, "attempt"))

            def __exit__(self, *_: object) -> None:
                log.append(resolve_actor(None, "attempt"))

        with PluginObject(Lease(), "plugin:acme"):
            log.append(resolve_actor(None, "attempt"))

        assert ["plugin:acme", "operator", "plugin:acme"] == log
