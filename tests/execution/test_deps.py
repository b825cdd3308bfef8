"""Deps: what a program passes to its tools, inherited by nested calls, and shown to nobody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from praval_tools import Deny, Outcome, ToolArgumentsError, ToolCall, ToolContext, ToolRegistry, ToolUsageError
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

if TYPE_CHECKING:
    from a_module_that_only_type_checkers_know import Session

TOKEN = "hunter2-of-the-bank"


class Bank:
    """What tools need, with a secret in it."""

    def __init__(self, name: str) -> None:
        self.name, self.token = name, TOKEN

    def __repr__(self) -> str:
        return f"<Bank {self.name} {self.token}>"


@pytest.fixture
def registry() -> ToolRegistry:
    """Return a registry whose tools of `ann` take deps, sync and async, and call each other."""
    registry = ToolRegistry(name="bank")

    @registry.tool(owned_by="ann")
    def pay(context: ToolContext[Bank], amount: int) -> str:
        """Pay."""
        return f"{context.deps.name} {amount}"

    @registry.tool(owned_by="ann")
    async def apay(context: ToolContext[Bank], amount: int) -> str:
        """Pay."""
        return f"{context.deps.name} {amount}"

    @registry.tool(owned_by="ann")
    def count() -> int:
        """Count."""
        return 1

    @registry.tool(owned_by="ann")
    def order(amount: int) -> str:
        """Pay through another tool; takes no context itself."""
        return str(registry.execute_tool("pay", amount=amount))

    @registry.tool(owned_by="ann")
    def order_elsewhere(amount: int) -> str:
        """Pay through another tool, with deps of its own."""
        return str(registry.execute_tool("pay", amount=amount, deps=Bank("other")))

    @registry.tool(owned_by="ann")
    async def aorder(amount: int) -> str:
        """Pay through another tool, in a task."""
        return str(await asyncio.create_task(registry.agent("ann").acall("apay", amount=amount)))

    return registry


def start_calls(registry: ToolRegistry, deps: Bank) -> dict[str, Callable[[], Any]]:
    """Return every way in which a call begins, with *deps*."""
    ann, call = registry.agent("ann"), ToolCall("1", "pay", {"amount": 5}, "ann")
    toolset = registry.toolset("ann", deps=deps)
    acall = ToolCall("1", "apay", {"amount": 5}, "ann")
    return {
        "toolset.call": lambda: toolset.call("pay", amount=5),
        "toolset[…]": lambda: toolset["pay"](amount=5),
        "toolset.functions": lambda: next(f for f in toolset.functions() if f.__name__ == "pay")(5),
        "toolset.call_json": lambda: toolset.call_json("pay", '{"amount": 5}').decode().strip('"'),
        "toolset.call_json, repaired": lambda: toolset.call_json("pay", '{"amount": "5"}').decode().strip('"'),
        "toolset.execute": lambda: toolset.execute(call).result,
        "toolset.execute_batch": lambda: toolset.execute_batch([call, call])[1].result,
        "toolset.acall": lambda: asyncio.run(toolset.acall("apay", amount=5)),
        "toolset.acall, sync": lambda: asyncio.run(toolset.acall("pay", amount=5)),
        "toolset.aexecute": lambda: asyncio.run(toolset.aexecute(acall)).result,
        "toolset.aexecute_batch": lambda: asyncio.run(toolset.aexecute_batch([acall, call]))[1].result,
        "call(deps=)": lambda: ann.call("pay", amount=5, deps=deps),
        "acall(deps=)": lambda: asyncio.run(ann.acall("apay", amount=5, deps=deps)),
        "call, async tool": lambda: ann.call("apay", amount=5, deps=deps),
        "execute(deps=)": lambda: ann.execute(call, deps=deps).result,
        "aexecute(deps=)": lambda: asyncio.run(ann.aexecute(acall, deps=deps)).result,
        "execute_batch(deps=)": lambda: ann.execute_batch([call, call], deps=deps)[0].result,
        "aexecute_batch(deps=)": lambda: asyncio.run(ann.aexecute_batch([acall], deps=deps))[0].result,
        "call_json(deps=)": lambda: ann.tools.call_json("pay", '{"amount": 5}', deps=deps).decode().strip('"'),
        "acall_json(deps=)": lambda: (
            asyncio.run(ann.tools.acall_json("apay", '{"amount": 5}', deps=deps)).decode().strip('"')
        ),
        "registry.execute": lambda: registry.execute(call, deps=deps).result,
        "registry.aexecute": lambda: asyncio.run(registry.aexecute(acall, deps=deps)).result,
        "registry.execute_batch": lambda: registry.execute_batch([call], deps=deps)[0].result,
        "registry.aexecute_batch": lambda: asyncio.run(registry.aexecute_batch([acall], deps=deps))[0].result,
        "registry.execute_tool": lambda: registry.execute_tool("pay", amount=5, deps=deps),
        "run_raw": lambda: registry.get_tool("pay").run_raw({"amount": 5}, deps=deps),  # type: ignore[union-attr]
        "engine": lambda: ann.execute(ToolCall("1", "pay", {"amount": 5}, engine="thread"), deps=deps).result,
        "delegate": lambda: ann.delegate("bob", mode="inherit").call("pay", amount=5, deps=deps),
        "nested": lambda: ann.call("order", amount=5, deps=deps),
        "nested, toolset": lambda: toolset.call("order", amount=5),
        "nested, async": lambda: asyncio.run(toolset.acall("aorder", amount=5)),
    }


WAYS = sorted(start_calls(ToolRegistry(), Bank("")))


class TestDeps:
    @pytest.mark.parametrize("way", WAYS)
    def test_reach_the_tool_wherever_a_call_begins(self, registry: ToolRegistry, way: str) -> None:
        """Deps passed at the toolset or at the call arrive in the tool, from sync and async code and in threads."""
        assert "mine 5" == start_calls(registry, Bank("mine"))[way]()

    def test_nested_calls_may_pass_their_own(self, registry: ToolRegistry) -> None:
        """A nested call that passes deps gets those, and the one around it keeps its own."""
        toolset = registry.toolset("ann", deps=Bank("mine"))

        assert ["other 5", "mine 5"] == [toolset.call("order_elsewhere", amount=5), toolset.call("pay", amount=5)]

    @pytest.mark.parametrize("name", ["pay", "apay"])
    def test_a_call_without_them_is_refused_before_it_runs(self, registry: ToolRegistry, name: str) -> None:
        """The error says where to pass them, and a batch goes on with its other calls."""
        call, text = (
            ToolCall("1", name, {"amount": 1}, "ann"),
            r"needs deps \(Bank\).*registry.toolset\(agent, deps=…\)",
        )
        for start in (lambda: registry.agent("ann").call(name, amount=1), lambda: registry.execute(call)):
            with pytest.raises(ToolUsageError, match=text) as raised:
                start()
            assert "missing-deps" == raised.value.code
        both = registry.execute_batch([call, ToolCall("2", "count", {}, "ann")])

        assert [(Outcome.TOOL_ERROR, "missing-deps", 0), (Outcome.OK, None, 1)] == [
            (result.outcome, result.error_type, result.attempts) for result in both
        ]

    def test_a_refused_agent_hears_of_that_first(self, registry: ToolRegistry) -> None:
        """Whether a tool takes deps is nothing for those who may not call it."""
        assert Outcome.FORBIDDEN is registry.execute(ToolCall("1", "pay", {"amount": 1}, "eve")).outcome

    def test_are_optional_where_the_hint_says_so(self, registry: ToolRegistry) -> None:
        """`ToolContext[Bank | None]` is called without deps; a plain context has none, and says how to get them."""

        @registry.tool(owned_by="ann")
        def maybe(context: ToolContext[Bank | None]) -> str:
            """Ask."""
            return "none" if context.deps is None else context.deps.name

        @registry.tool(owned_by="ann")
        def plain(context: ToolContext) -> str:
            """Ask."""
            return str(context.deps)

        ann = registry.agent("ann")
        assert ["none", "mine"] == [ann.call("maybe"), ann.call("maybe", deps=Bank("mine"))]
        with pytest.raises(RuntimeError, match=r"declare the parameter as ToolContext\[Deps\]"):
            ann.call("plain", deps=Bank("mine"))

    def test_their_class_may_be_known_to_type_checkers_alone(self, registry: ToolRegistry) -> None:
        """No schema says what deps are, so a class that is imported for type checkers only does no harm."""

        @registry.tool(owned_by="ann")
        def ask(context: ToolContext[Session], number: int) -> str:
            """Ask."""
            return f"{context.deps.name} {number}"

        deps = SimpleNamespace(name="mine")
        assert "mine 1" == registry.toolset("ann", deps=deps).call("ask", number=1)
        assert ["number"] == list(ask.parameters["properties"])
        with pytest.raises(ToolUsageError, match="needs deps"):
            registry.agent("ann").call("ask", number=1)

    def test_an_argument_of_this_name_stays_an_argument(self, registry: ToolRegistry) -> None:
        """A tool with a parameter `deps` of its own gets it as it always did."""

        @registry.tool(owned_by="ann")
        def install(deps: list[str] | None) -> str:
            """Install."""
            return ",".join(deps or ["nothing"])

        ann = registry.agent("ann")
        assert ["a,b", "nothing"] == [ann.call("install", deps=["a", "b"]), ann.call("install", deps=None)]
        assert "a" == registry.execute_tool("install", deps=["a"])

    def test_threads_and_tasks_do_not_mix_them_up(self, registry: ToolRegistry) -> None:
        """Calls side by side each get their own."""
        barrier, seen = threading.Barrier(4), {}

        def work(number: int) -> None:
            barrier.wait()
            toolset = registry.toolset("ann", deps=Bank(f"b{number}"))
            seen[number] = {toolset.call("order", amount=number) for _ in range(50)}

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        async def gather() -> list[str]:
            sets = [registry.toolset("ann", deps=Bank(f"b{number}")) for number in range(4)]
            return await asyncio.gather(*(toolset.acall("aorder", amount=1) for toolset in sets))

        assert {number: {f"b{number} {number}"} for number in range(4)} == seen
        assert [f"b{number} 1" for number in range(4)] == asyncio.run(gather())

    def test_belong_to_one_registry(self, registry: ToolRegistry) -> None:
        """A tool of another registry that is called from inside does not get them."""
        other = ToolRegistry(name="other")

        @other.tool(shared=True)
        def elsewhere(context: ToolContext[Bank]) -> str:
            """Ask."""
            return context.deps.name

        @registry.tool(owned_by="ann")
        def across() -> str:
            """Ask another registry."""
            return str(other.agent("ann").call("elsewhere"))

        result = registry.execute(ToolCall("1", "across", {}, "ann"), deps=Bank("mine"))
        assert (Outcome.TOOL_ERROR, "ToolUsageError") == (result.outcome, result.error_type)

    def test_policies_do_not_inherit_them(self, registry: ToolRegistry) -> None:
        """A policy that calls a tool while it is asked has no deps; the call that it was asked about has."""
        tried: list[str | None] = []

        def policy(agent: str, tool: str, arguments: object) -> Deny | None:
            if not tried:
                tried.append("")
                tried[0] = registry.execute_batch([ToolCall("2", "pay", {"amount": 1}, "ann")])[0].error_type
            return None

        registry.add_policy(policy)

        assert "mine 1" == registry.toolset("ann", deps=Bank("mine")).call("pay", amount=1)
        assert ["missing-deps"] == tried


class TestLoop:
    def test_passes_them_to_its_calls(self, registry: ToolRegistry) -> None:
        """A loop's tools get the deps of `run`, and the model sees neither them nor the parameter."""
        model = fake_model(("pay", {"amount": 5}), "done")

        result = ToolLoop(registry.agent("ann"), model).run("Pay.", deps=Bank("mine"))

        assert "mine 5" in str(result.messages)
        assert TOKEN not in str(result)

    def test_says_before_the_model_is_asked_that_they_are_missing(self, registry: ToolRegistry) -> None:
        """A loop whose tools need deps does not begin without them, so that no run has to be repaired."""
        model = fake_model(("pay", {"amount": 5}), "done")

        with pytest.raises(ToolUsageError, match=r"loop.run\(…, deps=…\)"):
            ToolLoop(registry.agent("ann"), model).run("Pay.")

        assert [] == model.requests

    def test_a_recorded_loop_needs_none(self, registry: ToolRegistry) -> None:
        """A finished loop gives its recorded result again without deps; what asks the model again needs them."""
        registry.journal = "memory"
        ann = registry.agent("ann")
        script = fake_model(("pay", {"amount": 5}), "done")
        result = ToolLoop(ann, script).run("Pay.", "finished", deps=Bank("mine"))
        ToolLoop(ann, fake_model(("pay", {"amount": 5})), max_steps=1).run("Pay.", "half", deps=Bank("mine"))

        assert "done" == result.text == ToolLoop(ann, fake_model()).resume("finished").text
        assert "done" == asyncio.run(ToolLoop(ann, fake_model()).aresume("finished")).text
        with pytest.raises(ToolUsageError, match=r"loop.resume\(…, deps=…\)"):
            ToolLoop(ann, fake_model("done")).resume("half")
        assert "done" == ToolLoop(ann, fake_model("done")).resume("half", deps=Bank("mine")).text


