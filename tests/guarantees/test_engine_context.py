"""Whichever engine runs a tool: who calls stays known, and calls from inside follow the rules."""

# Tests of: execution/remote_call, execution/call_forwarding

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import engine_tools
import pytest
from engine_rig import ENGINES, Home, file, home, make_registry  # noqa: F401

from praval_tools import Allow, Outcome, ToolCall, ToolLog, ToolProgress, ToolRegistry, get_tool_registry, use_registry
from praval_tools.execution.hooks import CallHooks
from praval_tools.journal import CallRefused
from praval_tools.registry.registry import get_runtime


class TestPlace:
    def test_is_where_the_engine_says(self, home: Home) -> None:
        """In this thread, in another one, or in another process."""
        process, thread = home.ann.call("place")
        here = {"inline": (True, True), "thread": (True, False)}.get(home.engine, (False, False))
        assert here == (process == os.getpid(), (process, thread) == (os.getpid(), threading.get_ident()))

    @pytest.mark.parametrize("engine", ENGINES)
    def test_of_one_call(self, home: Home, engine: str) -> None:
        """The engine of the call counts first, then that of the tool."""
        call = ToolCall("1", "place", {}, "ann", engine=engine)
        for result in (home.registry.execute(call), asyncio.run(home.registry.aexecute(call))):
            assert (engine == "process") is (result.result[0] != os.getpid())

    def test_of_an_async_tool(self, home: Home) -> None:
        """It stays on the loop, unless it or its call says `process`."""
        call = ToolCall("1", "add_later", {"x": 1}, "ann", engine="process")
        assert [3, 3] == [home.registry.execute(call).result, asyncio.run(home.registry.aexecute(call)).result]

    @pytest.mark.parametrize("engine", ENGINES)
    def test_of_a_registry(self, engine: str) -> None:
        """The registry's engine counts for tools that name none."""
        with ToolRegistry(engine=engine) as registry:
            for function in (engine_tools.place, engine_tools.add_later):
                registry.tool(function.__name__, shared=True)(function)
            assert (engine == "process") is (registry.agent("ann").call("place")[0] != os.getpid())
            assert 3 == registry.agent("ann").call("add_later", x=1)


class TestContext:
    def test_of_a_call(self, home: Home) -> None:
        """`current_agent()` and `current_call()` know the call."""
        result = home.registry.execute(ToolCall("id 7", "who", {}, "ann"))
        assert ["ann", "id 7", None, None, "who", "ann", ()] == [*result.result[:-1], tuple(result.result[-1])]

    def test_of_a_run(self, home: Home) -> None:
        """The run that records the call is known as well."""
        if home.registry.journal is None:
            pytest.skip("there are runs in a journal only")
        with home.registry.run("nightly"):
            assert "nightly" == home.ann.call("who")[3]
            inner = home.ann.call("call_other", name="who")[3]
            assert inner == (None if home.engine == "celery" else "nightly")  # a worker's calls are in no run

    def test_of_a_delegated_call(self, home: Home) -> None:
        """So are those on whose behalf the agent calls."""
        call = ToolCall("1", "who", {}, "ann", on_behalf_of=("boss",))
        name, *_, agent, chain = home.registry.execute(call).result
        assert ("ann", "ann", ["boss"]) == (name, agent, list(chain))

    @pytest.mark.parametrize("is_async", [False, True])
    def test_of_a_tool_that_takes_one(self, home: Home, is_async: bool) -> None:
        """A `ToolContext` says who calls; subscribers get progress and logs in order, and nothing is lost."""
        heard: list[Any] = []
        end = home.registry.subscribe(heard.append)
        call = ToolCall("c", "report", {"steps": 3}, "ann")
        result = asyncio.run(home.registry.aexecute(call)) if is_async else home.registry.execute(call)
        end()
        reports = [one for one in heard if isinstance(one, ToolProgress | ToolLog)]
        agent, chain, call_id, key, is_cancelled = result.result
        assert ("ann", [], "c", True, False) == (agent, chain, call_id, len(key) > 10, is_cancelled)
        assert [(0, 3), (1, 3), (2, 3)] == [(one.done, one.total) for one in reports[:-1]]
        assert ("report", "ann", "c", "notice", "done") == (
            reports[-1].tool, reports[-1].agent, reports[-1].tool_call_id, reports[-1].level, reports[-1].text
        )  # fmt: skip

    def test_has_the_same_key_on_every_engine(self, home: Home) -> None:
        """The idempotency key is that of the call, not of the place where it runs."""
        keys = {
            home.registry.execute(ToolCall("same", "report", {"steps": 0}, "ann", engine=engine)).result[3]
            for engine in ENGINES
        }
        assert 1 == len(keys)

    def test_has_deps_in_this_process_alone(self, home: Home) -> None:
        """Deps are objects of the program: a tool that takes them is refused where it would run in another process."""
        mine = home.registry.toolset("ann", deps={"name": "bank"})
        assert "bank" == mine.call("needs_deps")
        result = mine.execute(ToolCall("1", "needs_deps", {}, engine="process"))
        assert (Outcome.TOOL_ERROR, "unreachable-function", 0) == (result.outcome, result.error_type, result.attempts)


