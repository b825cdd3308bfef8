"""Every hook, used by a plugin that is installed; and what happens where one fails."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from plugin_rig import Site, loaded, names, site  # noqa: F401

from praval_tools import (
    Allow,
    Outcome,
    PluginWarning,
    ToolCall,
    ToolRegistry,
    ToolUsageError,
    UnknownFormatError,
    load_plugins,
    plugin_reports,
)
from praval_tools.execution.hooks import NO_HOOKS
from praval_tools.plugins import hookspecs

HEAD = "from praval_tools import hookimpl, tool, Tool, Allow, Ask, Deny\nlog = []\n"
HOOKS = [name for name in vars(hookspecs) if name.startswith("praval_tools_")]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "plugins.md"
TRUSTED = {"plugins": {"acme": {"trust": True}}}


@pytest.fixture
def registry() -> ToolRegistry:
    """A registry with a tool of the user's, shared."""
    made = ToolRegistry()

    @made.tool("add", shared=True)
    def add(x: int, y: int = 1) -> int:
        """Add."""
        return x + y

    @made.tool("wire", shared=True, requires_approval=True)
    def wire(amount: int) -> int:
        """Wire."""
        return amount

    return made


def call(registry: ToolRegistry, name: str = "add", **arguments: Any) -> Any:
    """Run a call of ann's and return the result."""
    return registry.execute(ToolCall("c1", name, arguments or {"x": 1}, "ann"))


def log() -> list[Any]:
    """Return what the plugin noted."""
    return sys.modules["acme"].log


class TestAuthorize:
    def test_it_refuses_asks_and_lets_pass(self, site: Site, registry: ToolRegistry) -> None:
        """A text and `Deny` refuse, `Ask` waits for a person, None has nothing against it."""
        site.install("acme", HEAD + '''
@hookimpl
def praval_tools_authorize(agent, tool, arguments):
    log.append((agent, tool.name, dict(arguments)))
    arguments.clear()
    return {1: None, 2: "too much", 3: Deny("never"), 4: Ask("big")}[log[-1][2]["x"]]
''')  # fmt: skip
        load_plugins(registry)
        results = [call(registry, x=at) for at in (1, 2, 3, 4)]

        assert [Outcome.OK, Outcome.FORBIDDEN, Outcome.FORBIDDEN, Outcome.APPROVAL_REQUIRED] == [
            one.outcome for one in results
        ]  # fmt: skip
        assert "Policy 'plugin:acme/acme' refuses: too much." == results[1].decision.reason
        assert ("ann", "add", {"x": 1, "y": 1}) == log()[0]
        assert ["add", "wire"] == list(registry.toolset("ann"))

    @pytest.mark.parametrize("body", ["raise ValueError('broken')", "return True", "import sys; sys.exit()"])
    def test_one_that_fails_refuses(self, site: Site, registry: ToolRegistry, body: str) -> None:
        """An error, an exit or a strange answer is a no."""
        site.install("acme", HEAD + f"@hookimpl\ndef praval_tools_authorize(agent):\n    {body}\n")
        load_plugins(registry)
        if "return" in body:
            result = call(registry)
        else:
            with pytest.warns(PluginWarning, match="praval_tools_authorize"):
                result = call(registry)

        assert (Outcome.FORBIDDEN, "policy") == (result.outcome, result.decision.rule)
        assert Outcome.FORBIDDEN is asyncio.run(registry.aexecute(ToolCall("2", "add", {"x": 1}, "ann"))).outcome

    def test_it_acts_in_its_own_name(self, site: Site, registry: ToolRegistry) -> None:
        """A hook that changes what is not its plugin's is refused, and so is the call."""
        registry.tool("spare", shared=False)(_one)
        site.install("acme", HEAD + '''
@hookimpl
def praval_tools_authorize(tool):
    home = __import__("sys").modules["home_of_test"]
    home.share_tool("spare")
''')  # fmt: skip
        load_plugins(registry)
        sys.modules["home_of_test"] = registry  # type: ignore[assignment]
        try:
            with pytest.warns(PluginWarning, match="'plugin:acme' may not share"):
                result = call(registry)
        finally:
            del sys.modules["home_of_test"]

        assert Outcome.FORBIDDEN is result.outcome
        assert not registry.get_tool("spare").metadata.shared

    def test_loaded_again_it_is_asked_once(self, site: Site, registry: ToolRegistry) -> None:
        """A second loading takes the place of the first."""
        site.install("acme", HEAD + "@hookimpl\ndef praval_tools_authorize(agent):\n    log.append(agent)\n")
        load_plugins(registry)
        load_plugins(registry)
        call(registry)

        assert ["ann"] == log()


