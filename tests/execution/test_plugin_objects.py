"""No code of what a plugin returns, raises and leaves behind runs as anybody else than the plugin."""

# Tests of: plugin_code, plugins/cli_commands

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from plugin_code_rig import HEAD, load
from plugin_rig import Site, host, loaded, site  # noqa: F401

from praval_tools import JournalError, Tool, ToolCall, ToolRegistry
from praval_tools.cli.entry import root_command, run
from praval_tools.registry.registry import get_runtime

STORE = """
import asyncio
from concurrent.futures import Future
from msgspec.structs import replace
from praval_tools.journal.storage.protocol import Answer, Record, RunInfo, StateView

class Number(int):
    def __bool__(self):
        attempt("number")
        return int(self) != 0
class Lease:
    def __init__(self, lease):
        self.lease = lease
    @property
    def run_id(self):
        attempt("lease")
        return self.lease.run_id
    def check(self):
        attempt("lease")
        self.lease.check()
    def release(self):
        attempt("lease")
        self.lease.release()
class Awaited:
    def __init__(self, value):
        self.value = value
    def __await__(self):
        attempt("awaitable")
        yield from asyncio.sleep(0).__await__()
        attempt("awaitable")
        return self.value
class Items(list):
    def __getitem__(self, index):
        attempt("list")
        return super().__getitem__(index)
    def __iter__(self):
        attempt("list")
        return super().__iter__()
class Records:
    def __init__(self, records):
        self.records = records
    def __iter__(self):
        for record in self.records:
            attempt("iterable")
            yield record
class Later(Future):
    def add_done_callback(self, callback):
        attempt("future")
        super().add_done_callback(callback)
    def result(self, timeout=None):
        attempt("future")
        return super().result(timeout)
class Failed(JournalError):
    @property
    def problem(self):
        attempt("journal error")
        return "full"
    @problem.setter
    def problem(self, value):
        pass
def derive(kind):
    def read(name):
        return property(lambda self: (attempt(kind.__name__), getattr(kind, name).__get__(self))[1])
    derived = type(kind)("Own" + kind.__name__, (kind,), {}, frozen=True)
    for name in kind.__struct_fields__:
        setattr(derived, name, read(name))
    return lambda value: derived(**{name: getattr(value, name) for name in kind.__struct_fields__})
answered, recorded, viewed, listed = map(derive, (Answer, Record, StateView, RunInfo))
fails = []
class Store(MemoryStore):
    def append(self, items):
        if fails:
            raise Failed("store", "full", "Make room.")
        return Items(map(answered, super().append(items)))
    def aappend(self, items):
        return Awaited(MemoryStore.append(self, items))
    def submit(self, items):
        later = Later()
        later.set_result(Items(super().submit(items).result()))
        return later
    def read(self, **filters):
        return Records([recorded(replace(each, seq=Number(each.seq))) for each in super().read(**filters)])
    def runs(self):
        return Items(map(listed, super().runs()))
    def state(self, since=0):
        return viewed(super().state(since))
    def revision(self):
        return Number(super().revision())
    def open_run(self, run_id):
        return Lease(super().open_run(run_id))
@hookimpl
def praval_tools_journals():
    return {"acme": lambda url: Store()}
"""
"""A journal each of whose answers is an object of its own classes."""


