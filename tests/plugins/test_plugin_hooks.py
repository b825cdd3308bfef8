"""The hooks that are called at calls: they refuse, take note and approve; and what happens where one fails."""

from __future__ import annotations

import asyncio
import sys

import pytest
from hook_rig import HEAD, TRUSTED, call, log, registry  # noqa: F401
from plugin_rig import Site, loaded, names, site  # noqa: F401
from watchers import Odd, actors

from praval_tools import (
    Allow,
    Outcome,
    PluginWarning,
    ToolCall,
    ToolRegistry,
    load_plugins,
    plugin_reports,
)
from praval_tools.execution.hooks import NO_HOOKS


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

    def test_it_runs_in_its_own_name(self, site: Site, registry: ToolRegistry) -> None:
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

    def test_an_object_that_it_passes_on_has_not_its_rights(
        self, site: Site, registry: ToolRegistry, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Broken promise: an object of an agent ran as the plugin that named a tool by it."""
        site.install("acme", HEAD + '''
@hookimpl
def praval_tools_authorize(agent):
    home, given = __import__("sys").modules["home_of_test"]
    try:
        home.explain(agent, given)
    except ValueError as error:
        log.append(type(error).__name__)
''')  # fmt: skip
        load_plugins(registry)
        monkeypatch.setitem(sys.modules, "home_of_test", (registry, Odd()))  # type: ignore[arg-type]
        actors.clear()

        assert Outcome.OK is call(registry).outcome
        assert (["InvalidNameError"], {"tool:(repr)"}) == (log(), set(actors))

    def test_loaded_again_it_is_asked_once(self, site: Site, registry: ToolRegistry) -> None:
        """A second loading takes the place of the first."""
        site.install("acme", HEAD + "@hookimpl\ndef praval_tools_authorize(agent):\n    log.append(agent)\n")
        load_plugins(registry)
        load_plugins(registry)
        call(registry)

        assert ["ann"] == log()

    def test_delegation_leads_around_no_hook(self, site: Site, registry: ToolRegistry) -> None:
        """A hook is asked for those on whose behalf a call is made, too, and may look at the whole principal."""
        site.install(
            "acme",
            HEAD + "@hookimpl\ndef praval_tools_authorize(agent, principal):\n"
            "    log.append((agent, principal.chain))\n    return 'no' if agent == 'ann' else None\n",
        )
        load_plugins(registry)
        helper = registry.agent("ann").delegate("helper", mode="inherit")
        result = helper.execute(ToolCall(name="add", arguments={"x": 1}))

        assert Outcome.FORBIDDEN is result.outcome
        assert [("helper", ("ann",)), ("ann", ("ann",))] == log()


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
        """Whichever way a call takes, before and after are reported once; the arguments are a copy."""
        site.install("acme", self.SOURCE)
        ann = registry.agent("ann")
        assert 2 == ann.call("add", x=1) == ann.tools["add"](x=1)  # fast paths are made before the hooks come
        load_plugins(registry)
        assert 2 == {
            "call": lambda: ann.call("add", x=1),
            "execute": lambda: call(registry).result,
            "async": lambda: asyncio.run(registry.aexecute(ToolCall("1", "add", {"x": 1}, "ann"))).result,
            "bound": lambda: ann.tools["add"](1),
        }[way]()  # fmt: skip

        assert [("before", "ann", "add", {"x": 1, "y": 1}), ("after", "add", "add", "ok", 2)] == log()

    def test_refusals_are_noted_afterwards(self, site: Site, registry: ToolRegistry) -> None:
        """What never ran was never about to run; what came of it is reported all the same."""
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        for name in ("nope", "add", "wire"):
            call(registry, name, **({"x": "many"} if name == "add" else {"amount": 1}))

        assert [
            ("after", "nope", None, "unknown_tool", None), ("after", "add", "add", "invalid_arguments", None),
            ("after", "wire", "wire", "approval_required", None),
        ] == log()  # fmt: skip

    def test_a_replayed_result_is_not_reported_again(self, site: Site, registry: ToolRegistry) -> None:
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
    def test_one_that_fails_is_reported_once_and_stops_nothing(
        self, site: Site, registry: ToolRegistry, hook: str, body: str
    ) -> None:
        """The call goes on, other plugins are reported, and the failure is reported the first time."""
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
        A plugin of tools alone adds nothing to the fast path: its code has no word of hooks.

        One that observes calls is a step of it as soon as it is loaded.
        """
        site.good("other")
        load_plugins(registry)
        ann = registry.agent("ann")
        ann.call("add", x=1)
        function = ann.tools._fast_cache.sync_functions["add"]
        state = registry.state
        load_plugins(registry)
        words = {*function.__code__.co_names, *function.__code__.co_freevars, *function.__code__.co_varnames}

        assert [] == [one for one in words if "hook" in one or "plug" in one]
        assert registry._runtime.hooks.before is NO_HOOKS.before
        site.install("acme", self.SOURCE)
        load_plugins(registry)
        ann.call("add", x=1)
        assert state is not registry.state
        assert [False, True] == [one.path.has_steps for one in (function, ann.tools._fast_cache.sync_functions["add"])]
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
        """Answering approvals is granting: a request, until the operator trusts the plugin."""
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

    def test_a_strange_answer_is_asked_nothing(self, site: Site, registry: ToolRegistry) -> None:
        """The class of an answer runs no code as the host, whatever its metaclass."""
        site.install(
            "acme",
            HEAD + "from watchers import WatchedClass\nAnswer = WatchedClass('Answer', (), {})\n"
            "@hookimpl\ndef praval_tools_approve(request):\n    return Answer()\n",
        )
        load_plugins(registry, config=TRUSTED)
        actors.clear()
        with pytest.warns(PluginWarning, match="praval_tools_approve"):
            assert Outcome.APPROVAL_DENIED is call(registry, "wire", amount=1).outcome
        assert "operator" not in actors

    def test_the_operators_handler_comes_first(self, site: Site, registry: ToolRegistry) -> None:
        """Where the host has set a handler, plugins are not asked."""
        site.install("acme", self.SOURCE)
        load_plugins(registry, config=TRUSTED)
        registry.set_approval_handler(lambda request: Allow(by="me"))

        assert (Outcome.OK, []) == (call(registry, "wire", amount=11).outcome, log())


def _one() -> int:
    """One."""
    return 1