class TestNoting:
    SOURCE = (
        HEAD
        + """
@hookimpl
def praval_tools_before_call(call, tool, arguments):
    log.append(("before", call.agent, tool.name, dict(arguments)))
    arguments["x"] = 99
@hookimpl
def praval_tools_after_call(call, tool, result):
    log.append(("after", call.name, tool and tool.name, result.outcome.value, result.result))
"""
    )

    @pytest.mark.parametrize("way", ["call", "execute", "async", "bound"])
    def test_every_call_is_noted(self, site: Site, registry: ToolRegistry, way: str) -> None:
        """Whichever way a call takes, before and after are told once; the arguments are a copy."""
        site.install("acme", self.SOURCE)
        ann = registry.agent("ann")
        assert 2 == ann.call("add", x=1) == ann.tools["add"](x=1)  # short roads are made before the hooks come
        load_plugins(registry)
        assert 2 == {
            "call": lambda: ann.call("add", x=1),
            "execute": lambda: call(registry).result,
            "async": lambda: asyncio.run(registry.aexecute(ToolCall("1", "add", {"x": 1}, "ann"))).result,
            "bound": lambda: ann.tools["add"](1),
        }[way]()  # fmt: skip

        assert [("before", "ann", "add", {"x": 1, "y": 1}), ("after", "add", "add", "ok", 2)] == log()

    def test_refusals_are_noted_afterwards(self, site: Site, registry: ToolRegistry) -> None:
        """What never ran was never about to run; what came of it is told all the same."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        for name in ("nope", "add", "wire"):
            call(registry, name, **({"x": "many"} if name == "add" else {"amount": 1}))

        assert [
            ("after", "nope", None, "unknown_tool", None), ("after", "add", "add", "invalid_arguments", None),
            ("after", "wire", "wire", "approval_required", None),
        ] == log()  # fmt: skip

    def test_a_replayed_result_is_not_told_again(self, site: Site, registry: ToolRegistry) -> None:
        """A replay runs nothing, and tells nobody."""
        site.install("acme", self.SOURCE)
        registry.journal = "memory"
        load_plugins(registry)
        for _ in range(2):
            with registry.run("r"):
                call(registry)

        assert ["before", "after"] == [one[0] for one in log()]

    @pytest.mark.parametrize("hook", ["before_call(call)", "after_call(result)"])
    @pytest.mark.parametrize("body", ["raise ValueError('broken')", "return 1", "raise SystemExit(3)"])
    def test_one_that_fails_is_told_once_and_stops_nothing(
        self, site: Site, registry: ToolRegistry, hook: str, body: str
    ) -> None:
        """The call goes on, other plugins are told, and the failure is reported the first time."""
        site.install("aaa", HEAD + f"@hookimpl\ndef praval_tools_{hook}:\n    {body}\n", version="6.6")
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        with pytest.warns(PluginWarning, match=r"Plugin aaa 6\.6 \(aaa\) \(praval_tools_") as warned:
            assert 2 == call(registry).result
        assert 2 == call(registry).result

        assert 1 == len(warned)
        assert ["before", "after"] * 2 == [one[0] for one in log()]
        fault = plugin_reports(registry)[-1]
        assert (True, "6.6", f"praval_tools_{hook.partition('(')[0]}") == (fault.failed, fault.version, fault.stage)
        assert "Traceback" in fault.traceback

    def test_order(self, site: Site, registry: ToolRegistry) -> None:
        """By distribution; `tryfirst` before all, `trylast` after all."""
        for name, mark in (("aaa", "(trylast=True)"), ("bbb", ""), ("ccc", "(tryfirst=True)")):
            hook = f"@hookimpl{mark}\ndef praval_tools_before_call():\n    host_log.log.append('{name}')\n"
            site.install(name, f"from praval_tools import hookimpl\nimport host_log\n{hook}")
        site.install("host-log", "log = []", points="")
        load_plugins(registry)
        call(registry)

        assert ["ccc", "bbb", "aaa"] == sys.modules["host_log"].log

    def test_without_hooks_nothing_is_looked_up(self, site: Site, registry: ToolRegistry) -> None:
        """
        A plugin of tools alone leaves calls on the short road, which knows no hooks: its code has no word of them.

        One that notes calls takes them off it as soon as it is loaded.
        """
        site.good("other")
        load_plugins(registry)
        ann = registry.agent("ann")
        ann.call("add", x=1)
        lane = ann.tools._fast_cache.sync_functions["add"]
        state = registry.state
        load_plugins(registry)
        words = {*lane.__code__.co_names, *lane.__code__.co_freevars, *lane.__code__.co_varnames}

        assert [] == [one for one in words if "hook" in one or "plug" in one]
        assert registry._runtime.hooks.before is NO_HOOKS.before
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        ann.call("add", x=1)
        assert ({}, True) == (ann.tools._fast_cache.sync_functions, state is not registry.state)
        assert 2 == len(log())


class TestApprove:
    SOURCE = (
        HEAD
        + """