class TestCallsFromInside:
    def test_name_the_call_that_they_were_made_from(self, home: Home) -> None:
        """The call from inside is the agent's, and carries the id of the one around it."""
        result = home.registry.execute(ToolCall("outer", "call_other", {"name": "who"}, "ann"))
        assert ("ann", "outer") == (result.result[0], result.result[2])

    def test_are_on_behalf_of_the_same(self, home: Home) -> None:
        """The agents on whose behalf the call is made come along, so that what they may not do is refused."""
        home.registry.block("add", "boss")
        call = ToolCall("1", "catch", {"name": "add"}, "ann", on_behalf_of=("boss",))
        refused = home.registry.execute(call).result
        home.registry.unblock("add", "boss")
        assert "ToolAccessError" == refused[0]
        call = ToolCall("1", "call_other", {"name": "who"}, "ann", on_behalf_of=("boss",))
        assert ["boss"] == list(home.registry.execute(call).result[-1])

    def test_give_values_of_their_types(self, home: Home) -> None:
        """What a tool returns to another has the types of its return hint."""
        assert "Point" == home.ann.call("name_type", name="give_point")
        assert 5 == home.ann.call("call_other", name="add", arguments={"x": 3})

    @pytest.mark.parametrize(
        ("name", "error", "text"),
        [
            ("nope", "UnknownToolCallError", "Tool 'nope' not found"),
            ("add", "ToolArgumentsError", "Arguments for 'add' are invalid"),
            ("cancel_itself", "ToolCallError", "cancelled"),
            ("cancel_itself_now", "ToolCallError", "cancelled"),
        ],
    )
    def test_raise_typed_errors(self, home: Home, name: str, error: str, text: str) -> None:
        """What a call from inside raises is what it raises outside."""
        caught = home.ann.call("catch", name=name)
        assert (error, True) == (caught[0], text in caught[-1])

    def test_are_judged_by_the_state_of_the_registry(self, home: Home) -> None:
        """A policy that is added while nobody looks, and a tool that is disabled later, count."""
        if home.engine == "celery":
            pytest.skip("a worker has the policies of its own program")
        remove = home.registry.add_policy(lambda agent, tool, arguments: "not now" if tool.name == "place" else None)
        refused = home.ann.call("catch", name="place")
        remove()
        assert ("ToolAccessError", []) == (refused[0], home.ann.call("catch", name="place"))

    @pytest.mark.parametrize(("agent", "chain"), [(None, []), ("bob", ["cleo"])])
    def test_without_an_agent_or_the_whole_chain_are_refused(
        self, home: Home, file: Path, agent: Any, chain: list[str]
    ) -> None:
        """Broken promise: from a process, such calls were made as those of the agent that runs."""
        arguments = {"path": str(file), "agent": agent, "chain": chain}
        call = ToolCall(f"of {agent} {chain}", "call_as_nobody", arguments, "ann", on_behalf_of=("boss",))
        for result in (home.registry.execute(call), asyncio.run(home.registry.aexecute(call))):
            assert ("forbidden", 0) == (result.result[0], file.stat().st_size)
        if home.registry.journal is not None:
            events = [one for one in home.registry.journal.events() if isinstance(one, CallRefused)]
            inner = [one.outcome for one in events if one.parent_id == call.tool_call_id]
            assert [Outcome.FORBIDDEN] * 2 == inner

    def test_of_a_loop(self, home: Home, file: Path) -> None:
        """Broken promise: a loop in a process, which knows no tools there, had any tool run that its model named."""
        result = home.execute("run_loop", path=str(file))
        if home.engine == "process":
            assert "another process than the registry of 'ann'" in str(result.error)
        else:
            assert ["forbidden", "Tool 'note' is not offered in this conversation."] == result.result
        assert 0 == file.stat().st_size

    def test_of_an_async_tool(self, home: Home) -> None:
        """Several at once, from sync and async code."""
        call = ToolCall("1", "call_others", {"name": "who", "times": 5}, "ann", engine=home.engine)
        for result in (home.registry.execute(call), asyncio.run(home.registry.aexecute(call))):
            assert [("ann", "1")] * 5 == [(one[0], one[2]) for one in result.result]

    def test_deeper_than_there_are_processes(self, home: Home) -> None:
        """A function that waits for its call makes room for another; too deep ends as `limited`, and nothing hangs."""
        assert 4 == home.ann.call("down", left=4)
        if home.engine == "process":
            result = home.execute("down", left=20)
            assert (Outcome.TOOL_ERROR, True) == (result.outcome, "No process is free" in str(result.error))
            assert 2 == home.ann.call("down", left=2)

    @pytest.mark.parametrize("engine", ENGINES)
    def test_of_the_default_registry(self, engine: str) -> None:
        """`get_tool_registry()` in a function is the registry that runs it, where that is the default one."""
        with ToolRegistry() as registry, use_registry(registry):
            assert get_tool_registry() is registry
            for function in (engine_tools.call_by_default_registry, engine_tools.who):
                registry.tool(function.__name__, shared=True, engine=engine)(function)
            assert "ann" == registry.agent("ann").call("call_by_default_registry", name="who")[0]