class TestObjects:
    """Broken promise: what a plugin returns runs in its name. Only its coroutines and iterators did."""

    @pytest.mark.parametrize("durability", ["full", "intent"])
    def test_of_a_journal(self, site: Site, durability: Any) -> None:
        """Leases, awaitables, futures, iterables, records of classes of its own, and errors."""
        site.install("host-of-plugins", "registry = None\n", points="")
        import host_of_plugins

        host = host_of_plugins.registry = ToolRegistry(durability=durability)
        host.register_tool(Tool("hosts_sum", "Add.", {"type": "object"}, lambda: 1, owned_by="analyst"))
        log = load(site, host, STORE)
        host.journal = "acme://somewhere"
        call = ToolCall(None, "hosts_sum", {}, "analyst")
        for _ in range(2):
            with host.run("R"):
                assert "ok" == host.execute(call).outcome
        assert "ok" == asyncio.run(host.aexecute(call)).outcome
        host.assign_tool_to_agent("hosts_sum", "writer")
        assert host.journal is not None
        kinds = [entry.type.value for entry in host.journal.read()]
        runs = [(run.run_id, run.calls) for run in host.journal.runs()]
        sys.modules["acme"].fails.append(True)
        with pytest.raises(JournalError, match="full") as caught:
            host.assign_tool_to_agent("hosts_sum", "reader")

        assert (JournalError, "full", "Make room.") == (type(caught.value), caught.value.problem, caught.value.fix)
        assert [("R", 1)] == runs
        assert ["agent_tool_call", "agent_tool_result"] * 2 + ["tool_assigned"] == kinds
        assert {"lease", "list", "iterable", "journal error", "awaitable"} <= set(log)
        assert {"refused"} == set(log.values())

    def test_of_a_format(self, site: Site, host: ToolRegistry) -> None:
        """The tests in its rules, and the calls that it reads."""
        log = load(site, host, '''
base = FORMATS["openai-chat"]
class Call(ToolCall, frozen=True):
    @property
    def arguments(self):
        attempt("call")
        return "{}"
class Calls(list):
    def __iter__(self):
        attempt("calls")
        return super().__iter__()
def narrow(value):
    attempt("rule")
    return True
rules = attrs.evolve(base.rules, keywords={**base.rules.keywords, "minLength": narrow})
@hookimpl
def praval_tools_formats():
    return {"acme": attrs.evolve(base, name="acme", rules=rules, calls=lambda reply: Calls([Call("1", Text("plain"))]))}
''')  # fmt: skip

        schema = {
            "type": "object", "properties": {"text": {"type": "string", "minLength": 1}}, "required": ["text"],
            "additionalProperties": False,
        }  # fmt: skip
        host.register_tool(Tool("short", "Take a text.", schema, lambda text: text, owned_by="analyst"))
        host.schemas("analyst", "acme", strict=True)
        form = get_runtime(host).hooks.formats["acme"]
        (call,) = form.calls({})

        assert (ToolCall, str, "plain") == (type(call), type(call.name), call.name)
        assert {"rule": "refused", "calls": "refused"} == log

    @pytest.mark.parametrize(("answer", "outcome"), [
        ("Allow(Arguments(items=[2]))", "ok"), ("Allow(Strange())", "approval_denied"),
        ("Allow(by=Text('x'))", "ok"), ("Deny(Strange())", "approval_denied"), ("Deny(Text('no'))", "approval_denied"),
    ])  # fmt: skip
    @pytest.mark.parametrize("asker", ["analyst", "operator"])
    def test_of_who_approves(self, site: Site, host: ToolRegistry, answer: str, outcome: str, asker: str) -> None:
        """The arguments and texts in an answer, in a call from the host or from inside of another call."""
        site.install("acme", HEAD + f'''
class Strange:
    def __getattribute__(self, name):
        attempt("attribute")
        return object.__getattribute__(self, name)
    def __repr__(self):
        attempt("repr")
        return "strange"
class Arguments(dict):
    def keys(self):
        attempt("keys")
        return super().keys()
    def __getitem__(self, key):
        attempt("item")
        return super().__getitem__(key)
    def items(self):
        attempt("items")
        return super().items()
@hookimpl
def praval_tools_approve(request):
    return {answer}
''')  # fmt: skip
        loaded(host, config={"plugins": {"acme": {"trust": True}}})
        host.configure("hosts_sum", requires_approval=True)
        call = ToolCall("c", "hosts_sum", {"items": [1]}, "analyst")

        @host.tool("outer", owned_by="analyst")
        def outer() -> str:
            """Call inside."""
            return host.execute(call).outcome.value

        made = (
            host.execute(call).outcome
            if asker == "operator"
            else host.execute(ToolCall("o", "outer", {}, "analyst")).result
        )

        assert outcome == made
        assert {"refused"} >= set(sys.modules["acme"].log.values())