@hookimpl
def praval_tools_approve(request):
    log.append(request.tool)
    if request.arguments["amount"] > 10:
        return Deny("too much")
    if request.arguments["amount"] > 5:
        return None
    if request.arguments["amount"] == 3:
        raise ValueError("broken")
    return Allow(by="acme") if request.arguments["amount"] != 4 else "yes"
"""
    )

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_trusted_one_answers(self, site: Site, registry: ToolRegistry, is_async: bool) -> None:
        """Allow runs it, Deny does not, None leaves it waiting."""
        site.install("acme", self.SOURCE)
        load_plugins(registry, config=TRUSTED)
        outcomes = []
        for amount in (1, 7, 11):
            request = ToolCall(f"c{amount}", "wire", {"amount": amount}, "ann")
            made = asyncio.run(registry.aexecute(request)) if is_async else registry.execute(request)
            outcomes.append(made.outcome)

        assert [Outcome.OK, Outcome.APPROVAL_REQUIRED, Outcome.APPROVAL_DENIED] == outcomes
        assert ["c7"] == [one.tool_call_id for one in registry.approvals.pending()]

    def test_an_installed_one_is_not_asked(self, site: Site, registry: ToolRegistry) -> None:
        """Answering approvals is granting: a wish, until the operator trusts the plugin."""
        site.install("acme", self.SOURCE)
        (report,) = load_plugins(registry)

        assert Outcome.APPROVAL_REQUIRED is call(registry, "wire", amount=1).outcome
        assert ([], ("answering approvals",)) == (log(), report.wishes)

    @pytest.mark.parametrize("amount", [3, 4])
    def test_a_failure_or_a_strange_answer_is_a_no(self, site: Site, registry: ToolRegistry, amount: int) -> None:
        """Anything but an explicit allow is a no."""
        site.install("acme", self.SOURCE)
        load_plugins(registry, config=TRUSTED)
        with pytest.warns(PluginWarning, match="praval_tools_approve"):
            assert Outcome.APPROVAL_DENIED is call(registry, "wire", amount=amount).outcome

    def test_the_operators_handler_comes_first(self, site: Site, registry: ToolRegistry) -> None:
        """Where the host has set a handler, plugins are not asked."""
        site.install("acme", self.SOURCE)
        load_plugins(registry, config=TRUSTED)
        registry.set_approval_handler(lambda request: Allow(by="me"))

        assert (Outcome.OK, []) == (call(registry, "wire", amount=11).outcome, log())


class TestEngines:
    SOURCE = (
        HEAD
        + """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2, thread_name_prefix="acme-pool")
class Broken:
    def submit(self, work): raise OSError("no workers")
@hookimpl
def praval_tools_engines():
    return {"acme.pool": pool, "acme.broken": Broken()}