class TestSilence:
    def test_nothing_shows_them(self, registry: ToolRegistry, tmp_path: Any) -> None:
        """Deps are in no schema, repr, event, record, error, approval, policy or hook."""
        seen: list[object] = []
        registry.journal = str(tmp_path / "runs.db")
        registry.subscribe(seen.append)
        registry.add_policy(lambda *asked: seen.append(asked))
        registry.set_approval_handler(lambda request: seen.append(request))

        @registry.tool(owned_by="ann", requires_approval=True)
        def risky(context: ToolContext[Bank]) -> str:
            """Ask."""
            return context.deps.name

        @registry.tool(owned_by="ann")
        def returns_its_context(context: ToolContext[Bank]) -> Any:
            """Return what nobody should."""
            seen.append(repr(context))
            return context

        toolset = registry.toolset("ann", deps=Bank("mine"))
        with registry.run("one") as run:
            scoped = run.toolset("ann", deps=Bank("mine"))
            results = [
                toolset.execute(ToolCall(None, name, arguments))
                for name, arguments in [("pay", {"amount": 1}), ("pay", {"amount": "x"}), ("order", {"amount": 2}),
                                        ("risky", {}), ("returns_its_context", {})]
            ] + [scoped.execute(ToolCall(None, "pay", {"amount": 3}))]  # fmt: skip
            seen += [results, [result.for_model() for result in results], repr(toolset), repr(toolset["pay"])]
            seen += [run.calls, run.in_doubt]
        seen += [toolset.schemas(), registry.state, list(registry.journal.events()), registry.explain("ann", "pay")]
        registry.close()
        written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())

        assert ["mine 1", None, "mine 2", None] == [result.result for result in results[:4]]
        assert "mine 3" == results[-1].result
        assert TOKEN not in repr([value for value in seen if value is not results])
        assert TOKEN.encode() not in written

    @pytest.mark.parametrize("hint", [str, int, float, bytes, list[str], dict[str, str], list[dict[str, int]], Any])
    @pytest.mark.parametrize("wrap", [
        lambda deps: deps, lambda deps: [deps], lambda deps: {"a": [deps]}, lambda deps: {deps: 1},
        lambda deps: (1, {deps}),
    ])  # fmt: skip
    @pytest.mark.parametrize("journal", [None, "memory"])
    def test_no_mistake_shows_them(self, journal: str | None, wrap: Callable[[object], object], hint: Any) -> None:
        """Broken promise: a tool that returned them, or a call that gave them as arguments, wrote them down."""
        registry = ToolRegistry(journal=journal)

        def give(context: ToolContext[Bank], given: Any = None) -> Any:
            """Give what nobody should."""
            return wrap(context.deps)

        give.__annotations__["return"] = hint
        registry.tool(owned_by="ann")(give)
        toolset, seen = registry.toolset("ann", deps=Bank("mine")), list[object]()
        for arguments in [{}, {"given": wrap(Bank("x"))}, {"context": wrap(Bank("x"))}, wrap(Bank("x"))]:
            result = toolset.execute(ToolCall(None, "give", arguments))
            seen += [result.error, result.for_model(), repr(result), repr(result.exception)]
        for wrong in [lambda: toolset.call("give", given=wrap(Bank("x"))), lambda: toolset.call("give", Bank("x"))]:  # type: ignore[call-arg]
            with pytest.raises((ToolArgumentsError, TypeError)) as error:
                wrong()
            seen.append(str(error.value))
        events = [] if journal is None else list(registry.journal.events())

        assert TOKEN not in repr((seen, events))


class TestRuns:
    def test_replay_needs_none_and_new_calls_do(self, registry: ToolRegistry) -> None:
        """A recorded call gives its result without deps; a call that was refused without them runs with them later."""
        registry.journal = "memory"
        call = ToolCall(None, "pay", {"amount": 1}, "ann")
        with registry.run("one"):
            with pytest.raises(ToolUsageError, match="needs deps"):
                registry.execute(call)
            done = [registry.execute(call, deps=Bank("mine"))]
        with registry.run("one"):
            done.append(registry.execute(call))
            with pytest.raises(ToolUsageError, match="needs deps"):
                registry.execute(call)
        with registry.run("one"):
            done += [registry.execute(call, deps=Bank("other")) for _ in range(2)]

        assert [("mine 1", False), ("mine 1", True), ("mine 1", True), ("other 1", False)] == [
            (result.result, result.replayed) for result in done
        ]