class TestCommands:
    """Broken promise: commands run in the plugin's name. What they left for their end, and their errors, did not."""

    @pytest.mark.parametrize(("body", "code"), [
        ("ctx.call_on_close(lambda: attempt('close'))", 0),
        ("ctx.find_root().call_on_close(lambda: attempt('root'))", 0),
        ("ctx.with_resource(Resource())", 0), ("ctx.find_root().with_resource(Resource())", 0),
        ("raise Wrong('x')", 1), ("raise Misused('x', ctx)", 2), ("raise Failure('x')", 1), ("ctx.exit(4)", 4),
        ("return 3", 3), ("return Text('x')", 0),
    ])  # fmt: skip
    def test_what_a_command_leaves(self, site: Site, host: ToolRegistry, body: str, code: int) -> None:
        """What is done as its context ends, and what its errors say."""
        site.install("acme", HEAD + f'''
class Resource:
    def __enter__(self):
        attempt("enter")
    def __exit__(self, *error):
        attempt("exit")
class Wrong(click.ClickException):
    def format_message(self):
        attempt("message")
        return Text("wrong")
class Misused(click.UsageError):
    def format_message(self):
        attempt("message")
        return Text("misused")
@click.command("acme")
@click.pass_context
def command(ctx):
    {body}
@hookimpl
def praval_tools_commands(cli):
    cli.add_command(command)
''')  # fmt: skip

        assert code == run(["acme"])
        assert "done" not in sys.modules["acme"].log.values()

    def test_completions(self, site: Site, host: ToolRegistry) -> None:
        """The shell completes the subcommands and options of a plugin's command, by code in its name."""
        site.install("acme", HEAD + '''
class Group(click.Group):
    def list_commands(self, ctx):
        attempt("list")
        return super().list_commands(ctx)
group = Group("acme")
group.command("sub")(click.option("--level")(lambda level: None))
@hookimpl
def praval_tools_commands(cli):
    cli.add_command(group)
''')  # fmt: skip
        completion = ShellComplete(root_command, {}, "praval-tools", "")

        assert ["sub"] == [each.value for each in completion.get_completions(["acme"], "")]
        assert ["--level", "--help"] == [each.value for each in completion.get_completions(["acme", "sub"], "--")]
        assert {"list": "refused"} == sys.modules["acme"].log


CALLABLE = """
class Function:
    __name__ = "function"
    def __call__(self) -> int:
        "Return one."
        return 1
    def __getattr__(self, name):
        attempt("attribute")
        raise AttributeError(name)
"""


class TestFunctions:
    """Broken promise: code of agents and tools is never the operator's. Objects that are functions were asked by it."""

    def test_of_tools(self, site: Site, host: ToolRegistry) -> None:
        """What is asked of a function, to call it fast, is asked without rights."""
        site.install("acme", HEAD + CALLABLE + "function = tool('acme_one', description='Return one.')(Function())\n")
        loaded(host)
        sys.modules["acme"].log.clear()
        host.assign_tool_to_agent("acme_one", "analyst")

        assert 1 == host.execute(ToolCall(None, "acme_one", {}, "analyst")).result
        assert "done" not in sys.modules["acme"].log.values()

    @pytest.mark.parametrize("declared", [
        "Agent('helper', function=Function())",
        "type('Own', (Agent,), {'__setattr__': lambda self, *a: (attempt('set'), object.__setattr__(self, *a))})"
        "('helper', function=Function())",
    ])  # fmt: skip
    def test_of_agents(self, site: Site, host: ToolRegistry, declared: str) -> None:
        """Nor is an agent that a trusted plugin declares taken over by code of its own that is the operator's."""
        site.install("acme", HEAD + CALLABLE + f"helper = {declared}\n")
        loaded(host, config={"plugins": {"acme": {"trust": True}}})

        assert 1 == host.agent("helper")()
        assert "attribute" in sys.modules["acme"].log
        assert "done" not in sys.modules["acme"].log.values()