"""
    )

    @pytest.mark.parametrize("is_async", [False, True])
    def test_tools_run_there(self, site: Site, registry: ToolRegistry, is_async: bool) -> None:
        """A tool that names the engine runs in its thread, with the context of its call."""
        import threading

        from praval_tools import current_agent

        site.install("acme", self.SOURCE)
        load_plugins(registry)

        @registry.tool("where", shared=True, engine="acme.pool")
        def where() -> list[str]:
            """Where."""
            return [threading.current_thread().name[:9], current_agent().name]

        request = ToolCall("1", "where", {}, "ann")
        result = asyncio.run(registry.aexecute(request)) if is_async else registry.execute(request)

        assert ["acme-pool", "ann"] == result.result
        registry.close()
        assert sys.modules["acme"].pool._shutdown

    def test_one_that_hangs_is_given_up(self, site: Site, registry: ToolRegistry) -> None:
        """The tool's time-out counts there, too."""
        import threading

        go = threading.Event()
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        registry.tool("wait", shared=True, engine="acme.pool", timeout=0.05)(lambda_of(go))

        assert Outcome.TIMEOUT is registry.execute(ToolCall("1", "wait", {}, "ann")).outcome
        go.set()

    def test_one_that_is_broken_or_unknown(self, site: Site, registry: ToolRegistry) -> None:
        """The result says which engine, and what to do; a name without a dot is refused where the tool is declared."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        registry.tool("one", shared=True, engine="acme.broken")(_one)
        registry.tool("two", shared=True, engine="acme.other")(_one)
        broken, unknown = (registry.execute(ToolCall(name, name, {}, "ann")) for name in ("one", "two"))

        assert (Outcome.ENGINE_LOST, "engine-lost") == (broken.outcome, broken.error_type)
        assert "no workers" in broken.error
        assert (Outcome.TOOL_ERROR, "unknown-engine") == (unknown.outcome, unknown.error_type)
        with pytest.raises(ValueError, match="did you mean 'thread'"):
            registry.tool("three", engine="thred")(_one)

    @pytest.mark.parametrize("idempotent", [False, True])
    def test_what_one_lost_is_in_doubt(self, site: Site, registry: ToolRegistry, idempotent: bool) -> None:
        """Nobody knows whether it ran: in its run opened again it is in doubt, and goes to the engine if idempotent."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        registry.journal = "memory"
        registry.tool("one", shared=True, engine="acme.broken", idempotent=idempotent)(_one)
        call = ToolCall("1", "one", {}, "ann")
        with registry.run("r"):
            assert Outcome.ENGINE_LOST is registry.execute(call).outcome
        with registry.run("r") as run:
            again = registry.execute(call)

            assert (Outcome.ENGINE_LOST if idempotent else Outcome.IN_DOUBT, False) == (again.outcome, again.replayed)
            assert ["1"] == [one.tool_call_id for one in run.in_doubt]


class TestJournals:
    SOURCE = (
        HEAD
        + """
from praval_tools.journal import MemoryStore
@hookimpl
def praval_tools_journals():
    def opened(url):
        log.append(url)
        return MemoryStore()
    return {"acme": opened}
"""
    )

    def test_a_scheme_of_a_plugin(self, site: Site, registry: ToolRegistry) -> None:
        """`registry.journal = "acme://…"` opens the plugin's store, and calls are written to it."""
        site.install("acme", self.SOURCE)
        with pytest.raises(ToolUsageError, match="to use 'acme', load a plugin for it first"):
            registry.journal = "acme://somewhere"
        load_plugins(registry)
        registry.journal = "acme://somewhere"
        call(registry)

        assert ["acme://somewhere"] == log()
        assert ["agent_tool_call", "agent_tool_result"] == [one.type.value for one in registry.journal.read()]


class TestFormats:
    SOURCE = (
        HEAD
        + """
import attrs
from praval_tools.formats import FORMATS
def export(offer):
    return {"tool": offer.name, "says": offer.description}
@hookimpl
def praval_tools_formats():
    return {"acme": attrs.evolve(FORMATS["openai-chat"], name="acme", export=export)}
"""
    )

    def test_a_format_of_a_plugin(self, site: Site, registry: ToolRegistry) -> None:
        """Schemas come in it, where the plugin is loaded; elsewhere it is unknown, and the list says what there is."""
        site.install("acme", self.SOURCE)
        with pytest.raises(UnknownFormatError):
            registry.schemas("ann", "acme")
        load_plugins(registry)

        assert {"tool": "add", "says": "Add."} == registry.schemas("ann", "acme")[0]
        assert b'"tool":"wire"' in registry.toolset("ann").schemas_json("acme")
        assert "function" == registry.schemas("ann", "openai-chat")[0]["type"]
        with pytest.raises(UnknownFormatError, match="acme"):
            registry.schemas("ann", "acmee")
        with pytest.raises(UnknownFormatError, match="openai-chat"):
            ToolRegistry().schemas("ann", "acme")

    def test_loaded_again_it_is_the_new_one(self, site: Site, registry: ToolRegistry) -> None:
        """Nothing that was written in the old one is given out."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        assert "says" in registry.schemas("ann", "acme")[0]
        site.remove("acme")
        site.install("acme", self.SOURCE.replace("says", "tells"), version="2.0")
        load_plugins(registry)

        assert "tells" in registry.schemas("ann", "acme")[0]

    def test_two_plugins_of_one_format(self, site: Site, registry: ToolRegistry) -> None:
        """The first by name brings it; the other is kept out whole."""
        site.install("acme", self.SOURCE)
        site.install("zzz", self.SOURCE + "@tool\ndef of_z() -> int:\n    'Z.'\n    return 1\n")
        reports = loaded(registry)

        assert ("clash", ["add", "wire"]) == (reports["zzz"].stage, names(registry))
        assert "which acme brings already" in str(reports["zzz"].error)


class TestSources:
    SOURCE = (
        HEAD
        + """