class TestStepsAround:
    def test_hooks_run_here(self, home: Home) -> None:
        """Hooks before and after a call run in this process, with the arguments and the result."""
        heard: list[Any] = []
        runtime = get_runtime(home.registry)
        before = lambda *, call, tool, arguments: heard.append((os.getpid(), dict(arguments)))
        after = lambda *, call, tool, result: heard.append((os.getpid(), result.result))
        runtime.install_hooks(CallHooks(before=(before,), after=(after,)))
        home.execute("add", x=3)
        runtime.install_hooks(CallHooks())
        assert os.getpid() == heard[0][0] == heard[1][0]
        assert (3, 5) == (heard[0][1]["x"], heard[1][1])

    def test_an_approver_may_edit_the_arguments(self, home: Home) -> None:
        """What was approved is what the function gets."""
        home.declare("asked", engine_tools.add, requires_approval=True)
        home.registry.set_approval_handler(lambda request: Allow({"x": request.arguments["x"] * 10}))
        assert [32, 52] == [home.execute("asked", x=3).result, home.aexecute("asked", x=5).result]
        home.registry.set_approval_handler(None)

    def test_limits_count_until_the_function_has_ended(self, home: Home, file: Path) -> None:
        """A place is taken while it runs, and given back after."""
        home.registry.limits.set(tool="note_slowly", concurrent=1)
        call = ToolCall("1", "note_slowly", {"path": str(file), "seconds": 0.2}, "ann")
        results = home.registry.execute_batch([call, call])
        assert {Outcome.OK, Outcome.LIMITED} == {one.outcome for one in results}
        assert Outcome.OK is home.registry.execute(call).outcome
        home.registry.limits.set(tool="note_slowly")

    def test_a_tool_that_must_run_alone_does(self, home: Home, file: Path) -> None:
        """No other call of the registry is inside meanwhile."""
        home.declare("alone", engine_tools.note_slowly, concurrency_safe=False)
        call = ToolCall("1", "alone", {"path": str(file), "seconds": 0.1}, "ann")
        results = [one.result for one in home.registry.execute_batch([call, call, call])]
        assert [2, 4, 6] == results

    def test_a_call_is_recorded_once(self, home: Home, file: Path) -> None:
        """Its start is written before its end, and a run gives the same result again without running it."""
        if home.registry.journal is None:
            pytest.skip("nothing is recorded without a journal")
        results = []
        for _ in range(2):
            with home.registry.run(f"once {file}"):
                results.append(home.ann.execute(ToolCall("once", "note", {"path": str(file)})))
        assert [(1, False), (1, True)] == [(one.result, one.replayed) for one in results]
        assert 1 == file.stat().st_size

    def test_many_at_once(self, home: Home) -> None:
        """Twenty calls side by side, from sync and async code, each with its own result."""
        calls = [ToolCall(str(number), "add", {"x": number}, "ann") for number in range(20)]
        for results in (home.registry.execute_batch(calls), asyncio.run(home.registry.aexecute_batch(calls))):
            assert [*range(2, 22)] == [one.result for one in results]