@hookimpl
def praval_tools_sources():
    return {"acme": load}
def load(table):
    log.append(table)
    def made() -> str:
        "Made."
        return table["word"]
    yield Tool.from_function(made, table["name"])
    if table["word"] == "bad":
        raise ValueError("bad word")
"""
    )

    def test_a_kind_of_source(self, site: Site, registry: ToolRegistry) -> None:
        """Each `[[sources]]` table of the kind is loaded by the plugin; one that fails leaves nothing."""
        site.install("acme", self.SOURCE)
        config = {"sources": [
            {"kind": "acme", "name": "hello", "word": "good"}, {"kind": "acme", "name": "not", "word": "bad"},
            {"kind": "other"},
        ]}  # fmt: skip
        with pytest.warns(PluginWarning):
            reports = load_plugins(registry, config=config)

        assert [True, True, False, False] == [one.loaded for one in reports]
        assert "good" == registry.execute_tool("hello")
        assert ["add", "wire", "hello"] == names(registry)
        source = registry.get_tool("hello").metadata.source
        assert ("config", "acme", "plugin:acme") == (
            source.kind, source.distribution, registry.get_tool("hello").metadata.owned_by
        )  # fmt: skip
        assert "no loaded plugin brings kind 'other'; known are: acme" in str(reports[3])

    def test_loaded_again(self, site: Site, registry: ToolRegistry) -> None:
        """The tools of a table take the place of those that it gave before."""
        site.install("acme", self.SOURCE)
        for word in ("one", "two"):
            load_plugins(registry, config={"sources": [{"kind": "acme", "name": "hello", "word": word}]})

        assert "two" == registry.execute_tool("hello")


class TestReference:
    def test_every_hook_is_documented_with_its_signature(self) -> None:
        """The page names each hook with the signature that the code has, and its docstring says all it must."""
        text = PAGE.read_text(encoding="utf-8")
        shown = dict(re.findall(r"^def (praval_tools_\w+)(\(.*\).*):$", text, re.MULTILINE))

        assert {name: str(inspect.signature(getattr(hookspecs, name))).replace("'", "") for name in HOOKS} == shown

    @pytest.mark.parametrize("name", HOOKS)
    def test_every_hook_says_when_what_and_what_if(self, name: str) -> None:
        """Call moment, return value, and what happens when it raises; on the page, too."""
        doc = inspect.getdoc(getattr(hookspecs, name))
        page = PAGE.read_text(encoding="utf-8").partition(f"## {name}\n")[2].partition("\n## ")[0]

        assert all(f"\n{word}: " in doc for word in ("Called", "Returns", "Raises"))
        assert all(f"**{word}:**" in page for word in ("Called", "Returns", "Raises"))

    def test_every_hook_is_used_here(self) -> None:
        """No hook without a test plugin that implements it."""
        tests = "".join(one.read_text() for one in Path(__file__).parents[1].rglob("test_*plugin*.py"))

        assert [] == [name for name in HOOKS if f"def {name}(" not in tests]


def lambda_of(event: Any) -> Any:
    """Return a tool's function that waits for *event*."""

    def wait() -> int:
        """Wait."""
        event.wait(60)
        return 1

    return wait


def _one() -> int:
    """One."""
    return 1
